"""The queue of works: put in, claim under a lease, give back, count.

A work is done once whatever the number of processes: a claim happens inside one write transaction, a lease ends by the
clock of the database, and whoever lost it can record nothing (see `Catalog.commit`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import fields
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, bindparam, case, func, or_, select, true, update

from resources.catalog.claims import (
    AGAIN,
    HELD,
    Outlook,
    Position,
    Scope,
    Years,
    claim_ready,
    next_due,
    outlook,
    ready_keys,
    something_is_due,
    wake,
    works,
    year_is,
)
from resources.catalog.database import Database, insert_missing, now_of, portions, retry_lost_transactions
from resources.catalog.errors import CatalogError
from resources.catalog.rows import (
    Claimed,
    DueWorks,
    Enqueued,
    NewItem,
    ParkedGroup,
    QueueCounts,
    QueuedWork,
    QueueItem,
    from_json,
    to_json,
)
from resources.catalog.schema import (
    LEASED,
    READY,
    WAITING,
    catalog_entries,
    group_leases,
    queue,
    run_works,
    runs,
)
from resources.records import ENDINGS, Ending

MOST_COUNTED = 10_000  # due works of a year
_SUCCESSES = frozenset(reason for reason, ending in ENDINGS.items() if ending is Ending.SUCCESS)
_AFRESH: dict[str, Any] = {"progress": None, "tries": 0}

_PLANS = select(queue.c.work_id, queue.c.plan_hash)
_KNOWN = select(queue.c.work_id, queue.c.plan_hash, queue.c.state, queue.c.run_id)
_ADD = insert_missing(queue)
_ADD_TO_RUN = insert_missing(run_works)
_NOTE = update(queue).where(queue.c.work_id == bindparam("id")).values(progress=bindparam("noted"))
_REPLAN = update(queue).where(queue.c.work_id == bindparam("id"))


class Queue(Database):
    def enqueue(self, items: Iterable[NewItem], run_id: str | None = None) -> Enqueued:
        """Make works known, and with `run_id` make them the works of that run, which must have been started.

        A work that is known with the same plan is left alone. With another plan it gets the new one, and is opened
        again when it had ended, or was to be tried again later, without success.
        """
        total = Enqueued()
        for portion in portions(items):
            batch = {item.work_id: item for item in portion}
            counted = self._enqueue_batch(batch, run_id)
            total = Enqueued(*(a + b for a, b in zip(total, counted, strict=True)))
        return total

    @retry_lost_transactions
    def _enqueue_batch(self, batch: dict[str, NewItem], run_id: str | None) -> Enqueued:
        with self._write() as connection:
            if run_id is not None:
                self._need_run(connection, run_id)
            counted = _enqueue_batch(connection, batch, run_id)
            if run_id is not None:
                rows = [{"run_id": run_id, "work_id": work_id} for work_id in batch]
                connection.execute(_ADD_TO_RUN, rows)
        return counted

    def plan_hashes(self, work_ids: Iterable[str]) -> dict[str, str]:
        """The plans with which those of these works are known that are known at all."""
        return {row["work_id"]: row["plan_hash"] for row in self._rows_by_portions(_PLANS, queue.c.work_id, work_ids)}

    def reopen(self, work_ids: Iterable[str]) -> int:
        """Have these works done again from the start, whatever came of them; works that somebody holds are not."""
        return self.reopen_with((work_id, None) for work_id in work_ids)

    def reopen_with(self, works: Iterable[tuple[str, Mapping[str, Any] | None]], *, only_done: bool = False) -> int:
        """The same for works that begin with some progress, such as what is known of the copy that they have."""
        return sum(self._reopen_batch(batch, only_done) for batch in portions(works))

    @retry_lost_transactions
    def _reopen_batch(self, works: list[tuple[str, Mapping[str, Any] | None]], only_done: bool) -> int:
        state = queue.c.state == "done" if only_done else queue.c.state != "leased"
        with self._write() as connection:
            free = select(queue.c.work_id).where(queue.c.work_id.in_([work_id for work_id, _ in works]), state)
            free = free.order_by(queue.c.work_id).with_for_update()  # nobody claims one between this and the update
            ids = set(connection.execute(free).scalars())
            again = update(queue).where(queue.c.work_id.in_(ids))
            connection.execute(again.values(**AGAIN, **_AFRESH, updated_at=now_of(connection)))
            noted = [{"id": i, "noted": to_json(note)} for i, note in works if note is not None and i in ids]
            if noted:
                connection.execute(_NOTE, noted)
        return len(ids)

    def done_among(self, work_ids: Iterable[str]) -> set[str]:
        """Those of these works that nobody is at and that wait for nothing."""
        done = select(queue.c.work_id).where(queue.c.state == "done")
        return {row["work_id"] for row in self._rows_by_portions(done, queue.c.work_id, work_ids)}

    def records_of(self, work_ids: Iterable[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        """The stored records of these works."""
        found = self._rows_by_portions(select(queue.c.work_id, queue.c.record), queue.c.work_id, work_ids)
        return ((row["work_id"], from_json(row["record"])) for row in found)

    def records_of_year(self, year: int) -> Iterator[tuple[dict[str, Any], str]]:
        """The stored record and the plan of each work of a year, a page at a time, in any order. 0: unknown."""
        found = select(queue.c.record, queue.c.plan_hash).where(year_is(queue.c.year, year))
        with self._read(slow=True) as connection:
            for record, plan_hash in connection.execute(found, execution_options={"yield_per": 1_000}):
                yield from_json(record), plan_hash

    @retry_lost_transactions
    def claim(
        self,
        owner: str,
        limit: int,
        lease_s: float,
        *,
        year: Years | None = None,
        run_id: str | None = None,
        exclude_groups: Set[str] = frozenset(),
        after: Position | None = None,
    ) -> list[QueueItem]:
        """The same as `claim_behind`, for those who do not go on where they were."""
        return self.claim_behind(owner, limit, lease_s, Scope(year, run_id), exclude_groups, after).items

    @retry_lost_transactions
    def claim_behind(
        self, owner: str, limit: int, lease_s: float, scope: Scope, left_out: Set[str], after: Position | None
    ) -> Claimed:
        """Up to `limit` due works, most urgent first, which are `owner`'s for `lease_s` seconds. Year 0: unknown; a run: of the
        works that it was the last to queue or to take over. Without due works nothing is written.

        `left_out`: groups whose works are passed over, so many at a time that no claim takes long. `after`: only works that
        come behind this position. Whoever claimed up to there need not walk again over those that were left out.
        """
        with self._read() as connection:
            if not something_is_due(connection, scope, now_of(connection), owner):
                return Claimed([], after, True)
        with self._write() as connection:
            now = now_of(connection)
            wake(connection, now, owner)
            rows, up_to, is_end = claim_ready(connection, scope, limit, left_out, after)
            if rows:
                leased = {"state": "leased", "lease_owner": owner, "lease_until": now + lease_s, "updated_at": now}
                connection.execute(works(row.work_id for row in rows).values(**leased))
        kept = [field.name for field in fields(QueueItem) if field.name not in ("record", "progress", "lease_until")]
        items = [
            QueueItem(
                record=from_json(row.record),
                progress=from_json(row.progress),
                lease_until=now + lease_s,
                **{name: row._mapping[name] for name in kept},
            )
            for row in rows
        ]
        return Claimed(items, up_to, is_end)

    def take_over(self, run_id: str) -> int:
        """Make all works of a run that are not done claimable as its own again, also those that another run has queued since."""
        own, taken = select(run_works.c.work_id).where(run_works.c.run_id == run_id), 0
        for portion in portions(row["work_id"] for row in self._rows_by_pages(own, run_works.c.work_id, "")):
            others = select(queue.c.work_id).where(queue.c.work_id.in_(portion), *_of_another(run_id))
            if ids := [row["work_id"] for row in self._rows(others)]:
                taken += self._take_over(ids, run_id)
        return taken

    @retry_lost_transactions
    def _take_over(self, work_ids: list[str], run_id: str) -> int:
        with self._write() as connection:
            return _make_own(connection, work_ids, run_id)

    @retry_lost_transactions
    def heartbeat(self, owner: str, lease_s: float) -> set[str]:
        """Hold all works of `owner` for `lease_s` seconds from now; which they are. Others were taken over."""
        with self._write() as connection:
            held = _lock_works_of(connection, owner)
            until = now_of(connection) + lease_s
            if held:
                connection.execute(works(held).values(lease_until=until))
            return set(held)

    @retry_lost_transactions
    def lease_owners(self) -> set[str]:
        """Who holds works or groups at the moment."""
        with self._read() as connection:
            works = connection.execute(select(queue.c.lease_owner).where(LEASED, HELD).distinct()).scalars()
            return {str(owner) for owner in works} | set(connection.execute(select(group_leases.c.owner)).scalars())

    @retry_lost_transactions
    def release_owner(self, owner: str, only: Set[str] | None = None) -> int:
        """Give back all works of `owner`, or some; how many they were."""
        with self._write() as connection:
            held = [work_id for work_id in _lock_works_of(connection, owner) if only is None or work_id in only]
            freed = works(held).values(**AGAIN, updated_at=now_of(connection))
            return connection.execute(freed).rowcount if held else 0

    @retry_lost_transactions
    def queue_counts(self, year: Years | None = None, run_id: str | None = None) -> QueueCounts:
        with self._read(slow=True) as connection:
            now = now_of(connection)
            later = queue.c.not_before > now
            held = and_(queue.c.state == "leased", queue.c.lease_until >= now)
            parked = and_(queue.c.state == "queued", later)
            retry = and_(queue.c.state == "retry", later)
            columns = [
                func.coalesce(func.sum(case((c, 1), else_=0)), 0)
                for c in (parked, held, retry, queue.c.state == "done")
            ]
            row = connection.execute(
                select(func.count(), *columns).select_from(queue).where(*_scope(year, run_id))
            ).one()
        total, *others = (int(number) for number in row)
        return QueueCounts(total, total - sum(others), *others)

    @retry_lost_transactions
    def due_by_year(self) -> list[DueWorks]:
        """The years of which works could be claimed now, the latest year first. Of each at most MOST_COUNTED are counted."""
        with self._read() as connection:
            now, found = now_of(connection), dict[int | None, DueWorks]()
            for year in _ready_years(connection):
                (part,) = Scope(year or 0).ranges()
                first = ready_keys(part).with_only_columns(queue.c.updated_at).limit(MOST_COUNTED)
                times = connection.execute(first).scalars().all()
                found[year] = DueWorks(year, len(times), max(times))
            for due in _came_due(now):
                for year, since in connection.execute(due.limit(MOST_COUNTED)):
                    known = found.get(year, DueWorks(year, 0, since))
                    found[year] = DueWorks(year, min(known.works + 1, MOST_COUNTED), max(known.since, since))
        return sorted(found.values(), key=lambda row: row.year or 0, reverse=True)

    @retry_lost_transactions
    def outlook(self, scope: Scope) -> Outlook:
        """What a pass without works of its own can expect."""
        with self._read() as connection:
            return outlook(connection, scope, now_of(connection))

    @retry_lost_transactions
    def next_due(self, year: Years | None = None, run_id: str | None = None) -> float | None:
        """When the next work comes due that is not due now: its wait ends, or the lease on it."""
        with self._read() as connection:
            return next_due(connection, Scope(year, run_id), now_of(connection))

    @retry_lost_transactions
    def parked(self, year: Years | None = None, run_id: str | None = None) -> list[ParkedGroup]:
        """Who is being waited for, by how many works, from when to when, and why; the largest crowd first."""
        with self._read(slow=True) as connection:
            until = queue.c.not_before
            rows = connection.execute(
                select(
                    queue.c.next_group,
                    func.count().label("works"),
                    func.min(until),
                    func.max(until),
                    queue.c.wait_reason,
                )
                .where(WAITING, queue.c.state == "queued", until > now_of(connection), *_scope(year, run_id))
                .group_by(queue.c.next_group, queue.c.wait_reason)
                .order_by(func.count().desc(), queue.c.next_group.nulls_first(), queue.c.wait_reason)
            ).all()
        return [ParkedGroup(*row) for row in rows]

    def has_more_works(self, than: int) -> bool:
        """Whether more works than that are known; no more of them are counted."""
        some = select(queue.c.work_id).limit(than + 1).subquery()
        return int(self._rows(select(func.count().label("n")).select_from(some))[0]["n"]) > than

    def queued(self, work_id: str) -> list[QueuedWork]:
        """The work with that id, if there is one."""
        return self._queued([queue.c.work_id == work_id], 1)

    def queued_like(self, pieces: Iterable[str], limit: int = 1_000) -> list[QueuedWork]:
        """Works whose record contains all of these, in any case (of ASCII letters), by id. Looks at every work."""
        return self._queued([queue.c.record.icontains(piece, autoescape=True) for piece in pieces], limit)

    def _queued(self, conditions: list[ColumnElement[bool]], limit: int) -> list[QueuedWork]:
        columns = [queue.c[field.name] for field in fields(QueuedWork)]
        statement = select(*columns).where(*conditions).order_by(queue.c.work_id).limit(limit)
        return [
            QueuedWork(**{**row, "record": from_json(row["record"]), "progress": from_json(row["progress"])})
            for row in self._rows(statement, slow=True)
        ]

    def _need_run(self, connection: Connection, run_id: str) -> None:
        if connection.scalar(select(runs.c.run_id).where(runs.c.run_id == run_id)) is None:
            raise CatalogError(f"the catalog {self.name} knows no run {run_id}. Start the run first.")


def _scope(year: Years | None, run_id: str | None) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = [true()]
    if year is not None:
        conditions.append(year_is(queue.c.year, year))
    if run_id is not None:
        conditions.append(queue.c.work_id.in_(select(run_works.c.work_id).where(run_works.c.run_id == run_id)))
    return conditions


def _of_another(run_id: str) -> tuple[ColumnElement[bool], ...]:
    return queue.c.state != "done", or_(queue.c.run_id.is_(None), queue.c.run_id != run_id)


def _make_own(connection: Connection, work_ids: list[str], run_id: str) -> int:
    locked = select(queue.c.work_id).where(queue.c.work_id.in_(work_ids), *_of_another(run_id))
    ids = connection.execute(locked.order_by(queue.c.work_id).with_for_update()).scalars().all()
    return connection.execute(works(ids).values(run_id=run_id)).rowcount if ids else 0


def _ready_years(connection: Connection) -> Iterator[int | None]:
    """The years of ready works, from one to the next by the index."""
    (unknown,) = Scope(0).ranges()
    if connection.execute(ready_keys(unknown).limit(1)).first() is not None:
        yield None
    year: int | None = -(2**31)
    while year is not None:
        later = select(queue.c.year).where(READY, queue.c.year > year).order_by(queue.c.year).limit(1)
        if (year := connection.scalar(later)) is not None:
            yield year


def _came_due(now: float) -> list[Select[Any]]:
    """(year, since when) of works that a claim would wake."""
    waited = [
        select(queue.c.year, queue.c.not_before).where(WAITING, queue.c.state == state, queue.c.not_before <= now)
        for state in ("queued", "retry")
    ]
    return [*waited, select(queue.c.year, queue.c.lease_until).where(LEASED, queue.c.lease_until < now)]


def _lock_works_of(connection: Connection, owner: str) -> list[str]:
    """The works that `owner` holds. Whoever locks several works, here or elsewhere, locks them by id or passes over those that
    are locked, so that two never wait for each other."""
    held = select(queue.c.work_id).where(LEASED, HELD, queue.c.lease_owner == owner).with_for_update()
    if (
        connection.dialect.name != "sqlite"
    ):  # which locks everything, and would walk over all works to have them in order
        held = held.order_by(queue.c.work_id)
    return list(connection.execute(held).scalars())


def _enqueue_batch(connection: Connection, batch: dict[str, NewItem], run_id: str | None) -> Enqueued:
    now = now_of(connection)
    stored = connection.execute(_KNOWN.where(queue.c.work_id.in_(batch))).all()
    known = {row.work_id: row.plan_hash for row in stored}
    new = [
        batch[work_id] for work_id in sorted(batch.keys() - known.keys())
    ]  # in order: two who add them cannot deadlock
    changed = [work_id for work_id, plan_hash in known.items() if plan_hash != batch[work_id].plan_hash]
    added = reopened = 0
    if new:
        fresh = {"state": "queued", "not_before": 0.0, "tries": 0, "updated_at": now, "run_id": run_id}
        rows = [{"work_id": i.work_id, "year": i.year, "priority": i.priority, **_planned(i), **fresh} for i in new]
        added = connection.execute(_ADD, rows).rowcount  # without those that another has added meanwhile
    if changed:
        failed = _ended_without_success(connection, changed)
        connection.execute(_REPLAN, [{"id": name, **_planned(batch[name]), "updated_at": now} for name in changed])
        again = update(queue).where(queue.c.work_id.in_(failed)).values(**AGAIN, **_AFRESH)
        reopened = connection.execute(again).rowcount if failed else 0
    others = [row.work_id for row in stored if row.run_id != run_id and (row.state != "done" or reopened)]
    if run_id is not None and others:
        _make_own(connection, others, run_id)
    return Enqueued(added, reopened, len(batch) - added - reopened)


def _ended_without_success(connection: Connection, work_ids: list[str]) -> list[str]:
    """Of these works; their rows are locked first, so that nobody ends one between the question and what follows from it."""
    ours = select(queue.c.work_id, queue.c.state).where(queue.c.work_id.in_(work_ids)).order_by(queue.c.work_id)
    ours = ours.with_for_update()
    ended = [row.work_id for row in connection.execute(ours) if row.state in ("done", "retry")]
    reasons = select(catalog_entries.c.work_id, catalog_entries.c.reason).where(catalog_entries.c.work_id.in_(ended))
    succeeded = {row.work_id for row in connection.execute(reasons) if row.reason in _SUCCESSES}
    return [work_id for work_id in ended if work_id not in succeeded]


def _planned(item: NewItem) -> dict[str, Any]:
    return {"record": to_json(item.record), "plan_hash": item.plan_hash, "next_group": item.next_group}
