"""Where limiter state is counted: in this process, or in a SQLite file that all processes of a data root share.

Both implement pyrate-limiter's StateStore: one atomic check that either spends or says how long to wait, and never sleeps.
The library's log buckets admitted more than the limit across processes; these admit what GCRA says, no more.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

from pyrate_limiter import InMemoryStateStore, Rate, StateStore
from pyrate_limiter.abstracts.algorithm import Decision, State, StateAlgorithm


class LimiterUnavailable(Exception):
    """The store cannot be asked. Requests stop; they never go out unthrottled."""


class SqliteLimits:
    """The shared file. One connection a thread; `store(key)` is the StateStore of one bucket."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._local = threading.local()
        self._open: list[sqlite3.Connection] = []
        self._lock = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        self.connection()  # fails now rather than at the first request

    def connection(self) -> sqlite3.Connection:
        known: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if known is None or getattr(self._local, "pid", 0) != os.getpid():
            try:
                known = sqlite3.connect(self.path, timeout=10.0, isolation_level=None, check_same_thread=False)
                known.execute("PRAGMA journal_mode=WAL")
                # A power cut may lose the last tokens spent; by the time the machine is up again they are due anyway.
                known.execute("PRAGMA synchronous=OFF")
                known.execute(
                    "CREATE TABLE IF NOT EXISTS limits (key TEXT PRIMARY KEY, state TEXT NOT NULL) WITHOUT ROWID"
                )
            except sqlite3.Error as error:
                raise LimiterUnavailable(f"limiter store {self.path} cannot be opened: {error}") from error
            self._local.connection, self._local.pid = known, os.getpid()
            with self._lock:
                self._open.append(known)
        return known

    def store(self, key: str) -> StateStore:
        return SqliteStateStore(self, key)

    def close(self) -> None:
        with self._lock:
            for connection in self._open:
                connection.close()
            self._open.clear()


class SqliteStateStore(StateStore):
    """State of one key as a row, read and written in one immediate transaction."""

    is_async = False

    def __init__(self, limits: SqliteLimits, key: str) -> None:
        self._limits, self._key = limits, key

    def check(self, algorithm: StateAlgorithm, rates: list[Rate], now: int, weight: int) -> Decision:
        try:
            connection = self._limits.connection()
            connection.execute("BEGIN IMMEDIATE")
            try:
                state = _sane(self._load(connection, algorithm, rates), rates, now)
                new_state, decision = algorithm.step(rates, state, now, weight)
                if decision.allowed:
                    connection.execute(
                        "INSERT INTO limits (key, state) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET state = excluded.state",
                        (self._key, ",".join(str(int(value)) for value in new_state)),
                    )
            finally:
                connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise LimiterUnavailable(f"limiter store {self._limits.path}: {error}") from error
        return decision

    def read(self, algorithm: StateAlgorithm, rates: list[Rate]) -> State:
        return self._load(self._limits.connection(), algorithm, rates)

    def reset(self) -> None:
        self._limits.connection().execute("DELETE FROM limits WHERE key = ?", (self._key,))

    def _load(self, connection: sqlite3.Connection, algorithm: StateAlgorithm, rates: list[Rate]) -> State:
        row = connection.execute("SELECT state FROM limits WHERE key = ?", (self._key,)).fetchone()
        state = algorithm.decode(row[0].split(",")) if row else ()
        return state if len(state) == len(rates) else algorithm.initial(rates)


def _sane(state: State, rates: list[Rate], now: int) -> State:
    """Times from before a reboot lie ahead of the monotonic clock; nothing can be owed for longer than a full burst."""
    return tuple(
        min(value, now * 1000 + rate.burst * rate.interval * 1000 / rate.limit)
        for value, rate in zip(state, rates, strict=True)
    )


StoreFactory = Callable[[str], StateStore]


def memory_stores() -> StoreFactory:
    return lambda key: InMemoryStateStore()
