"""Store works in the lake, make their plans, and put them into the queue."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass
from datetime import datetime
from functools import cache

from docstokg_assets.domain.plans import DELETED_PLAN, Plan, Target, plan_columns
from docstokg_assets.domain.works import Work
from docstokg_assets.lake.writer import LakeWriter, work_columns
from docstokg_assets.resolvers.registry import Resolver, make_plan
from docstokg_assets.sources.listing import in_batches
from resources.catalog.catalog import Catalog
from resources.catalog.rows import NewItem
from resources.http.messages import Role
from resources.rate_limit.policies import resolve_policy
from resources.rate_limit.settings import RateLimitSettings


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


def plan_works(
    works: Iterable[Work],
    resolvers: Iterable[Resolver],
    limits: RateLimitSettings,
    catalog: Catalog,
    lake: LakeWriter | None,
    planned_at: datetime,
    run_id: str | None = None,
) -> Planned:
    """Make a plan for each work, store new and changed plans in the lake, and put the works into the queue.

    With `run_id` they become the works of that run. A work that OpenAlex has deleted stays deleted, whichever source lists it.
    """
    known = tuple(resolvers)
    planned = Planned()
    group_of = cache(lambda host, role: resolve_policy(limits, host, str(role)).group)
    for batch in in_batches(works, local=True):
        before = catalog.plan_hashes(work.work_id for work in batch)
        gone = {work_id for work_id, plan_hash in before.items() if plan_hash == DELETED_PLAN}
        plans = [(w, Plan(w.work_id, (), DELETED_PLAN) if w.work_id in gone else make_plan(w, known)) for w in batch]
        if lake is not None:
            new = [(work, plan) for work, plan in plans if before.get(work.work_id) != plan.hash]
            if new:
                lake.append_columns("plans", [plan_columns(new, planned_at)])
        items = [
            NewItem(
                work_id=work.work_id,
                year=work.year,
                priority=work.year or 0,  # recent years first
                record=work.to_json(),
                plan_hash=plan.hash,
                next_group=_first_group(group_of, plan),
            )
            for work, plan in plans
        ]
        steps = [step for _, plan in plans for step in plan.steps]
        deferred = sum(step.deferred for step in steps)
        without_candidate = sum(all(step.deferred for step in plan.steps) for _, plan in plans)
        planned += Planned(len(batch), len(steps), deferred, without_candidate, *catalog.enqueue(items, run_id))
    return planned


def _first_group(group_of: Callable[[str, Role], str], plan: Plan) -> str | None:
    """The rate-limit group of the plan's first request, so that claims can skip works whose group is saturated."""
    if not plan.steps:
        return None
    first = plan.steps[0]
    if first.candidate is None:
        return group_of(first.asks_host or "", Role.METADATA)
    role = Role.LANDING if first.candidate.target is Target.LANDING else Role.ARTIFACT
    return group_of(first.candidate.host, role)
