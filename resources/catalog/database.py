"""The connection to the catalog's database: opening, transactions, its clock, and all that differs between dialects.

Knows SQLite's ways (WAL, immediate write transactions, waiting for locks) and turns its errors into sentences with a
remedy. Leaves the tables to `schema` and every question and change to the parts of the catalog that build on it.
"""

from __future__ import annotations

import errno
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sqlalchemy import URL, ColumnElement, Connection, Engine, Float, Table, create_engine, event, inspect, select
from sqlalchemy.dialects.sqlite import Insert, insert
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from resources.catalog.schema import meta, metadata
from resources.records import CATALOG_SCHEMA_VERSION

BUSY_TIMEOUT_S = 30.0


class CatalogError(Exception):
    """The catalog cannot be used; the message names it, what is wrong and the remedy."""


class CatalogFull(CatalogError):
    """There is no room left on the disk of the catalog."""


class epoch_now(FunctionElement[float]):
    """Epoch seconds by the clock of the database, the only one that all processes share."""

    type = Float()
    inherit_cache = True


@compiles(epoch_now, "sqlite")
def _sqlite_now(element: epoch_now, compiler: Any, **kw: Any) -> str:
    return "((julianday('now') - 2440587.5) * 86400.0)"


def insert_missing(table: Table) -> Insert:
    """Insert rows, leaving alone those whose key is already there."""
    return insert(table).on_conflict_do_nothing()


def upsert(table: Table, columns: Sequence[str], where: ColumnElement[bool] | None = None) -> Insert:
    """Insert a row, or give the row with its primary key new values in `columns`, if `where` holds for it."""
    statement = insert(table)
    new = {name: statement.excluded[name] for name in columns}
    return statement.on_conflict_do_update(index_elements=list(table.primary_key.columns), set_=new, where=where)


class Database:
    """An open catalog database. Safe to use from several threads, and together with other processes."""

    def __init__(self, engine: Engine, name: str) -> None:
        self.name = name
        self._engine = engine
        self._writer = engine.execution_options(writes=True)
        self._one_writer = threading.Lock()  # threads queue up here, at once, rather than by polling a database lock

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open the catalog at `path`; create it, and the folders above it, when it is not there yet."""
        with explained(str(path)):
            path.parent.mkdir(parents=True, exist_ok=True)
        database = cls(sqlite_engine(path), str(path))
        try:
            database._prepare()
        except BaseException:
            database.close()
            raise
        return database

    def close(self) -> None:
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def now(self) -> float:
        """Epoch seconds by the clock of the database."""
        with self._read() as connection:
            return now_of(connection)

    @contextmanager
    def _read(self) -> Iterator[Connection]:
        """One consistent view of the database."""
        with explained(self.name), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def _write(self) -> Iterator[Connection]:
        """All of what is done inside, or nothing; durable when left without error."""
        with explained(self.name), self._one_writer, self._writer.begin() as connection:
            yield connection

    def _prepare(self) -> None:
        """Create the tables in an empty database; refuse one that is not ours or of another version."""
        with self._write() as connection:
            tables = inspect(connection).get_table_names()
            if not tables:
                create_tables(connection)
            elif meta.name not in tables:
                raise CatalogError(f"{self.name} is a database, but not a catalog. Choose another data_root.")
            found = connection.scalar(select(meta.c.value).where(meta.c.key == "schema_version"))
        if found != CATALOG_SCHEMA_VERSION:
            raise CatalogError(
                f"the catalog {self.name} has schema version {found}, this program needs {CATALOG_SCHEMA_VERSION}. "
                "Use the version of the program that wrote it, or choose another data_root."
            )


def now_of(connection: Connection) -> float:
    return float(connection.execute(select(epoch_now())).scalar_one())


def create_tables(connection: Connection) -> None:
    metadata.create_all(connection)
    rows = [{"key": "schema_version", "value": CATALOG_SCHEMA_VERSION}, {"key": "revision", "value": 0}]
    connection.execute(insert(meta), rows)


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
        connection.execute("PRAGMA cache_size = -16000")  # KiB; a quarter faster than the default on a million works

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


_NO_ACCESS = "Give this user the right to write to the file and its folder, or choose another data_root."
_REMEDIES = {
    "locked": "Another process has held it for too long; end that process, then run the same command again.",
    "readonly": _NO_ACCESS,
    "read-only": _NO_ACCESS,
    "unable to open": _NO_ACCESS,
    "permission denied": _NO_ACCESS,
    "not a directory": "Choose another data_root.",
    "no such file": "Choose another data_root.",
    "file exists": "Choose another data_root.",
    "not a database": "Choose another data_root, or move the file away.",
    "malformed": "Restore it from a backup; a file system check is advisable.",
    "disk i/o": "Check the disk, then run the same command again.",
}


@contextmanager
def explained(name: str) -> Iterator[None]:
    """Turns what the driver or the file system says about the database `name` into a CatalogError with a remedy."""
    try:
        yield
    except (DBAPIError, sqlite3.Error, OSError) as error:
        # The driver's own words only: SQLAlchemy's message would show the statement with its values.
        cause = str(error.orig) if isinstance(error, DBAPIError) else str(error)
        if isinstance(error, FileExistsError | NotADirectoryError):
            raise CatalogError(f"{error.filename} is a file, not a folder. Choose another data_root.") from error
        if "is full" in cause or (isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)):
            raise CatalogFull(
                f"no room for the catalog {name}: {cause}. Free some space, then run the same command again."
            ) from error
        remedy = next((text for sign, text in _REMEDIES.items() if sign in cause.lower()), "")
        raise CatalogError(f"the catalog {name} failed: {cause}. {remedy}".rstrip()) from error
