"""Questions of strangers to the catalog, in SQL: they change nothing, reach nothing else, and take neither long nor much room.

Opens the database by itself, read-only and without migrating it. Knows nothing of the tables.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pydantic import SecretStr
from sqlalchemy import URL

from resources.catalog.database import Location
from resources.catalog.engines import postgres_name, postgres_url
from resources.catalog.errors import POSTGRES_SCHEMA, CatalogError
from resources.records import Answer

_MAX_VALUE_BYTES = 10_000_000  # of one cell
_STEPS = 10_000  # of SQLite's machine between two looks at the clock
# PRAGMA table_info and the like tell what there is; all others that SQLite has could change something.
_HARMLESS_PRAGMAS = frozenset({"table_info", "table_xinfo", "table_list", "index_list", "index_info", "index_xinfo"})
_ALLOWED = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE})


class QueryRefused(CatalogError):
    """The question was not answered; the message says why."""


def run_readonly_query(location: Location, sql: str, *, timeout_s: float, max_rows: int) -> Answer:
    """The answer to one SELECT, or as much of it as `max_rows`."""
    if isinstance(location, SecretStr):
        return _ask_postgres(postgres_url(location), sql, timeout_s, max_rows)
    return _ask_sqlite(location, sql, timeout_s, max_rows)


def _ask_sqlite(path: Path, sql: str, timeout_s: float, max_rows: int) -> Answer:
    late = QueryRefused(f"it took longer than {timeout_s:g} s. Ask for less, or allow more time with --timeout")
    try:
        # mode=ro alone would still let ATTACH and VACUUM INTO make files
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=timeout_s)) as connection:
            connection.execute("PRAGMA query_only = ON")
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE_BYTES)
            connection.set_authorizer(_authorize)
            end = time.monotonic() + timeout_s
            connection.set_progress_handler(lambda: int(time.monotonic() > end), _STEPS)
            cursor = connection.execute(sql)
            return _answer([column[0] for column in cursor.description or ()], cursor.fetchmany, max_rows)
    except (sqlite3.ProgrammingError, sqlite3.Warning) as error:  # several statements, or a place for a value
        raise QueryRefused(str(error).rstrip(".")) from None
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
            raise late from None
        if error.sqlite_errorcode == sqlite3.SQLITE_AUTH:
            raise QueryRefused(f"{error}: only SELECT is answered, and only from this catalog") from None
        raise QueryRefused(str(error)) from None


def _authorize(action: int, first: str | None, second: str | None, database: str | None, source: str | None) -> int:
    harmless = action == sqlite3.SQLITE_PRAGMA and first in _HARMLESS_PRAGMAS and second is not None
    function = action == sqlite3.SQLITE_FUNCTION and second != "load_extension"
    return sqlite3.SQLITE_OK if action in _ALLOWED or harmless or function else sqlite3.SQLITE_DENY


def _ask_postgres(url: URL, sql: str, timeout_s: float, max_rows: int) -> Answer:
    import psycopg

    settings = {
        "search_path": POSTGRES_SCHEMA,
        "default_transaction_read_only": "on",
        "statement_timeout": str(max(1, round(timeout_s * 1000))),
    }
    conninfo = url.set(drivername="postgresql").render_as_string(hide_password=False)
    name = postgres_name(url)
    try:
        with psycopg.connect(conninfo, connect_timeout=10, application_name="docstokg-query") as connection:
            for key, value in settings.items():
                connection.execute("SELECT set_config(%s, %s, false)", (key, value))
            connection.commit()
            # A cursor takes nothing but a SELECT that changes nothing, hands out as many rows as are wanted, and, because it is
            # prepared, comes alone: no second statement hides behind a semicolon.
            connection.execute(f"DECLARE answer NO SCROLL CURSOR FOR {sql}", prepare=True)
            cursor = connection.execute(f"FETCH {max_rows + 1} FROM answer")
            return _answer([column.name for column in cursor.description or ()], cursor.fetchmany, max_rows)
    except psycopg.errors.QueryCanceled:
        raise QueryRefused(
            f"it took longer than {timeout_s:g} s. Ask for less, or allow more time with --timeout"
        ) from None
    except psycopg.Error as error:
        cause = str(error).partition("\n")[0]
        if error.sqlstate is None:
            raise CatalogError(
                f"the catalog {name} cannot be asked: {cause}. Check the server and storage.url."
            ) from None
        raise QueryRefused(cause) from None


def _answer(columns: list[str], fetch: Callable[[int], list[Any]], max_rows: int) -> Answer:
    if not columns:
        raise QueryRefused("it is no SELECT")
    rows = fetch(max_rows + 1)
    return Answer(tuple(columns), tuple(tuple(map(_plain, row)) for row in rows[:max_rows]), len(rows) > max_rows)


def _plain(value: Any) -> Any:
    """PostgreSQL sums up to decimals, which JSON does not have."""
    if not isinstance(value, Decimal):
        return value
    return int(value) if value == value.to_integral_value() else float(value)
