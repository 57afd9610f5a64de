"""The command line `content`: lists the commands and turns errors into a message and an exit code.

The module of a command is imported when it is called: `content --help` must be fast, and imports none of them.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from docstokg_assets import __version__
from docstokg_assets.cli.common_options import add_common_options
from docstokg_assets.cli.exits import INTERRUPTED, exit_code_of, print_error
from resources.errors import ExplainedError

# command or group of commands → its module, and its line in `content --help`. A new command is added here.
COMMANDS = {
    "init": ("setup_commands", "Write a first configuration file."),
    "doctor": ("setup_commands", "Check the set-up, with a remedy for each problem."),
    "quota": ("setup_commands", "Show what is left of OpenAlex's and other budgets."),
    "pull": ("run_commands", "Find and download the full text of works."),
    "run": ("run_commands", "Same as `pull`."),
    "resume": ("resume_commands", "Continue with queued works, and retry failed ones."),
    "retry": ("retry_command", "Search again for single works."),
    "ingest": ("ingest_commands", "Save the file behind a URL; load and run ingest requests."),
    "report": ("report_commands", "Show yield, speed and reasons of failures."),
    "query": ("report_commands", "Query the Parquet telemetry with DuckDB, read-only."),
    "catalog": ("catalog_commands", "Read the catalog: figures, and read-only SQL."),
    "telemetry": ("telemetry_commands", "Records of runs: export, compact or rebuild them."),
    "why": ("why_command", "Explain what happened to one work."),
    "serve": ("serve_command", 'Serve the page "Save a paper" and the HTTP API.'),
    "print-config": ("config_commands", "Print the effective configuration."),
    "validate-config": ("config_commands", "Check the configuration."),
    "explain": ("config_commands", "Show which resolvers and hosts are queried."),
    "gc": ("store_commands", "List orphans and stale parts, or the quarantine."),
    "landing": ("landing_command", "Show what the landing-page rules find on a page."),
    "demo": ("demo", "Collect three years of papers from the sandbox."),
    "sandbox": ("sandbox", "Serve the simulated scholarly web (the sandbox)."),
}


class _Commands(TyperGroup):
    """Lists the commands without importing them."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Import the module of the command that is called."""
        name, _, rest = super().resolve_command(ctx, args)
        if name is None:
            return name, None, rest
        module = typer.Typer(rich_markup_mode=None)
        module.add_typer(import_module(f"docstokg_assets.cli.{COMMANDS[name][0]}").app)
        command = typer.main.get_group(module).commands[name]
        add_common_options(command)
        return name, command, rest

    def invoke(self, ctx: Any) -> Any:
        """End with the message of an ExplainedError. Any other error is a bug of the program and keeps its stack trace."""
        try:
            return super().invoke(ctx)
        except ExplainedError as error:
            for line in str(error).splitlines():
                print_error(line)
            raise typer.Exit(exit_code_of(error)) from error


def build_app() -> typer.Typer:
    app = typer.Typer(
        name="content",
        help="Collect the full text of scholarly works, politely.",
        cls=_Commands,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        rich_markup_mode=None,  # plain help has room for whole option names on 80 columns
    )
    for name, (_, summary) in COMMANDS.items():
        app.command(name, help=summary)(lambda: None)  # stands for the command in the list

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
