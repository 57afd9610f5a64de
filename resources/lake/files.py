"""The files of the lake through one small interface, and the lake in a folder. What the tables mean is left to the writers.

A part is `<table>/year=YYYY/part-<id>.parquet`, year=0 where the year is unknown. It appears whole and is never changed.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from resources.errors import ExplainedError
from resources.whole_file import disk_trouble, whole_file

_MOST_NAMED = 20
ASIDE = ".damaged"  # the end of the name of a part that was set aside: no reader looks for it


class LakeError(ExplainedError):
    """The lake cannot be read; the message names the file and the remedy."""


class DamagedPart(LakeError):
    """Parts that are not what was written: cut off, empty, or with other bytes."""

    def __init__(self, causes: Mapping[str, str]) -> None:
        """`causes`: what is wrong with each file, by its place."""
        self.causes = causes
        files = [f"{place} is damaged: {cause}." for place, cause in causes.items()]
        more = [f"… and {len(files) - _MOST_NAMED:,} more."] if len(files) > _MOST_NAMED else []
        remedy = "`content telemetry rebuild` repairs the lake from the catalog."
        super().__init__("\n".join([*files[:_MOST_NAMED], *more, remedy]))


@contextmanager
def reading_part(place: str) -> Iterator[None]:
    """Raise what Arrow says of a file that it cannot understand as DamagedPart. One that is not there is none."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (pa.ArrowInvalid, OSError) as error:
        cause = str(error).partition("\n")[0].rstrip(". ")
        if isinstance(error, OSError) and (error.errno is not None or "AWS Error" in cause):
            raise LakeError(f"{disk_trouble(error, place)}, then run the same command again.") from error
        raise DamagedPart({place: cause}) from error


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

    def set_aside(self, part: str) -> str:
        """Keep it where no reader looks for it; that place."""

    def size(self, part: str) -> int: ...

    def rows(
        self, con: duckdb.DuckDBPyConnection, table: str, schema: pa.Schema, years: Sequence[int] = ()
    ) -> str | None:
        """SQL for all rows of a table and their `year`, NULL where it is unknown; nothing where there are no parts. With `years`
        no other part is looked at."""


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
        with reading_part(f"{self.place}/{part}"):
            return pq.read_schema(self.folder / part)

    def batches(self, part: str) -> Iterator[pa.RecordBatch]:
        path = self.folder / part
        with reading_part(str(path)), pq.ParquetFile(path, page_checksum_verification=True) as file:
            yield from file.iter_batches()

    def remove(self, part: str) -> None:
        (self.folder / part).unlink(missing_ok=True)

    def set_aside(self, part: str) -> str:
        path = self.folder / part
        return str(path.rename(path.with_name(path.name + ASIDE)))

    def size(self, part: str) -> int:
        return (self.folder / part).stat().st_size

    def rows(
        self, con: duckdb.DuckDBPyConnection, table: str, schema: pa.Schema, years: Sequence[int] = ()
    ) -> str | None:
        """Patterns, so that a view over them sees later parts too."""
        folders = [f"year={year:d}" for year in years] or ["year=*"]
        folders = [f for f in folders if next((self.folder / table).glob(f"{f}/part-*.parquet"), None) is not None]
        if not folders:
            return None
        files = [quoted(f"{glob.escape(self.place)}/{table}/{folder}/part-*.parquet") for folder in folders]
        options = "hive_partitioning = true, hive_types = {'year': SMALLINT}, union_by_name = true"
        return f"SELECT * REPLACE (nullif(year, 0) AS year) FROM read_parquet([{', '.join(files)}], {options})"


def damage_of(lake: LakeFiles, part: str, *, whole: bool) -> Mapping[str, str]:
    """What is wrong with a part, by its place; nothing when it is sound or gone. `whole`: read all of it, not only its end."""
    try:
        lake.schema(part)
        for _ in lake.batches(part) if whole else ():
            pass
    except DamagedPart as error:
        return error.causes
    except FileNotFoundError:
        pass
    return {}


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
