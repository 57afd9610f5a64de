"""`content report` and `content query`: the results of a run or a year, and SQL over the lake. Computes nothing itself."""

from __future__ import annotations

import os
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console

from docstokg_assets.cli.data_folder import open_catalog, require_run, run_and_root
from docstokg_assets.cli.exits import fail
from docstokg_assets.cli.options import Load, RunOption, YearOption, with_settings
from docstokg_assets.cli.output import MAX_TABLE_ROWS, RowFormat, print_message, print_rows
from resources.scope import WorkScope

if TYPE_CHECKING:
    from docstokg_assets.reporting.report import Report

app = typer.Typer()


@app.command()
@with_settings("out")
def report(
    load: Load,
    run: RunOption = None,
    year: YearOption = None,
    format: Annotated[Literal["md", "json", "table"], typer.Option(help="Output format.")] = "table",
) -> None:
    """Show yield, speed, reasons of failures, waiting works, and where the files are."""
    from docstokg_assets.lake.views import export_new_rows
    from docstokg_assets.reporting import report as reports

    run_id, out = run_and_root(run, load.given["out"])
    config = load(out=out).value
    with open_catalog(config) as catalog:
        require_run(catalog, run_id, config.data_root)
        lake = config.lake_files()
        export_new_rows(catalog, lake)
        scope, now = WorkScope(year, run_id), datetime.now(UTC)
        built = reports.build_report(lake, config.data_root, scope, catalog, now, config.artifact_root)
    if format == "table":
        from rich.console import Console

        print_report(console := Console(), built)
        console.print(reports.headline(built), style="bold", highlight=False)
    else:
        typer.echo(reports.to_markdown(built) if format == "md" else reports.to_json(built), nl=False)


def print_report(console: Console, built: Report) -> None:
    """Print the tables, and example queries that can be copied."""
    from docstokg_assets.reporting import report as reports

    console.print(reports.to_terminal(built))
    root, program = os.path.relpath(built.data_root), Path(sys.executable).with_name("content")
    command = "content" if shutil.which("content") else os.path.relpath(program)
    examples = reports.example_queries(root if not root.startswith("..") else built.data_root, command)
    print_message(console, examples, verbatim=True)
    console.print()


@app.command()
@with_settings("out")
def query(
    load: Load,
    sql: Annotated[
        str,
        typer.Argument(
            help="One SELECT over works, plans, attempts, outcomes, artifacts, metrics; or a .sql file with it."
        ),
    ],
    format: Annotated[
        RowFormat, typer.Option(help="A table shows the first 100 rows, csv and json all of them.")
    ] = RowFormat.TABLE,
) -> None:
    """Query the Parquet telemetry with DuckDB, read-only."""
    from docstokg_assets.lake.views import QueryError, query_lake

    config = load().value
    try:
        text = Path(sql).read_text(encoding="utf-8") if sql.endswith(".sql") else sql
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        fail(f"{sql} cannot be read: {why}. Give a file of SQL, or the SELECT itself.")
    lake = config.lake_files()
    if lake.is_empty():
        where = config.telemetry.lake or config.data_root
        fail(f"there is no telemetry in {where}. Name the data folder with --out; `content pull` fills it.")
    try:
        answer = query_lake(lake, text, limit=MAX_TABLE_ROWS if format is RowFormat.TABLE else None)
    except QueryError as error:
        fail(f"query failed: {error}")
    print_rows(answer, format, "the first {}; --format csv or json shows all")
