"""Works that OpenAlex has deleted, or merged into others, after they were listed: find those of a year and end them.

A deleted work is not searched for any more: it ends as `work-deleted`, without a request. Files stored before are kept.
Deletion is final: `plan_works` skips such a work when another source lists it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from docstokg_assets.domain.plans import DELETED_PLAN
from docstokg_assets.domain.works import Work
from docstokg_assets.lake.views import every_row, open_lake
from docstokg_assets.sources.listing import in_batches
from docstokg_assets.sources.snapshot import Snapshot
from resources.catalog.catalog import Catalog
from resources.catalog.rows import NewItem
from resources.lake.files import LakeFiles
from resources.records import Ending, Reason

# Numbers instead of texts: of a million works they take 8 MB.
_NUMBERS = """
SELECT DISTINCT TRY_CAST(work_id[2:] AS BIGINT) AS number FROM ({every_work})
WHERE ({of_years}) AND work_id LIKE 'W%' AND number IS NOT NULL ORDER BY number
"""


@dataclass(slots=True)
class DeletionCounts:
    """Deleted works of which there is no file, and which end; and those whose file is kept."""

    works: int = 0
    kept: int = 0


def deleted_of_years(
    snapshot: Snapshot | None, lake: LakeFiles, catalog: Catalog, years: tuple[int, ...]
) -> dict[str, str]:
    """The works of some years, as the lake has them, that OpenAlex has deleted: the day by the work. 0: year unknown.

    The snapshot's list is long and may be far away, so it is read once for all of the years.
    """
    known = {e.work_id: str(e.meta.get("deleted", "")) for e in catalog.entries(year=years, reason=Reason.WORK_DELETED)}
    if snapshot is None:
        return known
    with open_lake(lake) as con:
        of_years = " OR ".join(f"year = {year:d}" if year else "year IS NULL" for year in years)
        query = _NUMBERS.format(every_work=every_row(con, lake, "works"), of_years=of_years)
        numbers = con.execute(query).fetchnumpy()["number"]
    return known | dict(snapshot.deleted_among(np.asarray(numbers, np.int64)))


def without_deleted(
    works: Iterable[Work], deleted: dict[str, str], catalog: Catalog, ended: DeletionCounts
) -> Iterator[Work]:
    """Yield the works to plan. Put the deleted ones into the queue as such; the next pass records their outcome."""
    for batch in in_batches(works):
        gone = {work.work_id: work for work in batch if work.work_id in deleted}
        if gone:
            stored = {e.work_id for e in catalog.entries_of(gone) if e.reason.ending is Ending.SUCCESS}
            ended.kept += len(stored)
            ended.works += len(gone) - len(stored)
            catalog.enqueue(_ending(gone[i], deleted[i]) for i in gone.keys() - stored)
        yield from (work for work in batch if work.work_id not in gone)


def _ending(work: Work, day: str) -> NewItem:
    """A queue row with a plan hash of its own, which reopens the work if it has ended."""
    record = replace(work, deleted=day or "an unknown day").to_json()
    return NewItem(work.work_id, work.year, work.year or 0, record, DELETED_PLAN, next_group=None)
