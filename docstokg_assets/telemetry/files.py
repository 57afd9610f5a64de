"""Files that appear whole or not at all, and text that is safe to show. Leaves what is written to the callers."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A temporary path beside `path`. A block that ends well makes it durable under that name; else it goes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=".tmp-", dir=path.parent)  # hidden, so no glob over parts can see it
    os.close(descriptor)
    temp = Path(name)
    try:
        yield temp
        temp.chmod(0o644)
        _sync(temp)
        temp.replace(path)
        _sync(path.parent)
    finally:
        temp.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
