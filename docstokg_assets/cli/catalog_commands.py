"""`content catalog stats` and `content catalog query`: the catalog in figures and in SQL, read-only.

The figures are prepared queries to the reader that answers `query`, and so the same on SQLite and PostgreSQL.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from docstokg_assets.cli.data_folder import require_catalog
from docstokg_assets.cli.exits import INCOMPLETE, fail, print_error
from docstokg_assets.cli.options import Load, TableFormatOption, with_settings
from docstokg_assets.cli.output import RowFormat, print_rows
from resources.catalog.database import Location
from resources.catalog.readonly_query import QueryRefused, run_readonly_query
from resources.catalog.schema import metadata
from resources.records import Answer

STATS_TIMEOUT_S = 600.0
STATS_ROWS = 100_000

app = typer.Typer(name="catalog", no_args_is_help=True, help="Read the catalog: figures, and read-only SQL.")


_FULL_TEXT = "sum(CASE WHEN classification = 'success' AND reason <> 'html-only' THEN 1 ELSE 0 END)"
_MEGABYTES = "round(CAST(coalesce(sum({}), 0) / 1000000.0 AS numeric), 1)"
_OVERVIEW = f"""
SELECT 'works known' AS what, count(*) AS number FROM queue
UNION ALL SELECT 'works finished', count(*) FROM queue WHERE state = 'done'
UNION ALL SELECT 'works to retry', count(*) FROM queue WHERE state = 'retry'
UNION ALL SELECT 'works in progress', count(*) FROM queue WHERE state = 'leased'
UNION ALL SELECT 'works queued', count(*) FROM queue WHERE state = 'queued'
UNION ALL SELECT 'full texts', coalesce({_FULL_TEXT}, 0) FROM catalog_entries
UNION ALL SELECT 'HTML only', count(*) FROM catalog_entries WHERE reason = 'html-only'
UNION ALL SELECT 'files', count(*) FROM artifacts
UNION ALL SELECT 'different contents', count(DISTINCT sha256) FROM artifacts
UNION ALL SELECT 'megabytes', {_MEGABYTES.format("bytes")} FROM artifacts
UNION ALL SELECT 'requests', count(*) FROM attempts WHERE http_status IS NOT NULL AND cache_hit = 0
UNION ALL SELECT 'dollars spent on paid files', round(CAST(coalesce(sum(micros), 0) / 1000000.0 AS numeric), 4) FROM spending
UNION ALL SELECT 'runs', count(*) FROM runs
"""


def _count_outcomes(column: str, order: str) -> str:
    return f"""
SELECT {column}, count(*) AS works, {_FULL_TEXT} AS full_texts, sum(requests) AS requests,
       {_MEGABYTES.format("bytes")} AS megabytes
FROM catalog_entries GROUP BY {column} ORDER BY {order}
"""


def _count_attempts(column: str) -> str:
    answered = "sum(CASE WHEN http_status {} AND cache_hit = 0 THEN 1 ELSE 0 END)"  # requests sent and answered
    return f"""
SELECT {column}, {answered.format("IS NOT NULL")} AS requests, count(DISTINCT work_id) AS works,
       {answered.format("= 429")} AS status_429, {answered.format(">= 500")} AS status_5xx,
       {_MEGABYTES.format("bytes_written")} AS megabytes
FROM attempts WHERE {column} IS NOT NULL GROUP BY {column} ORDER BY requests DESC, {column}
"""


_STATS = {
    None: _OVERVIEW,
    "year": _count_outcomes("year", "year DESC"),
    "reason": _count_outcomes("reason", "works DESC, reason"),
    "tier": _count_attempts("tier"),
    "resolver": _count_attempts("resolver"),
    "host": _count_attempts("host"),
}


@app.command()
@with_settings("out")
def stats(
    load: Load,
    group_by: Annotated[
        Literal["tier", "host", "resolver", "reason", "year"] | None,
        typer.Option(help="One row for each; default: totals."),
    ] = None,
    format: TableFormatOption = "table",
) -> None:
    """Count works, files, requests and bytes. Year and reason count outcomes; tier, resolver and host count requests."""
    answer = _read(load().value.catalog_location, _STATS[group_by], STATS_TIMEOUT_S, STATS_ROWS)
    print_rows(answer, RowFormat(format))


@app.command()
@with_settings("out")
def query(
    load: Load,
    sql: Annotated[
        str, typer.Option(help="One SELECT over the tables of the catalog, e.g. catalog_entries, attempts.")
    ],
    format: Annotated[RowFormat, typer.Option(help="Output format.")] = RowFormat.TABLE,
    db_path: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Read this SQLite catalog, e.g. a run's manifest.sqlite3.")
    ] = None,
    timeout: Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="Give up after this time.")] = 30.0,
    max_rows: Annotated[int, typer.Option(min=1, max=1_000_000, help="Maximum number of rows.")] = 1000,
) -> None:
    """Query the catalog in SQL, read-only and without access to other files.

    Exit codes: 0 answered; 2 not answered; 3 answered, but there are more rows than --max-rows.
    """
    answer = _read(db_path or load().value.catalog_location, sql, timeout, max_rows)
    print_rows(answer, format, "the first {}; --max-rows shows more")
    if answer.more:
        if format is not RowFormat.TABLE:
            print_error(f"only the first {max_rows} rows; --max-rows shows more.")
        raise typer.Exit(INCOMPLETE)


def _read(location: Location, sql: str, timeout_s: float, max_rows: int) -> Answer:
    require_catalog(location)
    try:
        return run_readonly_query(location, sql, timeout_s=timeout_s, max_rows=max_rows)
    except QueryRefused as error:
        unknown = any(words in str(error) for words in ("no such table", "does not exist"))
        tables = f" The tables are {', '.join(sorted(metadata.tables))}." if unknown else ""
        fail(f"query failed: {error}.{tables}")
