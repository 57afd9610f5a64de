"""OpenAlex's snapshot as a source of works: its manifest, its `updated_date` folders, its records as JSON lines or Parquet.

A file is read as a stream, so that any size passes through little memory. A record that cannot be read is set aside; a file
that breaks off is set aside from there on, and its folder does not count as read. Files come from a `ReadFolder`.
"""

from __future__ import annotations

import datetime as dt
import io
import re
import zlib
from collections.abc import Iterator, Set
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from docstokg_assets.domain.json_access import dig, mapping, objects, text
from docstokg_assets.domain.works import UnreadableRecord, Work, work_from_openalex
from docstokg_assets.sources import SetAside, SourceError
from docstokg_assets.sources.local_filter import LocalFilter
from docstokg_assets.sources.openalex_api import SELECT
from resources.folders import FolderError, ReadFolder

_PLACES = ("", "data/parquet/works/", "data/jsonl/works/", "works/")
_PART = re.compile(r"updated_date=(\d{4}-\d{2}-\d{2})/[^/]+$")
_ROWS = 2_000
_DELETED = ("deleted_ids.csv", "deleted_ids.csv.gz")
_CSV = pa_csv.ParseOptions(invalid_row_handler=lambda row: "skip")
_DELETED_TYPES = dict.fromkeys(("work_id", "deleted_date"), pa.string())
_DELETED_COLUMNS = pa_csv.ConvertOptions(
    include_columns=list(_DELETED_TYPES), column_types=_DELETED_TYPES, strings_can_be_null=False
)
_LOCATIONS = frozenset({"best_oa_location", "primary_location", "locations"})
_OF_LOCATION = frozenset(
    {"id", "is_oa", "landing_page_url", "pdf_url", "version", "license", "source.display_name", "source.type"}
)
_PREFIX = "https://openalex.org/Ww"  # the letters before the number of an id


@dataclass(frozen=True, slots=True)
class Part:
    """One file of the snapshot."""

    name: str  # below the folder
    updated: dt.date
    records: int


def _wanted(schema: pq.ParquetSchema, filtered: Set[str]) -> list[str]:
    """The columns to read: of locations only what a work keeps, because most of their columns are about sources and licences.
    `filtered`: root fields that a filter looks at, which are read as a whole."""
    found, roots = [], {*SELECT.split(","), *filtered}
    for path in (schema.column(place).path for place in range(len(schema))):
        root, _, rest = path.partition(".")
        within = rest.removeprefix("list.").removeprefix("element.").removeprefix("item.").removeprefix("array.")
        if root in roots and (root in filtered or root not in _LOCATIONS or within in _OF_LOCATION):
            found.append(path)
    return found


class Snapshot:
    """A snapshot in a folder: the whole bucket's layout, or the folder of its works alone."""

    def __init__(self, folder: ReadFolder) -> None:
        self._folder = folder
        self._base = next((place for place in _PLACES if folder.has(f"{place}manifest.json")), None)
        if self._base is None:
            raise SourceError(
                f"There is no manifest.json of works under {folder.location}.",
                "It is written last: wait until the copy is complete, or correct openalex.snapshot.",
            )

    def parts(self, since: dt.date | None = None) -> list[Part]:
        """The files with records updated after `since`, the oldest first."""
        name = f"{self._base}manifest.json"
        try:
            manifest = mapping(orjson.loads(self._folder.read(name)))
        except orjson.JSONDecodeError as error:
            raise SourceError(f"{self._folder.location}/{name} is not JSON ({error}).", "Copy it again.") from None
        found = []
        for file in objects(manifest.get("files")):
            if match := _PART.search(text(file.get("url"), 1024) or ""):
                records = dig(file, "meta", "record_count")
                updated = dt.date.fromisoformat(match[1])
                found.append(Part(f"{self._base}{match[0]}", updated, records if isinstance(records, int) else 0))
        return sorted((p for p in found if since is None or p.updated > since), key=lambda p: (p.updated, p.name))

    def works(self, part: Part, year: int | None, keep: LocalFilter, set_aside: list[SetAside]) -> Iterator[Work]:
        """The works of a file that are of `year`. Raises SourceError when the file breaks off."""
        read = self._parquet if part.name.endswith(".parquet") else self._lines
        number = 0
        try:
            for number, raw in read(part.name, year, keep):
                try:
                    record = orjson.loads(raw) if isinstance(raw, bytes) else raw
                    if keep(record) and ((work := work_from_openalex(record)).year == year or year is None):
                        yield work
                except (UnreadableRecord, orjson.JSONDecodeError) as error:
                    cause = str(error) if isinstance(error, UnreadableRecord) else f"not JSON: {error}"
                    set_aside.append(SetAside(f"{part.name} record {number}", cause))
        except (FolderError, OSError, EOFError, zlib.error, pa.ArrowException) as error:
            cause = f"the file breaks off after record {number}: {str(error).splitlines()[0][:200]}"
            set_aside.append(SetAside(part.name, cause))
            raise SourceError(f"{part.name}: {cause}.", "Copy the file again; the rest was read.") from None

    def _lines(self, name: str, year: int | None, keep: LocalFilter) -> Iterator[tuple[int, Any]]:
        # Most lines are of another year; looking for the year in the text is far cheaper than reading all JSON.
        wanted = None if year is None else re.compile(rb'"publication_(?:year":\s*%d\b|date":\s*"%d-)' % (year, year))
        with self._folder.stream(name) as stream:
            for number, ended in enumerate(io.BufferedReader(cast(io.RawIOBase, stream), 1 << 20), start=1):
                line = ended.rstrip(b"\n")
                if line.strip() and (wanted is None or wanted.search(line) or not line.endswith(b"}")):
                    yield number, line

    def _parquet(self, name: str, year: int | None, keep: LocalFilter) -> Iterator[tuple[int, Any]]:
        with self._folder.random_access(name) as opened:
            file = pq.ParquetFile(opened)
            number = 0
            for batch in file.iter_batches(_ROWS, columns=_wanted(file.schema, keep.fields)):
                rows = batch
                if year is not None:
                    known = "publication_year" in batch.schema.names
                    years = batch.column("publication_year").to_pylist() if known else []
                    rows = batch.filter(pa.array([y in (year, None) for y in years], pa.bool_()))
                for record in rows.to_pylist():
                    number += 1
                    yield number, record
                number += len(batch) - len(rows)

    def deleted_among(self, numbers: npt.NDArray[np.int64]) -> Iterator[tuple[str, str]]:
        """Of the works with these numbers, in rising order, those that the snapshot names as deleted, each with the day.

        The list has tens of millions of lines and is read as a stream; a release from before it existed has none.
        """
        name = next((f"{self._base}{each}" for each in _DELETED if self._folder.has(f"{self._base}{each}")), None)
        if name is None or not len(numbers):
            return
        try:
            with self._folder.stream(name) as stream:
                for batch in pa_csv.open_csv(stream, parse_options=_CSV, convert_options=_DELETED_COLUMNS):
                    trimmed = pc.utf8_ltrim(batch.column("work_id"), _PREFIX)
                    rows = batch.append_column("number", trimmed).filter(pc.utf8_is_digit(trimmed))
                    found = rows.column("number").cast(pa.int64()).to_numpy(zero_copy_only=False)
                    places = np.searchsorted(numbers, found).clip(max=len(numbers) - 1)
                    ours = rows.filter(pa.array(numbers[places] == found))
                    yield from ((f"W{row['number']}", row["deleted_date"]) for row in ours.to_pylist())
        except (FolderError, OSError, EOFError, zlib.error, pa.ArrowException) as error:
            cause = str(error).splitlines()[0][:200]
            raise SourceError(f"{name} cannot be read: {cause}.", "Copy the file again.") from None
