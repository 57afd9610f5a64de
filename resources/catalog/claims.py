"""How a claim finds its works: by ranges of an index that are already in the order of claims, however long the queue is.

A scope (a year, several, a run, all) is a list of ranges; what several ranges give is merged here. Nothing is sorted by the
database, and a claim that leaves out groups walks over a bounded number of works. Tests look at the plans of these statements.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Row, Select, Update, and_, func, or_, select, true, update

from resources.catalog.schema import LEASED, READY, WAITING, queue

Years = int | tuple[int, ...]  # a year, or several
Position = tuple[int, str]  # (priority, work): where in their order a claim ended

WAKE_AT_ONCE = 1_000  # works that came due are made ready in portions, so that no claim takes long
WINDOW = 2_000  # works that are looked at in one query where some are left out,
MOST_WALKED = 20_000  # and in one claim
HELD = queue.c.lease_until > 0  # all of LEASED, said so that SQLite takes the index of leases
_WAITING_STATES = ("queued", "retry")
AGAIN: dict[str, Any] = {
    "lease_owner": None,
    "lease_until": None,
    "state": "queued",
    "not_before": 0.0,
    "wait_reason": None,
}


class Outlook(NamedTuple):
    """What a pass without works of its own can expect."""

    due: bool  # now
    held: int  # by other processes
    next_due: float | None  # when a work comes due that is parked or held, by the clock of the database


class Range(NamedTuple):
    """Works that an index has in their order. `lead` is its first column where PostgreSQL must be told that it is the same for
    all of them: it does not see that of "is null"."""

    condition: ColumnElement[bool]
    lead: tuple[ColumnElement[Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Scope:
    year: Years | None = None
    run_id: str | None = None

    def ranges(self) -> list[Range]:
        """They exclude each other."""
        years = self.year if isinstance(self.year, tuple) else (self.year,)
        return [self._range(year) for year in dict.fromkeys(years)]

    def _range(self, year: int | None) -> Range:
        of_year = true() if year is None else year_is(queue.c.year, year)
        if self.run_id is not None:
            return Range(and_(queue.c.run_id == self.run_id, of_year))
        return Range(of_year, () if year is None else (queue.c.year,))

    def condition(self) -> ColumnElement[bool]:
        return or_(*(part.condition for part in self.ranges()))


def year_is(column: ColumnElement[int | None], year: Years) -> ColumnElement[bool]:
    """Year 0 stands for works without a year, as it does in the lake."""
    if isinstance(year, tuple):
        return or_(*(year_is(column, one) for one in year))
    return column.is_(None) if year == 0 else column == year


def works(work_ids: Iterable[str]) -> Update:
    return update(queue).where(queue.c.work_id.in_(list(work_ids)))


def claim_ready(
    connection: Connection, scope: Scope, limit: int, left_out: Set[str], after: Position | None
) -> tuple[list[Row[Any]], Position | None, bool]:
    """Lock up to `limit` ready works, most urgent first; where the walk ended; whether that is the end of them."""
    window = WINDOW if left_out else limit
    streams = [_keys(connection, part, after, window) for part in scope.ranges()]
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
        rows += _locked(connection, chosen)  # without those that another is claiming: then the walk goes on
    return rows, position, False


def _keys(
    connection: Connection, part: Range, after: Position | None, window: int
) -> Iterator[tuple[int, str, str | None]]:
    """(priority, work, group) of the ready works of a range in their order, from an index alone."""
    while True:
        page: list[tuple[int, str, str | None]] = []
        for behind in _behind(after):
            if len(page) < window:
                found = connection.execute(ready_keys(part, behind).limit(window - len(page)))
                page += [(row[0], row[1], row[2]) for row in found]
        yield from page
        if len(page) < window:
            return
        after = page[-1][0], page[-1][1]


def ready_keys(part: Range, behind: ColumnElement[bool] | None = None) -> Select[Any]:
    columns = (queue.c.priority, queue.c.work_id, queue.c.next_group)
    found = select(*columns).where(READY, part.condition, true() if behind is None else behind)
    return found.order_by(*part.lead, queue.c.priority.desc(), queue.c.work_id)


def _behind(position: Position | None) -> list[ColumnElement[bool]]:
    """Two conditions one after the other, because only so the index leads straight to the first row of each."""
    if position is None:
        return [true()]
    priority, work_id = position
    return [and_(queue.c.priority == priority, queue.c.work_id > work_id), queue.c.priority < priority]


def _locked(connection: Connection, work_ids: Sequence[str]) -> list[Row[Any]]:
    if not work_ids:
        return []
    found = select(queue).where(READY, queue.c.work_id.in_(work_ids)).with_for_update(skip_locked=True)
    by_id = {row.work_id: row for row in connection.execute(found)}
    return [by_id[work_id] for work_id in work_ids if work_id in by_id]


def to_wake(now: float, claimer: str) -> list[Select[Any]]:
    """The works that have waited long enough, and those that were left by an owner whose lease ended. Who is awake enough to
    claim keeps what he has: his own leases ended only because a clock was set or time stood still for him, and he renews them."""
    waited = [
        select(queue.c.work_id)
        .where(WAITING, queue.c.state == state, queue.c.not_before <= now)
        .order_by(queue.c.not_before)
        for state in _WAITING_STATES
    ]
    ended = (LEASED, queue.c.lease_until < now, queue.c.lease_owner != claimer)
    left = select(queue.c.work_id).where(*ended).order_by(queue.c.lease_until)
    return [*waited, left]


def wake(connection: Connection, now: float, claimer: str) -> None:
    """Make these ready."""
    for due in to_wake(now, claimer):
        # what another is waking is not woken after he has claimed it
        portion = due.limit(WAKE_AT_ONCE).with_for_update(skip_locked=True)
        if woken := connection.execute(portion).scalars().all():
            connection.execute(works(woken).values(**AGAIN, updated_at=now))


def something_is_due(connection: Connection, scope: Scope, now: float, claimer: str) -> bool:
    """Whether a claim would find a ready work of the scope, or have any to wake: a question, not a write."""
    ready = [ready_keys(part) for part in scope.ranges()]
    return any(connection.execute(each.limit(1)).first() is not None for each in (*ready, *to_wake(now, claimer)))


def outlook(connection: Connection, scope: Scope, now: float) -> Outlook:
    parts = scope.ranges()
    ready = any(connection.execute(ready_keys(part).limit(1)).first() is not None for part in parts)
    parked = [connection.scalar(first_waiting(part, "queued")) for part in parts]
    waits = [*parked, *(connection.scalar(first_waiting(part, "retry")) for part in parts)]
    leases = select(func.count(), func.min(queue.c.lease_until)).where(LEASED, HELD, scope.condition())
    held, first_end = connection.execute(leases).one()
    due = ready or any(time is not None and time <= now for time in (*waits, first_end))
    # those that failed are not awaited: they have their outcome, and a later pass tries them again
    return Outlook(due, int(held), min((time for time in (*parked, first_end) if time is not None), default=None))


def first_waiting(part: Range, state: str, after: float = 0.0) -> Select[Any]:
    """When the first work of a range comes due that waits in this state."""
    waits = (WAITING, part.condition, queue.c.state == state, queue.c.not_before > after)
    return select(queue.c.not_before).where(*waits).order_by(*part.lead, queue.c.not_before).limit(1)


def next_due(connection: Connection, scope: Scope, now: float) -> float | None:
    """When the next work comes due that is not due now: its wait ends, or the lease on it."""
    parts = scope.ranges()
    waits = [connection.scalar(first_waiting(part, state, now)) for part in parts for state in _WAITING_STATES]
    held = (LEASED, queue.c.lease_until > now, scope.condition())
    lease = connection.scalar(select(func.min(queue.c.lease_until)).where(*held))
    return min((time for time in (*waits, lease) if time is not None), default=None)
