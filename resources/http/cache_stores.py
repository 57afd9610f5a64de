"""Stores of cached answers: a SQLite file that is private to the user, or Redis. Bytes under (key, variant), nothing more.

`cache.py` decides what they mean, how long they are fresh and what may be kept. A store that cannot be used raises
CacheUnavailable; a damaged file is moved aside and a new one begun.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from resources.errors import ExplainedError, translate_errors
from resources.on_use import ModuleOnUse

if TYPE_CHECKING:
    import redis
else:
    redis = ModuleOnUse("redis")

log = logging.getLogger(__name__)

T = TypeVar("T")

_BUSY_S = 1.0
_TOUCH_S = 3600.0  # how exactly it is known when an entry was last used; each hit would be a write otherwise
_EVICTED_AT_ONCE = 50
_REDIS_KEPT_S = 30 * 86_400
_REDIS_TIMEOUT_S = 2.0
_TABLE = """
CREATE TABLE IF NOT EXISTS entries (
  key TEXT NOT NULL, variant TEXT NOT NULL, entry BLOB NOT NULL, used_at REAL NOT NULL, PRIMARY KEY (key, variant))
"""
_INDEX = "CREATE INDEX IF NOT EXISTS entries_used ON entries (used_at)"


class CacheUnavailable(ExplainedError):
    """The cache cannot be read or written at the moment."""


class Store(Protocol):
    def read(self, key: str) -> dict[str, bytes]:
        """All variants under a key."""

    def write(self, key: str, variant: str, entry: bytes) -> None: ...

    def close(self) -> None: ...


class SqliteStore:
    """One file, shared by threads and processes, readable by its owner alone."""

    def __init__(self, path: Path, max_bytes: int) -> None:
        self._path, self._max_bytes = path, max_bytes
        self._connection: sqlite3.Connection | None = None
        self._inode = 0
        self._lock = threading.Lock()

    def read(self, key: str) -> dict[str, bytes]:
        return self._with_connection(lambda connection: self._read(connection, key))

    def write(self, key: str, variant: str, entry: bytes) -> None:
        self._with_connection(lambda connection: self._write(connection, key, variant, entry))

    def close(self) -> None:
        with self._lock:
            self._disconnect()

    def _read(self, connection: sqlite3.Connection, key: str) -> dict[str, bytes]:
        now = time.time()
        rows = connection.execute("SELECT variant, entry, used_at FROM entries WHERE key = ?", (key,)).fetchall()
        if any(now - used_at > _TOUCH_S for _, _, used_at in rows):
            connection.execute("UPDATE entries SET used_at = ? WHERE key = ?", (now, key))
        return {variant: entry for variant, entry, _ in rows}

    def _write(self, connection: sqlite3.Connection, key: str, variant: str, entry: bytes) -> None:
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.execute("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?)", (key, variant, entry, time.time()))
            while self._bytes_used(connection) > self._max_bytes and self._evict(connection):
                pass
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")

    def _bytes_used(self, connection: sqlite3.Connection) -> int:
        sizes = [connection.execute(f"PRAGMA {n}").fetchone()[0] for n in ("page_count", "freelist_count", "page_size")]
        return int((sizes[0] - sizes[1]) * sizes[2])

    def _evict(self, connection: sqlite3.Connection) -> bool:
        oldest = "SELECT rowid FROM entries ORDER BY used_at LIMIT ?"
        return connection.execute(f"DELETE FROM entries WHERE rowid IN ({oldest})", (_EVICTED_AT_ONCE,)).rowcount > 0

    def _with_connection(self, use: Callable[[sqlite3.Connection], T]) -> T:
        with self._lock, translate_errors((sqlite3.Error, OSError), lambda error: CacheUnavailable(str(error))):
            try:
                return use(self._connected())
            except sqlite3.DatabaseError as error:
                if isinstance(error, sqlite3.OperationalError):  # busy, full, not ours to write: not the file's fault
                    raise
                self._set_aside(error)
                return use(self._connected())

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # SQLite gives the files that it puts beside this one the same mode
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                os.fchmod(descriptor, 0o600)
                self._inode = os.fstat(descriptor).st_ino
            finally:
                os.close(descriptor)
            options: dict[str, Any] = {"timeout": _BUSY_S, "isolation_level": None, "check_same_thread": False}
            self._connection = sqlite3.connect(self._path, **options)
            for statement in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = NORMAL", _TABLE, _INDEX):
                self._connection.execute(statement)
        return self._connection

    def _set_aside(self, error: sqlite3.DatabaseError) -> None:
        self._disconnect()
        with suppress(FileNotFoundError):
            if os.stat(self._path).st_ino != self._inode:
                return  # another process has done it already
        aside = self._path.with_name(f"{self._path.name}.damaged-{time.strftime('%Y%m%dT%H%M%S')}")
        log.warning("the cache %s is damaged (%s); it is moved to %s and begun anew", self._path, error, aside.name)
        for suffix in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.rename(f"{self._path}{suffix}", f"{aside}{suffix}")

    def _disconnect(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None


class RedisStore:
    """One hash per key. The server's `maxmemory` bounds the size; an entry that is not written again expires after a month."""

    def __init__(self, url: str, prefix: str = "docstokg:http-cache:") -> None:
        seconds, self._prefix = _REDIS_TIMEOUT_S, prefix
        self._client = redis.Redis.from_url(url, socket_timeout=seconds, socket_connect_timeout=seconds)

    def read(self, key: str) -> dict[str, bytes]:
        with translate_errors((redis.RedisError, OSError), _unavailable):
            found: dict[Any, Any] = self._client.hgetall(self._prefix + key)
            return {variant.decode(): entry for variant, entry in found.items()}

    def write(self, key: str, variant: str, entry: bytes) -> None:
        with translate_errors((redis.RedisError, OSError), _unavailable), self._client.pipeline() as pipe:
            pipe.hset(self._prefix + key, variant, entry)
            pipe.expire(self._prefix + key, _REDIS_KEPT_S)
            pipe.execute()

    def close(self) -> None:
        self._client.close()


def _unavailable(error: Exception) -> CacheUnavailable:
    """Without the message of Redis, which may contain the address."""
    return CacheUnavailable(f"Redis: {type(error).__name__}" if isinstance(error, redis.RedisError) else str(error))
