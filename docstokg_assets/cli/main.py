"""The command line `content`: mounts the commands and turns what goes wrong into a message and an exit code.

Commands live in modules of their own, which import what they need only when they run: `content --help` must be quick.
"""

from __future__ import annotations

import importlib
import sys
from typing import Annotated

import typer

from docstokg_assets import __version__
from docstokg_assets.cli.ending import tell

# module → name of its group; without a name its commands stand at the top. A new module of commands is added here.
COMMANDS: dict[str, str | None] = {
    "docstokg_assets.cli.run_commands": None,
    "docstokg_assets.cli.resume_commands": None,
    "docstokg_assets.cli.report_commands": None,
    "docstokg_assets.cli.catalog_commands": "catalog",
    "docstokg_assets.cli.telemetry_commands": "telemetry",
    "docstokg_assets.cli.why_command": None,
    "docstokg_assets.cli.config_commands": None,
    "docstokg_assets.cli.store_commands": None,
    "docstokg_assets.cli.landing_command": None,
    "docstokg_assets.cli.demo": None,
    "docstokg_assets.cli.sandbox": "sandbox",
}


def build_app() -> typer.Typer:
    app = typer.Typer(
        name="content",
        help="Collect the full text of scholarly works, politely.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # plain help has room for whole option names on 80 columns
    )
    for module, group in COMMANDS.items():
        app.add_typer(importlib.import_module(module).app, name=group)

    @app.callback()
    def common(
        version: Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True)] = False,
    ) -> None:
        pass

    return app


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"content {__version__}")
        raise typer.Exit


def main() -> None:
    """Exit code 0: done; 2: the command or the configuration is wrong; 3: something is left; 130: interrupted."""
    try:
        build_app()(prog_name="content")
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        # Imported here, because it brings pydantic, and `--help` should not wait for that.
        from resources.settings import SettingsError

        if not isinstance(error, SettingsError):
            raise
        for problem in error.problems:
            tell(problem)
        sys.exit(2)
