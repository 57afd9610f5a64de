"""Limiter state as small files in the data root, one a bucket: for all processes of one machine, whoever started them.

The library's multiprocess store lives in memory that only forked children inherit; a run that was started from another shell, or
spawned by Dagster, would count alone. A locked file serves them all. Times are monotonic, as those of the SQLite file.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from pyrate_limiter import Rate, StateStore
from pyrate_limiter.abstracts.algorithm import Decision, State, StateAlgorithm

from resources.rate_limit.root_lock import lock_within
from resources.rate_limit.stores import LimiterUnavailable, sane

_BUSY_S = 2.0


class FileLimits:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with self.explained():
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "writable").touch()  # fails now rather than at the first request

    def store(self, key: str) -> StateStore:
        return FileStateStore(self, self.folder / sha256(key.encode()).hexdigest()[:32])

    @contextmanager
    def explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise LimiterUnavailable(
                f"the limiter folder {self.folder} cannot be used: {error.strerror or error}. "
                "No request goes out until it can be read and written."
            ) from error

    def close(self) -> None:
        """Files are open only while they are locked."""


class FileStateStore(StateStore):
    """State of one key: so many integers, read and written under the lock of the file.

    The file is opened for every check: a lock belongs to an opening, and forked children would share their parent's.
    """

    is_async = False

    def __init__(self, limits: FileLimits, path: Path) -> None:
        self._limits, self._path = limits, path

    def check(self, algorithm: StateAlgorithm, rates: list[Rate], now: int, weight: int) -> Decision:
        with self._limits.explained():
            asked = time.monotonic()
            with self._locked() as file:
                # a grant counts from when it is given, not from when it was asked for
                now += int((time.monotonic() - asked) * 1000)
                stored = _load(file, algorithm, rates)
                state, decision = algorithm.step(rates, sane(stored, rates, now), now, weight)
                if state != stored:
                    os.pwrite(file, struct.pack(f"<{len(state)}q", *(int(value) for value in state)), 0)
        return decision

    def read(self, algorithm: StateAlgorithm, rates: list[Rate]) -> State:
        with self._limits.explained(), self._locked() as file:
            return _load(file, algorithm, rates)

    def reset(self) -> None:
        with self._limits.explained(), self._locked() as file:
            os.truncate(file, 0)

    @contextmanager
    def _locked(self) -> Iterator[int]:
        file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            lock_within(file, _BUSY_S)
            yield file
        finally:
            os.close(file)


def _load(file: int, algorithm: StateAlgorithm, rates: list[Rate]) -> State:
    size = 8 * len(rates)
    data = os.pread(file, size, 0)
    return struct.unpack(f"<{len(rates)}q", data) if len(data) == size else algorithm.initial(rates)
