"""The Parquet lake: what the catalog knows, as immutable parts that any tool can read. Writes; reading is `views.py`.

`<data_root>/lake/<table>/year=YYYY/part-<ulid>.parquet`, year=0 where the year is unknown. A part is never changed.
A crash between a part and its noted position exports the same rows twice; the views take the latest row of each key, so
that it shows nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from ulid import ULID

from docstokg_assets.telemetry.files import utc, whole_file
from docstokg_assets.telemetry.manifest import as_row
from docstokg_assets.works import Work
from resources.catalog import Entry, StoredAttempt

BATCH_ROWS = 10_000

_TEXT, _INT, _REAL, _FLAG = pa.string(), pa.int64(), pa.float64(), pa.bool_()
_TIME, _TEXTS = pa.timestamp("us", tz="UTC"), pa.list_(pa.string())
_LOCATION = pa.struct(
    [(name, _TEXT) for name in ("landing_url", "pdf_url")]
    + [("is_oa", _FLAG)]
    + [(name, _TEXT) for name in ("version", "license", "source", "source_type")]
)

# Part of the public contract: columns may be added at the end, never renamed or retyped. `year` is the folder's name.
SCHEMAS: Mapping[str, pa.Schema] = {
    "works": pa.schema(
        {
            "work_id": _TEXT,
            "title": _TEXT,
            "publication_date": _TEXT,
            "doi": _TEXT,
            "arxiv_id": _TEXT,
            "pmid": _TEXT,
            "pmcid": _TEXT,
            "type": _TEXT,
            "language": _TEXT,
            "is_oa": _FLAG,
            "oa_status": _TEXT,
            "locations": pa.list_(_LOCATION),
            "urls": _TEXTS,
            "updated_date": _TEXT,
            "fetched_at": _TIME,
            "agency": _TEXT,
            "has_content": _FLAG,
        }
    ),
    "plans": pa.schema(
        {
            "work_id": _TEXT,
            "position": _INT,
            "tier": _TEXT,
            "resolver": _TEXT,
            "deferred": _FLAG,
            "url": _TEXT,
            "host": _TEXT,
            "target": _TEXT,
            "version": _TEXT,
            "license": _TEXT,
            "plan_hash": _TEXT,
            "planned_at": _TIME,
        }
    ),
    "attempts": pa.schema(
        {
            "run_id": _TEXT,
            "worker_id": _TEXT,
            "seq": _INT,
            "ts": _TIME,
            "work_id": _TEXT,
            "resolver": _TEXT,
            "tier": _TEXT,
            "role": _TEXT,
            "host": _TEXT,
            "url": _TEXT,
            "canonical_url": _TEXT,
            "verb": _TEXT,
            "status": _TEXT,
            "reason": _TEXT,
            "http_status": _INT,
            "content_type": _TEXT,
            "elapsed_ms": _INT,
            "bytes_written": _INT,
            "content_length_hdr": _INT,
            "attempt": _INT,
            "retry_after_s": _REAL,
            "cache_hit": _FLAG,
            "extra": _TEXT,  # JSON
        }
    ),
    "outcomes": pa.schema(
        {
            "work_id": _TEXT,
            "title": _TEXT,
            "doi": _TEXT,
            "classification": _TEXT,
            "reason": _TEXT,
            "kind": _TEXT,
            "url": _TEXT,
            "resolver": _TEXT,
            "tier": _TEXT,
            "http_status": _INT,
            "path": _TEXT,
            "sha256": _TEXT,
            "bytes": _INT,
            "content_type": _TEXT,
            "license": _TEXT,
            "version": _TEXT,
            "html_paths": _TEXTS,
            "fallback_chain": _TEXTS,
            "retry_at": _TIME,
            "run_id": _TEXT,
            "config_hash": _TEXT,
            "ttfp_ms": _INT,
            "requests": _INT,
            "finished_at": _TIME,
            "revision": _INT,
        }
    ),
    "metrics": pa.schema(
        {
            "scope": _TEXT,
            "name": _TEXT,
            "value": _REAL,
            "target": _REAL,
            "ok": _FLAG,
            "computed_at": _TIME,
        }
    ),
}


class ManifestSource(Protocol):
    """What an export needs of the catalog; `resources.catalog.Catalog` has it."""

    def attempts_after(self, position: int, limit: int) -> Sequence[StoredAttempt]: ...
    def entries_after(self, revision: int, limit: int) -> Sequence[Entry]: ...
    def export_position(self, name: str) -> int: ...
    def set_export_position(self, name: str, position: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Exported:
    """How many rows were exported, and into which parts."""

    attempts: int
    outcomes: int
    parts: tuple[Path, ...]


class LakeWriter:
    """Appends parts under `<data_root>/lake`."""

    def __init__(self, data_root: Path) -> None:
        self._lake = data_root / "lake"

    def append(self, table: str, rows: Iterable[Mapping[str, Any]]) -> tuple[Path, ...]:
        """One new part for each year among `rows`; they are taken in batches, so that any number of them can pass."""
        parts: dict[int, Path] = {}
        writers: dict[int, pq.ParquetWriter] = {}
        schema, name = SCHEMAS[table], f"part-{ULID()}.parquet"
        with ExitStack() as stack:
            for year, batch in _yearly_batches(rows):
                if year not in writers:
                    parts[year] = self._lake / table / f"year={year}" / name
                    temp = stack.enter_context(whole_file(parts[year]))
                    writers[year] = stack.enter_context(pq.ParquetWriter(temp, schema, compression="zstd"))
                writers[year].write_batch(_columns(schema, batch))
        return tuple(parts.values())


def _yearly_batches(rows: Iterable[Mapping[str, Any]]) -> Iterator[tuple[int, list[Mapping[str, Any]]]]:
    remaining = iter(rows)
    while batch := list(islice(remaining, BATCH_ROWS)):
        by_year: dict[int, list[Mapping[str, Any]]] = {}
        for row in batch:
            by_year.setdefault(row.get("year") or 0, []).append(row)
        yield from by_year.items()


def _columns(schema: pa.Schema, rows: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
    arrays = []
    for field in schema:
        cells = [row.get(field.name) for row in rows]
        if field.type == _TIME:
            cells = [None if cell is None else utc(cell) for cell in cells]
        elif field.type == _FLAG:
            cells = [None if cell is None else bool(cell) for cell in cells]  # SQLite knows only 0 and 1
        elif field.name == "extra":
            cells = [orjson.dumps(cell or {}, default=str).decode() for cell in cells]
        arrays.append(pa.array(cells, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def work_rows(works: Iterable[Work], fetched_at: datetime) -> Iterator[dict[str, Any]]:
    """Rows of the table `works`."""
    for work in works:
        yield {**asdict(work), "fetched_at": fetched_at}


def stamped(plan_rows: Iterable[Mapping[str, Any]], planned_at: datetime) -> Iterator[dict[str, Any]]:
    """Rows of the table `plans`, from `docstokg_assets.plans.plan_rows`. One moment for all steps of a plan."""
    for row in plan_rows:
        yield {**row, "planned_at": planned_at}


def export_manifest(catalog: ManifestSource, lake: LakeWriter) -> Exported:
    """Everything past the last export becomes new parts; only then the positions move on."""
    attempts = _Since(catalog.export_position("lake.attempts"))
    outcomes = _Since(catalog.export_position("lake.outcomes"))
    parts = lake.append("attempts", attempts.rows(lambda: _attempts(catalog, attempts.position)))
    parts += lake.append("outcomes", outcomes.rows(lambda: _outcomes(catalog, outcomes.position)))
    if attempts.count:
        catalog.set_export_position("lake.attempts", attempts.position)
    if outcomes.count:
        catalog.set_export_position("lake.outcomes", outcomes.position)
    return Exported(attempts.count, outcomes.count, parts)


_Page = Sequence[tuple[int, Mapping[str, Any]]]


def _attempts(catalog: ManifestSource, position: int) -> _Page:
    return [(stored.position, as_row(stored.record)) for stored in catalog.attempts_after(position, BATCH_ROWS)]


def _outcomes(catalog: ManifestSource, revision: int) -> _Page:
    return [(entry.revision, as_row(entry)) for entry in catalog.entries_after(revision, BATCH_ROWS)]


class _Since:
    """All rows past a position, page by page; remembers how far it came."""

    def __init__(self, position: int) -> None:
        self.position, self.count = position, 0

    def rows(self, next_page: Callable[[], _Page]) -> Iterator[Mapping[str, Any]]:
        while page := next_page():
            yield from (row for _, row in page)
            self.position, self.count = page[-1][0], self.count + len(page)
