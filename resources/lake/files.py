"""The files of the lake through one small interface, and the lake in a folder. Knows nothing of the tables' meaning.

A part is `<table>/year=YYYY/part-<id>.parquet`, year=0 where the year is unknown. It appears whole and is never changed.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from resources.errors import ExplainedError
from resources.whole_file import disk_trouble, whole_file

if TYPE_CHECKING:
    import duckdb

_MOST_NAMED = 20
ASIDE = ".damaged"  # the end of the name of a part that was set aside; no reader reads such files


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
    """Raise Arrow's error about a file that it cannot read as DamagedPart. A missing file stays a FileNotFoundError."""
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
    place: str  # as people name it, without a slash at its end
    readable: Sequence[str]  # the folders that DuckDB itself must be able to read
    _files: Any  # the file system of Arrow's readers

    def new_part(self, part: str) -> AbstractContextManager[Path]:
        """A temporary file to be written. It becomes the part when the block succeeds; else it is removed."""

    def parts(self, table: str, year: int | None = None) -> list[str]:
        """The parts of one year, or all."""

    def is_empty(self) -> bool: ...

    def schema(self, part: str) -> pa.Schema:
        with reading_part(f"{self.place}/{part}"):
            return pq.read_schema(self._path(part), filesystem=self._files)

    def batches(self, part: str) -> Iterator[pa.RecordBatch]:
        """The rows of a part, a few at a time, without the year."""
        with (
            reading_part(f"{self.place}/{part}"),
            self._files.open_input_file(self._path(part)) as opened,
            pq.ParquetFile(opened, page_checksum_verification=True) as file,
        ):
            yield from file.iter_batches()

    def remove(self, part: str) -> None:
        """A part that another process has removed is no error."""

    def set_aside(self, part: str) -> str:
        """Rename a part so that no reader finds it, and return its new place."""

    def _path(self, part: str) -> str:
        """The path of a part for `_files`."""

    def size(self, part: str) -> int: ...

    def rows(
        self, con: duckdb.DuckDBPyConnection, table: str, schema: pa.Schema, years: Sequence[int] = ()
    ) -> str | None:
        """SQL for all rows of a table and their `year`, NULL where it is unknown; None where there are no parts. With `years`
        no other part is read."""


class LakeFolder(LakeFiles):
    def __init__(self, folder: Path) -> None:
        self.folder, self._files = folder.resolve(), fs.LocalFileSystem()
        self.place = str(self.folder)
        self.readable = (self.place, glob.escape(self.place))  # DuckDB checks the folder and the pattern of its parts

    def new_part(self, part: str) -> AbstractContextManager[Path]:
        return whole_file(self.folder / part)

    def parts(self, table: str, year: int | None = None) -> list[str]:
        found = (self.folder / table).glob(f"year={'*' if year is None else year}/part-*.parquet")
        return sorted(part.relative_to(self.folder).as_posix() for part in found)

    def is_empty(self) -> bool:
        return not self.folder.is_dir()

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
        """Reads patterns, so that a view over them also covers later parts."""
        folders = [f"year={year:d}" for year in years] or ["year=*"]
        folders = [f for f in folders if next((self.folder / table).glob(f"{f}/part-*.parquet"), None) is not None]
        if not folders:
            return None
        files = [quoted(f"{glob.escape(self.place)}/{table}/{folder}/part-*.parquet") for folder in folders]
        options = "hive_partitioning = true, hive_types = {'year': SMALLINT}, union_by_name = true"
        return f"SELECT * REPLACE (nullif(year, 0) AS year) FROM read_parquet([{', '.join(files)}], {options})"

    def _path(self, part: str) -> str:
        return f"{self.place}/{part}"


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
