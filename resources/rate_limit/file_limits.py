"""Limiter state as small files in the data root, one per bucket: for all processes of one machine, whoever started them.

The library's multiprocess store lives in memory that only forked children inherit; a run started from another shell, or
spawned by Dagster, would count alone. A locked file serves them all. Times are monotonic, as in the SQLite file.
"""

from __future__ import annotations

import os
import struct
import time
from hashlib import sha256
from pathlib import Path

from pyrate_limiter import Rate

from resources.errors import translate_errors
from resources.rate_limit.root_lock import lock_within
from resources.rate_limit.stores import LimiterUnavailable, LimitStore, gcra_step

_BUSY_S = 2.0
_STATE = struct.Struct("<q")


class FileLimits(LimitStore):
    """The file of a bucket is opened for each check only: a lock belongs to an open file, and forked children would share their
    parent's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with translate_errors(OSError, self._unavailable):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "writable").touch()  # fails now rather than at the first request

    def spend(self, key: str, rate: Rate, now_ms: int, weight: int) -> int:
        with translate_errors(OSError, self._unavailable):
            asked = time.monotonic()
            file = os.open(self.folder / sha256(key.encode()).hexdigest()[:32], os.O_RDWR | os.O_CREAT, 0o666)
            try:
                lock_within(file, _BUSY_S)
                # a grant counts from when it is given, not from when it was asked for
                now_ms += int((time.monotonic() - asked) * 1000)
                data = os.pread(file, _STATE.size, 0)
                stored = _STATE.unpack(data)[0] if len(data) == _STATE.size else None
                state, wait_ms = gcra_step(stored, rate, now_ms, weight)
                if state != stored:
                    os.pwrite(file, _STATE.pack(int(state)), 0)
            finally:
                os.close(file)
        return wait_ms

    def _unavailable(self, error: OSError) -> LimiterUnavailable:
        return LimiterUnavailable(
            f"the limiter folder {self.folder} cannot be used: {error.strerror or error}. "
            "No request goes out until it can be read and written."
        )
