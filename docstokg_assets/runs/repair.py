"""Repair the lake from the catalog: parts that cannot be read are set aside, and what they held is written anew.

Attempts and outcomes are rebuilt in `lake.writer`. Works and plans come from the queue, which has the record of every work that
was planned. Measurements are kept nowhere else; they are lost, and this says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice

from docstokg_assets.domain.plans import plan_columns
from docstokg_assets.domain.works import Work
from docstokg_assets.lake.views import every_row, open_lake
from docstokg_assets.lake.writer import BATCH_ROWS, LakeWriter, work_columns
from docstokg_assets.resolvers.registry import Resolver, make_plan
from resources.catalog.catalog import Catalog
from resources.lake.files import damage_of

_TABLES = ("works", "plans", "metrics")


def repair_lake(catalog: Catalog, lake: LakeWriter, resolvers: Sequence[Resolver], now: datetime) -> Iterator[str]:
    """Do so, and tell what was done, a line for each part and each year. Reads every byte of these tables."""
    lost: dict[str, set[int]] = {}
    for table in _TABLES:
        for part in lake.files.parts(table):
            for place, cause in damage_of(lake.files, part, whole=True).items():
                lost.setdefault(table, set()).add(int(part.split("/year=")[1].split("/")[0]))
                yield f"{place} was damaged ({cause}); it is kept as {lake.files.set_aside(part)}"
    for year in sorted(lost.get("works", ())):
        yield f"works of {year or 'unknown year'}: {_restore_works(catalog, lake, year, now):,} came back from the catalog"
    for year in sorted(lost.get("plans", ())):
        back = _restore_plans(catalog, lake, resolvers, year, now)
        yield f"plans of {year or 'unknown year'}: those of {back:,} works were made again"
    for year in sorted(lost.get("metrics", ())):
        yield f"metrics of {year or 'unknown year'}: measurements are lost; the next run_metrics measures anew"


def _restore_works(catalog: Catalog, lake: LakeWriter, year: int, now: datetime) -> int:
    there, count = _ids(lake, "works", year), 0
    missing = (work for work, _ in _queued(catalog, year) if work.work_id not in there)
    while batch := list(islice(missing, BATCH_ROWS)):
        lake.append_columns("works", work_columns(batch, now))
        count += len(batch)
    return count


def _restore_plans(catalog: Catalog, lake: LakeWriter, resolvers: Sequence[Resolver], year: int, now: datetime) -> int:
    """Only plans that come out as the queue has them: others are made when the work is planned the next time."""
    there, count = _ids(lake, "plans", year), 0
    missing = ((work, plan_hash) for work, plan_hash in _queued(catalog, year) if work.work_id not in there)
    while batch := list(islice(missing, BATCH_ROWS)):
        plans = [(work, plan) for work, known in batch if (plan := make_plan(work, resolvers)).hash == known]
        if any(plan.steps for _, plan in plans):
            lake.append_columns("plans", [plan_columns(plans, now)])
        count += len(plans)
    return count


def _queued(catalog: Catalog, year: int) -> Iterator[tuple[Work, str]]:
    found = catalog.records_of_year(year)
    return ((Work.from_json(record), plan_hash) for record, plan_hash in found if record.get("work_id"))


def _ids(lake: LakeWriter, table: str, year: int) -> set[str]:
    with open_lake(lake.files) as con:
        of_year = f"year = {year:d}" if year else "year IS NULL"
        rows = con.execute(f"SELECT DISTINCT work_id FROM ({every_row(con, lake.files, table)}) WHERE {of_year}")
        return {work_id for (work_id,) in rows.fetchall()}
