"""Run a user's SQL on the catalog. It cannot change anything or reach anything else, and its time and memory are limited.

Opens the database itself, read-only and without migrating it. Knows nothing of the tables.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pydantic import SecretStr
from sqlalchemy import URL

from resources.catalog.database import Location
from resources.catalog.engines import postgres_name, postgres_url
from resources.catalog.errors import POSTGRES_SCHEMA, CatalogError
from resources.records import Answer

if TYPE_CHECKING:
    import psycopg

_MAX_VALUE_BYTES = 10_000_000  # of one cell
_STEPS = 10_000  # of SQLite's virtual machine between two checks of the time
# PRAGMA table_info and the like only describe tables; all others that SQLite has could change something.
_HARMLESS_PRAGMAS = frozenset({"table_info", "table_xinfo", "table_list", "index_list", "index_info", "index_xinfo"})
# Superuser; member of a role that reaches files or programs of the server; functions for it that were opened to the user.
_RIGHTS = """
SELECT rolsuper,
       EXISTS (SELECT FROM pg_roles r WHERE pg_has_role(current_user, r.oid, 'MEMBER') AND r.rolname IN
               ('pg_read_server_files', 'pg_write_server_files', 'pg_execute_server_program')),
       ARRAY(SELECT DISTINCT proname::text FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace AND
             proname IN ('pg_read_file', 'pg_read_binary_file', 'pg_ls_dir', 'pg_stat_file', 'lo_import', 'lo_export')
             AND has_function_privilege(pg_proc.oid, 'EXECUTE'))
FROM pg_roles WHERE rolname = current_user
"""
_RUNNER = """
CREATE FUNCTION pg_temp.answer(question text, most bigint) RETURNS SETOF record LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE found_row record; rows bigint := 0;
BEGIN
  FOR found_row IN EXECUTE question LOOP
    RETURN NEXT found_row;
    rows := rows + 1;
    EXIT WHEN rows >= most;
  END LOOP;
END $$
"""
_ALLOWED = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE})


class QueryRefused(CatalogError):
    """The query was not run to its end; the message says why."""


def run_readonly_query(location: Location, sql: str, *, timeout_s: float, max_rows: int) -> Answer:
    """The rows of one SELECT, at most `max_rows`."""
    try:
        if isinstance(location, SecretStr):
            return _ask_postgres(postgres_url(location), sql, timeout_s, max_rows)
        return _ask_sqlite(location, sql, timeout_s, max_rows)
    except TimeoutError:
        late = f"it took longer than {timeout_s:g} s. Ask for less, or allow more time with --timeout"
        raise QueryRefused(late) from None


def _ask_sqlite(path: Path, sql: str, timeout_s: float, max_rows: int) -> Answer:
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
            raise TimeoutError from None
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
            if "dblink" in sql.lower():
                raise QueryRefused("dblink leads out of this catalog, and only the catalog is queried")
            if _is_superuser(connection, name):
                return _ask_with_fewer_rights(connection, sql, max_rows)
            # A cursor takes nothing but a SELECT that changes nothing, hands out as many rows as are wanted, and, because it is
            # prepared, comes alone: no second statement hides behind a semicolon.
            connection.execute(f"DECLARE answer NO SCROLL CURSOR FOR {sql}", prepare=True)
            cursor = connection.execute(f"FETCH {max_rows + 1} FROM answer")
            return _answer([column.name for column in cursor.description or ()], cursor.fetchmany, max_rows)
    except psycopg.errors.QueryCanceled:
        raise TimeoutError from None
    except psycopg.Error as error:
        cause = str(error).partition("\n")[0]
        if error.sqlstate is None:
            message = f"the catalog {name} cannot be queried: {cause}. Check the server and storage.url."
            raise CatalogError(message) from None
        raise QueryRefused(cause) from None


def _is_superuser(connection: psycopg.Connection[Any], name: str) -> bool:
    """Whether the user is a superuser. Another user that may read files of the server or start programs there is refused, because
    these rights cannot be dropped for one query."""
    row = connection.execute(_RIGHTS).fetchone()
    superuser, reaches, functions = row or (True, True, [])
    if not superuser and (reaches or functions):
        rights = ", ".join(functions) or "roles such as pg_read_server_files"
        raise QueryRefused(
            f"the user of storage.url may reach files of the server {name} ({rights}). Ask as another user, "
            "or revoke that right"
        )
    return bool(superuser)


def _ask_with_fewer_rights(connection: psycopg.Connection[Any], sql: str, max_rows: int) -> Answer:
    """Run a superuser's query as pg_read_all_data, which reads tables and nothing else. A temporary function of that role runs
    the SQL, because inside of one the role cannot be changed; after SET ROLE, set_config in the SQL could change it back."""
    columns = _columns_of(connection, sql)
    connection.execute("SET TRANSACTION READ WRITE")
    connection.execute(_RUNNER)
    connection.execute("ALTER FUNCTION pg_temp.answer OWNER TO pg_read_all_data")
    connection.execute("SET TRANSACTION READ ONLY")
    named = ", ".join(f"c{number} {kind}" for number, (_, kind) in enumerate(columns))
    question = f"SELECT * FROM pg_temp.answer(%s, %s) AS answer({named})"
    try:
        rows = connection.execute(question, (sql, max_rows + 1)).fetchall()
    finally:
        connection.rollback()  # no other session ever saw the function
    return _answer([name for name, _ in columns], lambda most: rows[:most], max_rows)


def _columns_of(connection: psycopg.Connection[Any], sql: str) -> list[tuple[str, str]]:
    """The names and types of the result columns, without running the SQL. Only one statement can be prepared, and a cursor is
    only for a SELECT."""
    import psycopg

    def prepare(statement: str) -> None:
        prepared = connection.pgconn.prepare(b"", statement.encode())
        if prepared.status != psycopg.pq.ExecStatus.COMMAND_OK:
            words = prepared.error_message.decode(errors="replace").partition("\n")[0]
            raise QueryRefused(words.removeprefix("ERROR:").strip())

    prepare(f"DECLARE looked_at NO SCROLL CURSOR FOR {sql}")
    prepare(sql)
    found = connection.pgconn.describe_prepared(b"")
    described = [(found.ftype(n), found.fmod(n), (found.fname(n) or b"").decode()) for n in range(found.nfields)]
    name_of = "SELECT format_type(%s::oid, %s::int)"
    kinds = [(name, connection.execute(name_of, (kind, more)).fetchone()) for kind, more, name in described]
    connection.rollback()
    return [(name, row[0] if row else "text") for name, row in kinds]


def _answer(columns: list[str], fetch: Callable[[int], list[Any]], max_rows: int) -> Answer:
    if not columns:
        raise QueryRefused("it is no SELECT")
    rows = fetch(max_rows + 1)
    return Answer(tuple(columns), tuple(tuple(map(_plain, row)) for row in rows[:max_rows]), len(rows) > max_rows)


def _plain(value: Any) -> Any:
    """A value that JSON has: sums of PostgreSQL are decimals."""
    if not isinstance(value, Decimal):
        return value
    return int(value) if value == value.to_integral_value() else float(value)
