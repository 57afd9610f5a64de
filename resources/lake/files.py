"""The files of the lake through one small interface, and the lake in a folder. What the tables mean is left to the writers.

A part is `<table>/year=YYYY/part-<id>.parquet`, year=0 where the year is unknown. It appears whole and is never changed.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from resources.whole_file import whole_file


class LakeFiles(Protocol):
    @property
    def place(self) -> str:
        """As people name it, without a slash at its end."""

    @property
    def readable(self) -> Sequence[str]:
        """The folders that DuckDB itself must be able to read."""

    def new_part(self, part: str) -> AbstractContextManager[Path]:
        """A passing file to be written. A block that ends well makes it the part; else it goes."""

    def parts(self, table: str, year: int | None = None) -> list[str]:
        """Those of one year, or all."""

    def is_empty(self) -> bool: ...

    def schema(self, part: str) -> pa.Schema: ...

    def batches(self, part: str) -> Iterator[pa.RecordBatch]:
        """Its rows, a few at a time, without the year."""

    def remove(self, part: str) -> None:
        """One that somebody else has removed is no fault."""

    def rows(self, con: duckdb.DuckDBPyConnection, table: str, schema: pa.Schema) -> str | None:
        """SQL for all rows of a table and their `year`, NULL where it is unknown; nothing where there are no parts."""


class LakeFolder:
    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()

    @property
    def place(self) -> str:
        return str(self.folder)

    @property
    def readable(self) -> Sequence[str]:
        """Both the folder and the pattern that finds its parts are checked by DuckDB."""
        return (self.place, glob.escape(self.place))

    def new_part(self, part: str) -> AbstractContextManager[Path]:
        return whole_file(self.folder / part)

    def parts(self, table: str, year: int | None = None) -> list[str]:
        found = (self.folder / table).glob(f"year={'*' if year is None else year}/part-*.parquet")
        return sorted(part.relative_to(self.folder).as_posix() for part in found)

    def is_empty(self) -> bool:
        return not self.folder.is_dir()

    def schema(self, part: str) -> pa.Schema:
        return pq.read_schema(self.folder / part)

    def batches(self, part: str) -> Iterator[pa.RecordBatch]:
        with pq.ParquetFile(self.folder / part) as file:
            yield from file.iter_batches()

    def remove(self, part: str) -> None:
        (self.folder / part).unlink(missing_ok=True)

    def rows(self, con: duckdb.DuckDBPyConnection, table: str, schema: pa.Schema) -> str | None:
        """A pattern, so that a view over it sees later parts too."""
        if next((self.folder / table).glob("year=*/part-*.parquet"), None) is None:
            return None
        files = quoted(f"{glob.escape(self.place)}/{table}/year=*/part-*.parquet")
        options = "hive_partitioning = true, hive_types = {'year': SMALLINT}, union_by_name = true"
        return f"SELECT * REPLACE (nullif(year, 0) AS year) FROM read_parquet({files}, {options})"


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
