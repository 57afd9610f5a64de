"""Limiter state in PostgreSQL, for all machines that use the database: one row per bucket, one statement per check, by its clock.

The statement holds the row only while it runs: a client that hangs blocks nobody. The connection string is a secret:
messages name only the host and the kind of error.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict
from pydantic import SecretStr
from pyrate_limiter import GCRA, Rate

from resources.errors import translate_errors
from resources.rate_limit.stores import LimiterUnavailable, LimitStore

_TABLE = "docstokg_limits"
_CONNECT_S = 2  # the least that libpq takes
_ANSWER_S = 2.0
_ERRORS = (psycopg.Error, OSError)
_GCRA = GCRA()
_CREATE_LOCK = 0x646F6373  # CREATE TABLE IF NOT EXISTS fails when two do it at the same time

# GCRA in SQL, in microseconds. The clock is read when the row is locked. A row that the clock, set back, finds far ahead owes no
# more than a full burst. A refusal answers how long to wait, by the row as it was when the statement began.
_NOW = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
_OWED = f"greatest(least(l.tat, {_NOW} + %(burst)s::bigint * %(emission)s::bigint), {_NOW})"
_CHECK = f"""
WITH spent AS (
  INSERT INTO {_TABLE} AS l (key, tat) VALUES (%(key)s, {_NOW} + %(weight)s::bigint * %(emission)s::bigint)
  ON CONFLICT (key) DO UPDATE SET tat = {_OWED} + %(weight)s::bigint * %(emission)s::bigint
  WHERE {_OWED} + (%(weight)s::bigint - %(burst)s::bigint) * %(emission)s::bigint <= {_NOW}
  RETURNING 0::bigint AS wait
)
SELECT wait FROM spent
UNION ALL
SELECT greatest(1000, {_OWED} + (%(weight)s::bigint - %(burst)s::bigint) * %(emission)s::bigint - {_NOW})
FROM {_TABLE} l WHERE key = %(key)s AND NOT EXISTS (SELECT FROM spent)
"""

T = TypeVar("T")


class _Connection(psycopg.Connection[tuple[Any, ...]]):
    """Limits the wait for an answer: a server that stopped, or a network that drops packets, never answers."""

    def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
        return super().wait(gen, interval, _ANSWER_S if timeout is None else timeout)


class PostgresLimits(LimitStore):
    """One connection per process, because the limiter makes one check at a time."""

    def __init__(self, connection_string: SecretStr) -> None:
        self._secret = connection_string
        self._name = "its host"
        self._lock = threading.Lock()
        self._connection: _Connection | None = None
        self._pid = os.getpid()
        with translate_errors(_ERRORS, self._unavailable, hide_cause=True):
            parsed = conninfo_to_dict(connection_string.get_secret_value())
            self._name = str(parsed.get("host") or parsed.get("hostaddr") or "this machine")
        with self.connection() as connection, connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_CREATE_LOCK,))
            connection.execute(
                f"CREATE TABLE IF NOT EXISTS {_TABLE} (key text PRIMARY KEY, tat bigint NOT NULL) WITH (fillfactor = 50)"
            )

    def spend(self, key: str, rate: Rate, now_ms: int, weight: int) -> int:
        emission, burst = _GCRA.redis_args([rate])  # what a script on a server needs
        values = {"key": key, "weight": weight, "emission": emission, "burst": burst}
        with self.connection() as connection:
            row = connection.execute(_CHECK, values, prepare=True).fetchone()
        # No row: it was made, and refused us, while the statement ran.
        return -(-int(row[0]) // 1000) if row is not None else 1

    @contextmanager
    def connection(self) -> Iterator[_Connection]:
        """The connection, for one caller at a time. After a failure the next caller gets a new one."""
        with self._lock, translate_errors(_ERRORS, self._unavailable, hide_cause=True):
            if self._connection is None or self._connection.closed or self._pid != os.getpid():
                self._connection, self._pid = self._connect(), os.getpid()
            try:
                yield self._connection
            except BaseException:
                self._connection.close()
                raise

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()

    def _connect(self) -> _Connection:
        return _Connection.connect(
            self._secret.get_secret_value(),
            autocommit=True,
            connect_timeout=_CONNECT_S,
            application_name="docstokg-limits",
            options=f"-c statement_timeout={int(_ANSWER_S * 1000)}",
        )

    def _unavailable(self, error: Exception) -> LimiterUnavailable:
        """Without the library's message, which may repeat the connection string."""
        return LimiterUnavailable(
            f"the limiter store in PostgreSQL on {self._name} cannot be used: {type(error).__name__}. No request goes out "
            "until it can; check the server and rate_limit.connection_string."
        )
