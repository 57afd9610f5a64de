"""Ingest requests and their results: load requests, queue their URLs, read results by request.

One URL of one type is one item of the queue, whatever number of requests names it, and has one result. A load writes requests and
items in the same transaction, so that a stored request is always due, held, waiting or answered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Table, Update, bindparam, func, select, update
from sqlalchemy.dialects.postgresql import insert

from resources.catalog.claims import AGAIN, ranges, ready_keys, to_wake
from resources.catalog.codec import Codec
from resources.catalog.database import (
    insert_missing,
    now_of,
    portions,
    read_transaction,
    slow_read_transaction,
    write_transaction,
)
from resources.catalog.numbers import Numbers, begin_numbering, take_revisions
from resources.catalog.rows import QueueItem, redacted
from resources.catalog.schema import READY, ingest_file_result, ingest_request, queue
from resources.scope import INGEST_YEAR, ItemKind, Lane, WorkScope
from resources.tables import INGEST_RESULTS

_PAGE = 1_000
_INGEST = queue.c.kind == str(ItemKind.INGEST)
_REQUEST_COLUMNS = tuple(column.name for column in ingest_request.columns)
_ITEM_COLUMNS = (
    *("work_id", "year", "priority", "record", "plan_hash", "state", "not_before", "next_group", "tries"),
    *("updated_at", "kind"),
)
_RESULT = Codec(INGEST_RESULTS)
_ADD_REQUEST = insert_missing(ingest_request)


@dataclass(frozen=True, slots=True)
class IngestRow:
    """A request to be stored, and the item of the queue that answers it. Without `record` there is no item: `answer` is stored as
    its result at once."""

    item_id: str
    ingest_type: str
    base_url: str
    link_source: str
    link_source_id: str
    ingest_request_source: str | None
    release_stage: str | None
    request: str  # JSON
    lane: int
    record: str | None  # JSON of the item
    plan_hash: str = "ingest"
    next_group: str | None = None
    again_after_s: float | None = (
        None  # a result older than this is not enough; 0: the URL is fetched again in any case
    )
    answer: Mapping[str, Any] | None = None  # columns of a result


class LoadCounts(NamedTuple):
    """How many requests a load was given, and what it did with them."""

    requests: int = 0
    new: int = 0  # stored now; others were there before
    items: int = 0  # URLs that were queued
    reopened: int = 0  # URLs that are fetched again

    def __add__(self, other: object) -> LoadCounts:
        assert isinstance(other, LoadCounts)
        return LoadCounts(*(a + b for a, b in zip(tuple(self), tuple(other), strict=True)))


class IngestState(NamedTuple):
    """One request with its item of the queue, and its result as far as there is one."""

    request: dict[str, Any]  # the row of ingest_request
    item: QueueItem | None
    result: dict[str, Any] | None  # the row of ingest_file_result, decoded


class IngestCount(NamedTuple):
    ingest_type: str
    link_source: str
    status: str | None  # None: no result yet
    requests: int


def _save_results() -> Any:
    """Insert a result, or replace one; a failure never replaces a success."""
    statement = insert(ingest_file_result)
    new = {c.name: statement.excluded[c.name] for c in ingest_file_result.columns if not c.primary_key}
    not_worse = (ingest_file_result.c.hit == 0) | (statement.excluded.hit == 1)
    keys = list(ingest_file_result.primary_key.columns)
    return statement.on_conflict_do_update(index_elements=keys, set_=new, where=not_worse)


SAVE_RESULTS = _save_results()
_RAISE = update(queue).where(queue.c.work_id == bindparam("id"), queue.c.priority < bindparam("lane"))
_RAISE = _RAISE.values(priority=bindparam("lane"))
_REOPEN: Update = (
    update(queue)
    .where(queue.c.work_id == bindparam("id"), queue.c.state != "leased")
    .values(
        **AGAIN,
        progress=None,
        tries=0,
        record=bindparam("to_record"),
        plan_hash=bindparam("to_plan"),
        next_group=bindparam("to_group"),
        priority=bindparam("lane"),
        updated_at=bindparam("at"),
    )
)


class Ingest(Numbers):
    def add_ingest_requests(self, rows: Iterable[IngestRow]) -> LoadCounts:
        """Store requests that are new, and queue the URLs that are new or must be fetched again. Bounded memory: one portion at
        a time, each durable when the next begins."""
        total = LoadCounts()
        for portion in portions(rows):
            total += self._add_ingest_requests(portion)
        return total

    @write_transaction
    def _add_ingest_requests(self, connection: Connection, rows: list[IngestRow]) -> LoadCounts:
        now = now_of(connection)
        ids = {row.item_id for row in rows}
        columns = (queue.c.work_id, queue.c.state)
        known = dict(tuple(found) for found in connection.execute(select(*columns).where(queue.c.work_id.in_(ids))))
        fresh = [row for row in rows if row.item_id not in known]
        items = {row.item_id: row for row in fresh if row.record is not None}
        requests = [_request_values(row, now) for row in fresh]
        new = _insert(connection, ingest_request, _REQUEST_COLUMNS, requests)
        # in order, so that two processes that add the same items cannot deadlock
        added = _insert(connection, queue, _ITEM_COLUMNS, [_item_values(items[i], now) for i in sorted(items)])
        answered = [row for row in fresh if row.answer is not None]
        if answered:
            _answer(connection, answered, now)
        again = reopened = 0
        if known:
            again, reopened = self._add_to_known(connection, [row for row in rows if row.item_id in known], known, now)
        return LoadCounts(len(rows), new + again, added, reopened)

    def _add_to_known(
        self, connection: Connection, rows: list[IngestRow], known: Mapping[str, str], now: float
    ) -> tuple[int, int]:
        """Requests for URLs that are queued or were fetched: (new requests, URLs that are fetched again)."""
        new = [
            row
            for row in rows
            if connection.execute(
                _ADD_REQUEST, dict(zip(_REQUEST_COLUMNS, _request_values(row, now), strict=True))
            ).rowcount
        ]
        connection.execute(_RAISE, [{"id": row.item_id, "lane": row.lane} for row in rows])
        demanding = {row.item_id: row for row in rows if row.again_after_s is not None}
        ages = _ages(connection, [i for i in demanding if known[i] == "done"], now) if demanding else {}
        stale = [i for i, age in sorted(ages.items()) if age >= (demanding[i].again_after_s or 0.0)]
        forced = [i for i, row in demanding.items() if row.again_after_s == 0 and known[i] in ("queued", "retry")]
        reopened = 0
        for item_id in dict.fromkeys([*stale, *sorted(forced)]):
            row = demanding[item_id]
            values = {"to_record": row.record, "to_plan": row.plan_hash, "to_group": row.next_group, "at": now}
            reopened += connection.execute(_REOPEN, {"id": item_id, "lane": row.lane, **values}).rowcount
        touched = {row.item_id for row in new if known[row.item_id] == "done"} - set(stale)
        if touched:  # whoever follows the results by revision sees that one more request is answered
            _touch(connection, sorted(touched))
        return len(new), reopened

    # results

    @read_transaction
    def ingest_states(self, connection: Connection, item_id: str) -> list[IngestState]:
        """The requests that an item answers, each with the item and its result."""
        row = connection.execute(select(queue).where(_INGEST, queue.c.work_id == item_id)).mappings().first()
        result = connection.execute(_result_of(ingest_file_result.c.item_id == item_id)).mappings().first()
        item = QueueItem.from_row(row) if row is not None else None
        if item is not None:
            wanted = item.record["ingest"]["type"], item.record["urls"][0]
        elif result is not None:
            wanted = result["ingest_type"], result["base_url"]
        else:
            return []
        c = ingest_request.c
        found = select(ingest_request).where(c.ingest_type == wanted[0], c.base_url == wanted[1])
        rows = connection.execute(found.order_by(c.link_source, c.link_source_id)).mappings().all()
        decoded = ingest_result(result) if result is not None else None
        return [IngestState(dict(each), item, decoded) for each in rows]

    def ingest_results(
        self, after: int = 0, *, statuses: Sequence[str] = (), limit: int | None = None
    ) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        """(request, result) in the order of the results' revision, beginning after one; a result comes once for each request
        that it answers. `limit`: results, not pairs."""
        left, c = limit, ingest_file_result.c
        chosen = (c.revision <= self.last_numbers().revision, *((c.status.in_(statuses),) if statuses else ()))
        while left is None or left > 0:
            size = _PAGE if left is None else min(_PAGE, left)
            page = self._rows(_result_of(c.revision > after, *chosen).order_by(c.revision).limit(size))
            results = {row["revision"]: ingest_result(row) for row in page}
            for request, revision in self._requests_of(after, max(results, default=after), chosen):
                if revision in results:
                    yield request, results[revision]
            if len(page) < size:
                return
            after, left = page[-1]["revision"], None if left is None else left - len(page)

    def _requests_of(
        self, after: int, up_to: int, chosen: Sequence[ColumnElement[bool]]
    ) -> Iterator[tuple[dict[str, Any], int]]:
        r, c = ingest_request.c, ingest_file_result.c
        same = (r.ingest_type == c.ingest_type) & (r.base_url == c.base_url)
        found = select(ingest_request, c.revision).join(ingest_file_result, same)
        found = found.where(c.revision > after, c.revision <= up_to, *chosen)
        for row in self._rows(found.order_by(c.revision, r.link_source, r.link_source_id)):
            yield {name: row[name] for name in _REQUEST_COLUMNS}, row["revision"]

    @slow_read_transaction
    def ingest_counts(self, connection: Connection) -> list[IngestCount]:
        """Requests by type, link source and status of their result, the most frequent first."""
        r, c = ingest_request.c, ingest_file_result.c
        same = (r.ingest_type == c.ingest_type) & (r.base_url == c.base_url)
        columns = (r.ingest_type, r.link_source, c.status)
        found = select(*columns, func.count()).select_from(ingest_request.outerjoin(ingest_file_result, same))
        rows = connection.execute(found.group_by(*columns).order_by(func.count().desc(), *columns))
        return [IngestCount(*row) for row in rows]

    @slow_read_transaction
    def ingest_items(self, connection: Connection) -> dict[tuple[Lane, str], int]:
        """Items of the queue by lane and state (queued, leased, retry, done)."""
        found = select(queue.c.priority, queue.c.state, func.count()).where(_INGEST)
        rows = connection.execute(found.group_by(queue.c.priority, queue.c.state))
        return {(Lane(lane), state): count for lane, state, count in rows}

    @read_transaction
    def open_ingest_items(self, connection: Connection, limit: int) -> int:
        """How many items wait for their turn; no more than `limit` are counted, and none beyond a million one by one."""
        counted = min(limit, 1_000_000)
        ready = select(queue.c.work_id).where(READY[ItemKind.INGEST]).limit(counted).subquery()
        few = connection.scalar(select(func.count()).select_from(ready)) or 0
        if few < counted or counted == limit:
            return few
        return connection.scalar(select(func.count()).select_from(queue).where(READY[ItemKind.INGEST])) or 0

    @read_transaction
    def ingest_due(self, connection: Connection, lane: Lane, limit: int = 10_000) -> int:
        """How many items of a lane could be claimed now; no more than `limit` are counted."""
        scope = WorkScope(lanes=(lane,))
        (part,) = ranges(scope)
        due = [ready_keys(part), *to_wake(now_of(connection), "", scope)[:2]]
        counts = (connection.scalar(select(func.count()).select_from(d.limit(limit).subquery())) or 0 for d in due)
        return min(limit, sum(counts))


def _request_values(row: IngestRow, now: float) -> tuple[Any, ...]:
    key = (row.ingest_type, row.base_url, row.link_source, row.link_source_id)
    return (*key, now, row.ingest_request_source, row.release_stage, row.request)


def _item_values(row: IngestRow, now: float) -> tuple[Any, ...]:
    state = (row.plan_hash, "queued", 0.0, row.next_group, 0, now, str(ItemKind.INGEST))
    return (row.item_id, INGEST_YEAR, row.lane, row.record, *state)


def _insert(connection: Connection, table: Table, columns: Sequence[str], rows: list[tuple[Any, ...]]) -> int:
    """Insert rows whose key is not there yet, as fast as the database takes them; returns how many."""
    if not rows:
        return 0
    names = ", ".join(columns)
    if connection.dialect.name == "sqlite":
        marks = ", ".join("?" * len(columns))
        statement = f"INSERT INTO {table.name} ({names}) VALUES ({marks}) ON CONFLICT DO NOTHING"
        return connection.exec_driver_sql(statement, rows).rowcount
    driver = connection.connection.driver_connection
    assert driver is not None
    part = f"loading_{table.name}"
    with driver.cursor() as cursor:
        cursor.execute(f"CREATE TEMPORARY TABLE {part} ON COMMIT DROP AS SELECT {names} FROM {table.name} WITH NO DATA")
        with cursor.copy(f"COPY {part} ({names}) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
        cursor.execute(f"INSERT INTO {table.name} ({names}) SELECT {names} FROM {part} ON CONFLICT DO NOTHING")
        return int(cursor.rowcount)


def _result_of(*conditions: ColumnElement[bool]) -> Any:
    return select(ingest_file_result).where(*conditions)


def _ages(connection: Connection, item_ids: Sequence[str], now: float) -> dict[str, float]:
    """How old the results of items are, in seconds: since the capture that was used, else since the download."""
    c = ingest_file_result.c
    found = select(c.item_id, c.updated, c.terminal_dt, c.hit).where(c.item_id.in_(item_ids))
    ages = dict.fromkeys(item_ids, float("inf"))
    for row in connection.execute(found):
        taken = _epoch(row.terminal_dt) if row.terminal_dt else row.updated
        ages[row.item_id] = now - taken if row.hit else float("inf")
    return ages


def _epoch(moment: str) -> float:
    try:
        return datetime.strptime(moment.ljust(14, "0"), "%Y%m%d%H%M%S").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return 0.0


def _answer(connection: Connection, rows: Sequence[IngestRow], now: float) -> None:
    """Store the results of requests that need no search."""
    begin_numbering(connection)
    for row, number in zip(rows, take_revisions(connection, len(rows)), strict=True):
        assert row.answer is not None
        named = {"ingest_type": row.ingest_type, "base_url": row.base_url, "item_id": row.item_id}
        connection.execute(SAVE_RESULTS, ingest_result_row({**row.answer, **named}, now, number))


def _touch(connection: Connection, item_ids: Sequence[str]) -> None:
    c = ingest_file_result.c
    keys = connection.execute(select(c.ingest_type, c.base_url).where(c.item_id.in_(item_ids))).all()
    begin_numbering(connection)
    for (ingest_type, base_url), number in zip(keys, take_revisions(connection, len(keys)), strict=True):
        same = (c.ingest_type == ingest_type) & (c.base_url == base_url)
        connection.execute(update(ingest_file_result).where(same).values(revision=number))


def ingest_result_row(values: Mapping[str, Any], updated: float, revision: int) -> dict[str, Any]:
    """The row of a result, in which URLs have no credentials; `base_url` is a key and stays as it was given."""
    others = redacted({name: value for name, value in values.items() if name != "base_url"})
    row = _RESULT.encode({"hops": (), "flags": (), "tries": 0, **others})
    return {**row, "base_url": values["base_url"], "updated": updated, "revision": revision}


def ingest_result(row: Mapping[Any, Any]) -> dict[str, Any]:
    """The values of a row of `ingest_file_result`."""
    return _RESULT.decode(row)
