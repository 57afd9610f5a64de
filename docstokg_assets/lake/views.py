"""DuckDB views over the lake, for people and reports, and how to open them. `writer.py` writes the parts.

Each view shows the latest row of each key, so an export that was repeated after a crash is not visible. A table without parts is
an empty view with the right columns; a column that old parts lack is NULL.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from docstokg_assets.lake.connection import MEMORY, SPILL, connect_bounded, explain_lake_errors
from docstokg_assets.lake.writer import SCHEMAS, Exported, LakeWriter, export_manifest
from resources.errors import ExplainedError
from resources.lake.files import LakeFiles, LakeFolder, quoted
from resources.records import Answer
from resources.tables import OUTCOMES, Into
from resources.whole_file import whole_file

if TYPE_CHECKING:
    from resources.catalog.catalog import Catalog

# Which of several rows with one key is shown. `year` among the keys lets a filter on it skip the other folders.
_LATEST: Mapping[str, str] = {
    "works": "row_number() OVER (PARTITION BY work_id ORDER BY fetched_at DESC) = 1",
    "plans": "row_number() OVER (PARTITION BY work_id, position, planned_at) = 1"
    " AND planned_at = max(planned_at) OVER (PARTITION BY work_id)",
    "attempts": "row_number() OVER (PARTITION BY year, run_id, worker_id, seq) = 1",
    "outcomes": "row_number() OVER (PARTITION BY year, work_id ORDER BY revision DESC) = 1",  # a queued work keeps its year
    "metrics": "row_number() OVER (PARTITION BY year, scope, name, computed_at) = 1",
}
_ARTIFACTS = f"""
CREATE OR REPLACE VIEW artifacts AS SELECT {", ".join(OUTCOMES.names_in(Into.FILES))}
FROM outcomes WHERE path IS NOT NULL AND reason IN ('ok', 'not-modified', 'html-only')
"""


class QueryError(ExplainedError):
    """A query that was refused or failed; the message is for the person who wrote it."""


@contextmanager
def open_lake(
    lake: LakeFiles, memory: str = MEMORY, spill: str = SPILL, *, years: Sequence[int] = ()
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection with the views `works, plans, attempts, outcomes, artifacts, metrics`, bounded in memory and on the disk.
    With `years` (0: unknown), parts of other years are not read. Raises LakeError if a part cannot be read."""
    with explain_lake_errors(lake), connect_bounded(memory, spill) as con:
        yield _with_views(con, lake, years)


@contextmanager
def open_lake_read_only(
    lake: LakeFiles, memory: str = MEMORY, spill: str = SPILL
) -> Iterator[duckdb.DuckDBPyConnection]:
    """As `open_lake`, for untrusted queries: files outside the lake cannot be read, and settings cannot be changed."""
    with open_lake(lake, memory, spill) as con:
        con.execute(f"SET allowed_directories = [{', '.join(map(quoted, lake.readable))}]")
        con.execute("SET enable_external_access = false")
        con.execute("SET lock_configuration = true")
        yield con


def views_file(lake: LakeFiles) -> Path | None:
    """`telemetry.duckdb` in the data root; none for a bucket, which DuckDB alone cannot read."""
    return lake.folder.with_name("telemetry.duckdb") if isinstance(lake, LakeFolder) else None


def write_telemetry_duckdb(lake: LakeFiles) -> None:
    """Write the views to a file that any DuckDB client can open; does nothing for a bucket.

    The views contain absolute paths, because DuckDB resolves relative ones from the client's working folder. The file is
    rewritten when its views change: with the first part of a table, and after the data root was moved.
    """
    path = views_file(lake)
    if path is None:
        return
    if path.exists() and _has_views_of(path, lake):
        return
    with explain_lake_errors(lake), whole_file(path) as temp:
        temp.unlink()  # DuckDB takes an empty file for a broken database
        with duckdb.connect(str(temp)) as con:
            _with_views(con, lake)
            con.execute(f"COMMENT ON VIEW artifacts IS {quoted(_hash_of_views(con, lake))}")


def _has_views_of(path: Path, lake: LakeFiles) -> bool:
    try:
        with duckdb.connect(str(path), read_only=True) as con:
            found = con.execute("SELECT comment FROM duckdb_views() WHERE view_name = 'artifacts'").fetchone()
            return found is not None and found[0] == _hash_of_views(con, lake)
    except duckdb.Error:  # damaged, of another version of DuckDB, or open in a program that writes
        return False


def _hash_of_views(con: duckdb.DuckDBPyConnection, lake: LakeFiles) -> str:
    return hashlib.sha256("".join(_views(con, lake)).encode()).hexdigest()


def export_new_rows(catalog: Catalog, lake: LakeFiles) -> Exported:
    """Export the catalog's rows since the last export to the lake, and rewrite the views file."""
    exported = export_manifest(catalog, LakeWriter(lake))
    write_telemetry_duckdb(lake)
    return exported


def query_lake(
    lake: LakeFiles, sql: str, *, limit: int | None, timeout_s: float = 60.0, memory: str = MEMORY, spill: str = SPILL
) -> Answer:
    """The first `limit` rows of one SELECT, or all. Other statements are refused, because DuckDB could write to the lake."""
    with open_lake_read_only(lake, memory, spill) as con:
        timer = threading.Timer(timeout_s, con.interrupt)
        try:
            _check_only_reads(sql)
            timer.start()
            with explain_lake_errors(lake):
                result = con.execute(sql)
                columns = tuple(column[0] for column in result.description or ())
                rows = result.fetchall() if limit is None else result.fetchmany(limit + 1)
        except duckdb.InterruptException as error:
            raise QueryError(f"stopped after {timeout_s:g} s; narrow the query, for example to one year") from error
        except duckdb.OutOfMemoryException as error:
            needs = f"it needs more than {memory} of memory and {spill} of disk"
            raise QueryError(f"{needs}; narrow it, for example to one year") from error
        except duckdb.Error as error:
            raise QueryError(str(error)) from error
        finally:
            timer.cancel()
    return Answer(columns, tuple(rows[:limit]), limit is not None and len(rows) > limit)


def _check_only_reads(sql: str) -> None:
    statements = duckdb.extract_statements(sql)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise QueryError("only one statement that reads is allowed: SELECT, FROM, WITH, DESCRIBE, SUMMARIZE")


def _with_views(
    con: duckdb.DuckDBPyConnection, lake: LakeFiles, years: Sequence[int] = ()
) -> duckdb.DuckDBPyConnection:
    con.execute("SET TimeZone = 'UTC'")
    for view in _views(con, lake, years):
        con.execute(view)
    return con


def _views(con: duckdb.DuckDBPyConnection, lake: LakeFiles, years: Sequence[int] = ()) -> Iterator[str]:
    """The statements that make the views."""
    for table in SCHEMAS:
        rows = every_row(con, lake, table, years)
        yield f"CREATE OR REPLACE VIEW {table} AS SELECT * FROM ({rows}) QUALIFY {_LATEST[table]}"
    yield _ARTIFACTS


def every_row(con: duckdb.DuckDBPyConnection, lake: LakeFiles, table: str, years: Sequence[int] = ()) -> str:
    """SQL for all rows of a table, including earlier rows of the same key.

    A typed empty row set comes first, so that names, types and order of the columns do not depend on the parts.
    """
    schema = SCHEMAS[table]
    typed = ", ".join(f'NULL::{_duckdb_type(field.type)} AS "{field.name}"' for field in schema)
    rows = lake.rows(con, table, schema, years)
    return f"SELECT {typed}, NULL::SMALLINT AS year WHERE false" + (f" UNION ALL BY NAME {rows}" if rows else "")


def _duckdb_type(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"{_duckdb_type(kind.value_type)}[]"
    if pa.types.is_struct(kind):
        return "STRUCT(" + ", ".join(f'"{field.name}" {_duckdb_type(field.type)}' for field in kind) + ")"
    if pa.types.is_timestamp(kind):
        return "TIMESTAMPTZ"
    return {pa.string(): "VARCHAR", pa.int64(): "BIGINT", pa.float64(): "DOUBLE", pa.bool_(): "BOOLEAN"}[kind]
