"""Write the Parquet lake: immutable parts that any tool can read, exported from the catalog. `views.py` reads them.

Parts are named `<table>/year=YYYY/part-<ulid>.parquet`, with year=0 for an unknown year. A part is a file or an object
(`resources.lake`) and is never changed; if there are too many, small ones are merged into a new one. `resources.tables` declares
the columns. After a crash between writing a part and saving the export position, the same rows are exported twice; the views show
the latest row of each key only.
"""

from __future__ import annotations

import bisect
import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate, islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from ulid import ULID

from docstokg_assets.domain.works import LOCATION_FIELDS, WORK_FIELDS, Location, Work
from resources.lake.files import LakeError, LakeFiles
from resources.processes import rare_collections
from resources.tables import LAKE_TABLES, OUTCOMES, Column, Into, Type

if TYPE_CHECKING:
    from resources.catalog.catalog import Catalog
    from resources.catalog.queries import Columns

log = logging.getLogger(__name__)

BATCH_ROWS = 10_000
_PARQUET: Mapping[str, Any] = {"compression": "zstd", "write_page_checksum": True}

CROWDED = 64  # small parts are merged if a table has more parts than this in a year
_LOOK_EVERY = 16  # parts written to a folder between two checks of their number
_SMALL_BYTES = 64 * 1024 * 1024
_READING_S = 3_600.0  # the longest that a reader of the lake is expected to take
_REPLACES = b"replaces"  # metadata of a merged part: the parts that it was merged from

_LOCATION = pa.struct([(name, pa.bool_() if name == "is_oa" else pa.string()) for name in LOCATION_FIELDS])
_ARROW_TYPES: Mapping[Type, pa.DataType] = {
    **dict.fromkeys((Type.TEXT, Type.JSON), pa.string()),
    **dict.fromkeys((Type.INT, Type.BIG), pa.int64()),
    Type.REAL: pa.float64(),
    Type.FLAG: pa.bool_(),
    Type.TIME: pa.timestamp("us", tz="UTC"),
    Type.TEXTS: pa.list_(pa.string()),
    Type.LOCATIONS: pa.list_(_LOCATION),
}
# `year` is the folder's name.
SCHEMAS: Mapping[str, pa.Schema] = {
    name: pa.schema({column.name: _ARROW_TYPES[column.type] for column in table.columns_in(Into.LAKE)})
    for name, table in LAKE_TABLES.items()
}


@dataclass(frozen=True, slots=True)
class Exported:
    """How many rows were exported, and into which parts."""

    attempts: int
    outcomes: int
    parts: tuple[str, ...]


class LakeWriter:
    """Appends parts to the lake."""

    def __init__(self, files: LakeFiles) -> None:
        self.files = files
        self._appended: Counter[str] = Counter()

    def append(self, table: str, rows: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
        """Write one new part for each year among `rows`. Rows are read in batches, so there may be any number."""
        return self.append_columns(table, _columns_of(rows, (*SCHEMAS[table].names, "year")))

    def append_columns(self, table: str, pages: Iterable[Columns]) -> tuple[str, ...]:
        """As `append`, for pages of columns, with `year` among the columns."""
        parts: dict[int, str] = {}
        writers: dict[int, pq.ParquetWriter] = {}
        columns, schema = LAKE_TABLES[table].columns_in(Into.LAKE), SCHEMAS[table]
        name = f"part-{ULID()}.parquet"
        with ExitStack() as stack:
            for page in pages:
                years = pa.array([year or 0 for year in page["year"]], pa.int64())
                batch = pa.RecordBatch.from_arrays(
                    [_array(column, page[column.name]) for column in columns], schema=schema
                )
                for year in years.unique().to_pylist():
                    if year not in writers:
                        parts[year] = f"{table}/year={year}/{name}"
                        temp = stack.enter_context(self.files.new_part(parts[year]))
                        writers[year] = stack.enter_context(pq.ParquetWriter(temp, schema, **_PARQUET))
                    writers[year].write_batch(batch.filter(pc.equal(years, year)))
        for year, part in parts.items():
            self._appended[part.rpartition("/")[0]] += 1
            if self._appended[part.rpartition("/")[0]] % _LOOK_EVERY == 1:
                self._tidy(table, year)
        return tuple(parts.values())

    def _tidy(self, table: str, year: int) -> None:
        """Merge the small parts of a folder that has too many. The new part lists those that it replaces. They are removed when
        no reader can still be using them; until then the views show each row once. Errors are logged; the export goes on."""
        parts = self.files.parts(table, year)
        if len(parts) <= CROWDED:
            return
        try:
            schemas = {part: self.files.schema(part) for part in parts}
            replaced = {part: _replaced_by(schema) for part, schema in schemas.items()}
            for part, olds in replaced.items():
                if _age_s(part) > _READING_S:
                    for old in olds & schemas.keys():
                        self.files.remove(old)
            known, gone = set(SCHEMAS[table].names), set[str]().union(*replaced.values())
            small = [
                part
                for part, schema in schemas.items()
                if part not in gone and known.issuperset(schema.names) and self.files.size(part) < _SMALL_BYTES
            ]
            if len(small) <= CROWDED // 2:
                return
            going = [*small, *(old for part in small for old in replaced[part] & schemas.keys())]
            with self.files.new_part(f"{table}/year={year}/part-{ULID()}.parquet") as temp:
                self._join(small, SCHEMAS[table].with_metadata({_REPLACES: orjson.dumps(going)}), temp)
        except (LakeError, FileNotFoundError) as error:
            log.warning("the parts of %s of %s were not joined: %s", table, year or "unknown year", error)

    def compact(self, table: str, more_than: int) -> tuple[int, int]:
        """Merge the parts of each year that has more than `more_than`; returns how many were removed and how many written.

        Rows do not change. The new part is complete before the old ones are removed, so a reader sees each row at least once.
        A year with parts of a newer version, which have unknown columns, is skipped.
        """
        by_year: dict[str, list[str]] = {}
        for part in self.files.parts(table):
            by_year.setdefault(part.rpartition("/")[0], []).append(part)
        known = set(SCHEMAS[table].names)
        crowded = {
            folder: parts
            for folder, parts in by_year.items()
            if len(parts) > more_than and all(known.issuperset(self.files.schema(part).names) for part in parts)
        }
        for folder, parts in crowded.items():
            with self.files.new_part(f"{folder}/part-{ULID()}.parquet") as temp:
                self._join(parts, SCHEMAS[table], temp)
            for part in parts:
                self.files.remove(part)
        return sum(map(len, crowded.values())), len(crowded)

    def _join(self, parts: Iterable[str], schema: pa.Schema, path: Path) -> None:
        """Write parts as one, with row groups of at least `BATCH_ROWS`."""
        batches = (_as(batch, schema) for part in parts for batch in self.files.batches(part))
        with pq.ParquetWriter(path, schema, **_PARQUET) as writer:
            gathered: list[pa.RecordBatch] = []
            for batch in batches:
                gathered.append(batch)
                if sum(map(len, gathered)) >= BATCH_ROWS:
                    writer.write_table(pa.Table.from_batches(gathered))
                    gathered = []
            writer.write_table(pa.Table.from_batches(gathered, schema))

    def drifted(self, year: int | None = None) -> list[tuple[str, str]]:
        """The parts whose columns differ from those of this version, each with the names of the differing columns."""
        found = []
        for table, wanted in SCHEMAS.items():
            for part in self.files.parts(table, year):
                try:
                    differing = _named_types(wanted) ^ _named_types(self.files.schema(part))
                except FileNotFoundError:
                    continue  # replaced since the parts were listed
                if differing:
                    found.append((part, ", ".join(sorted({name for name, _ in differing}))))
        return found


def _replaced_by(schema: pa.Schema) -> set[str]:
    return set(orjson.loads((schema.metadata or {}).get(_REPLACES, b"[]")))


def _age_s(part: str) -> float:
    """The age of a part by the ULID in its name; infinite for other names."""
    try:
        return time.time() - ULID.from_str(PurePosixPath(part).stem.removeprefix("part-")).timestamp
    except ValueError:
        return math.inf


def _as(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch with the columns of this version; columns that the part lacks are null."""
    known = set(batch.schema.names)
    columns = [
        batch.column(field.name).cast(field.type) if field.name in known else pa.nulls(len(batch), field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _named_types(schema: pa.Schema) -> set[tuple[str, str]]:
    """Names and types of the columns. Parquet calls the items of a list `element`, Arrow `item`."""
    return {(field.name, str(field.type).replace("element: ", "item: ")) for field in schema}


def _columns_of(rows: Iterable[Mapping[str, Any]], names: Sequence[str]) -> Iterator[Columns]:
    remaining = iter(rows)
    while batch := list(islice(remaining, BATCH_ROWS)):
        yield {name: [row.get(name) for row in batch] for name in names}


def _array(column: Column, cells: Sequence[Any]) -> pa.Array:
    """Convert values of records, or of the catalog: seconds, 0 and 1, JSON, an empty text for no run."""
    match column.type:
        case Type.TIME:
            return _times(cells)
        case Type.LOCATIONS:
            return _locations(cells)
        case Type.FLAG:
            return pa.array(cells).cast(pa.bool_())
        case Type.TEXTS:
            cells = _parsed(cells) if any(isinstance(cell, str) for cell in cells) else cells
        case Type.JSON:
            cells = [
                cell if isinstance(cell, str) else orjson.dumps(cell or {}, default=str).decode() for cell in cells
            ]
        case Type.TEXT if column.empty_for_none:
            cells = [cell or None for cell in cells]
    return pa.array(cells, _ARROW_TYPES[column.type])


def _parsed(cells: Sequence[Any]) -> list[Any]:
    """The values of JSON texts, most of which repeat. Other cells stay as they are."""
    values = {cell: orjson.loads(cell) for cell in {cell for cell in cells if isinstance(cell, str)}}
    return [values[cell] if isinstance(cell, str) else cell for cell in cells]


def _times(cells: Sequence[datetime | float | None]) -> pa.Array:
    time = _ARROW_TYPES[Type.TIME]
    if any(isinstance(cell, datetime) for cell in cells):
        return pa.array(cells, time)
    return pc.round(pc.multiply(pa.array(cells, pa.float64()), 1e6)).cast(pa.int64()).cast(time)


def _locations(cells: Sequence[Sequence[Location]]) -> pa.Array:
    """Convert column by column, which is many times faster than a dict per location."""
    flat = [location for cell in cells for location in cell]
    columns = [pa.array([getattr(location, field.name) for location in flat], field.type) for field in _LOCATION]
    ends = pa.array([0, *accumulate(map(len, cells))], pa.int32())
    return pa.ListArray.from_arrays(ends, pa.StructArray.from_arrays(columns, fields=list(_LOCATION)))


def work_columns(works: Iterable[Work], fetched_at: datetime) -> Iterator[Columns]:
    """Pages of the table `works`."""
    remaining = iter(works)
    while page := list(islice(remaining, BATCH_ROWS)):
        columns = {name: [getattr(work, name) for work in page] for name in WORK_FIELDS}
        yield {**columns, "fetched_at": [fetched_at] * len(page)}


def export_manifest(catalog: Catalog, lake: LakeWriter) -> Exported:
    """Export all rows since the last export as new parts, then save the new positions. One exporter runs at a time; others wait
    for it and export what is left."""
    with catalog.export_turn():
        return _export(catalog, lake, *(catalog.export_position(name) for name in _POSITIONS))


@rare_collections()
def _export(
    catalog: Catalog, lake: LakeWriter, after_attempt: int, after_outcome: int, *, anew: bool = False
) -> Exported:
    """`anew`: all rows are in these parts, so set the positions even if another process has exported meanwhile."""
    last = catalog.last_numbers()
    attempts = ExportCursor(after_attempt, "id", last.attempt)
    outcomes = ExportCursor(after_outcome, "revision", last.revision)
    parts = lake.append_columns("attempts", attempts.pages(catalog.attempt_columns_after))
    pages = (_with_meta(page) for page in outcomes.pages(catalog.entry_columns_after))
    parts += lake.append_columns("outcomes", pages)
    moves = {"lake.attempts": (after_attempt, attempts.position), "lake.outcomes": (after_outcome, outcomes.position)}
    if anew:
        for name, (_, position) in moves.items():
            catalog.set_export_position(name, position)
    elif parts and not catalog.move_exports(moves):
        for part in parts:  # the turn was lost with its connection, and another process has exported these rows
            lake.files.remove(part)
        return Exported(0, 0, ())
    return Exported(attempts.count, outcomes.count, parts)


def _with_meta(page: Columns) -> Columns:
    """The page with the columns that the catalog stores in the outcome's `meta`."""
    metas = _parsed(page["meta"])
    return {**page, **{c.name: [meta.get(c.name, _ABSENT.get(c.type)) for meta in metas] for c in _IN_META}}


def rebuild_manifest(catalog: Catalog, lake: LakeWriter) -> Exported:
    """Export all attempts and outcomes again, regardless of saved positions. Old parts are removed after the new ones are
    written, so a reader always sees each row."""
    with catalog.export_turn():
        old = [*lake.files.parts("attempts"), *lake.files.parts("outcomes")]
        exported = _export(catalog, lake, 0, 0, anew=True)
        for part in old:
            lake.files.remove(part)
    return exported


_POSITIONS = ("lake.attempts", "lake.outcomes")
_IN_META = [column for column in OUTCOMES.columns_in(Into.LAKE) if not column.into & Into.CATALOG]
_ABSENT: Mapping[Type, Any] = {Type.TEXTS: []}


class ExportCursor:
    """All rows past a position, page by page; remembers how far it came by the column `key`. Rows past `last` are left for the
    next export: a row with a lower number may still come between them."""

    def __init__(self, position: int, key: str, last: int) -> None:
        self.position, self.count, self._key, self._last = position, 0, key, last

    def pages(self, after: Callable[[int, int], Columns]) -> Iterator[Columns]:
        while page := after(self.position, BATCH_ROWS):
            numbers = page[self._key]
            known = bisect.bisect_right(numbers, self._last)
            if known < len(numbers):
                page = {name: cells[:known] for name, cells in page.items()}
            if known:
                yield page
                self.position, self.count = int(numbers[known - 1]), self.count + known
            if known < len(numbers):
                return
