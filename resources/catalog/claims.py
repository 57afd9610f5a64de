"""Find the works of a claim through an index in claim order, so that the cost does not depend on the length of the queue.

A scope (one year, several years, a run, all works) is a list of index ranges, which are merged here. The database does not sort,
and a claim that leaves out groups reads a bounded number of works. Tests check the query plans of these statements.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Iterator, Sequence, Set
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    Table,
    TextClause,
    Update,
    and_,
    func,
    or_,
    select,
    true,
    update,
)

from resources.catalog.schema import LEASED, READY, WAITING, group_leases, queue, run_works
from resources.scope import ALL_WORKS, ItemKind, WorkScope, Years

Position = tuple[int, str]  # (priority, work): where a claim ended, in claim order

WAKE_AT_ONCE = 1_000  # works made ready by one claim, so that no claim takes long
WINDOW = 2_000  # most works read by one query,
MOST_WALKED = 20_000  # and by one claim
HELD = queue.c.lease_until > 0  # true for all of LEASED; makes SQLite use the index of leases
_IS_READY = and_(queue.c.state == "queued", queue.c.not_before == 0.0)
_WAITING_STATES = ("queued", "retry")
AGAIN: dict[str, Any] = {
    "lease_owner": None,
    "lease_until": None,
    "state": "queued",
    "not_before": 0.0,
    "wait_reason": None,
}


class Outlook(NamedTuple):
    """The state of the queue for a pass that holds no works."""

    due: bool  # now
    held: int  # by other processes
    next_due: float | None  # when a work comes due that is parked or held, by the clock of the database


class Range(NamedTuple):
    """A range of works in index order. `lead` is the first column of the index if ORDER BY must name it: PostgreSQL does not
    recognise that "is null" makes it constant."""

    condition: ColumnElement[bool]
    lead: tuple[ColumnElement[Any], ...] = ()
    kind: ItemKind = ItemKind.WORK

    @property
    def ready(self) -> TextClause:
        return READY[self.kind]

    @property
    def waiting(self) -> TextClause:
        return WAITING[self.kind]


def ranges(scope: WorkScope) -> list[Range]:
    """The ranges of a scope. They exclude each other."""
    if scope.lanes:
        return [Range(queue.c.priority == int(lane), (), ItemKind.INGEST) for lane in dict.fromkeys(scope.lanes)]
    years: Iterable[int | None] = (None,) if scope.year is None else scope.years
    return [_range(scope.run_id, year) for year in dict.fromkeys(years)]


def _range(run_id: str | None, year: int | None) -> Range:
    of_year = true() if year is None else year_is(queue.c.year, year)
    if run_id is not None:
        return Range(and_(queue.c.run_id == run_id, of_year))
    return Range(of_year, () if year is None else (queue.c.year,))


def _condition(scope: WorkScope) -> ColumnElement[bool]:
    return and_(queue.c.kind == str(scope.kind), or_(*(part.condition for part in ranges(scope))))


def year_is(column: ColumnElement[int | None], year: Years) -> ColumnElement[bool]:
    """Year 0 stands for works without a year, as it does in the lake."""
    if isinstance(year, tuple):
        return or_(*(year_is(column, one) for one in year))
    return column.is_(None) if year == 0 else column == year


def lease_owners(connection: Connection) -> set[str]:
    of_works = connection.execute(select(queue.c.lease_owner).where(LEASED, HELD).distinct()).scalars()
    return {str(owner) for owner in of_works} | set(connection.execute(select(group_leases.c.owner)).scalars())


def in_scope(table: Table, year: Years | None, run_id: str | None) -> list[ColumnElement[bool]]:
    """The rows of `queue` or `catalog_entries` that are of a year, or of works that a run queued."""
    conditions: list[ColumnElement[bool]] = [] if year is None else [year_is(table.c.year, year)]
    if run_id is not None:
        conditions.append(table.c.work_id.in_(select(run_works.c.work_id).where(run_works.c.run_id == run_id)))
    return conditions


def works(work_ids: Iterable[str]) -> Update:
    return update(queue).where(queue.c.work_id.in_(list(work_ids)))


def claim_ready(
    connection: Connection, scope: WorkScope, limit: int, left_out: Set[str], after: Position | None
) -> tuple[list[Row[Any]], Position | None, bool]:
    """Lock up to `limit` ready works, most urgent first. Also returns where the scan ended, and whether no more are left."""
    window = min(4 * limit, WINDOW) if left_out else limit
    streams = [_keys(connection, part, after, window) for part in ranges(scope)]
    keys = iter(streams[0]) if len(streams) == 1 else heapq.merge(*streams, key=lambda key: (-key[0], key[1]))
    rows: list[Row[Any]] = []
    position, walked = after, 0
    while len(rows) < limit and walked < MOST_WALKED:
        chosen: list[str] = []
        for priority, work_id, group in itertools.islice(keys, MOST_WALKED - walked):
            position, walked = (priority, work_id), walked + 1
            if group not in left_out:
                chosen.append(work_id)
                if len(rows) + len(chosen) == limit:
                    break
        else:
            return rows + _locked(connection, chosen), position, walked < MOST_WALKED
        rows += _locked(connection, chosen)  # skips works that another process is claiming; then the scan continues
    return rows, position, False


def _keys(
    connection: Connection, part: Range, after: Position | None, window: int
) -> Iterator[tuple[int, str, str | None]]:
    """(priority, work, group) of the ready works of a range in claim order, read from the index alone. The first page has
    `window` rows, each further one twice as many, up to WINDOW."""
    while True:
        page: list[tuple[int, str, str | None]] = []
        for behind in _behind(after):
            if len(page) < window:
                found = connection.execute(ready_keys(part, behind).limit(window - len(page)))
                page += [(row[0], row[1], row[2]) for row in found]
        yield from page
        if len(page) < window:
            return
        after, window = (page[-1][0], page[-1][1]), min(2 * window, WINDOW)


def ready_keys(part: Range, behind: ColumnElement[bool] | None = None) -> Select[Any]:
    columns = (queue.c.priority, queue.c.work_id, queue.c.next_group)
    found = select(*columns).where(part.ready, part.condition, true() if behind is None else behind)
    return found.order_by(*part.lead, queue.c.priority.desc(), queue.c.work_id)


def _behind(position: Position | None) -> list[ColumnElement[bool]]:
    """The conditions of two consecutive queries, each of which can seek to its first row in the index."""
    if position is None:
        return [true()]
    priority, work_id = position
    return [and_(queue.c.priority == priority, queue.c.work_id > work_id), queue.c.priority < priority]


def _locked(connection: Connection, work_ids: Sequence[str]) -> list[Row[Any]]:
    if not work_ids:
        return []
    found = select(queue).where(_IS_READY, queue.c.work_id.in_(work_ids)).with_for_update(skip_locked=True)
    by_id = {row.work_id: row for row in connection.execute(found)}
    return [by_id[work_id] for work_id in work_ids if work_id in by_id]


def to_wake(now: float, claimer: str, scope: WorkScope = ALL_WORKS) -> list[Select[Any]]:
    """Items of the scope's kind whose wait is over, or whose lease has expired. Leases of the claimer itself are left out: they
    expire only if a clock was set or the process was suspended, and the claimer renews them."""
    parts = ranges(scope) if scope.lanes else [Range(true())]
    waited = [
        select(queue.c.work_id)
        .where(part.waiting, part.condition, queue.c.state == state, queue.c.not_before <= now)
        .order_by(queue.c.not_before)
        for state in _WAITING_STATES
        for part in parts
    ]
    ended = (LEASED, queue.c.lease_until < now, queue.c.lease_owner != claimer, queue.c.kind == str(scope.kind))
    left = select(queue.c.work_id).where(*ended).order_by(queue.c.lease_until)
    return [*waited, left]


def wake(connection: Connection, now: float, claimer: str, scope: WorkScope) -> None:
    """Make the works of `to_wake` ready."""
    for due in to_wake(now, claimer, scope):
        # skip_locked: works that another process is waking are not woken again after it has claimed them
        portion = due.limit(WAKE_AT_ONCE).with_for_update(skip_locked=True)
        if woken := connection.execute(portion).scalars().all():
            connection.execute(works(woken).values(**AGAIN, updated_at=now))


def something_is_due(connection: Connection, scope: WorkScope, now: float, claimer: str) -> bool:
    """Whether a claim would find a ready work of the scope, or have any to wake. Writes nothing."""
    ready = [ready_keys(part) for part in ranges(scope)]
    return any(
        connection.execute(each.limit(1)).first() is not None for each in (*ready, *to_wake(now, claimer, scope))
    )


def outlook(connection: Connection, scope: WorkScope, now: float) -> Outlook:
    parts = ranges(scope)
    ready = any(connection.execute(ready_keys(part).limit(1)).first() is not None for part in parts)
    parked = [connection.scalar(first_waiting(part, "queued")) for part in parts]
    waits = [*parked, *(connection.scalar(first_waiting(part, "retry")) for part in parts)]
    leases = select(func.count(), func.min(queue.c.lease_until)).where(LEASED, HELD, _condition(scope))
    held, first_end = connection.execute(leases).one()
    due = ready or any(time is not None and time <= now for time in (*waits, first_end))
    # Failed works are not waited for: they have their outcome, and a later pass tries them again.
    return Outlook(due, int(held), min((time for time in (*parked, first_end) if time is not None), default=None))


def first_waiting(part: Range, state: str, after: float = 0.0) -> Select[Any]:
    """When the first work of a range comes due that waits in this state."""
    waits = (part.waiting, part.condition, queue.c.state == state, queue.c.not_before > after)
    return select(queue.c.not_before).where(*waits).order_by(*part.lead, queue.c.not_before).limit(1)


def next_due(connection: Connection, scope: WorkScope, now: float) -> float | None:
    """When the next work comes due that is not due now: its wait ends, or the lease on it."""
    parts = ranges(scope)
    waits = [connection.scalar(first_waiting(part, state, now)) for part in parts for state in _WAITING_STATES]
    held = (LEASED, queue.c.lease_until > now, _condition(scope))
    lease = connection.scalar(select(func.min(queue.c.lease_until)).where(*held))
    return min((time for time in (*waits, lease) if time is not None), default=None)
