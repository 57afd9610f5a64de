"""Connections of DuckDB to the lake: bounded in memory and on the disk, with errors that name the damaged file and the remedy.

What does not fit into memory goes to a temporary folder for a while; folders that killed processes left are removed by the next
one. The views over the tables are in `views.py`.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import duckdb

from docstokg_assets.lake.writer import SCHEMAS
from resources.errors import ExplainedError
from resources.lake.files import DamagedPart, LakeError, LakeFiles, damage_of, quoted
from resources.processes import new_owner, process_is_gone

MEMORY = "500MB"
SPILL = "20GB"
_THREADS = 4  # each of them needs some of the memory
_FOLDERS = "docstokg-spill-"
# Errors of whoever wrote the SQL, or of his patience: no file needs to be looked at for them.
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
    """A connection in memory that takes no more than so much of it, and of the disk."""
    with spill_folder() as folder, duckdb.connect() as con:
        con.execute(f"SET memory_limit = {quoted(memory)}")
        con.execute(f"SET temp_directory = {quoted(str(folder))}")
        con.execute(f"SET max_temp_directory_size = {quoted(spill)}")
        con.execute(f"SET threads = {min(_THREADS, os.cpu_count() or 1)}")
        con.execute("SET preserve_insertion_order = false")
        yield con


@contextmanager
def spill_folder() -> Iterator[Path]:
    """A folder for what does not fit into memory, named after this process, so that others know when it is left over."""
    root = Path(tempfile.gettempdir())
    for left in root.glob(f"{_FOLDERS}*"):
        if process_is_gone(left.name.removeprefix(_FOLDERS).rpartition("-")[0]):
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(
        prefix=f"{_FOLDERS}{new_owner()}-", dir=root, ignore_cleanup_errors=True
    ) as folder:
        yield Path(folder)


@contextmanager
def explain_lake_errors(lake: LakeFiles) -> Iterator[None]:
    """Raise an error of DuckDB that comes from the lake's files as one that names them. Others stay what they are."""
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
    """Looks at the ends of all parts first, which is quick; at their bytes only when DuckDB says nothing of the query."""
    parts = [part for table in SCHEMAS for part in lake.parts(table)]
    of_query = isinstance(error, duckdb.InvalidInputException)  # which it also says of a file that is no Parquet
    for whole in (False,) if of_query else (False, True):
        if damaged := dict(chain.from_iterable(damage_of(lake, part, whole=whole).items() for part in parts)):
            return DamagedPart(damaged)
    if not isinstance(error, duckdb.IOException):
        return None
    cause = str(error).partition("\n")[0].rstrip(".")
    return LakeError(
        f"the lake could not be read: {cause}. Were its parts compacted or rebuilt meanwhile? Run it again."
    )
