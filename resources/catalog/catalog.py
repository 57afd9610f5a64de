"""The catalog: the one truth about works, runs, attempts, artifacts and outcomes; manifests are rebuilt from it.

Adds to the queue and the hosts what happened: a batch becomes durable in one transaction, readers follow by position,
and a run's slice can be written out as a file of its own. Decides nothing about works; it keeps what it is told.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Table, bindparam, insert, select, update
from sqlalchemy import func as sql

from resources.catalog.database import (
    create_tables,
    explained,
    insert_missing,
    now_of,
    sqlite_engine,
    upsert,
)
from resources.catalog.hosts import Hosts
from resources.catalog.queue import Queue, portions, year_is
from resources.catalog.rows import (
    Artifact,
    Batch,
    Entry,
    Finished,
    OutcomeCount,
    Parked,
    Run,
    SetAside,
    StoredAttempt,
    artifact_from_row,
    artifact_of,
    artifact_to_row,
    attempt_from_row,
    attempt_to_row,
    entry_from_row,
    entry_to_row,
    run_from_row,
    to_json,
)
from resources.catalog.schema import (
    SLICE_TABLES,
    artifacts,
    attempts,
    catalog_entries,
    exports,
    meta,
    queue,
    runs,
    set_aside,
)
from resources.catalog.spending import Spending
from resources.records import Classification, Kind, Reason

_PAGE = 1_000
_ADD_ATTEMPTS = insert_missing(attempts)
_ADD_ARTIFACTS = insert_missing(artifacts)
_SAVE_ENTRIES = upsert(catalog_entries, [c.name for c in catalog_entries.columns if not c.primary_key])
_SETTLE = (
    update(queue)
    .where(queue.c.work_id == bindparam("id"))
    .values(
        state=bindparam("to_state"),
        not_before=bindparam("until"),
        progress=bindparam("to_progress"),
        next_group=sql.coalesce(bindparam("to_group"), queue.c.next_group),
        tries=queue.c.tries + bindparam("more_tries"),
        wait_reason=bindparam("why"),
        lease_owner=None,
        lease_until=None,
        updated_at=bindparam("at"),
    )
)


class Catalog(Queue, Hosts, Spending):
    # what happened

    def commit(self, batch: Batch) -> list[str]:
        """Make a batch durable, all or nothing. Returns the works whose lease was lost: nothing is recorded of them.

        Attempts did happen, so they are kept in any case; one that is already there, by its key, is left as it is.
        """
        with self._write() as connection:
            # Taking the numbers first also lets only one commit at a time through on any database, so that a reader who
            # follows by number never passes over a row that is committed late.
            revision = _take_revisions(connection, len(batch.finished))
            now = now_of(connection)
            claims: list[Finished | Parked] = [*batch.finished, *batch.parked]
            held = _held(connection, claims)
            finished = [item for item in batch.finished if (item.work_id, item.owner) in held]
            parked = [item for item in batch.parked if (item.work_id, item.owner) in held]
            lost = {item.work_id for item in claims if (item.work_id, item.owner) not in held}
            files = [artifact for item in finished if (artifact := artifact_of(item)) is not None]
            files += [artifact for artifact in batch.artifacts if artifact.work_id not in lost]
            _execute(connection, _ADD_ATTEMPTS, [attempt_to_row(record) for record in batch.attempts])
            _execute(connection, _ADD_ARTIFACTS, [artifact_to_row(artifact, now) for artifact in files])
            _execute(
                connection, _SAVE_ENTRIES, [entry_to_row(item, now, revision + n) for n, item in enumerate(finished)]
            )
            plans = [held[item.work_id, item.owner] for item in finished]
            settled = [_after_finish(item, plan, now) for item, plan in zip(finished, plans, strict=True)]
            settled += [_after_park(item, now) for item in parked]
            _execute(connection, _SETTLE, settled)
        return sorted(lost)

    def add_set_aside(self, rows: Iterable[SetAside]) -> None:
        """Remember items that could not be read."""
        for portion in portions(rows):
            with self._write() as connection:
                now = now_of(connection)
                values = [
                    {"run_id": r.run_id, "source": r.source, "item": r.item, "reason": r.reason, "ts": now}
                    for r in portion
                ]
                connection.execute(insert(set_aside), values)

    def set_aside(self, run_id: str | None = None) -> list[SetAside]:
        columns = (set_aside.c.run_id, set_aside.c.source, set_aside.c.item, set_aside.c.reason)
        statement = select(*columns).order_by(set_aside.c.id)
        if run_id is not None:
            statement = statement.where(set_aside.c.run_id == run_id)
        with self._read() as connection:
            return [SetAside(*row) for row in connection.execute(statement)]

    # outcomes

    def entry(self, work_id: str) -> Entry | None:
        with self._read() as connection:
            row = (
                connection.execute(select(catalog_entries).where(catalog_entries.c.work_id == work_id))
                .mappings()
                .one_or_none()
            )
        return None if row is None else entry_from_row(row)

    def entries(
        self,
        *,
        year: int | None = None,
        run_id: str | None = None,
        classification: Classification | None = None,
        reason: Reason | None = None,
    ) -> Iterator[Entry]:
        """The latest outcomes by work id, in pages, so that a long reading holds nobody up. `run_id`: settled by it."""
        statement = select(catalog_entries).order_by(catalog_entries.c.work_id).limit(_PAGE)
        if year is not None:
            statement = statement.where(year_is(catalog_entries.c.year, year))
        for column, value in (("run_id", run_id), ("classification", classification), ("reason", reason)):
            if value is not None:
                statement = statement.where(catalog_entries.c[column] == str(value))
        last = ""
        while True:
            with self._read() as connection:
                rows = connection.execute(statement.where(catalog_entries.c.work_id > last)).mappings().all()
            yield from map(entry_from_row, rows)
            if len(rows) < _PAGE:
                return
            last = rows[-1]["work_id"]

    def outcome_counts(self, year: int | None = None, run_id: str | None = None) -> list[OutcomeCount]:
        """How works ended, the most frequent first. `run_id`: those settled by that run."""
        kinds = (catalog_entries.c.classification, catalog_entries.c.reason, catalog_entries.c.kind)
        statement = select(*kinds, sql.count()).group_by(*kinds).order_by(sql.count().desc(), *kinds)
        if year is not None:
            statement = statement.where(year_is(catalog_entries.c.year, year))
        if run_id is not None:
            statement = statement.where(catalog_entries.c.run_id == run_id)
        with self._read() as connection:
            return [
                OutcomeCount(Classification(classification), Reason(reason), Kind(kind) if kind else None, count)
                for classification, reason, kind, count in connection.execute(statement)
            ]

    def artifacts_of(self, work_id: str) -> list[Artifact]:
        """The files that were stored for a work, the first one first."""
        statement = select(artifacts).where(artifacts.c.work_id == work_id).order_by(artifacts.c.id)
        with self._read() as connection:
            return [artifact_from_row(row) for row in connection.execute(statement).mappings()]

    # runs

    def start_run(self, run_id: str, kind: str, config_hash: str, scope: Mapping[str, Any]) -> None:
        """Open a run. One that is already known is opened again and keeps the time of its first start."""
        opening = upsert(runs, ["config_hash", "scope", "finished_at", "summary"])
        values = {"run_id": run_id, "kind": kind, "config_hash": config_hash, "scope": to_json(scope)}
        with self._write() as connection:
            times = {"started_at": now_of(connection), "finished_at": None, "summary": None}
            connection.execute(opening, {**values, **times})

    def finish_run(self, run_id: str, summary: Mapping[str, Any]) -> None:
        with self._write() as connection:
            self._need_run(connection, run_id)
            ended = {"finished_at": now_of(connection), "summary": to_json(summary)}
            connection.execute(update(runs).where(runs.c.run_id == run_id).values(**ended))

    def report_progress(self, run_id: str, progress: Mapping[str, Any]) -> None:
        """Let others see where a run is."""
        with self._write() as connection:
            connection.execute(update(runs).where(runs.c.run_id == run_id).values(progress=to_json(progress)))

    def run(self, run_id: str) -> Run | None:
        with self._read() as connection:
            row = connection.execute(select(runs).where(runs.c.run_id == run_id)).mappings().one_or_none()
        return None if row is None else run_from_row(row)

    def runs(self) -> list[Run]:
        """All runs, the latest first."""
        with self._read() as connection:
            rows = connection.execute(select(runs).order_by(runs.c.started_at.desc(), runs.c.run_id)).mappings().all()
        return [run_from_row(row) for row in rows]

    # exports

    def attempts_after(
        self, position: int, limit: int, *, year: int | None = None, run_id: str | None = None
    ) -> list[StoredAttempt]:
        """The attempts recorded after `position`, in the order in which they were recorded."""
        statement = select(attempts).where(attempts.c.id > position).order_by(attempts.c.id).limit(limit)
        if year is not None:
            statement = statement.where(year_is(attempts.c.year, year))
        if run_id is not None:
            statement = statement.where(attempts.c.run_id == run_id)
        with self._read() as connection:
            return [attempt_from_row(row) for row in connection.execute(statement).mappings()]

    def entries_after(self, revision: int, limit: int) -> list[Entry]:
        """The outcomes that changed after `revision`, each as it is now."""
        changed = catalog_entries.c.revision > revision
        statement = select(catalog_entries).where(changed).order_by(catalog_entries.c.revision).limit(limit)
        with self._read() as connection:
            return [entry_from_row(row) for row in connection.execute(statement).mappings()]

    def artifacts_after(self, position: int, limit: int) -> list[Artifact]:
        statement = select(artifacts).where(artifacts.c.id > position).order_by(artifacts.c.id).limit(limit)
        with self._read() as connection:
            return [artifact_from_row(row) for row in connection.execute(statement).mappings()]

    def export_position(self, name: str) -> int:
        """Up to where the export of that name has come; 0 when it has not begun."""
        with self._read() as connection:
            return connection.scalar(select(exports.c.position).where(exports.c.name == name)) or 0

    def set_export_position(self, name: str, position: int) -> None:
        moving = upsert(exports, ["position", "updated_at"])
        with self._write() as connection:
            connection.execute(moving, {"name": name, "position": position, "updated_at": now_of(connection)})

    def slice_to(self, path: Path, run_id: str) -> None:
        """Write what belongs to one run as a catalog file of its own, which appears only when it is whole."""
        part = path.with_name(f".part-{path.name}-{os.getpid()}")
        with explained(str(path)):
            path.parent.mkdir(parents=True, exist_ok=True)
            part.unlink(missing_ok=True)
            target = sqlite_engine(part, shared=False)
            try:
                with self._read() as source, target.begin() as copy:
                    self._need_run(source, run_id)
                    create_tables(copy)
                    for table in SLICE_TABLES:
                        _copy_rows(source, copy, table, run_id)
                target.dispose()
                with part.open("rb") as written:
                    os.fsync(written.fileno())
                part.replace(path)
            finally:
                target.dispose()
                part.unlink(missing_ok=True)


def _take_revisions(connection: Connection, count: int) -> int:
    """The first of `count` new revisions."""
    counter = update(meta).where(meta.c.key == "revision").values(value=meta.c.value + count).returning(meta.c.value)
    return int(connection.execute(counter).scalar_one()) - count + 1


def _held(connection: Connection, items: Sequence[Finished | Parked]) -> dict[tuple[str, str], str]:
    """The (work, owner) pairs of which the owner still holds the work, with the plan that it has by now."""
    statement = select(queue.c.work_id, queue.c.lease_owner, queue.c.plan_hash).where(
        queue.c.state == "leased", queue.c.work_id.in_([item.work_id for item in items])
    )
    return {(row.work_id, row.lease_owner): row.plan_hash for row in connection.execute(statement)}


def _after_finish(item: Finished, plan_hash: str, now: float) -> dict[str, Any]:
    if not item.outcome.ok and item.plan_hash not in (None, plan_hash):
        item = replace(item, retry_at=now, progress=None)  # what was tried is not all that there is
    again = item.retry_at is not None
    waits = item.retry_at is not None and item.retry_at > now
    return {
        "id": item.work_id,
        "to_state": "retry" if waits else "queued" if again else "done",
        "until": item.retry_at if waits else 0.0,
        "to_progress": None if item.progress is None else to_json(item.progress),
        "to_group": None,
        "more_tries": int(again),
        "why": str(item.outcome.reason) if waits else None,
        "at": now,
    }


def _after_park(item: Parked, now: float) -> dict[str, Any]:
    return {
        "id": item.work_id,
        "to_state": "queued",
        "until": item.not_before if item.not_before > now else 0.0,
        "to_progress": to_json(item.progress),
        "to_group": item.next_group,
        "more_tries": 0,
        "why": item.reason,
        "at": now,
    }


def _execute(connection: Connection, statement: Any, rows: list[dict[str, Any]]) -> None:
    if rows:
        connection.execute(statement, rows)


def _copy_rows(source: Connection, target: Connection, table: Table, run_id: str) -> None:
    marks = ", ".join("?" * len(table.columns))
    for rows in source.execute(select(table).where(table.c.run_id == run_id)).partitions(_PAGE):
        target.exec_driver_sql(f"INSERT INTO {table.name} VALUES ({marks})", [tuple(row) for row in rows])


CatalogConnector = Catalog  # the name that programs import
