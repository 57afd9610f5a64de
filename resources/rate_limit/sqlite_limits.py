"""Limiter state in a SQLite file: the default, for all processes of a data root on one machine.

Times are monotonic, which all processes of a machine share; a state from before a reboot is clamped.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyrate_limiter import Rate, StateStore
from pyrate_limiter.abstracts.algorithm import Decision, State, StateAlgorithm

from resources.rate_limit.stores import LimiterUnavailable, sane

_BUSY_S = 2.0
_OPENING_S = 10.0  # many processes may make the new file at the same time


class SqliteLimits:
    """The shared file. One connection a thread; `store(key)` is the StateStore of one bucket."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._local = threading.local()
        self._open: list[sqlite3.Connection] = []
        self._lock = threading.Lock()
        with self.explained():
            path.parent.mkdir(parents=True, exist_ok=True)
        self.connection()  # fails now rather than at the first request

    def connection(self) -> sqlite3.Connection:
        known: sqlite3.Connection | None = getattr(self._local, "connection", None)
        # A file that was removed or replaced would be counted in by this process alone.
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
        with self.explained():
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

    @contextmanager
    def explained(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise LimiterUnavailable(
                f"the limiter store {self.path} cannot be used: {error}. No request goes out until it can be read and written."
            ) from error

    def store(self, key: str) -> StateStore:
        return SqliteStateStore(self, key)

    def close(self) -> None:
        with self._lock:
            for connection in self._open:
                connection.close()
            self._open.clear()


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


class SqliteStateStore(StateStore):
    """State of one key as a row, read and written in one immediate transaction."""

    is_async = False

    def __init__(self, limits: SqliteLimits, key: str) -> None:
        self._limits, self._key = limits, key

    def check(self, algorithm: StateAlgorithm, rates: list[Rate], now: int, weight: int) -> Decision:
        with self._limits.explained():
            connection = self._limits.connection()
            asked = time.monotonic()
            connection.execute("BEGIN IMMEDIATE")
            # a grant counts from when it is given, not from when it was asked for
            now += int((time.monotonic() - asked) * 1000)
            with connection:  # commits, or rolls back
                stored = self._load(connection, algorithm, rates)
                state, decision = algorithm.step(rates, sane(stored, rates, now), now, weight)
                if state != stored:  # also after a refusal: what was not sane must not be found again
                    connection.execute(
                        "INSERT INTO limits (key, state) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET state = excluded.state",
                        (self._key, ",".join(str(int(value)) for value in state)),
                    )
        return decision

    def read(self, algorithm: StateAlgorithm, rates: list[Rate]) -> State:
        with self._limits.explained():
            return self._load(self._limits.connection(), algorithm, rates)

    def reset(self) -> None:
        with self._limits.explained():
            self._limits.connection().execute("DELETE FROM limits WHERE key = ?", (self._key,))

    def _load(self, connection: sqlite3.Connection, algorithm: StateAlgorithm, rates: list[Rate]) -> State:
        row = connection.execute("SELECT state FROM limits WHERE key = ?", (self._key,)).fetchone()
        state = algorithm.decode(row[0].split(",")) if row else ()
        return state if len(state) == len(rates) else algorithm.initial(rates)
