"""Reads works, and the attempts of a work, back from the lake as records.

As in the view `works`, the latest row of a work counts. The view would hold the rows of all years in memory; `works_of_year`
compares ids and times first and then streams the rows, so that memory use does not grow with the lake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from docstokg_assets.domain.works import LOCATION_FIELDS, WORK_FIELDS, Location, Work
from docstokg_assets.lake.views import every_row, open_lake
from resources.lake.files import quoted
from resources.scope import WorkScope

if TYPE_CHECKING:
    import duckdb

    from resources.lake.files import LakeFiles

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
_KNOWN = ("work_id", "planned_from")
_UNCHANGED = """
CREATE TEMP TABLE unchanged AS
SELECT work_id, steps, deferred FROM (
  SELECT work_id, split_part(planned_from, ':', 1) AS mark,
         split_part(planned_from, ':', 2)::INT AS steps, split_part(planned_from, ':', 3)::INT AS deferred FROM known
) JOIN (
  SELECT every_work.work_id, {mark} AS mark FROM every_work ANTI JOIN repeated
  ON every_work.work_id = repeated.work_id AND every_work.fetched_at < repeated.latest WHERE {of_year}
) USING (work_id, mark) ANTI JOIN always USING (work_id)
"""
_COUNTS = """
SELECT count(*), coalesce(sum(steps), 0), coalesce(sum(deferred), 0), count(*) FILTER (steps = deferred) FROM unchanged
"""


def works_of_year(lake: LakeFiles, year: int) -> Iterator[Work]:
    """The works of a year, each once, in their latest version; in bounded memory, in any order. 0: year unknown."""
    with _open_works(lake) as con:
        of_year = WorkScope(year).condition
        con.execute(_REPEATED.format(of_year=of_year))
        twice = {work_id for (work_id,) in con.execute(_AT_ONE_TIME.format(of_year=of_year)).fetchall()}
        yield from _each_once(con, _LATEST.format(columns=", ".join(_COLUMNS), of_year=of_year), twice)


class WorksToPlan:
    """The works of a year that must be planned: those whose plan was not made from their latest record by the same rules.

    The records are compared by their hashes, column by column, so that a year without changes takes seconds. `known` gives
    pages of (work, what its plan was made from) of a year, as the queue stores it: a hash of the record and the rules, then the
    number of steps and of deferred ones. `always`: works that are returned in any case.
    """

    def __init__(
        self,
        lake: LakeFiles,
        rules: str,
        known: Callable[[int], Iterable[Sequence[tuple[str, str]]]],
        always: Iterable[str] = (),
    ) -> None:
        self._lake, self._rules, self._known, self._always = lake, rules, known, list(always)
        self.marks: dict[str, str] = {}  # of the works that were returned last: work -> hash of record and rules
        self.unchanged = self.steps = self.deferred = self.without_candidate = 0

    def works(self, year: int) -> Iterator[Work]:
        """The works to plan, each once, in bounded memory, in any order. The others are counted. 0: year unknown."""
        with _open_works(self._lake) as con:
            of_year = WorkScope(year).condition
            con.execute(_REPEATED.format(of_year=of_year))
            twice = {work_id for (work_id,) in con.execute(_AT_ONE_TIME.format(of_year=of_year)).fetchall()}
            mark = f"format('{{:016x}}', hash({', '.join(_COLUMNS)})) || {quoted(self._rules)}"
            con.register("known", _known_table(self._known(year)))
            con.register("always", pa.table({"work_id": pa.array([*self._always, *twice], pa.string())}))
            con.execute(_UNCHANGED.format(mark=mark, of_year=of_year))
            unchanged, *counts = con.execute(_COUNTS).fetchall()[0]
            self.unchanged += unchanged
            self.steps, self.deferred, self.without_candidate = (
                a + b for a, b in zip((self.steps, self.deferred, self.without_candidate), counts, strict=True)
            )
            if con.execute(_LATEST.format(columns="count(*)", of_year=of_year)).fetchall() == [(unchanged,)]:
                return
            query = _LATEST.format(columns=", ".join((*_COLUMNS, f"{mark} AS mark")), of_year=of_year)
            yield from _each_once(con, f"{query} AND work_id NOT IN (SELECT work_id FROM unchanged)", twice, self.marks)


def _known_table(pages: Iterable[Sequence[tuple[str, str]]]) -> pa.Table:
    batches = [
        pa.record_batch([pa.array(cells, pa.string()) for cells in zip(*page, strict=True)], _KNOWN) for page in pages
    ]
    return pa.Table.from_batches(batches, pa.schema([(name, pa.string()) for name in _KNOWN]))


@contextmanager
def _open_works(lake: LakeFiles) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection with the view `every_work`."""
    with open_lake(lake, _MEMORY) as con:
        con.execute(f"SET threads = {_THREADS}")  # each thread needs some of the memory
        con.execute(f"CREATE TEMP VIEW every_work AS {every_row(con, lake, 'works')}")
        yield con


def _each_once(
    con: duckdb.DuckDBPyConnection, query: str, twice: Set[str], marks: dict[str, str] | None = None
) -> Iterator[Work]:
    """The works of a query; of those in `twice` the first. `marks` receives the column `mark`."""
    given: set[str] = set()
    for batch in con.sql(query).to_arrow_reader(_BATCH):
        if marks is not None:
            marks.update(zip(batch.column("work_id").to_pylist(), batch.column("mark").to_pylist(), strict=True))
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
