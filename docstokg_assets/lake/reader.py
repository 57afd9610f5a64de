"""Reads works, and the attempts of a work, back from the lake as records.

As in the view `works`, the latest row of a work counts. The view would hold the rows of all years in memory; `works_of_year`
compares ids and times first and then streams the rows, so that memory use does not grow with the lake.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import duckdb
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from docstokg_assets.domain.works import LOCATION_FIELDS, WORK_FIELDS, Location, Work
from docstokg_assets.lake.connection import fetch_dicts
from docstokg_assets.lake.retention import removed_until
from docstokg_assets.lake.views import every_row, open_lake
from resources.catalog.catalog import Catalog
from resources.lake.files import LakeFiles
from resources.records import AttemptRecord, Reason, Status
from resources.scope import WorkScope

_BATCH = 2_000
_COLUMNS = tuple(name for name in WORK_FIELDS if name not in ("deleted", "ingest"))  # which a stored record never has
_MEMORY, _THREADS = "300MB", 2
_REPEATED = """
CREATE TEMP TABLE repeated AS SELECT work_id, max(fetched_at) AS latest FROM every_work
WHERE work_id IN (SELECT work_id FROM every_work WHERE {of_year}) GROUP BY work_id HAVING count(*) > 1
"""
_AT_ONE_TIME = """
SELECT DISTINCT work_id FROM every_work WHERE {of_year} AND work_id IN (SELECT work_id FROM repeated)
GROUP BY work_id, fetched_at HAVING count(*) > 1
"""
_LATEST = """
SELECT {columns} FROM every_work ANTI JOIN repeated
ON every_work.work_id = repeated.work_id AND every_work.fetched_at < repeated.latest WHERE {of_year}
"""
_MANY_ATTEMPTS = 200_000
_OF_WORK = """
SELECT * FROM ({attempts}) WHERE work_id = ? OR (extra LIKE '%"also_for"%' AND contains(extra, '"' || ? || '"'))
"""


def works_of_year(lake: LakeFiles, year: int) -> Iterator[Work]:
    """The works of a year, each once, in their latest version; in bounded memory, in any order. 0: year unknown."""
    with open_lake(lake, _MEMORY) as con:
        con.execute(f"SET threads = {_THREADS}")  # each thread needs some of the memory
        con.execute(f"CREATE TEMP VIEW every_work AS {every_row(con, lake, 'works')}")
        yield from _latest_of_year(con, WorkScope(year).condition)


def attempts_of_work(catalog: Catalog, lake: LakeFiles, work_id: str, year: int | None) -> list[AttemptRecord]:
    """All attempts for a work, by time. The catalog does not index attempts by work: if a year has many, the exported ones are
    read from the lake. So they are if old ones were removed from the catalog."""
    if not removed_until(catalog) and not catalog.has_more_attempts(year, _MANY_ATTEMPTS):
        return catalog.attempts_of(work_id, year)
    newer = catalog.attempts_of(work_id, year, after=catalog.export_position("lake.attempts"))
    with open_lake(lake, years=(year or 0,)) as con:
        sql = _OF_WORK.format(attempts=every_row(con, lake, "attempts", (year or 0,)))
        rows = fetch_dicts(con, sql, [work_id, work_id])
    found = [_attempt(row) for row in rows] + newer
    return sorted({(a.run_id, a.worker_id, a.seq): a for a in found}.values(), key=lambda a: (a.ts, a.seq))


def _attempt(row: dict[str, Any]) -> AttemptRecord:
    tokens = {"status": Status(row["status"]), "reason": Reason(row["reason"]) if row["reason"] else None}
    return AttemptRecord(**{**row, **tokens, "extra": orjson.loads(row["extra"])})


def _latest_of_year(con: duckdb.DuckDBPyConnection, of_year: str) -> Iterator[Work]:
    con.execute(_REPEATED.format(of_year=of_year))
    twice = {work_id for (work_id,) in con.execute(_AT_ONE_TIME.format(of_year=of_year)).fetchall()}
    given: set[str] = set()
    for batch in con.sql(_LATEST.format(columns=", ".join(_COLUMNS), of_year=of_year)).to_arrow_reader(_BATCH):
        for work in _works_of(batch):
            if work.work_id not in twice or work.work_id not in given:
                yield work
            if work.work_id in twice:
                given.add(work.work_id)


def _works_of(batch: pa.RecordBatch) -> Iterator[Work]:
    cells = {name: batch.column(name).to_pylist() for name in _COLUMNS if name != "locations"}
    cells["locations"] = _locations_of(batch.column("locations"))
    cells["urls"] = [tuple(urls or ()) for urls in cells["urls"]]
    cells["has_content"] = [bool(has) for has in cells["has_content"]]
    for values in zip(*(cells[name] for name in _COLUMNS), strict=True):
        yield Work(*values)


def _locations_of(column: pa.ListArray) -> list[tuple[Location, ...]]:
    """Convert column by column: a dict per location would take longer than everything else."""
    flat = column.flatten()
    places = map(Location, *(flat.field(name).to_pylist() for name in LOCATION_FIELDS))
    return [tuple(islice(places, number or 0)) for number in pc.list_value_length(column).to_pylist()]
