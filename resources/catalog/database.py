"""The connection to the catalog's database: opening, transactions, its clock, and reading by portions and pages.

Hides what differs between SQLite and PostgreSQL, whose server may go away and come back (the engines are in `engines`, their
errors in `errors`). The tables are in `schema`, the changes of older catalogs in `migrations`.
"""

from __future__ import annotations

import functools
import itertools
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from pydantic import SecretStr
from sqlalchemy import ColumnElement, Connection, Engine, Float, RowMapping, Select, Table, func, inspect, select, text
from sqlalchemy.dialects.postgresql import Insert, insert
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from resources.catalog import engines
from resources.catalog.engines import POSTGRES_SETTINGS
from resources.catalog.errors import POSTGRES_SCHEMA, CatalogError, TransactionLost, is_lost, translate_catalog_errors
from resources.catalog.migrations import NewerCatalog, mark_as_new, migrate
from resources.catalog.patience import POOL_SIZE, SLOW_ANSWER_S, Patience
from resources.catalog.schema import meta, metadata
from resources.mounts import refuse_network_filesystem
from resources.records import CATALOG_SCHEMA_VERSION

log = logging.getLogger(__name__)

Location = Path | SecretStr  # a SQLite file, or the URL of a PostgreSQL database
PATIENCE_S = 60.0
_PORTION = 5_000  # rows of one transaction: enough that its sync hardly counts, few enough that others do not wait long
_PAGE = 1_000
_MIGRATING_S = 600.0  # how long opening a catalog waits for another process that migrates it
_OPENING = 0x646F6374  # the advisory lock for opening
_SETTINGS = text(f"SELECT {POSTGRES_SETTINGS}")
_NUMBER_AND_SETTINGS = text(f"SELECT pg_current_xact_id()::text, {POSTGRES_SETTINGS}")
_NEVER_GIVEN_OUT = "22023"  # the state for a transaction of which a crashed server kept nothing, not even its number


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


# PostgreSQL's INSERT … ON CONFLICT, which SQLite has too; SQLAlchemy renders it for both. The option makes `rowcount` the number
# of written rows, which SQLAlchemy otherwise gives for updates only.
_COUNTED = {"preserve_rowcount": True}


def insert_missing(table: Table) -> Insert:
    """Insert rows, leaving alone those whose key is already there."""
    return insert(table).on_conflict_do_nothing().execution_options(**_COUNTED)


def upsert(table: Table, columns: Sequence[str], where: ColumnElement[bool] | None = None) -> Insert:
    """Insert a row, or give the row with its primary key new values in `columns`, if `where` holds for it."""
    statement = insert(table)
    new = {name: statement.excluded[name] for name in columns}
    statement = statement.on_conflict_do_update(index_elements=list(table.primary_key.columns), set_=new, where=where)
    return statement.execution_options(**_COUNTED)


P = ParamSpec("P")
T = TypeVar("T")
D = TypeVar("D", bound="Database")


def retry_lost_transactions(method: Callable[Concatenate[D, P], T]) -> Callable[Concatenate[D, P], T]:
    """Repeat a method that is one transaction from its start when the transaction is lost, for up to PATIENCE_S seconds. So a
    server may be restarted, or hang for a while, in the middle of a run."""

    @functools.wraps(method)
    def call(self: D, /, *args: P.args, **kwargs: P.kwargs) -> T:
        for _ in self.patience.tries(PATIENCE_S):
            try:
                return method(self, *args, **kwargs)
            except TransactionLost as error:
                if not self.patience.is_short():
                    log.warning("%s It is tried again for up to %.0f s.", error, PATIENCE_S)
                lost = error
        raise lost

    return call


_Method = Callable[Concatenate[D, Connection, P], T]  # gets the connection as its first argument


def _within(
    begin: Callable[[D], AbstractContextManager[Connection]], method: _Method[D, P, T]
) -> Callable[Concatenate[D, P], T]:
    @functools.wraps(method)
    def call(self: D, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with begin(self) as connection:
            return method(self, connection, *args, **kwargs)

    return retry_lost_transactions(call)


def read_transaction(method: _Method[D, P, T]) -> Callable[Concatenate[D, P], T]:
    """Run a method in one read transaction that is repeated when it is lost."""
    return _within(lambda database: database._read(), method)


def slow_read_transaction(method: _Method[D, P, T]) -> Callable[Concatenate[D, P], T]:
    """The same for queries over whole tables."""
    return _within(lambda database: database._read(slow=True), method)


def write_transaction(method: _Method[D, P, T]) -> Callable[Concatenate[D, P], T]:
    """The same in one write transaction."""
    return _within(lambda database: database._write(), method)


class Database:
    """An open catalog database. Safe to use from several threads, and together with other processes."""

    def __init__(self, engine: Engine, name: str, patience: Patience) -> None:
        self.name, self.patience = name, patience
        self._engine = engine
        self._in_file = engine.dialect.name == "sqlite"
        # a transaction of several statements sees one state of SQLite in any case
        self._reader = engine if self._in_file else engine.execution_options(isolation_level="REPEATABLE READ")
        self._writer = engine.execution_options(writes=True)
        # threads wait here for each other rather than polling the one lock of the database
        self._one_writer: AbstractContextManager[object] = threading.Lock() if self._in_file else nullcontext()

    @classmethod
    def open(cls, location: Location, pool_size: int = POOL_SIZE) -> Self:
        """Open the catalog; create it, and the folders above a file, when it is not there yet; migrate one that is older.

        It has at most `pool_size` connections. Threads that need more wait until one is free.
        """
        patience = Patience()
        if isinstance(location, Path):
            refuse_network_filesystem(location)
            with translate_catalog_errors(str(location)):
                location.parent.mkdir(parents=True, exist_ok=True)
            database = cls(engines.sqlite_engine(location, pool_size), str(location), patience)
        else:
            url = engines.postgres_url(location)
            database = cls(engines.postgres_engine(url, pool_size, patience), engines.postgres_name(url), patience)
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

    def __exit__(self, *error: object) -> None:
        self.close()

    @retry_lost_transactions
    def now(self) -> float:
        """Epoch seconds by the clock of the database."""
        with self._read() as connection:
            return now_of(connection)

    @retry_lost_transactions
    def _rows(self, statement: Select[Any], *, slow: bool = False) -> Sequence[RowMapping]:
        """The result of one query, as a transaction of its own."""
        with self._read(slow=slow) as connection:
            return connection.execute(statement).mappings().all()

    def _rows_by_portions(
        self, statement: Select[Any], column: ColumnElement[Any], values: Iterable[Any]
    ) -> Iterator[RowMapping]:
        """The rows that have one of `values` in `column`, however many values there are."""
        for portion in portions(values):
            yield from self._rows(statement.where(column.in_(portion)))

    def _rows_by_pages(self, statement: Select[Any], key: ColumnElement[Any], after: Any) -> Iterator[RowMapping]:
        """The rows past `after` in the order of `key`, in pages, so that a long read blocks no other process."""
        ordered = statement.order_by(key).limit(_PAGE)
        while page := self._rows(ordered.where(key > after)):
            yield from page
            if len(page) < _PAGE:
                return
            after = page[-1][key.name]

    def _has_more(self, statement: Select[Any], than: int) -> bool:
        """Whether the query has more rows than that; no more of them are counted."""
        count = select(func.count().label("n")).select_from(statement.limit(than + 1).subquery())
        return int(self._rows(count)[0]["n"]) > than

    @contextmanager
    def _read(self, *, slow: bool = False) -> Iterator[Connection]:
        """One consistent view of the database. `slow`: for queries over whole tables."""
        with (
            translate_catalog_errors(self.name),
            self._connection(self._reader, slow=slow) as connection,
            connection.begin(),
        ):
            if not self._in_file:
                connection.execute(_SETTINGS)
            yield connection

    @contextmanager
    def _write(self, *, slow: bool = False) -> Iterator[Connection]:
        """A transaction that is done completely or not at all, and durable when the block is left without error."""
        number, complete = None, False
        with translate_catalog_errors(self.name), self._one_writer:
            try:
                with self._connection(self._writer, slow=slow) as connection, connection.begin():
                    number = None if self._in_file else connection.execute(_NUMBER_AND_SETTINGS).scalar_one()
                    yield connection
                    complete = True
            except DBAPIError as error:  # its connection is free again, as `_was_committed` needs one
                if number is None or not complete or not is_lost(error) or not self._was_committed(number):
                    raise

    @contextmanager
    def _connection(self, engine: Engine, *, slow: bool = False) -> Iterator[Connection]:
        """A connection of the pool. Waits for a free one, however long it takes, until the run is being ended."""
        while True:
            try:
                connection = engine.connect()
                break
            except PoolTimeout:
                if self.patience.is_over():
                    raise TransactionLost(
                        f"the catalog {self.name} has not answered until the end of the run."
                    ) from None
        with connection:
            if slow and not self._in_file:
                driver = connection.connection.driver_connection
                assert driver is not None
                driver.answer_s = SLOW_ANSWER_S
                try:
                    yield connection
                finally:
                    driver.answer_s = None
            else:
                yield connection

    def _was_committed(self, number: str) -> bool:
        """Whether a transaction is durable although the answer to its COMMIT was lost. To repeat it would take the works that it
        settled for lost, or claim other works and forget the first ones."""
        question = text("SELECT pg_xact_status(CAST(:number AS xid8))")
        for _ in self.patience.tries(PATIENCE_S):
            try:
                with self._connection(self._engine) as connection:
                    status = connection.scalar(question, {"number": number})
            except DBAPIError as error:
                if getattr(error.orig, "sqlstate", None) == _NEVER_GIVEN_OUT:
                    return False
                if not is_lost(error):
                    raise
                continue
            if status != "in progress":
                return bool(status == "committed")
        return False

    def _prepare(self) -> None:
        """Create the tables in an empty database, migrate older ones; refuse another database or version. Processes that open
        it at the same time wait."""
        with self._write(slow=True) as connection:
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
        """The existing tables. No other process creates or migrates any until this transaction ends."""
        if self._in_file:
            return inspect(connection).get_table_names()  # there is only one write transaction at a time
        connection.execute(text(f"SET LOCAL lock_timeout = '{_MIGRATING_S:.0f}s'"))
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _OPENING})
        if not inspect(connection).has_schema(POSTGRES_SCHEMA):
            connection.execute(text(f"CREATE SCHEMA {POSTGRES_SCHEMA}"))
        return inspect(connection).get_table_names(POSTGRES_SCHEMA)


def portions(items: Iterable[T]) -> Iterator[list[T]]:
    """Split items into lists for one transaction each."""
    remaining = iter(items)
    while portion := list(itertools.islice(remaining, _PORTION)):
        yield portion


def now_of(connection: Connection) -> float:
    return float(connection.execute(select(epoch_now())).scalar_one())


def create_tables(connection: Connection) -> None:
    metadata.create_all(connection)
    connection.execute(insert(meta), {"key": "schema_version", "value": CATALOG_SCHEMA_VERSION})
    if connection.dialect.name == "sqlite":  # PostgreSQL has a sequence
        connection.execute(insert(meta), {"key": "revision", "value": 0})
    mark_as_new(connection)
