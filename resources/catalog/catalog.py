"""The catalog: the one truth about works, runs, attempts, artifacts and outcomes; manifests are rebuilt from it.

Adds to the queue, the hosts and the queries what changes: a batch becomes durable in one transaction, runs begin and end,
exports note how far they came. It decides nothing about works.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, bindparam, insert, select, update
from sqlalchemy import func as sql

from resources.catalog.database import insert_missing, now_of, portions, retry_lost_transactions, upsert
from resources.catalog.exports import Exports
from resources.catalog.hosts import Hosts
from resources.catalog.names import Names
from resources.catalog.queries import Queries
from resources.catalog.queue import Queue
from resources.catalog.rows import (
    Batch,
    Committed,
    Finished,
    Parked,
    Run,
    SetAside,
    artifact_rows,
    attempt_to_row,
    entry_from_row,
    entry_to_row,
    run_from_row,
    to_json,
    validator_rows,
)
from resources.catalog.schema import artifacts, attempts, catalog_entries, meta, queue, runs, set_aside
from resources.catalog.slices import write_slice
from resources.catalog.spending import Spending
from resources.records import Reason

_ADD_ATTEMPTS = insert_missing(attempts)
_ADD_ARTIFACTS = insert_missing(artifacts)
_LEARN_VALIDATORS = (
    update(artifacts)
    .where(
        artifacts.c.work_id == bindparam("of_work"),
        artifacts.c.url == bindparam("of_url"),
        artifacts.c.sha256 == bindparam("of_bytes"),
    )
    .values(etag=bindparam("now_etag"), last_modified=bindparam("now_modified"))
)
_SAVE_ENTRIES = upsert(catalog_entries, [c.name for c in catalog_entries.columns if not c.primary_key])
_MOVED = ("work_id", "url", "sha256", "path")
# The same bytes from the same URL under a later name: the row is there already.
_MOVE_ARTIFACTS = (
    update(artifacts)
    .where(*(artifacts.c[name] == bindparam(f"of_{name}") for name in _MOVED[:3]))
    .values(path=bindparam("of_path"))
)
_SETTLE = (
    update(queue)
    .where(queue.c.work_id == bindparam("id"))
    .values(
        state=bindparam("to_state"),
        not_before=bindparam("until"),
        progress=bindparam("to_progress"),
        next_group=sql.coalesce(bindparam("to_group"), queue.c.next_group),
        plan_hash=sql.coalesce(bindparam("to_plan"), queue.c.plan_hash),
        tries=queue.c.tries + bindparam("more_tries"),
        wait_reason=bindparam("why"),
        lease_owner=None,
        lease_until=None,
        updated_at=bindparam("at"),
    )
)


class Catalog(Queue, Hosts, Spending, Exports, Names, Queries):
    # what happened

    @retry_lost_transactions
    def commit(self, batch: Batch) -> Committed:
        """Make a batch durable, all or nothing, and return what was recorded.

        Nothing is recorded of a work whose lease was lost. Attempts did happen, so they are kept in any case; one that is
        already there, by its key, is left as it is.
        """
        with self._write() as connection:
            # Taking the numbers first also lets only one commit at a time through on any database, so that a reader who
            # follows by number never passes over a row that is committed late.
            revision = _take_revisions(connection, len(batch.finished))
            now = now_of(connection)
            plans = _plans_of_held(connection, [*batch.finished, *batch.parked])
            finished = [
                replace(item, retry_at=now, progress=None) if _is_replanned(item, plans) else item
                for item in batch.finished
                if (item.work_id, item.owner) in plans
            ]
            parked = [item for item in batch.parked if (item.work_id, item.owner) in plans]
            kept = _better_before(connection, finished)
            changed = [item for item in finished if not item.outcome.leaves_as_is and item.work_id not in kept]
            entries = [entry_to_row(item, now, revision + n) for n, item in enumerate(changed)]
            _execute(connection, _ADD_ATTEMPTS, [attempt_to_row(record) for record in batch.attempts])
            files = [row for item in finished if item.work_id not in kept for row in artifact_rows(item, now)]
            again = len(files) - (connection.execute(_ADD_ARTIFACTS, files).rowcount if files else 0)
            known = finished if again else [item for item in finished if item.outcome.leaves_as_is]
            _execute(connection, _LEARN_VALIDATORS, [row for item in known for row in validator_rows(item)])
            moved = [row for item in finished if item.lets_go for row in artifact_rows(item, now)]
            _execute(connection, _MOVE_ARTIFACTS, [{f"of_{name}": row[name] for name in _MOVED} for row in moved])
            _execute(connection, _SAVE_ENTRIES, entries)
            settled = [{**_after_finish(item, now), **_settled(item, plans, now)} for item in finished]
            settled += [{**_after_park(item, now), **_settled(item, plans, now)} for item in parked]
            _execute(connection, _SETTLE, settled)
        claims: list[Finished | Parked] = [*batch.finished, *batch.parked]
        lost = {item.work_id for item in claims if (item.work_id, item.owner) not in plans}
        return Committed([entry_from_row(row) for row in entries], sorted(lost), sorted(kept))

    def add_set_aside(self, rows: Iterable[SetAside]) -> None:
        """Remember items that could not be read."""
        for portion in portions(rows):
            self._add_set_aside(portion)

    @retry_lost_transactions
    def _add_set_aside(self, rows: list[SetAside]) -> None:
        with self._write() as connection:
            now = now_of(connection)
            values = [
                {"run_id": r.run_id, "source": r.source, "item": r.item, "reason": r.reason, "ts": now} for r in rows
            ]
            connection.execute(insert(set_aside), values)

    def set_aside(self, run_id: str | None = None) -> list[SetAside]:
        columns = (set_aside.c.run_id, set_aside.c.source, set_aside.c.item, set_aside.c.reason)
        statement = select(*columns).order_by(set_aside.c.id)
        if run_id is not None:
            statement = statement.where(set_aside.c.run_id == run_id)
        return [SetAside(**row) for row in self._rows(statement)]

    # runs

    @retry_lost_transactions
    def start_run(self, run_id: str, kind: str, config_hash: str, scope: Mapping[str, Any]) -> None:
        """Open a run. One that is already known is opened again and keeps the time and configuration of its first start:
        what is done under another one names it."""
        opening = upsert(runs, ["scope", "finished_at", "summary"])
        values = {"run_id": run_id, "kind": kind, "config_hash": config_hash, "scope": to_json(scope)}
        with self._write() as connection:
            times = {"started_at": now_of(connection), "finished_at": None, "summary": None}
            connection.execute(opening, {**values, **times})

    @retry_lost_transactions
    def finish_run(self, run_id: str, summary: Mapping[str, Any]) -> None:
        with self._write() as connection:
            self._need_run(connection, run_id)
            ended = {"finished_at": now_of(connection), "summary": to_json(summary)}
            connection.execute(update(runs).where(runs.c.run_id == run_id).values(**ended))

    @retry_lost_transactions
    def report_progress(self, run_id: str, progress: Mapping[str, Any]) -> None:
        """Let others see where a run is."""
        with self._write() as connection:
            connection.execute(update(runs).where(runs.c.run_id == run_id).values(progress=to_json(progress)))

    def run(self, run_id: str) -> Run | None:
        return next(map(run_from_row, self._rows(select(runs).where(runs.c.run_id == run_id))), None)

    def runs(self) -> list[Run]:
        """All runs, the latest first."""
        return [run_from_row(row) for row in self._rows(select(runs).order_by(runs.c.started_at.desc(), runs.c.run_id))]

    @retry_lost_transactions
    def slice_to(self, path: Path, run_id: str) -> None:
        """Write what belongs to one run as a catalog file of its own, which appears only when it is whole."""
        with self._read(slow=True) as source:
            self._need_run(source, run_id)
            write_slice(source, path, run_id)


_Plans = Mapping[tuple[str, str], str]  # by (work, owner) for the works that the owner still holds


def _take_revisions(connection: Connection, count: int) -> int:
    """The first of `count` new revisions."""
    counter = update(meta).where(meta.c.key == "revision").values(value=meta.c.value + count).returning(meta.c.value)
    return int(connection.execute(counter).scalar_one()) - count + 1


def _plans_of_held(connection: Connection, items: Sequence[Finished | Parked]) -> _Plans:
    """The plans that the queue has by now for the works that are still held by their owner."""
    statement = select(queue.c.work_id, queue.c.lease_owner, queue.c.plan_hash).where(
        queue.c.state == "leased", queue.c.work_id.in_([item.work_id for item in items])
    )
    # By id, as everywhere (see queue.py). An expired lease is not taken over while its work is being settled.
    statement = statement.order_by(queue.c.work_id).with_for_update()
    return {(row.work_id, row.lease_owner): row.plan_hash for row in connection.execute(statement)}


def _better_before(connection: Connection, finished: Sequence[Finished]) -> set[str]:
    """The works that have a full text, and now ended without one or with a page only. What they have stands, and what is known of
    it; a file that was found to be lost is none."""
    worse = [i for i in finished if not i.lost_file and (not i.outcome.ok or i.outcome.reason is Reason.HTML_ONLY)]
    if not worse:
        return set()
    c = catalog_entries.c
    good = select(c.work_id, c.reason).where(c.work_id.in_([i.work_id for i in worse]), c.path.is_not(None))
    before = {row.work_id: row.reason for row in connection.execute(good)}
    pages = {i.work_id for i in worse if i.outcome.ok}
    return {work_id for work_id, reason in before.items() if work_id not in pages or reason != Reason.HTML_ONLY}


def _is_replanned(item: Finished, plans: _Plans) -> bool:
    """Whether a work without success got another plan after it was claimed than the one that was executed. It is then due at
    once: what was tried is not all that there is."""
    if item.outcome.ok or item.plan_hash is None:
        return False
    return plans[item.work_id, item.owner] not in (item.plan_hash, item.claimed_plan_hash)


def _settled(item: Finished | Parked, plans: _Plans, now: float) -> dict[str, Any]:
    """The plan that was executed becomes the plan of the work, unless the work got a newer one meanwhile."""
    unchanged = plans[item.work_id, item.owner] == item.claimed_plan_hash
    return {"id": item.work_id, "to_plan": item.plan_hash if unchanged else None, "at": now}


def _after_finish(item: Finished, now: float) -> dict[str, Any]:
    again = item.retry_at is not None
    waits = item.retry_at is not None and item.retry_at > now
    return {
        "to_state": "retry" if waits else "queued" if again else "done",
        "until": item.retry_at if waits else 0.0,
        "to_progress": None if item.progress is None else to_json(item.progress),
        "to_group": item.next_group,
        "more_tries": int(again and item.counts),
        "why": str(item.outcome.reason) if waits else None,
    }


def _after_park(item: Parked, now: float) -> dict[str, Any]:
    return {
        "to_state": "queued",
        "until": item.not_before if item.not_before > now else 0.0,
        "to_progress": to_json(item.progress),
        "to_group": item.next_group,
        "more_tries": 0,
        "why": item.reason,
    }


def _execute(connection: Connection, statement: Any, rows: list[dict[str, Any]]) -> None:
    if rows:
        connection.execute(statement, rows)


CatalogConnector = Catalog  # the name that programs import
