"""Limiter state in a SQLite file: the default, for all processes of a data root on one machine.

Times are monotonic, which all processes of a machine share; a state from before a reboot is clamped.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from pathlib import Path

from pyrate_limiter import Rate

from resources.errors import translate_errors
from resources.rate_limit.stores import LimiterUnavailable, LimitStore, gcra_step

_BUSY_S = 2.0
_OPENING_S = 10.0  # many processes may create the new file at the same time
_ERRORS = (sqlite3.Error, OSError)
_SELECT = "SELECT state FROM limits WHERE key = ?"
_UPSERT = "INSERT INTO limits (key, state) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET state = excluded.state"


class SqliteLimits(LimitStore):
    """One connection per thread; a bucket is a row, read and written in one immediate transaction."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._local = threading.local()
        self._open: list[sqlite3.Connection] = []
        self._lock = threading.Lock()
        with translate_errors(_ERRORS, self._unavailable):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection()  # fails now rather than at the first request

    def spend(self, key: str, rate: Rate, now_ms: int, weight: int) -> int:
        with translate_errors(_ERRORS, self._unavailable):
            connection = self._connection()
            asked = time.monotonic()
            connection.execute("BEGIN IMMEDIATE")
            # a grant counts from when it is given, not from when it was asked for
            now_ms += int((time.monotonic() - asked) * 1000)
            with connection:  # commits, or rolls back
                row = connection.execute(_SELECT, (key,)).fetchone()
                stored = None if row is None else float(row[0])
                state, wait_ms = gcra_step(stored, rate, now_ms, weight)
                if state != stored:  # also after a refusal: a state that was clamped must not be found again
                    connection.execute(_UPSERT, (key, str(int(state))))
        return wait_ms

    def close(self) -> None:
        with self._lock:
            for connection in self._open:
                connection.close()
            self._open.clear()

    def _connection(self) -> sqlite3.Connection:
        known: sqlite3.Connection | None = getattr(self._local, "connection", None)
        # Only this process would count in a file that was removed or replaced.
        if known is None or self._local.opened != self._file():
            known = self._local.connection = self._connect()
            self._local.opened = self._file()
        return known

    def _file(self) -> tuple[int, int, int] | None:
        try:
            found = self.path.stat()
        except OSError:
            return None
        return os.getpid(), found.st_dev, found.st_ino

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
        with self._lock:
            self._open.append(connection)
        _enter_wal(connection)
        # A power cut may lose the last tokens spent; by the time the machine is up again they are due anyway.
        connection.execute("PRAGMA synchronous=OFF")
        connection.execute(
            "CREATE TABLE IF NOT EXISTS limits (key TEXT PRIMARY KEY, state TEXT NOT NULL) WITHOUT ROWID"
        )
        return connection

    def _unavailable(self, error: Exception) -> LimiterUnavailable:
        return LimiterUnavailable(
            f"the limiter store {self.path} cannot be used: {error}. No request goes out until it can be read and written."
        )


def _enter_wal(connection: sqlite3.Connection) -> None:
    """SQLite does not wait for locks here: processes that open a new file at the same time have to try again."""
    deadline = time.monotonic() + _OPENING_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
