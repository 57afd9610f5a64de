"""The queue of works: put in, claim under a lease, release, count.

Only one process works on a work at a time: a claim is one write transaction, a lease ends by the clock of the database, and a
process that lost a lease can record nothing (see `Catalog.commit`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, bindparam, case, func, or_, select, update

from resources.catalog import claims
from resources.catalog.claims import AGAIN, HELD, Outlook, Position, in_scope, ranges, ready_keys, works, year_is
from resources.catalog.codec import from_json, to_json
from resources.catalog.database import (
    Database,
    insert_missing,
    now_of,
    portions,
    read_transaction,
    retry_lost_transactions,
    slow_read_transaction,
    write_transaction,
)
from resources.catalog.errors import CatalogError
from resources.catalog.rows import (
    Claimed,
    DueWorks,
    Enqueued,
    NewItem,
    ParkedGroup,
    QueueCounts,
    QueueItem,
)
from resources.catalog.schema import LEASED, READY, WAITING, WORKS, catalog_entries, queue, run_works, runs
from resources.records import Ending, Reason
from resources.scope import ALL_WORKS, ItemKind, WorkScope, Years

MOST_COUNTED = 10_000  # due works of a year
_PAGE = 10_000
_SUCCESSES = frozenset(reason for reason in Reason if reason.ending is Ending.SUCCESS)
_WORKS = queue.c.kind == str(ItemKind.WORK)
_AFRESH: dict[str, Any] = {"progress": None, "tries": 0}

_PLANS = select(queue.c.work_id, queue.c.plan_hash)
_KNOWN = select(queue.c.work_id, queue.c.plan_hash, queue.c.state, queue.c.run_id, queue.c.planned_from)
_PLANNED_FROM = select(queue.c.work_id, queue.c.planned_from).where(queue.c.planned_from.is_not(None))
_ADD = insert_missing(queue)
_ADD_TO_RUN = insert_missing(run_works)
_NOTE = update(queue).where(queue.c.work_id == bindparam("id")).values(progress=bindparam("noted"))
_LEARN_PLANNED_FROM = (
    update(queue)
    .where(queue.c.work_id == bindparam("id"), queue.c.plan_hash == bindparam("plan"))
    .values(planned_from=bindparam("from_"))
)
_REPLAN = update(queue).where(queue.c.work_id == bindparam("id"))


class Queue(Database):
    def enqueue(self, items: Iterable[NewItem], run_id: str | None = None) -> Enqueued:
        """Make works known, and with `run_id` make them the works of that run, which must have been started.

        A work that is known with the same plan is left alone. With another plan it gets the new one, and is opened
        again when it had ended, or was to be tried again later, without success.
        """
        total = Enqueued()
        for portion in portions(items):
            counted = self._enqueue_batch({item.work_id: item for item in portion}, run_id)
            total = Enqueued(*(a + b for a, b in zip(total, counted, strict=True)))
        return total

    @write_transaction
    def _enqueue_batch(self, connection: Connection, batch: dict[str, NewItem], run_id: str | None) -> Enqueued:
        if run_id is None:
            return _enqueue_batch(connection, batch, run_id)
        self._need_run(connection, run_id)
        counted = _enqueue_batch(connection, batch, run_id)
        connection.execute(_ADD_TO_RUN, [{"run_id": run_id, "work_id": work_id} for work_id in batch])
        return counted

    def planned_from(self, year: int) -> Iterator[Sequence[tuple[str, str]]]:
        """Pages of (work, what its plan was made from) of a year, in any order. 0: unknown."""
        found = _PLANNED_FROM.where(queue.c.kind == "work", year_is(queue.c.year, year))
        with self._read(slow=True) as connection:
            for page in connection.execute(found, execution_options={"yield_per": _PAGE}).partitions():
                yield [(work_id, planned_from) for work_id, planned_from in page]

    def plan_hashes(self, work_ids: Iterable[str]) -> dict[str, str]:
        """The stored plan hashes of those of these works that are known."""
        return {row["work_id"]: row["plan_hash"] for row in self._rows_by_portions(_PLANS, queue.c.work_id, work_ids)}

    def reopen(self, works: Iterable[tuple[str, Mapping[str, Any] | None]], *, only_done: bool = False) -> int:
        """Make works due again from the start, whatever their outcome, and return how many. Works that a process holds are
        skipped. Each comes with the progress that it begins with, such as what is known of its copy, or None."""
        return sum(self._reopen_batch(batch, only_done) for batch in portions(works))

    @write_transaction
    def _reopen_batch(
        self, connection: Connection, works: list[tuple[str, Mapping[str, Any] | None]], only_done: bool
    ) -> int:
        state = queue.c.state == "done" if only_done else queue.c.state != "leased"
        # the lock: no process claims one between this and the update
        ids = set(_lock(connection, queue.c.work_id.in_([work_id for work_id, _ in works]), state))
        again = update(queue).where(queue.c.work_id.in_(ids))
        connection.execute(again.values(**AGAIN, **_AFRESH, updated_at=now_of(connection)))
        noted = [{"id": i, "noted": to_json(note)} for i, note in works if note is not None and i in ids]
        if noted:
            connection.execute(_NOTE, noted)
        return len(ids)

    def done_among(self, work_ids: Iterable[str]) -> set[str]:
        """Those of these works that are done: no process holds them, and they wait for nothing."""
        done = select(queue.c.work_id).where(queue.c.state == "done")
        return {row["work_id"] for row in self._rows_by_portions(done, queue.c.work_id, work_ids)}

    def records_of(self, work_ids: Iterable[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        """The stored records of these works."""
        found = self._rows_by_portions(select(queue.c.work_id, queue.c.record), queue.c.work_id, work_ids)
        return ((row["work_id"], from_json(row["record"])) for row in found)

    def records_of_year(self, year: int) -> Iterator[tuple[dict[str, Any], str]]:
        """The stored record and the plan hash of each work of a year, a page at a time, in any order. 0: unknown."""
        found = select(queue.c.record, queue.c.plan_hash).where(_WORKS, year_is(queue.c.year, year))
        with self._read(slow=True) as connection:
            for record, plan_hash in connection.execute(found, execution_options={"yield_per": 1_000}):
                yield from_json(record), plan_hash

    @retry_lost_transactions
    def claim(
        self,
        owner: str,
        limit: int,
        lease_s: float,
        scope: WorkScope = ALL_WORKS,
        *,
        left_out: Set[str] = frozenset(),
        after: Position | None = None,
    ) -> Claimed:
        """Lease up to `limit` due works to `owner` for `lease_s` seconds, most urgent first. Of a run: the works that it was the
        last to queue or to take over. Without due works nothing is written.

        `left_out`: groups whose works are passed over, so many at a time that no claim takes long. `after`: only works
        behind this position, so that a claim need not walk again over works that the one before it left out.
        """
        with self._read() as connection:
            if not claims.something_is_due(connection, scope, now_of(connection), owner):
                return Claimed([], after, True)
        with self._write() as connection:
            now = now_of(connection)
            claims.wake(connection, now, owner, scope)
            rows, up_to, is_end = claims.claim_ready(connection, scope, limit, left_out, after)
            if rows:
                leased = {"state": "leased", "lease_owner": owner, "lease_until": now + lease_s, "updated_at": now}
                connection.execute(works(row.work_id for row in rows).values(**leased))
        return Claimed([QueueItem.from_row({**row._mapping, "state": "leased"}) for row in rows], up_to, is_end)

    def take_over(self, run_id: str) -> None:
        """Make all works of a run that are not done claimable as its own again, also those that another run has queued since."""
        own = select(run_works.c.work_id).where(run_works.c.run_id == run_id)
        for portion in portions(row["work_id"] for row in self._rows_by_pages(own, run_works.c.work_id, "")):
            others = select(queue.c.work_id).where(queue.c.work_id.in_(portion), *_of_another(run_id))
            if ids := [row["work_id"] for row in self._rows(others)]:
                self._take_over(ids, run_id)

    @write_transaction
    def _take_over(self, connection: Connection, work_ids: list[str], run_id: str) -> None:
        _make_own(connection, work_ids, run_id)

    @write_transaction
    def heartbeat(self, connection: Connection, owner: str, lease_s: float) -> set[str]:
        """Extend the leases of all works of `owner` to `lease_s` seconds from now, and return these works. Others were taken
        over by another process."""
        held = _lock_works_of(connection, owner)
        until = now_of(connection) + lease_s
        if held:
            connection.execute(works(held).values(lease_until=until))
        return set(held)

    @read_transaction
    def lease_owners(self, connection: Connection) -> set[str]:
        """The owners of all leases on works and groups."""
        return claims.lease_owners(connection)

    @write_transaction
    def release_owner(self, connection: Connection, owner: str, only: Set[str] | None = None) -> int:
        """Release all works of `owner`, or those in `only`, and return how many."""
        held = [work_id for work_id in _lock_works_of(connection, owner) if only is None or work_id in only]
        freed = works(held).values(**AGAIN, updated_at=now_of(connection))
        return connection.execute(freed).rowcount if held else 0

    @slow_read_transaction
    def queue_counts(self, connection: Connection, year: Years | None = None, run_id: str | None = None) -> QueueCounts:
        now = now_of(connection)
        later = queue.c.not_before > now
        held = and_(queue.c.state == "leased", queue.c.lease_until >= now)
        parked, retry = (and_(queue.c.state == state, later) for state in ("queued", "retry"))
        counted = (parked, held, retry, queue.c.state == "done")
        sums = [func.coalesce(func.sum(case((condition, 1), else_=0)), 0) for condition in counted]
        found = select(func.count(), *sums).select_from(queue).where(WORKS, *in_scope(queue, year, run_id))
        total, *others = (int(number) for number in connection.execute(found).one())
        return QueueCounts(total, total - sum(others), *others)

    @read_transaction
    def due_by_year(self, connection: Connection) -> list[DueWorks]:
        """The years of which works could be claimed now, the latest year first. Of each at most MOST_COUNTED are counted."""
        now, found = now_of(connection), dict[int | None, DueWorks]()
        for year in _ready_years(connection):
            (part,) = ranges(WorkScope(year or 0))
            first = ready_keys(part).with_only_columns(queue.c.updated_at).limit(MOST_COUNTED)
            times = connection.execute(first).scalars().all()
            found[year] = DueWorks(year, len(times), max(times))
        for due in _came_due(now):
            for year, since in connection.execute(due.limit(MOST_COUNTED)):
                known = found.get(year, DueWorks(year, 0, since))
                found[year] = DueWorks(year, min(known.works + 1, MOST_COUNTED), max(known.since, since))
        return sorted(found.values(), key=lambda row: row.year or 0, reverse=True)

    @read_transaction
    def outlook(self, connection: Connection, scope: WorkScope) -> Outlook:
        """What a pass without works of its own can expect."""
        return claims.outlook(connection, scope, now_of(connection))

    @read_transaction
    def next_due(self, connection: Connection, year: Years | None = None, run_id: str | None = None) -> float | None:
        """When the next work comes due that is not due now: its wait ends, or the lease on it."""
        return claims.next_due(connection, WorkScope(year, run_id), now_of(connection))

    @slow_read_transaction
    def parked(self, connection: Connection, year: Years | None = None, run_id: str | None = None) -> list[ParkedGroup]:
        """For each group and reason that works wait for: how many works, from when to when; the most works first."""
        until, waiting = queue.c.not_before, (queue.c.next_group, queue.c.wait_reason)
        columns = (queue.c.next_group, func.count(), func.min(until), func.max(until), queue.c.wait_reason)
        later = (queue.c.state == "queued", until > now_of(connection), *in_scope(queue, year, run_id))
        order = (func.count().desc(), queue.c.next_group.nulls_first(), queue.c.wait_reason)
        found = select(*columns).where(WAITING[ItemKind.WORK], *later).group_by(*waiting).order_by(*order)
        return [ParkedGroup(*row) for row in connection.execute(found)]

    def has_more_works(self, than: int) -> bool:
        """Whether more works than that are known; no more of them are counted."""
        return self._has_more(select(queue.c.work_id).where(_WORKS), than)

    def queued(self, work_id: str) -> list[QueueItem]:
        """The work with that id, if there is one."""
        return self._queued([queue.c.work_id == work_id], 1)

    def queued_like(self, pieces: Iterable[str], limit: int = 1_000) -> list[QueueItem]:
        """Works whose record contains all of these, ignoring the case of ASCII letters, by id. Reads every work."""
        return self._queued([_WORKS, *(queue.c.record.icontains(piece, autoescape=True) for piece in pieces)], limit)

    def _queued(self, conditions: list[ColumnElement[bool]], limit: int) -> list[QueueItem]:
        statement = select(queue).where(*conditions).order_by(queue.c.work_id).limit(limit)
        return [QueueItem.from_row(row) for row in self._rows(statement, slow=True)]

    def _need_run(self, connection: Connection, run_id: str) -> None:
        if connection.scalar(select(runs.c.run_id).where(runs.c.run_id == run_id)) is None:
            raise CatalogError(f"the catalog {self.name} knows no run {run_id}. Start the run first.")


def _of_another(run_id: str) -> tuple[ColumnElement[bool], ...]:
    return queue.c.state != "done", or_(queue.c.run_id.is_(None), queue.c.run_id != run_id)


def _make_own(connection: Connection, work_ids: list[str], run_id: str) -> None:
    if ids := _lock(connection, queue.c.work_id.in_(work_ids), *_of_another(run_id)):
        connection.execute(works(ids).values(run_id=run_id))


def _lock(connection: Connection, *conditions: ColumnElement[bool]) -> Sequence[str]:
    """Lock the works that meet the conditions. Every transaction that locks several works locks them by id or skips those
    that are locked, so that two never wait for each other."""
    locked = select(queue.c.work_id).where(*conditions).order_by(queue.c.work_id).with_for_update()
    return connection.execute(locked).scalars().all()


def _ready_years(connection: Connection) -> Iterator[int | None]:
    """The years of ready works, from one to the next by the index."""
    (unknown,) = ranges(WorkScope(0))
    if connection.execute(ready_keys(unknown).limit(1)).first() is not None:
        yield None
    year: int | None = -(2**31)
    while year is not None:
        later = select(queue.c.year).where(READY[ItemKind.WORK], queue.c.year > year).order_by(queue.c.year).limit(1)
        if (year := connection.scalar(later)) is not None:
            yield year


def _came_due(now: float) -> list[Select[Any]]:
    """Queries for (year, since when) of works that a claim would wake."""
    waited = [
        select(queue.c.year, queue.c.not_before).where(
            WAITING[ItemKind.WORK], queue.c.state == state, queue.c.not_before <= now
        )
        for state in ("queued", "retry")
    ]
    return [*waited, select(queue.c.year, queue.c.lease_until).where(LEASED, _WORKS, queue.c.lease_until < now)]


def _lock_works_of(connection: Connection, owner: str) -> list[str]:
    """Lock the works that `owner` holds, in the same order as `_lock`."""
    held = select(queue.c.work_id).where(LEASED, HELD, queue.c.lease_owner == owner).with_for_update()
    if connection.dialect.name != "sqlite":  # SQLite locks everything, and would walk over all works to sort them
        held = held.order_by(queue.c.work_id)
    return list(connection.execute(held).scalars())


def _enqueue_batch(connection: Connection, batch: dict[str, NewItem], run_id: str | None) -> Enqueued:
    now = now_of(connection)
    stored = connection.execute(_KNOWN.where(queue.c.work_id.in_(batch))).all()
    known = {row.work_id: row.plan_hash for row in stored}
    # in order, so that two processes that add the same works cannot deadlock
    new = [batch[work_id] for work_id in sorted(batch.keys() - known.keys())]
    changed = [work_id for work_id, plan_hash in known.items() if plan_hash != batch[work_id].plan_hash]
    added = reopened = 0
    if new:
        fresh = {"state": "queued", "not_before": 0.0, "tries": 0, "updated_at": now, "run_id": run_id}
        rows = [{"work_id": i.work_id, "year": i.year, "priority": i.priority, **_planned(i), **fresh} for i in new]
        added = connection.execute(_ADD, rows).rowcount  # without works that another process has added meanwhile
    if changed:
        failed = _ended_without_success(connection, changed)
        connection.execute(_REPLAN, [{"id": name, **_planned(batch[name]), "updated_at": now} for name in changed])
        again = update(queue).where(queue.c.work_id.in_(failed)).values(**AGAIN, **_AFRESH)
        reopened = connection.execute(again).rowcount if failed else 0
    if learnt := [row.work_id for row in stored if batch[row.work_id].planned_from not in (None, row.planned_from)]:
        of = [{"id": i, "from_": batch[i].planned_from, "plan": batch[i].plan_hash} for i in learnt]
        connection.execute(_LEARN_PLANNED_FROM, of)
    others = [row.work_id for row in stored if row.run_id != run_id and (row.state != "done" or reopened)]
    if run_id is not None and others:
        _make_own(connection, others, run_id)
    return Enqueued(added, reopened, len(batch) - added - reopened)


def _ended_without_success(connection: Connection, work_ids: list[str]) -> list[str]:
    """Those of these works that ended without success. Their rows are locked, so that none ends before the caller's update."""
    ours = select(queue.c.work_id, queue.c.state).where(queue.c.work_id.in_(work_ids)).order_by(queue.c.work_id)
    ours = ours.with_for_update()
    ended = [row.work_id for row in connection.execute(ours) if row.state in ("done", "retry")]
    reasons = select(catalog_entries.c.work_id, catalog_entries.c.reason).where(catalog_entries.c.work_id.in_(ended))
    succeeded = {row.work_id for row in connection.execute(reasons) if row.reason in _SUCCESSES}
    return [work_id for work_id in ended if work_id not in succeeded]


def _planned(item: NewItem) -> dict[str, Any]:
    record = item.record if isinstance(item.record, str) else to_json(item.record)
    planned = {"plan_hash": item.plan_hash, "next_group": item.next_group, "planned_from": item.planned_from}
    return {"record": record, **planned}
