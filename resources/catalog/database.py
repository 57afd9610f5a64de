"""The connection to the catalog's database: opening, transactions, its clock, and all that differs between dialects.

Knows the ways of SQLite (WAL, immediate write transactions, waiting for locks) and of PostgreSQL (which may go away and come
back), and turns their errors into sentences with a remedy. Leaves the tables to `schema`, older catalogs to `migrations`, and
every question and change to the parts of the catalog that build on it.
"""

from __future__ import annotations

import errno
import functools
import itertools
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from pydantic import SecretStr
from sqlalchemy import (
    URL,
    ColumnElement,
    Connection,
    Engine,
    Float,
    Table,
    create_engine,
    event,
    inspect,
    make_url,
    select,
    text,
)
from sqlalchemy.dialects.postgresql import Insert, insert
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from resources.catalog.migrations import NewerCatalog, mark_as_new, migrate
from resources.catalog.schema import meta, metadata
from resources.errors import ExplainedError
from resources.mounts import refuse_network_filesystem
from resources.records import CATALOG_SCHEMA_VERSION

if TYPE_CHECKING:
    import psycopg

log = logging.getLogger(__name__)

Location = Path | SecretStr  # a SQLite file, or the URL of a PostgreSQL database
POSTGRES_SCHEMA = "docstokg"  # the catalog's own, because others (Dagster, say) have a table `runs` too
PATIENCE_S = 60.0
BUSY_TIMEOUT_S = 30.0


class CatalogError(ExplainedError):
    """The catalog cannot be used; the message names it, what is wrong and the remedy."""


class CatalogFull(CatalogError):
    """There is no room left on the disk of the catalog."""

    out_of_space = True


class TransactionLost(CatalogError):
    """The server went away, or sacrificed the transaction to another one. Nothing of it was kept; it may be done again."""


class epoch_now(FunctionElement[float]):
    """Epoch seconds by the clock of the database, the only one that all processes share."""

    type = Float()
    inherit_cache = True


@compiles(epoch_now, "sqlite")
def _sqlite_now(element: epoch_now, compiler: Any, **kw: Any) -> str:
    return "((julianday('now') - 2440587.5) * 86400.0)"


@compiles(epoch_now, "postgresql")
def _postgres_now(element: epoch_now, compiler: Any, **kw: Any) -> str:
    return "CAST(extract(epoch FROM clock_timestamp()) AS double precision)"


# PostgreSQL's form of INSERT … ON CONFLICT; SQLite took it over, and SQLAlchemy writes it for both.


def insert_missing(table: Table) -> Insert:
    """Insert rows, leaving alone those whose key is already there."""
    return _counting(insert(table).on_conflict_do_nothing())


def upsert(table: Table, columns: Sequence[str], where: ColumnElement[bool] | None = None) -> Insert:
    """Insert a row, or give the row with its primary key new values in `columns`, if `where` holds for it."""
    statement = insert(table)
    new = {name: statement.excluded[name] for name in columns}
    key = list(table.primary_key.columns)
    return _counting(statement.on_conflict_do_update(index_elements=key, set_=new, where=where))


def _counting(statement: Insert) -> Insert:
    """`rowcount` is that of the rows that were written, which SQLAlchemy otherwise tells only of updates."""
    return statement.execution_options(preserve_rowcount=True)


P = ParamSpec("P")
T = TypeVar("T")
D = TypeVar("D", bound="Database")


def retry_lost_transactions(method: Callable[Concatenate[D, P], T]) -> Callable[Concatenate[D, P], T]:
    """For a method that is one transaction: when the transaction is lost, it is done again from its start, for up to PATIENCE_S
    seconds. So a server may be restarted in the middle of a run."""

    @functools.wraps(method)
    def call(self: D, /, *args: P.args, **kwargs: P.kwargs) -> T:
        for _ in _patience():
            try:
                return method(self, *args, **kwargs)
            except TransactionLost as error:
                log.warning("%s It is tried again for up to %.0f s.", error, PATIENCE_S)
        return method(self, *args, **kwargs)

    return call


def _patience() -> Iterator[None]:
    """At once, then again and again after pauses, until there is no time left."""
    end = time.monotonic() + PATIENCE_S
    yield
    for pause in itertools.chain((0.1, 0.2, 0.5, 1.0), itertools.repeat(2.0)):
        if time.monotonic() + pause > end:
            return
        time.sleep(pause)
        yield


class Database:
    """An open catalog database. Safe to use from several threads, and together with other processes."""

    def __init__(self, engine: Engine, name: str) -> None:
        self.name = name
        self._engine = engine
        self._in_file = engine.dialect.name == "sqlite"
        # a transaction of several statements sees one state of SQLite in any case
        self._reader = engine if self._in_file else engine.execution_options(isolation_level="REPEATABLE READ")
        self._writer = engine.execution_options(writes=True)
        # threads queue up here, at once, rather than by polling the lock of a database that has only one
        self._one_writer: AbstractContextManager[object] = threading.Lock() if self._in_file else nullcontext()

    @classmethod
    def open(cls, location: Location) -> Self:
        """Open the catalog; create it, and the folders above a file, when it is not there yet; migrate one that is older."""
        if isinstance(location, Path):
            refuse_network_filesystem(location)
            with explained(str(location)):
                location.parent.mkdir(parents=True, exist_ok=True)
            database = cls(sqlite_engine(location), str(location))
        else:
            url = postgres_url(location)
            database = cls(_postgres_engine(url), postgres_name(url))
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

    @retry_lost_transactions
    def now(self) -> float:
        """Epoch seconds by the clock of the database."""
        with self._read() as connection:
            return now_of(connection)

    @contextmanager
    def _read(self) -> Iterator[Connection]:
        """One consistent view of the database."""
        with explained(self.name), self._reader.begin() as connection:
            yield connection

    @contextmanager
    def _write(self) -> Iterator[Connection]:
        """All of what is done inside, or nothing; durable when left without error."""
        with explained(self.name), self._one_writer, self._writer.connect() as connection, connection.begin() as change:
            number = None if self._in_file else connection.scalar(text("SELECT pg_current_xact_id()::text"))
            yield connection
            try:
                change.commit()
            except DBAPIError as error:
                if number is None or not _is_lost(error) or not self._was_committed(number):
                    raise

    def _was_committed(self, number: str) -> bool:
        """Whether a transaction is durable although the answer to its COMMIT was lost. Whoever did it again would find his works
        settled, and take them for lost, or claim others and forget the first ones."""
        question = text("SELECT pg_xact_status(CAST(:number AS xid8))")
        for _ in _patience():
            try:
                with self._engine.connect() as connection:
                    status = connection.scalar(question, {"number": number})
            except DBAPIError as error:
                if getattr(error.orig, "sqlstate", None) == _NEVER_GIVEN_OUT:
                    return False
                if not _is_lost(error):
                    raise
                continue
            if status != "in progress":
                return bool(status == "committed")
        return False

    def _prepare(self) -> None:
        """Create the tables in an empty database, migrate older ones; refuse what is not ours or of another version. Whoever
        opens at the same time waits."""
        with self._write() as connection:
            tables = self._tables_alone(connection)
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
            try:
                migrate(connection)
            except NewerCatalog as error:
                raise CatalogError(
                    f"the catalog {self.name} was changed by a newer version of this program (revision {error}). "
                    "Use that version, or choose another data_root."
                ) from None

    def _tables_alone(self, connection: Connection) -> list[str]:
        """The tables that are there; nobody else makes or migrates any until this transaction ends."""
        if self._in_file:
            return inspect(connection).get_table_names()  # a write transaction is alone by itself
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _OPENING})
        if not inspect(connection).has_schema(POSTGRES_SCHEMA):
            connection.execute(text(f"CREATE SCHEMA {POSTGRES_SCHEMA}"))
        return inspect(connection).get_table_names(POSTGRES_SCHEMA)


def now_of(connection: Connection) -> float:
    return float(connection.execute(select(epoch_now())).scalar_one())


def create_tables(connection: Connection) -> None:
    metadata.create_all(connection)
    rows = [{"key": "schema_version", "value": CATALOG_SCHEMA_VERSION}, {"key": "revision", "value": 0}]
    connection.execute(insert(meta), rows)
    mark_as_new(connection)


def postgres_url(location: SecretStr) -> URL:
    try:
        return make_url(location.get_secret_value()).set(drivername="postgresql+psycopg")
    except (ArgumentError, ValueError):  # whose words may repeat the password
        raise CatalogError("storage.url cannot be read. Write postgresql://user:password@host:5432/database.") from None


def postgres_name(url: URL) -> str:
    """How the database is called in messages: without user and password."""
    return f"postgresql://{url.host or 'localhost'}:{url.port or 5432}/{url.database or ''}"


def _postgres_engine(url: URL) -> Engine:
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


# in seconds, the last in milliseconds
_NOTICE_DEAD_WIRES = {
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
_OPENING = 0x646F6374  # the advisory lock of those who open
_SACRIFICED = frozenset({"40001", "40P01"})  # serialization failure, deadlock
_DISK_FULL = "53100"
_NEVER_GIVEN_OUT = "22023"  # said of a transaction of which a server that crashed has kept nothing, not even its number
_GOING_AWAY = frozenset({"57P01", "57P02", "57P03"})  # shut down, crashed, starting up


def _is_lost(error: DBAPIError) -> bool:
    """Whether the transaction ended through no fault of its own. psycopg has no state to tell when there is no connection."""
    state = getattr(error.orig, "sqlstate", "")
    if state is None:
        return isinstance(error, OperationalError)
    return error.connection_invalidated or state in _SACRIFICED | _GOING_AWAY or state.startswith("08")


_NO_ACCESS = "Give this user the right to write to the file and its folder, or choose another data_root."
_FILE_REMEDIES = {
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
_SERVER_REMEDIES = {
    "password authentication": "Check the user and the password in storage.url.",
    "does not exist": "Create it on the server, or correct storage.url.",
    "permission denied": f"Give the user of storage.url the right to create the schema {POSTGRES_SCHEMA} and to write in it.",
    "read-only transaction": "The server only reads at the moment (a standby?); name the primary in storage.url.",
    "lock timeout": "Another process has held it for too long; end that process, then run the same command again.",
    "connection": "Start the server, or correct storage.url.",
}


@contextmanager
def explained(name: str) -> Iterator[None]:
    """Turns what the driver or the file system says about the database `name` into a CatalogError with a remedy."""
    try:
        yield
    except (DBAPIError, sqlite3.Error, OSError) as error:
        # The driver's own words only, and of them the first line: the rest would show the statement with its values.
        cause = str(error.orig if isinstance(error, DBAPIError) else error).partition("\n")[0].rstrip(".")
        if isinstance(error, FileExistsError | NotADirectoryError):
            raise CatalogError(f"{error.filename} is a file, not a folder. Choose another data_root.") from error
        state = getattr(error.orig, "sqlstate", "") if isinstance(error, DBAPIError) else ""  # PostgreSQL's alone
        no_room = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
        if "is full" in cause or no_room or state == _DISK_FULL:
            raise CatalogFull(
                f"no room for the catalog {name}: {cause}. Free some space, then run the same command again."
            ) from error
        remedies = _FILE_REMEDIES if state == "" else _SERVER_REMEDIES
        remedy = next((words for sign, words in remedies.items() if sign in cause.lower()), "")
        kind = TransactionLost if isinstance(error, DBAPIError) and _is_lost(error) else CatalogError
        raise kind(f"the catalog {name} failed: {cause}. {remedy}".rstrip()) from error
