"""Write files atomically: a file appears under its name whole and durable, or not at all."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A temporary path beside `path`. When the block succeeds, it is made durable under that name; else it is removed."""
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


def disk_trouble(error: OSError, place: Path | str) -> str:
    """A message for a failure of a folder or its disk, with a remedy. `place` is named where the error names no file."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    remedy = "Free some space" if full else "Check the folder and its disk"
    return f"{error.filename or place}: {error.strerror or error}. {remedy}"


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
