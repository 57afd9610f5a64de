"""Bringing works in: drives the OpenAlex generators with the polite client, writes Parquet, plans, and fills the queue.

The steps of `openalex_works` and `resolver_plans` as plain functions, so that Dagster and the command line do the same.
Which records a page holds, and what a plan is, is decided in `openalex/` and `plans.py`.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cache
from itertools import islice
from typing import TypeVar

from docstokg_assets.domain.identifiers import Identifier
from docstokg_assets.domain.plans import DELETED_PLAN, Plan, Target, make_plan, plan_columns
from docstokg_assets.domain.works import Work
from docstokg_assets.lake.writer import LakeWriter, work_columns
from docstokg_assets.resolvers.registry import Resolver
from docstokg_assets.sources import SetAside, SourceError
from docstokg_assets.sources.openalex_api import FIRST_CURSOR, LARGE_SLICE, DateSlice, OpenAlexApi, id_batches
from docstokg_assets.sources.snapshot import Keep, Snapshot, folders
from resources.catalog.catalog import Catalog
from resources.catalog.rows import Enqueued, NewItem
from resources.http.attempts import AttemptLog
from resources.http.client import HttpClient
from resources.http.errors import Interrupted
from resources.http.messages import Request, Response, Role
from resources.rate_limit.policies import resolve_policy
from resources.rate_limit.settings import RateLimitSettings

T = TypeVar("T")
_BATCH = 2_000  # of what is asked for: so many works are asked for again when all breaks down
_LARGE_BATCH = 10_000  # of what is here already: fewer and larger parts of the lake


@dataclass(slots=True)
class Collected:
    """What a source brought. `announced` is what the source said there would be.

    Where it was not taken in to its end, a collection can go on: a list with the page `cursor`, what comes by days (of
    publication in a year's list, of update in a snapshot) after the day `through`, up to which all works were handed on.
    """

    works: int = 0
    announced: int = 0
    pages: int = 0
    cursor: str | None = None
    through: date | None = None
    set_aside: list[SetAside] = field(default_factory=list)


class BlockingDriver:
    """Drives a generator of Requests in the calling thread."""

    def __init__(self, client: HttpClient, log: AttemptLog, stop: threading.Event) -> None:
        self._client, self._log, self._stop = client, log, stop

    def ask(self, conversation: Generator[Request, Response, T]) -> T:
        """Raises Interrupted when the run is to end before the answer is there."""
        try:
            request = next(conversation)
            while True:
                if self._stop.is_set():
                    raise Interrupted("the run is being ended", url=request.url)
                request = conversation.send(
                    self._client.request_with_retries(request, self._log, stopped=self._stop.is_set)
                )
        except StopIteration as done:
            result: T = done.value
            return result


def works_of_filter(
    driver: BlockingDriver,
    api: OpenAlexApi,
    works_filter: str,
    slices: Iterable[DateSlice | None],
    max_works: int | None,
    collected: Collected,
) -> Iterator[Work]:
    """All works of a filter, slice by slice, because cursors are short-lived; a large slice is cut into smaller ones."""
    remaining = deque(slices)
    while remaining:
        dates = remaining.popleft()
        cursor: str | None = collected.cursor or FIRST_CURSOR
        announced = False
        while cursor is not None:
            collected.cursor = cursor
            page = driver.ask(api.page(works_filter, dates, cursor))
            collected.pages += 1
            if dates and not announced and (page.count or 0) > LARGE_SLICE and (smaller := dates.smaller()):
                remaining.extendleft(reversed(smaller))
                dates = None
                break
            collected.announced += 0 if announced else page.count or 0
            announced = True
            collected.set_aside.extend(page.set_aside)
            for work in page.works:
                if max_works is not None and collected.works >= max_works:
                    collected.cursor = None
                    return
                collected.works += 1
                yield work
            cursor = page.next_cursor
        collected.cursor = None
        if dates is not None:
            collected.through = dates.last


def works_of_snapshot(
    snapshot: Snapshot,
    year: int,
    since: date | None,
    keep: Keep,
    max_works: int | None,
    collected: Collected,
) -> Iterator[Work]:
    """The works of a year that a snapshot's folders after `since` hold. Raises SourceError at the end when files broke off."""
    broken: SourceError | None = None
    parts = snapshot.parts(since)
    collected.announced = sum(part.records for part in parts)
    for day, of_day in folders(parts):
        for part in of_day:
            collected.pages += 1
            try:
                for work in snapshot.works(part, year, keep, collected.set_aside):
                    if max_works is not None and collected.works >= max_works:
                        return
                    collected.works += 1
                    yield work
            except SourceError as error:
                broken = broken or error
        if broken is None:
            collected.through = day
    if broken is not None:
        raise broken


def works_of_ids(
    driver: BlockingDriver, api: OpenAlexApi, identifiers: Iterable[Identifier], collected: Collected
) -> Iterator[Work]:
    """The works behind identifiers; those that OpenAlex does not know are made from the identifier alone."""
    seen: set[str] = set()
    for batch in id_batches(identifiers):
        collected.pages += 1
        for work in driver.ask(api.by_ids(batch)):
            if work.work_id not in seen:
                seen.add(work.work_id)
                collected.works += 1
                yield work


def store_works(lake: LakeWriter, works: Iterable[Work], fetched_at: datetime) -> int:
    """Append works as Parquet; how many."""
    count = 0

    def counted() -> Iterator[Work]:
        nonlocal count
        for work in works:
            count += 1
            yield work

    lake.append_columns("works", work_columns(counted(), fetched_at))
    return count


@dataclass(slots=True)
class Planned:
    works: int = 0
    steps: int = 0
    deferred: int = 0
    without_candidate: int = 0
    new: int = 0
    reopened: int = 0
    unchanged: int = 0

    def __iadd__(self, other: Planned) -> Planned:
        for name in ("works", "steps", "deferred", "without_candidate", "new", "reopened", "unchanged"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        return self


def plan_works(
    works: Iterable[Work],
    resolvers: Iterable[Resolver],
    limits: RateLimitSettings,
    catalog: Catalog,
    lake: LakeWriter | None,
    planned_at: datetime,
    run_id: str | None = None,
) -> Planned:
    """Make a plan for each work, keep those that are not as before as Parquet, and put the works into the queue, with `run_id` as
    that run's. A work that was deleted where it was listed stays so, whoever lists it now."""
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
        _add(planned, catalog.enqueue(items, run_id))
        planned.works += len(batch)
        planned.steps += sum(len(plan.steps) for _, plan in plans)
        planned.deferred += sum(step.deferred for _, plan in plans for step in plan.steps)
        planned.without_candidate += sum(1 for _, plan in plans if all(step.deferred for step in plan.steps))
    return planned


def _first_group(group_of: Callable[[str, Role], str], plan: Plan) -> str | None:
    """The limit group that the plan asks first, so that claims can pass over works whose turn is far away."""
    if not plan.steps:
        return None
    first = plan.steps[0]
    if first.candidate is None:
        return group_of(first.asks_host or "", Role.METADATA)
    role = Role.LANDING if first.candidate.target is Target.LANDING else Role.ARTIFACT
    return group_of(first.candidate.host, role)


def _add(planned: Planned, enqueued: Enqueued) -> None:
    planned.new += enqueued.new
    planned.reopened += enqueued.reopened
    planned.unchanged += enqueued.unchanged


def in_batches(works: Iterable[Work], *, local: bool = False) -> Iterator[list[Work]]:
    """Larger ones where the works are `local`: on our disk, not at a provider."""
    remaining = iter(works)
    while batch := list(islice(remaining, _LARGE_BATCH if local else _BATCH)):
        yield batch
