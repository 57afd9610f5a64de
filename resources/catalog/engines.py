"""SQLAlchemy engines for the two databases: SQLite (WAL, immediate write transactions, waiting for locks) and PostgreSQL."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr
from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError

from resources.catalog.errors import POSTGRES_SCHEMA, CatalogError
from resources.catalog.patience import POOL_SIZE, Patience

if TYPE_CHECKING:
    from resources.catalog.postgres_connection import CatalogConnection

BUSY_TIMEOUT_S = 30.0
_POOL_WAIT_S = 0.5  # then a thread that waits for a connection checks whether the run is being ended; see Database
# Set for each transaction, not for the session: a pooler may give the next transaction another session.
_FOR_TRANSACTION = {
    "search_path": POSTGRES_SCHEMA,
    "synchronous_commit": "on",
    "lock_timeout": f"{BUSY_TIMEOUT_S:.0f}s",
    "idle_in_transaction_session_timeout": "60s",  # releases the locks of a client that hangs
}
POSTGRES_SETTINGS = ", ".join(f"set_config('{name}', '{value}', true)" for name, value in _FOR_TRANSACTION.items())


def postgres_url(location: SecretStr) -> URL:
    try:
        return make_url(location.get_secret_value()).set(drivername="postgresql+psycopg")
    except (ArgumentError, ValueError):  # their messages may contain the password
        raise CatalogError("storage.url cannot be read. Write postgresql://user:password@host:5432/database.") from None


def postgres_name(url: URL) -> str:
    """The name of the database in messages, without user and password."""
    return f"postgresql://{url.host or 'localhost'}:{url.port or 5432}/{url.database or ''}"


def postgres_engine(url: URL, pool_size: int, patience: Patience) -> Engine:
    """An engine with at most `pool_size` connections, whose waits for answers end as `patience` says."""
    from resources.catalog.postgres_connection import connect

    engine = create_engine(url, **_pool(pool_size))

    @event.listens_for(engine, "do_connect")
    def open_connection(dialect: object, record: object, arguments: Any, parameters: Any) -> CatalogConnection:
        return connect(patience, **parameters)

    return engine


def _pool(size: int) -> dict[str, Any]:
    """The options of a pool. The connection that was used last is taken first, because its cache is warm."""
    return {"pool_size": size, "max_overflow": 0, "pool_timeout": _POOL_WAIT_S, "pool_use_lifo": True}


def sqlite_engine(path: Path, pool_size: int = POOL_SIZE, *, shared: bool = True) -> Engine:
    """An engine whose write transactions take the lock when they begin, and so never fail half-way because it is taken.

    Without `shared` it writes a file that no other process sees yet, and the caller makes the file durable.
    """
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        connect_args={"timeout": BUSY_TIMEOUT_S, "isolation_level": None},
        **_pool(pool_size),
    )

    @event.listens_for(engine, "connect")
    def configure(connection: sqlite3.Connection, record: object) -> None:
        if shared:
            _enter_wal(connection, path)
        connection.execute(f"PRAGMA synchronous = {'FULL' if shared else 'OFF'}")
        connection.execute("PRAGMA foreign_keys = ON")
        # pages: one that changes often is copied back less often
        connection.execute("PRAGMA wal_autocheckpoint = 10000")
        # KiB: the indexes of a million works do not fit into the default
        connection.execute("PRAGMA cache_size = -64000")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _enter_wal(connection: sqlite3.Connection, path: Path) -> None:
    """Switch to WAL. SQLite does not wait for locks here, so processes that open a new catalog at the same time try again."""
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            break
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
    if mode != "wal":
        remedy = "Choose a data_root on a local disk."
        raise CatalogError(f"the file system of the catalog {path} cannot share a database. {remedy}")
