"""Locks on files, by which processes of a machine know of each other: the data root's, and short ones around a small file.

A lock ends with the process that holds it, however that ends.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path


def lock_within(descriptor: int, seconds: float) -> None:
    """The lock of an open file, held until it is closed. TimeoutError when somebody else keeps it for longer than that."""
    deadline = time.monotonic() + seconds
    pause = 0.0
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except (BlockingIOError, PermissionError):  # both mean that it is taken
            if time.monotonic() > deadline:
                raise TimeoutError(f"locked for more than {seconds:g} s") from None
            time.sleep(pause)  # at first only lets the holder run
            pause = 0.001


class RootLock:
    """One process alone, or many together, on a data root. BlockingIOError when it is taken in the other way."""

    def __init__(self, path: Path, *, exclusive: bool) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(self._descriptor, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._descriptor)
            raise BlockingIOError(f"{path} is locked") from error

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
