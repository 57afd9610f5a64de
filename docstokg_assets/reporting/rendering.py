"""Moments and texts as files and terminals show them safely. Leaves what is written to the callers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def utc(moment: datetime | float) -> datetime:
    """Records carry datetimes, the catalog seconds since 1970: both as an aware UTC datetime."""
    return moment.astimezone(UTC) if isinstance(moment, datetime) else datetime.fromtimestamp(moment, UTC)


def iso(moment: datetime | float | None) -> str | None:
    """`2025-10-23T00:00:00.000Z`"""
    return None if moment is None else utc(moment).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def csv_cell(value: Any) -> Any:
    """One line, and text that a spreadsheet would run as a formula is disarmed with a leading apostrophe."""
    if not isinstance(value, str):
        return value
    text = value.replace("\r", " ").replace("\n", " ") if "\r" in value or "\n" in value else value
    return f"'{text}" if value.startswith(_FORMULA_STARTS) else text


def printable(text: str) -> str:
    """Without control characters, so that a URL cannot steer a terminal."""
    return "".join(c if c.isprintable() else "�" for c in text)
