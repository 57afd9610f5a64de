"""Repair the lake from the catalog: set damaged parts aside and write their rows again.

`lake.writer` rebuilds attempts and outcomes. Works and plans are restored from the queue, which has the record of every planned
work. Metrics exist only in the lake; lost ones are reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import islice

from docstokg_assets.domain.plans import plan_columns
from docstokg_assets.domain.works import Work
from docstokg_assets.lake.views import every_row, open_lake
from docstokg_assets.lake.writer import BATCH_ROWS, LakeWriter
from docstokg_assets.resolvers.registry import Resolver, make_plan
from docstokg_assets.runs.planning import store_works
from resources.catalog.catalog import Catalog
from resources.lake.files import damage_of
from resources.scope import WorkScope

_TABLES = ("works", "plans", "metrics")


def repair_lake(catalog: Catalog, lake: LakeWriter, resolvers: Sequence[Resolver], now: datetime) -> Iterator[str]:
    """Repair the tables, and yield a line for each damaged part and each year. Reads every byte of them."""
    lost: dict[str, set[int]] = {}
    for table in _TABLES:
        for part in lake.files.parts(table):
            for place, cause in damage_of(lake.files, part, whole=True).items():
                lost.setdefault(table, set()).add(int(part.split("/year=")[1].split("/")[0]))
                yield f"{place} was damaged ({cause}); it is kept as {lake.files.set_aside(part)}"
    for year in sorted(lost.get("works", ())):
        back = _restore(catalog, lake, year, "works", lambda batch: store_works(lake, [work for work, _ in batch], now))
        yield f"works of {year or 'unknown year'}: {back:,} came back from the catalog"
    for year in sorted(lost.get("plans", ())):
        back = _restore(catalog, lake, year, "plans", lambda batch: _write_plans(lake, batch, resolvers, now))
        yield f"plans of {year or 'unknown year'}: those of {back:,} works were made again"
    for year in sorted(lost.get("metrics", ())):
        yield f"metrics of {year or 'unknown year'}: measurements are lost; the next run_metrics measures anew"


_Queued = list[tuple[Work, str]]  # with the hash of the plan


def _restore(catalog: Catalog, lake: LakeWriter, year: int, table: str, write: Callable[[_Queued], int]) -> int:
    """Write the queued works of a year that a table does not have; returns how many."""
    with open_lake(lake.files) as con:
        rows = con.execute(
            f"SELECT DISTINCT work_id FROM ({every_row(con, lake.files, table)}) WHERE {WorkScope(year).condition}"
        )
        there = {work_id for (work_id,) in rows.fetchall()}
    queued = ((record, plan_hash) for record, plan_hash in catalog.records_of_year(year) if record.get("work_id"))
    missing = ((Work.from_json(record), known) for record, known in queued if record["work_id"] not in there)
    count = 0
    while batch := list(islice(missing, BATCH_ROWS)):
        count += write(batch)
    return count


def _write_plans(lake: LakeWriter, batch: _Queued, resolvers: Sequence[Resolver], now: datetime) -> int:
    """Write plans whose hash is that in the queue. Others are made when the work is planned again."""
    plans = [(work, plan) for work, known in batch if (plan := make_plan(work, resolvers)).hash == known]
    if any(plan.steps for _, plan in plans):
        lake.append_columns("plans", [plan_columns(plans, now)])
    return len(plans)
