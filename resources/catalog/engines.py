"""SQLAlchemy engines for the two databases: SQLite (WAL, immediate write transactions, waiting for locks) and PostgreSQL."""

from __future__ import annotations

import functools
import sqlite3
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr
from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError

from resources.catalog.errors import POSTGRES_SCHEMA, CatalogError

if TYPE_CHECKING:
    import psycopg

BUSY_TIMEOUT_S = 30.0
# in seconds, the last in milliseconds
_NOTICE_DEAD_WIRES = {
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}


def postgres_url(location: SecretStr) -> URL:
    try:
        return make_url(location.get_secret_value()).set(drivername="postgresql+psycopg")
    except (ArgumentError, ValueError):  # whose words may repeat the password
        raise CatalogError("storage.url cannot be read. Write postgresql://user:password@host:5432/database.") from None


def postgres_name(url: URL) -> str:
    """How the database is called in messages: without user and password."""
    return f"postgresql://{url.host or 'localhost'}:{url.port or 5432}/{url.database or ''}"


def postgres_engine(url: URL) -> Engine:
    engine = create_engine(
        url,
        connect_args={"connect_timeout": 10, "application_name": "docstokg-catalog", **_NOTICE_DEAD_WIRES},
        pool_use_lifo=True,
    )
    settings = {
        "search_path": POSTGRES_SCHEMA,
        "synchronous_commit": "on",
        "lock_timeout": f"{BUSY_TIMEOUT_S:.0f}s",
        "idle_in_transaction_session_timeout": "60s",  # a client that hangs gives back what it locked
    }

    @event.listens_for(engine, "connect")
    def configure(connection: psycopg.Connection[Any], record: object) -> None:
        for name, value in settings.items():
            connection.execute("SELECT set_config(%s, %s, false)", (name, value))
        connection.commit()
        connection.adapters.register_dumper(str, _without_nul())

    return engine


@functools.cache
def _without_nul() -> type[psycopg.adapt.Dumper]:
    """PostgreSQL's text has no NUL; a title out there may have one, and must not cost a run."""
    from psycopg.types.string import StrDumper

    class Dumper(StrDumper):
        def dump(self, obj: str) -> Any:
            return super().dump(obj.replace("\0", "\ufffd") if "\0" in obj else obj)

    return Dumper


def sqlite_engine(path: Path, *, shared: bool = True) -> Engine:
    """An engine whose write transactions take the lock when they begin, and so never fail half-way for want of it.

    One that is not `shared` writes a file that nobody else sees yet and whose making durable is the caller's business.
    """
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        connect_args={"timeout": BUSY_TIMEOUT_S, "isolation_level": None},
        pool_use_lifo=True,  # the connection used last has the warm cache
    )

    @event.listens_for(engine, "connect")
    def configure(connection: sqlite3.Connection, record: object) -> None:
        if shared:
            _enter_wal(connection, path)
        connection.execute(f"PRAGMA synchronous = {'FULL' if shared else 'OFF'}")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute(
            "PRAGMA wal_autocheckpoint = 10000"
        )  # pages; a page that changes often is copied back less often
        connection.execute(
            "PRAGMA cache_size = -64000"
        )  # KiB; the indexes of a million works do not fit into the default

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _enter_wal(connection: sqlite3.Connection, path: Path) -> None:
    """SQLite does not wait for locks here: processes that open a new catalog at the same time have to try again."""
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
        raise CatalogError(
            f"the file system of the catalog {path} cannot share a database. Choose a data_root on a local disk."
        )
