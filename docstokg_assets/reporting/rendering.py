"""How times, numbers, texts and tables look to people and in files. Returns text; printing and writing is up to the callers."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import orjson
from rich import box as boxes
from rich.box import Box
from rich.table import Table
from rich.text import Text

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")

# -- times -------------------------------------------------------------------------------------------------------------


def utc(moment: datetime | float) -> datetime:
    """An aware UTC datetime from a datetime, as records carry it, or from seconds since 1970, as the catalog does."""
    return moment.astimezone(UTC) if isinstance(moment, datetime) else datetime.fromtimestamp(moment, UTC)


def iso(moment: datetime | float | None, timespec: str = "milliseconds") -> str | None:
    """`2025-10-23T00:00:00.000Z`"""
    return None if moment is None else utc(moment).isoformat(timespec=timespec).replace("+00:00", "Z")


def format_time(moment: datetime | float, *, seconds: bool = False) -> str:
    """`2025-10-23 00:00`, in UTC."""
    return f"{utc(moment):%Y-%m-%d %H:%M:%S}" if seconds else f"{utc(moment):%Y-%m-%d %H:%M}"


# -- numbers -----------------------------------------------------------------------------------------------------------


def plural(count: int, noun: str, many: str | None = None) -> str:
    """`1 work`, `1,200 works`; `many` is the plural where it is not made with an s"""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {many or f'{noun}s'}"


def format_bytes(count: float) -> str:
    """`999 B`, `1.2 MB`"""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def bar(share: float | None, width: int = 10) -> str:
    """A bar of blocks; a share above zero fills at least one of them."""
    filled = max(round((share or 0) * width), 1 if share else 0)
    return "█" * filled + "░" * (width - filled)


# -- texts -------------------------------------------------------------------------------------------------------------


def printable(text: str) -> str:
    """The text without control characters, so that a URL cannot steer a terminal."""
    return "".join(c if c.isprintable() else "�" for c in text)


def wrap(text: str, width: int, indent: str = "") -> list[str]:
    """Lines of at most `width`, broken between words and never inside a URL; `indent` begins all but the first."""
    return textwrap.wrap(text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False) or [""]


def first_few(items: Sequence[str], most: int, ellipsis: str = " and {} more") -> str:
    """`a, b and 3 more`"""
    return ", ".join(items[:most]) + (ellipsis.format(len(items) - most) if len(items) > most else "")


# -- files and tables --------------------------------------------------------------------------------------------------


def csv_cell(value: Any) -> Any:
    """One line; text that a spreadsheet would run as a formula gets a leading apostrophe."""
    if not isinstance(value, str):
        return value
    text = value.replace("\r", " ").replace("\n", " ") if "\r" in value or "\n" in value else value
    return f"'{text}" if value.startswith(_FORMULA_STARTS) else text


def json_text(value: Any) -> str:
    """Indented JSON. Dataclasses and enums are written as they are, other unknown types as their text."""
    return orjson.dumps(value, default=str, option=orjson.OPT_INDENT_2).decode()


def rich_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str | Text]],
    *,
    title: str | None = None,
    right: Collection[str] = (),
    one_line: Collection[str] = (),
    box: Box | None = None,
) -> Table:
    """A table for `rich.console.Console.print`. Numbers stand in the columns `right`; the columns `one_line` are never broken."""
    named = Text(title, style="bold cyan") if title else None
    table = Table(title=named, title_justify="left", box=box or boxes.HEAVY_HEAD)
    for column in columns:
        justify = "right" if column in right else "left"
        table.add_column(Text(column), justify=justify, overflow="fold", no_wrap=column in one_line)  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*(Text(_printable_lines(cell)) if isinstance(cell, str) else cell for cell in row))
    return table


def _printable_lines(text: str) -> str:
    """As `printable`, with its line breaks."""
    return "\n".join(map(printable, text.split("\n")))
