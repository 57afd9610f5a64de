"""The catalog: the source of truth about works, runs, attempts, artifacts and outcomes; manifests are rebuilt from it.

Adds to queue, hosts, exports and queries the commit of a batch in one transaction, and the start and end of runs. It decides
nothing about works.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Update, bindparam, insert, null, select, update
from sqlalchemy import func as sql

from resources.catalog import rows
from resources.catalog.checked import Checked
from resources.catalog.codec import to_json
from resources.catalog.database import (
    insert_missing,
    now_of,
    portions,
    retry_lost_transactions,
    slow_read_transaction,
    upsert,
    write_transaction,
)
from resources.catalog.exports import Exports, write_slice
from resources.catalog.hosts import Hosts
from resources.catalog.ingest import SAVE_RESULTS, Ingest, ingest_result_row
from resources.catalog.names import Names
from resources.catalog.numbers import begin_numbering, take_revisions
from resources.catalog.prepared import PreparedStatement
from resources.catalog.queries import Queries
from resources.catalog.queue import Queue
from resources.catalog.rows import Batch, Committed, Finished, Parked, Run, SetAside
from resources.catalog.schema import artifacts, attempts, catalog_entries, queue, runs, set_aside
from resources.catalog.spending import Spending
from resources.records import Reason


def _change_artifacts(*columns: str) -> Update:
    """Set columns of rows that are there already. The parameters are those of `rows.artifact_change`."""
    same = [artifacts.c[name] == bindparam(f"same_{name}") for name in rows.ARTIFACT_KEY]
    return update(artifacts).where(*same).values({name: bindparam(f"new_{name}") for name in columns})


_ADD_ATTEMPTS = PreparedStatement(insert_missing(attempts), rows.ATTEMPT_COLUMNS)
_ADD_ARTIFACTS = PreparedStatement(insert_missing(artifacts), rows.ARTIFACT_COLUMNS)
_LEARN_VALIDATORS = PreparedStatement(_change_artifacts("etag", "last_modified"))
_MOVE_ARTIFACTS = PreparedStatement(_change_artifacts("path"))
_SAVE_ENTRIES = PreparedStatement(
    upsert(catalog_entries, [c.name for c in catalog_entries.columns if not c.primary_key]), rows.ENTRY_COLUMNS
)
_HELD = (
    select(queue.c.work_id, queue.c.lease_owner, queue.c.plan_hash)
    .where(queue.c.state == "leased", queue.c.work_id.in_(bindparam("ids", expanding=True)))
    .order_by(queue.c.work_id)
    .with_for_update()
)
_SETTLE = PreparedStatement(
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
        lease_owner=null(),
        lease_until=null(),
        updated_at=bindparam("at"),
    )
)


class Catalog(Queue, Ingest, Hosts, Spending, Exports, Names, Checked, Queries):
    @retry_lost_transactions
    def commit(self, batch: Batch) -> Committed:
        """Make a batch durable, all or nothing, and return what was recorded.

        Nothing is recorded of a work whose lease was lost. Attempts did happen, so they are kept in any case; one that is
        already there, by its key, is left as it is.
        """
        with self._write() as connection:
            begin_numbering(connection)
            now = now_of(connection)
            plans = _plans_of_held(connection, [*batch.finished, *batch.parked])
            finished = [
                replace(item, retry_at=now, progress=None) if _is_replanned(item, plans) else item
                for item in batch.finished
                if (item.work_id, item.owner) in plans
            ]
            parked = [item for item in batch.parked if (item.work_id, item.owner) in plans]
            kept = _better_before(connection, finished)
            _save_ingest_results(connection, [item for item in finished if item.result is not None], now)
            changed = [item for item in finished if not item.outcome.leaves_as_is and item.work_id not in kept]
            changed = [item for item in changed if item.result is None]
            numbers = take_revisions(connection, len(changed))
            entries = [rows.entry_of(item, now, n) for item, n in zip(changed, numbers, strict=True)]
            _ADD_ATTEMPTS.run(connection, [rows.attempt_to_row(record) for record in batch.attempts])
            files = [row for item in finished if item.work_id not in kept for row in rows.artifact_rows(item, now)]
            again = len(files) - _ADD_ARTIFACTS.run(connection, files)
            known = finished if again else [item for item in finished if item.outcome.leaves_as_is]
            _LEARN_VALIDATORS.run(connection, [row for item in known for row in rows.validator_rows(item)])
            moved = [row for item in finished if item.superseded for row in rows.artifact_rows(item, now)]
            _MOVE_ARTIFACTS.run(connection, [rows.artifact_change(row, "path") for row in moved])
            _SAVE_ENTRIES.run(connection, [rows.entry_to_row(entry) for entry in entries])
            settled = [_settled(item, plans, now) for item in finished]
            _SETTLE.run(connection, settled + [_settled(item, plans, now) for item in parked])
        claims: list[Finished | Parked] = [*batch.finished, *batch.parked]
        lost = {item.work_id for item in claims if (item.work_id, item.owner) not in plans}
        return Committed(entries, sorted(lost), sorted(kept))

    def add_set_aside(self, rows: Iterable[SetAside]) -> None:
        """Record items that could not be read."""
        for portion in portions(rows):
            self._add_set_aside(portion)

    @write_transaction
    def _add_set_aside(self, connection: Connection, rows: list[SetAside]) -> None:
        now = now_of(connection)
        connection.execute(insert(set_aside), [{**row._asdict(), "ts": now} for row in rows])

    def set_aside(self, run_id: str | None = None) -> list[SetAside]:
        statement = select(*(set_aside.c[name] for name in SetAside._fields)).order_by(set_aside.c.id)
        if run_id is not None:
            statement = statement.where(set_aside.c.run_id == run_id)
        return [SetAside(**row) for row in self._rows(statement)]

    # runs

    @write_transaction
    def start_run(
        self, connection: Connection, run_id: str, kind: str, config_hash: str, scope: Mapping[str, Any]
    ) -> None:
        """Open a run. A known one is opened again and keeps the time and the configuration of its first start; outcomes name the
        configuration that they were made with."""
        values = {"run_id": run_id, "kind": kind, "config_hash": config_hash, "scope": to_json(scope)}
        times = {"started_at": now_of(connection), "finished_at": None, "summary": None}
        connection.execute(upsert(runs, ["scope", "finished_at", "summary"]), {**values, **times})

    @write_transaction
    def finish_run(self, connection: Connection, run_id: str, summary: Mapping[str, Any]) -> None:
        self._need_run(connection, run_id)
        ended = {"finished_at": now_of(connection), "summary": to_json(summary)}
        connection.execute(update(runs).where(runs.c.run_id == run_id).values(**ended))

    @write_transaction
    def report_progress(self, connection: Connection, run_id: str, progress: Mapping[str, Any]) -> None:
        """Store where a run is, for other processes to see."""
        connection.execute(update(runs).where(runs.c.run_id == run_id).values(progress=to_json(progress)))

    def run(self, run_id: str) -> Run | None:
        return next(map(Run.from_row, self._rows(select(runs).where(runs.c.run_id == run_id))), None)

    def runs(self) -> list[Run]:
        """All runs, the latest first."""
        return [Run.from_row(row) for row in self._rows(select(runs).order_by(runs.c.started_at.desc(), runs.c.run_id))]

    @slow_read_transaction
    def slice_to(self, connection: Connection, path: Path, run_id: str) -> None:
        """Write the rows of one run as a catalog file of its own, which appears only when it is whole."""
        self._need_run(connection, run_id)
        write_slice(connection, path, run_id)


_Plans = Mapping[tuple[str, str], str]  # by (work, owner) for the works that the owner still holds


def _plans_of_held(connection: Connection, items: Sequence[Finished | Parked]) -> _Plans:
    """The current plans of the works that are still held by their owner. Locks them by id (see `_lock` in queue.py), so that an
    expired lease is not taken over while its work is being settled."""
    if not items:
        return {}
    held = connection.execute(_HELD, {"ids": [item.work_id for item in items]})
    return {(work_id, owner): plan_hash for work_id, owner, plan_hash in held}


def _better_before(connection: Connection, finished: Sequence[Finished]) -> set[str]:
    """The works that have a full text, and now ended without one or with a page only: they keep what they have. A file that was
    found to be lost does not count."""
    worse = [i for i in finished if not i.lost_file and (not i.outcome.ok or i.outcome.reason is Reason.HTML_ONLY)]
    if not worse:
        return set()
    c = catalog_entries.c
    good = select(c.work_id, c.reason).where(c.work_id.in_([i.work_id for i in worse]), c.path.is_not(None))
    before = {row.work_id: row.reason for row in connection.execute(good)}
    pages = {i.work_id for i in worse if i.outcome.ok}
    return {work_id for work_id, reason in before.items() if work_id not in pages or reason != Reason.HTML_ONLY}


def _save_ingest_results(connection: Connection, finished: Sequence[Finished], now: float) -> None:
    if not finished:
        return
    results = [{**item.result, "run_id": item.run_id} for item in finished if item.result is not None]
    numbers = take_revisions(connection, len(results))
    saved = [ingest_result_row(values, now, number) for values, number in zip(results, numbers, strict=True)]
    connection.execute(SAVE_RESULTS, saved)


def _is_replanned(item: Finished, plans: _Plans) -> bool:
    """Whether a work without success has another plan by now than the one that was executed. It is then due at once, because the
    new plan was not tried."""
    if item.outcome.ok or item.plan_hash is None:
        return False
    return plans[item.work_id, item.owner] not in (item.plan_hash, item.claimed_plan_hash)


def _settled(item: Finished | Parked, plans: _Plans, now: float) -> dict[str, Any]:
    """The parameters of _SETTLE. The plan that was executed becomes the plan of the work, unless it got a newer one meanwhile."""
    due = item.retry_at if isinstance(item, Finished) else item.not_before
    waits = due is not None and due > now
    if isinstance(item, Finished):
        state = "retry" if waits else "done" if due is None else "queued"
        why, tries = str(item.outcome.reason) if waits else None, int(due is not None and item.counts)
    else:
        state, why, tries = "queued", item.reason, 0
    unchanged = plans[item.work_id, item.owner] == item.claimed_plan_hash
    return {
        "id": item.work_id,
        "to_state": state,
        "until": due if waits else 0.0,
        "to_progress": None if item.progress is None else to_json(item.progress),
        "to_group": item.next_group,
        "to_plan": item.plan_hash if unchanged else None,
        "more_tries": tries,
        "why": why,
        "at": now,
    }


CatalogConnector = Catalog  # the name that programs import
