"""DuckDB connections to the lake, with limits on memory and disk, and errors that name the damaged file and the remedy.

Data that does not fit into memory spills to a temporary folder. The folders of killed processes are removed by the next process.
The views over the tables are in `views.py`.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import duckdb

from docstokg_assets.lake.writer import SCHEMAS
from resources.errors import ExplainedError
from resources.lake.files import DamagedPart, LakeError, LakeFiles, damage_of, quoted
from resources.processes import new_owner, process_is_gone

MEMORY = "500MB"
SPILL = "20GB"
_THREADS = 4  # each of them needs some of the memory
_FOLDERS = "docstokg-spill-"
# Errors caused by the query itself or by its limits: no file needs to be checked.
_OF_THE_QUERY = (
    duckdb.BinderException,
    duckdb.CatalogException,
    duckdb.ConversionException,
    duckdb.InterruptException,
    duckdb.OutOfMemoryException,
    duckdb.OutOfRangeException,
    duckdb.ParserException,
    duckdb.PermissionException,
)


@contextmanager
def connect_bounded(memory: str = MEMORY, spill: str = SPILL) -> Iterator[duckdb.DuckDBPyConnection]:
    """An in-memory database that uses at most `memory`, and at most `spill` on disk."""
    with spill_folder() as folder, duckdb.connect() as con:
        con.execute(f"SET memory_limit = {quoted(memory)}")
        con.execute(f"SET temp_directory = {quoted(str(folder))}")
        con.execute(f"SET max_temp_directory_size = {quoted(spill)}")
        con.execute(f"SET threads = {min(_THREADS, os.cpu_count() or 1)}")
        con.execute("SET preserve_insertion_order = false")
        yield con


@contextmanager
def spill_folder() -> Iterator[Path]:
    """A temporary folder named after this process, so that other processes can tell when it is orphaned."""
    root = Path(tempfile.gettempdir())
    for left in root.glob(f"{_FOLDERS}*"):
        if process_is_gone(left.name.removeprefix(_FOLDERS).rpartition("-")[0]):
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(
        prefix=f"{_FOLDERS}{new_owner()}-", dir=root, ignore_cleanup_errors=True
    ) as folder:
        yield Path(folder)


def fetch_dicts(con: duckdb.DuckDBPyConnection, sql: str, parameters: Any = None) -> list[dict[str, Any]]:
    """All rows of a query, each as column → value."""
    result = con.execute(sql, parameters or {})
    names = [column[0] for column in result.description or ()]
    return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


@contextmanager
def explain_lake_errors(lake: LakeFiles) -> Iterator[None]:
    """Replace a DuckDB error caused by a file of the lake with one that names the file. Other errors pass unchanged."""
    try:
        yield
    except _OF_THE_QUERY:
        raise
    except duckdb.Error as error:
        explained = _explain(lake, error)
        if explained is None:
            raise
        raise explained from error


def _explain(lake: LakeFiles, error: duckdb.Error) -> ExplainedError | None:
    """Check the footers of all parts first, which is quick; read whole parts only if DuckDB does not blame the query."""
    parts = [part for table in SCHEMAS for part in lake.parts(table)]
    of_query = isinstance(error, duckdb.InvalidInputException)  # also raised for a file that is not Parquet
    for whole in (False,) if of_query else (False, True):
        if damaged := dict(chain.from_iterable(damage_of(lake, part, whole=whole).items() for part in parts)):
            return DamagedPart(damaged)
    if not isinstance(error, duckdb.IOException):
        return None
    cause = str(error).partition("\n")[0].rstrip(".")
    return LakeError(
        f"the lake could not be read: {cause}. Were its parts compacted or rebuilt meanwhile? Run it again."
    )
