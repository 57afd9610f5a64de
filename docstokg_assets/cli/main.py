"""The command line `content`: mounts the commands and turns errors into a message and an exit code.

Commands live in modules of their own, which import what they need only when they run: `content --help` must be fast.
"""

from __future__ import annotations

import importlib
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from docstokg_assets import __version__
from docstokg_assets.cli.exits import DISK_FULL, INTERRUPTED, NOT_STARTED, print_error
from resources.errors import ExplainedError

# module → name of its group; commands of a module without one stand at the top level. A new module of commands is added here.
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


class _Commands(TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        """End with the message of an ExplainedError. Any other error is a bug of the program and keeps its stack trace."""
        try:
            return super().invoke(ctx)
        except ExplainedError as error:
            for line in str(error).splitlines():
                print_error(line)
            raise typer.Exit(DISK_FULL if error.out_of_space else NOT_STARTED) from error


def build_app() -> typer.Typer:
    app = typer.Typer(
        name="content",
        help="Collect the full text of scholarly works, politely.",
        cls=_Commands,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # plain help has room for whole option names on 80 columns
    )
    for module, group in COMMANDS.items():
        app.add_typer(importlib.import_module(module).app, name=group)

    @app.callback()
    def common(
        version: Annotated[
            bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
        ] = False,
    ) -> None:
        pass

    return app


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"content {__version__}")
        raise typer.Exit


def main() -> None:
    """Exit code 0: done; 2: wrong command or configuration; 3: done in part; 4: the disk is full; 130: interrupted."""
    try:
        build_app()(prog_name="content")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
