"""Messages and query results on the terminal."""

from __future__ import annotations

import sys
from enum import StrEnum

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from docstokg_assets.cli.common_options import verbosity
from docstokg_assets.reporting.rendering import csv_cell, json_text, plural, printable, rich_table, wrap
from resources.records import Answer

MAX_TABLE_ROWS = 100


class RowFormat(StrEnum):
    TABLE = "table"
    JSON = "json"
    CSV = "csv"


def stderr_console() -> Console:
    """For messages and progress; silent under --quiet."""
    return Console(stderr=True, quiet=verbosity() < 0)


def print_message(console: Console, message: str, *, verbatim: bool = False) -> None:
    """Print without colours, markup or control characters. On a terminal lines are wrapped between words, never inside a URL;
    `verbatim` lines are not wrapped, so that they can be copied."""
    for line in map(printable, message.splitlines()):
        indent = " " * (len(line) - len(line.lstrip()))
        for part in [line] if verbatim or not console.is_terminal else wrap(line, console.width, indent):
            console.print(part, markup=False, highlight=False, soft_wrap=True)


def print_rows(answer: Answer, format: RowFormat, truncated: str = "the first {}") -> None:
    """Print the rows of a query. `truncated` is the line under a table that does not show all of them."""
    if format is RowFormat.TABLE:
        _print_table(answer, truncated)
    elif format is RowFormat.JSON:
        typer.echo(json_text([dict(zip(answer.columns, row, strict=True)) for row in answer.rows]))
    else:
        import csv

        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(answer.columns)
        writer.writerows([csv_cell(cell) for cell in row] for row in answer.rows)


def _print_table(answer: Answer, truncated: str) -> None:
    """A table; where not even the headings fit, one record after the other."""
    console = Console()
    rows = [["" if cell is None else printable(str(cell)) for cell in row] for row in answer.rows]
    if sum(len(column) + 3 for column in answer.columns) <= console.width:
        console.print(rich_table(answer.columns, rows))
    else:
        for row in rows:
            record = Table("", "", show_header=False, box=None)
            for column, cell in zip(answer.columns, row, strict=True):
                record.add_row(Text(column, style="bold"), Text(cell))
            console.print(record, Text("─" * min(console.width, 40), style="dim"))
    count = plural(len(rows), "row")
    console.print(truncated.format(count) if answer.more else count, style="dim", highlight=False)
