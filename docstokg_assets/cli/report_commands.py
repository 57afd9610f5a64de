"""`content report` and `content query`: what came out of a run or a year, and SQL over the lake. Measures nothing.

Heavy imports stand inside the functions, so that other commands do not pay for them.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from docstokg_assets.cli.ending import fail
from docstokg_assets.cli.options import ConfigOption, OutOption, load_for_cli, overrides_from

if TYPE_CHECKING:
    from rich.console import Console

    from docstokg_assets.config import ContentDownloadConfig
    from docstokg_assets.reporting.report import Report
    from resources.catalog import Catalog, Location, Run
    from resources.records import Answer

SHOWN_ROWS = 100
DEMO = Path("data/demo")  # where `make demo` works

app = typer.Typer()


class ReportFormat(StrEnum):
    MD = "md"
    JSON = "json"
    TABLE = "table"


class QueryFormat(StrEnum):
    TABLE = "table"
    JSON = "json"
    CSV = "csv"


@app.command()
def report(
    run: Annotated[str | None, typer.Option(help="A run's folder or its id; all runs when left out.")] = None,
    out: OutOption = None,
    year: Annotated[int | None, typer.Option(min=0, help="Only works of this publication year; 0: unknown.")] = None,
    format: Annotated[ReportFormat, typer.Option(help="How to show it.")] = ReportFormat.TABLE,
    config: ConfigOption = None,
) -> None:
    """Yield, speed, reasons in plain words, who waits for whom, and where the files are."""
    from datetime import UTC, datetime

    from docstokg_assets.domain.scope import WorkScope
    from docstokg_assets.lake.views import export_new_rows
    from docstokg_assets.reporting import report as reports

    run_id, out = place(run, out)
    settings, scope = settings_of(config, out), WorkScope(year, run_id)
    data_root = settings.data_root
    with open_catalog(settings) as catalog:
        check_known(catalog, run_id, data_root)
        lake = settings.lake_files()
        export_new_rows(catalog, lake)
        built = reports.build_report(lake, data_root, scope, catalog, datetime.now(UTC), settings.artifact_root)
    if format is ReportFormat.TABLE:
        from rich.console import Console

        show_report(console := Console(), built)
        console.print(reports.headline(built), style="bold", highlight=False)
    else:
        typer.echo(reports.to_markdown(built) if format is ReportFormat.MD else reports.to_json(built), nl=False)


def show_report(console: Console, built: Report) -> None:
    """The tables, and questions that can be copied as they stand."""
    from docstokg_assets.cli.progress import say
    from docstokg_assets.reporting import report as reports

    console.print(reports.to_terminal(built))
    root, program = os.path.relpath(built.data_root), Path(sys.executable).with_name("content")
    command = "content" if shutil.which("content") else os.path.relpath(program)
    say(console, reports.questions(root if not root.startswith("..") else built.data_root, command), verbatim=True)
    console.print()


@app.command()
def query(
    sql: Annotated[
        str,
        typer.Argument(help="One SELECT over works, plans, attempts, outcomes, artifacts, metrics, or its .sql file."),
    ],
    out: OutOption = None,
    format: Annotated[
        QueryFormat, typer.Option(help="A table shows the first 100 rows, the others all.")
    ] = QueryFormat.TABLE,
    config: ConfigOption = None,
) -> None:
    """Ask the Parquet telemetry with DuckDB. Nothing can be changed by it."""
    from docstokg_assets.lake.views import QueryError, query_lake
    from resources.artifacts.store import StoreError

    settings = settings_of(config, out)
    try:
        text = Path(sql).read_text(encoding="utf-8") if sql.endswith(".sql") else sql
    except OSError as error:
        fail(f"{sql} cannot be read: {error.strerror}. Give a file of SQL, or the SELECT itself.")
    except UnicodeDecodeError:
        fail(f"{sql} cannot be read: it is not UTF-8 text. Give a file of SQL, or the SELECT itself.")
    try:
        lake = settings.lake_files()
        if lake.is_empty():
            where = settings.telemetry.lake or settings.data_root
            fail(f"there is no telemetry in {where}. Give the data root with --out; `content pull` fills it.")
        answer = query_lake(lake, text, limit=SHOWN_ROWS if format is QueryFormat.TABLE else None)
    except QueryError as error:
        fail(f"the query was not answered: {error}")
    except StoreError as error:
        fail(str(error))
    print_answer(answer, format, "the first {}; --format csv or json shows all")


def place(run: str | None, out: Path | None) -> tuple[str | None, Path | None]:
    """Run id and data root; a run that is given as a folder says both."""
    if run is None or (Path(run).name == run and (out is not None or not Path(run).is_dir())):
        return run, out
    folder = Path(run).resolve()
    return folder.name, out or folder.parent


def settings_of(config: Path | None, out: Path | None) -> ContentDownloadConfig:
    return load_for_cli(config, os.environ, overrides_from(out=out)).value


@contextmanager
def open_catalog(config: ContentDownloadConfig) -> Iterator[Catalog]:
    """The catalog of a data root that was used before; ends the command when there is none, or the lake cannot be had."""
    from resources.artifacts.store import StoreError
    from resources.catalog import Catalog, CatalogError

    location = config.catalog_location
    check_there(location)
    try:
        with Catalog.open(location) as catalog:
            yield catalog
    except (CatalogError, StoreError) as error:
        fail(str(error))


def check_there(location: Location) -> None:
    """A catalog in a file is not made by asking for it. A server says by itself when it knows none."""
    if isinstance(location, Path) and not location.is_file():
        demo = f" That of the demo is there: --out {DEMO}." if (DEMO / location.name).is_file() else ""
        fail(f"there is no catalog at {location}. Give the data root with --out; `content pull` makes one.{demo}")


def check_known(catalog: Catalog, run_id: str | None, data_root: Path) -> Run | None:
    """The run of that id; ends the command when there is none."""
    if run_id is None or (found := catalog.run(run_id)) is not None:
        return None if run_id is None else found
    known = ", ".join(run.run_id for run in catalog.runs()[:5]) or "none yet"
    fail(f"{data_root} knows no run {run_id}. The latest runs are: {known}.")


def print_answer(answer: Answer, format: QueryFormat, partly: str) -> None:
    """`partly` is said under a table of which there is more than is shown."""
    if format is QueryFormat.TABLE:
        _print_table(answer, partly)
    elif format is QueryFormat.JSON:
        _print_json(answer)
    else:
        _print_csv(answer)


def _print_table(answer: Answer, partly: str) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from docstokg_assets.reporting.rendering import printable

    console = Console()
    rows = [["" if cell is None else printable(str(cell)) for cell in row] for row in answer.rows]
    if (
        sum(len(column) + 3 for column in answer.columns) > console.width
    ):  # not even the headings fit: one record at a time
        for row in rows:
            record = Table("", "", show_header=False, box=None)
            for column, cell in zip(answer.columns, row, strict=True):
                record.add_row(Text(column, style="bold"), Text(cell))
            console.print(record, Text("─" * min(console.width, 40), style="dim"))
    else:
        table = Table()
        for column in answer.columns:
            table.add_column(Text(column), overflow="fold")
        for row in rows:
            table.add_row(*map(Text, row))
        console.print(table)
    count = f"{len(answer.rows)} row" + ("" if len(answer.rows) == 1 else "s")
    note = partly.format(count) if answer.more else count
    console.print(note, style="dim", highlight=False)


def _print_json(answer: Answer) -> None:
    import orjson

    rows = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
    typer.echo(orjson.dumps(rows, default=str, option=orjson.OPT_INDENT_2).decode())


def _print_csv(answer: Answer) -> None:
    import csv

    from docstokg_assets.reporting.rendering import csv_cell

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(answer.columns)
    writer.writerows([csv_cell(cell) for cell in row] for row in answer.rows)
