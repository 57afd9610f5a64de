"""Store works in the lake, make their plans, and put them into the queue."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import astuple, dataclass
from datetime import datetime
from functools import cache
from typing import Any

import orjson

from docstokg_assets.domain.plans import DELETED_PLAN, Plan, Target, plan_columns
from docstokg_assets.domain.works import Work
from docstokg_assets.lake.reader import WorksToPlan
from docstokg_assets.lake.writer import LakeWriter, work_columns
from docstokg_assets.resolvers.registry import Resolver, make_plan
from docstokg_assets.sources.listing import in_batches
from resources.catalog.catalog import Catalog
from resources.catalog.rows import NewItem
from resources.http.messages import Role
from resources.processes import rare_collections
from resources.rate_limit.policies import resolve_policy
from resources.rate_limit.settings import RateLimitSettings

_PAGE = 1_000  # plans in memory at once; more of them only keep the garbage collector busy


def store_works(lake: LakeWriter, works: Sequence[Work], fetched_at: datetime) -> int:
    """Append works to the lake; returns how many."""
    lake.append_columns("works", work_columns(works, fetched_at))
    return len(works)


@dataclass(frozen=True, slots=True)
class Planned:
    """Counts of planned works, of the steps of their plans, and, as in `Enqueued`, of what the queue did with the works."""

    works: int = 0
    steps: int = 0
    deferred: int = 0
    without_candidate: int = 0
    new: int = 0
    reopened: int = 0
    unchanged: int = 0

    def __add__(self, other: Planned) -> Planned:
        return Planned(*map(sum, zip(astuple(self), astuple(other), strict=True)))


@rare_collections()
def plan_works(
    works: Iterable[Work],
    resolvers: Iterable[Resolver],
    limits: RateLimitSettings,
    catalog: Catalog,
    lake: LakeWriter | None,
    planned_at: datetime,
    run_id: str | None = None,
    marks: MutableMapping[str, str] | None = None,
) -> Planned:
    """Make a plan for each work, store new and changed plans in the lake, and put the works into the queue.

    With `run_id` they become the works of that run. A work that OpenAlex has deleted stays deleted, whichever source lists it.
    `marks`: what the plans are made from, by work (see `WorksToPlan`).
    """
    known = tuple(resolvers)
    planned = Planned()
    group_of = cache(lambda host, role: resolve_policy(limits, host, str(role)).group)
    for batch in in_batches(works, local=True):
        before, columns, items = catalog.plan_hashes(w.work_id for w in batch), defaultdict[str, list[Any]](list), []
        for start in range(0, len(batch), _PAGE):
            page = [(work, _plan(work, known, before)) for work in batch[start : start + _PAGE]]
            new = [(work, plan) for work, plan in page if before.get(work.work_id) != plan.hash]
            for name, cells in plan_columns(new, planned_at).items() if lake is not None else ():
                columns[name] += cells
            items += [_new_item(work, plan, group_of, marks or {}) for work, plan in page]
            planned += _count([plan for _, plan in page])
        if lake is not None and columns["year"]:
            lake.append_columns("plans", [columns])
        planned += Planned(0, 0, 0, 0, *catalog.enqueue(items, run_id))
    return planned


def plan_year(
    to_plan: WorksToPlan,
    works: Iterable[Work],
    resolvers: Iterable[Resolver],
    limits: RateLimitSettings,
    catalog: Catalog,
    lake: LakeWriter,
    planned_at: datetime,
) -> Planned:
    """Plan the works that `to_plan` returned (`works`), and count the unchanged ones, as if all had been planned."""
    planned = plan_works(works, resolvers, limits, catalog, lake, planned_at, marks=to_plan.marks)
    same = to_plan.unchanged
    return planned + Planned(same, to_plan.steps, to_plan.deferred, to_plan.without_candidate, unchanged=same)


def _plan(work: Work, resolvers: Sequence[Resolver], before: Mapping[str, str]) -> Plan:
    gone = before.get(work.work_id) == DELETED_PLAN
    return Plan(work.work_id, (), DELETED_PLAN) if gone else make_plan(work, resolvers)


def _new_item(work: Work, plan: Plan, group_of: Callable[[str, Role], str], marks: MutableMapping[str, str]) -> NewItem:
    priority = work.year or 0  # recent years first
    record = orjson.dumps(work.to_json()).decode()
    mark = marks.pop(work.work_id, None)
    if mark is not None and plan.complete and plan.hash != DELETED_PLAN:
        mark = f"{mark}:{len(plan.steps)}:{sum(step.deferred for step in plan.steps)}"
    else:
        mark = None
    return NewItem(work.work_id, work.year, priority, record, plan.hash, _first_group(group_of, plan), mark)


def _count(plans: Sequence[Plan]) -> Planned:
    deferred = [sum(step.deferred for step in plan.steps) for plan in plans]
    without_candidate = sum(number == len(plan.steps) for number, plan in zip(deferred, plans, strict=True))
    return Planned(len(plans), sum(len(plan.steps) for plan in plans), sum(deferred), without_candidate)


def _first_group(group_of: Callable[[str, Role], str], plan: Plan) -> str | None:
    """The rate-limit group of the plan's first request, so that claims can skip works whose group is saturated."""
    if not plan.steps:
        return None
    first = plan.steps[0]
    if first.candidate is None:
        return group_of(first.asks_host or "", Role.METADATA)
    role = Role.LANDING if first.candidate.target is Target.LANDING else Role.ARTIFACT
    return group_of(first.candidate.host, role)
