"""The catalog: the one truth about works, runs, attempts, artifacts and outcomes; manifests are rebuilt from it.

Adds to the queue and the hosts what happened: a batch becomes durable in one transaction, readers follow by position,
and a run's slice can be written out as a file of its own. Decides nothing about works; it keeps what it is told.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, Table, bindparam, case, insert, select, update
from sqlalchemy import func as sql

from resources.catalog.database import (
    create_tables,
    explained,
    insert_missing,
    now_of,
    retry_lost_transactions,
    sqlite_engine,
    upsert,
)
from resources.catalog.hosts import Hosts
from resources.catalog.queue import Queue, Years, portions, year_is
from resources.catalog.rows import (
    Artifact,
    Batch,
    CountUpTo,
    Entry,
    Finished,
    OutcomeCount,
    Parked,
    Run,
    SetAside,
    StoredAttempt,
    artifact_from_row,
    artifact_to_row,
    artifacts_of,
    attempt_from_row,
    attempt_to_row,
    entry_from_row,
    entry_to_row,
    from_json,
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
    run_works,
    runs,
    set_aside,
)
from resources.catalog.spending import Spending
from resources.records import AttemptRecord, Classification, Kind, Reason, Status

Columns = Mapping[str, Sequence[Any]]  # no columns at all when there are no rows
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

    @retry_lost_transactions
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
            ours = [item for item in batch.finished if (item.work_id, item.owner) in held]
            finished = [_as_planned_by_now(item, held[item.work_id, item.owner], now) for item in ours]
            parked = [item for item in batch.parked if (item.work_id, item.owner) in held]
            lost = {item.work_id for item in claims if (item.work_id, item.owner) not in held}
            files = [artifact for item in finished for artifact in artifacts_of(item)]
            _execute(connection, _ADD_ATTEMPTS, [attempt_to_row(record) for record in batch.attempts])
            _execute(connection, _ADD_ARTIFACTS, [artifact_to_row(artifact, now) for artifact in files])
            changed = [item for item in finished if not item.outcome.leaves_as_is]
            _execute(
                connection, _SAVE_ENTRIES, [entry_to_row(item, now, revision + n) for n, item in enumerate(changed)]
            )
            settled = [_after_finish(item, now) for item in finished]
            settled += [_after_park(item, now) for item in parked]
            _execute(connection, _SETTLE, settled)
        return sorted(lost)

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

    @retry_lost_transactions
    def set_aside(self, run_id: str | None = None) -> list[SetAside]:
        columns = (set_aside.c.run_id, set_aside.c.source, set_aside.c.item, set_aside.c.reason)
        statement = select(*columns).order_by(set_aside.c.id)
        if run_id is not None:
            statement = statement.where(set_aside.c.run_id == run_id)
        with self._read() as connection:
            return [SetAside(*row) for row in connection.execute(statement)]

    # outcomes

    @retry_lost_transactions
    def entry(self, work_id: str) -> Entry | None:
        with self._read() as connection:
            row = (
                connection.execute(select(catalog_entries).where(catalog_entries.c.work_id == work_id))
                .mappings()
                .one_or_none()
            )
        return None if row is None else entry_from_row(row)

    def entries_of(self, work_ids: Iterable[str]) -> Iterator[Entry]:
        """The latest outcomes of these works, those that have one."""
        for portion in portions(work_ids):
            yield from self._entries(select(catalog_entries).where(catalog_entries.c.work_id.in_(portion)))

    def entries(
        self,
        *,
        year: Years | None = None,
        run_id: str | None = None,
        of_run: str | None = None,
        classification: Classification | None = None,
        reason: Reason | None = None,
    ) -> Iterator[Entry]:
        """The latest outcomes by work id, in pages, so that a long reading holds nobody up.

        `run_id`: settled by that run; `of_run`: of works that the run was to settle, whoever did.
        """
        statement = select(catalog_entries).order_by(catalog_entries.c.work_id).limit(_PAGE)
        if year is not None:
            statement = statement.where(year_is(catalog_entries.c.year, year))
        if of_run is not None:
            statement = statement.where(catalog_entries.c.work_id.in_(_works_of(of_run)))
        for column, value in (("run_id", run_id), ("classification", classification), ("reason", reason)):
            if value is not None:
                statement = statement.where(catalog_entries.c[column] == str(value))
        last = ""
        while True:
            page = self._entries(statement.where(catalog_entries.c.work_id > last))
            yield from page
            if len(page) < _PAGE:
                return
            last = page[-1].work_id

    @retry_lost_transactions
    def _entries(self, statement: Select[Any]) -> list[Entry]:
        with self._read() as connection:
            return [entry_from_row(row) for row in connection.execute(statement).mappings()]

    @retry_lost_transactions
    def outcome_counts(
        self, year: Years | None = None, run_id: str | None = None, *, of_run: str | None = None
    ) -> list[OutcomeCount]:
        """How works ended, the most frequent first. `run_id` and `of_run` as for `entries`."""
        kinds = (catalog_entries.c.classification, catalog_entries.c.reason, catalog_entries.c.kind)
        statement = (
            select(*kinds, sql.count())
            .group_by(*kinds)
            .order_by(sql.count().desc(), *(kind.nulls_first() for kind in kinds))
        )
        if year is not None:
            statement = statement.where(year_is(catalog_entries.c.year, year))
        if run_id is not None:
            statement = statement.where(catalog_entries.c.run_id == run_id)
        if of_run is not None:
            statement = statement.where(catalog_entries.c.work_id.in_(_works_of(of_run)))
        with self._read() as connection:
            return [
                OutcomeCount(Classification(classification), Reason(reason), Kind(kind) if kind else None, count)
                for classification, reason, kind, count in connection.execute(statement)
            ]

    @retry_lost_transactions
    def latest_files(self, run_id: str, limit: int) -> list[Entry]:
        """What the run stored last, the newest first."""
        c = catalog_entries.c
        stored = (c.run_id == run_id, c.classification == str(Classification.SUCCESS), c.path.is_not(None))
        statement = select(catalog_entries).where(*stored).order_by(c.finished_at.desc(), c.work_id).limit(limit)
        with self._read() as connection:
            return [entry_from_row(row) for row in connection.execute(statement).mappings()]

    def counted_outcomes(self, run_id: str) -> list[dict[str, Any]]:
        """The outcomes that a run settled, equal ones as one row with their number `n`; `waits`: for another try."""
        c = catalog_entries.c
        waits = case((c.retry_at.is_not(None), 1), else_=0).label("waits")
        return self._counted(run_id, catalog_entries, [c.resolver, c.classification, c.reason, waits])

    def counted_attempts(self, run_id: str) -> list[dict[str, Any]]:
        """The attempts of a run, equal ones as one row with their number `n`."""
        c = attempts.c
        return self._counted(run_id, attempts, [c.resolver, c.role, c.status, c.reason, c.http_status])

    @retry_lost_transactions
    def _counted(self, run_id: str, table: Table, columns: Sequence[ColumnElement[Any]]) -> list[dict[str, Any]]:
        statement = select(*columns, sql.count().label("n")).where(table.c.run_id == run_id)
        with self._read() as connection:
            rows = connection.execute(statement.group_by(*columns).order_by(*columns)).mappings()
            return [dict(row) for row in rows]

    @retry_lost_transactions
    def counted_up_to(self, year: int | None, attempt: int, revision: int) -> tuple[CountUpTo, CountUpTo]:
        """How many attempts of a year there are up to a position, how many outcomes up to a revision, and how many in all."""
        tried = select(sql.count()).select_from(attempts)
        ended = select(sql.count()).select_from(catalog_entries)
        if year is not None:
            tried = tried.where(year_is(attempts.c.year, year))
            ended = ended.where(year_is(catalog_entries.c.year, year))
        with self._read() as connection:
            some = (tried.where(attempts.c.id <= attempt), ended.where(catalog_entries.c.revision <= revision))
            first, second = (
                CountUpTo(connection.scalar(part) or 0, connection.scalar(whole) or 0)
                for part, whole in zip(some, (tried, ended), strict=True)
            )
        return first, second

    @retry_lost_transactions
    def artifacts_of(self, work_id: str) -> list[Artifact]:
        """The files that were stored for a work, the first one first."""
        statement = select(artifacts).where(artifacts.c.work_id == work_id).order_by(artifacts.c.id)
        with self._read() as connection:
            return [artifact_from_row(row) for row in connection.execute(statement).mappings()]

    @retry_lost_transactions
    def works_with(self, sha256: str) -> list[Artifact]:
        """Every place where these bytes are known: the same file may be of several works, or of one from several URLs."""
        statement = select(artifacts).where(artifacts.c.sha256 == sha256).order_by(artifacts.c.id)
        with self._read() as connection:
            return [artifact_from_row(row) for row in connection.execute(statement).mappings()]

    def named_files(self) -> Iterator[str]:
        """The path of every file that a row names, some more than once; also what is kept for a work whose search still waits."""
        rows = select(artifacts.c.path).union_all(
            select(catalog_entries.c.path).where(catalog_entries.c.path.is_not(None))
        )
        several = select(catalog_entries.c.html_paths).where(catalog_entries.c.html_paths != "[]")
        kept = select(queue.c.progress).where(queue.c.progress.like('%"html":{%'))
        with self._read() as connection:
            yield from connection.execute(rows).scalars()
            for paths in connection.execute(several).scalars():
                yield from from_json(paths)
            for progress in connection.execute(kept).scalars():
                if html := from_json(progress)["html"]:
                    yield html["path"]

    # runs

    @retry_lost_transactions
    def start_run(self, run_id: str, kind: str, config_hash: str, scope: Mapping[str, Any]) -> None:
        """Open a run. One that is already known is opened again and keeps the time and configuration of its first start:
        what was done under another one says so itself."""
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

    @retry_lost_transactions
    def run(self, run_id: str) -> Run | None:
        with self._read() as connection:
            row = connection.execute(select(runs).where(runs.c.run_id == run_id)).mappings().one_or_none()
        return None if row is None else run_from_row(row)

    @retry_lost_transactions
    def runs(self) -> list[Run]:
        """All runs, the latest first."""
        with self._read() as connection:
            rows = connection.execute(select(runs).order_by(runs.c.started_at.desc(), runs.c.run_id)).mappings().all()
        return [run_from_row(row) for row in rows]

    # exports

    @retry_lost_transactions
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

    def attempt_columns_after(self, position: int, limit: int) -> Columns:
        """The same rows as `attempts_after`, column by column and as they are stored, for those who move very many."""
        statement = select(attempts).where(attempts.c.id > position).order_by(attempts.c.id).limit(limit)
        return self._columns(statement)

    @retry_lost_transactions
    def attempts_of(self, work_id: str, year: int | None) -> list[AttemptRecord]:
        """All attempts for a work, in their order, those that were made for several at once included. Its year leads to them:
        the work alone has no index."""
        shared = attempts.c.extra.like('%"also_for"%') & attempts.c.extra.contains(f'"{work_id}"', autoescape=True)
        same = (year_is(attempts.c.year, year or 0), (attempts.c.work_id == work_id) | shared)
        with self._read() as connection:
            rows = connection.execute(select(attempts).where(*same).order_by(attempts.c.id)).mappings()
            return [attempt_from_row(row).record for row in rows]

    def attempts_with(self, key: str, status: Status) -> Iterator[AttemptRecord]:
        """The attempts of this status whose `extra` has something under `key`, in their order. Reads all attempts."""
        found = select(attempts).where(attempts.c.status == str(status), attempts.c.extra.like(f'%"{key}":%'))
        with self._read() as connection:
            for row in connection.execute(found.order_by(attempts.c.id)).mappings():
                yield attempt_from_row(row).record

    def entry_columns_after(self, revision: int, limit: int) -> Columns:
        """The outcomes that changed after `revision`, each as it is now, column by column and as they are stored."""
        changed = catalog_entries.c.revision > revision
        return self._columns(select(catalog_entries).where(changed).order_by(catalog_entries.c.revision).limit(limit))

    @retry_lost_transactions
    def _columns(self, statement: Select[Any]) -> Columns:
        with self._read() as connection:
            found = connection.execute(statement)
            names = tuple(found.keys())
            columns = tuple(zip(*found.all(), strict=True))
        return dict(zip(names, columns, strict=True)) if columns else {}

    @retry_lost_transactions
    def artifacts_after(self, position: int, limit: int) -> list[Artifact]:
        statement = select(artifacts).where(artifacts.c.id > position).order_by(artifacts.c.id).limit(limit)
        with self._read() as connection:
            return [artifact_from_row(row) for row in connection.execute(statement).mappings()]

    @retry_lost_transactions
    def export_position(self, name: str) -> int:
        """Up to where the export of that name has come; 0 when it has not begun."""
        with self._read() as connection:
            return connection.scalar(select(exports.c.position).where(exports.c.name == name)) or 0

    @retry_lost_transactions
    def set_export_position(self, name: str, position: int) -> None:
        moving = upsert(exports, ["position", "updated_at"])
        with self._write() as connection:
            connection.execute(moving, {"name": name, "position": position, "updated_at": now_of(connection)})

    @retry_lost_transactions
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
                    file = source.engine.url.database if source.dialect.name == "sqlite" else None
                    for table in SLICE_TABLES if file is None else ():
                        _copy_rows(source, copy, table, run_id)
                target.dispose()
                if file is not None:
                    _copy_inside_sqlite(file, part, run_id)
                with part.open("rb") as written:
                    os.fsync(written.fileno())
                part.replace(path)
            finally:
                target.dispose()
                part.unlink(missing_ok=True)


def _works_of(run_id: str) -> Select[tuple[str]]:
    return select(run_works.c.work_id).where(run_works.c.run_id == run_id)


def _take_revisions(connection: Connection, count: int) -> int:
    """The first of `count` new revisions."""
    counter = update(meta).where(meta.c.key == "revision").values(value=meta.c.value + count).returning(meta.c.value)
    return int(connection.execute(counter).scalar_one()) - count + 1


def _held(connection: Connection, items: Sequence[Finished | Parked]) -> dict[tuple[str, str], str]:
    """The (work, owner) pairs of which the owner still holds the work, with the plan that it has by now."""
    statement = select(queue.c.work_id, queue.c.lease_owner, queue.c.plan_hash).where(
        queue.c.state == "leased", queue.c.work_id.in_([item.work_id for item in items])
    )
    statement = statement.with_for_update()  # an expired lease is not taken over while its work is being settled
    return {(row.work_id, row.lease_owner): row.plan_hash for row in connection.execute(statement)}


def _as_planned_by_now(item: Finished, plan_hash: str, now: float) -> Finished:
    """A work without success whose plan has changed meanwhile is due at once: what was tried is not all that there is."""
    known = (item.plan_hash, item.claimed_plan_hash)
    replanned = not item.outcome.ok and item.plan_hash is not None and plan_hash not in known
    return replace(item, retry_at=now, progress=None) if replanned else item


def _after_finish(item: Finished, now: float) -> dict[str, Any]:
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
    of_run = select(table).where(table.c.run_id == run_id)
    for rows in source.execute(of_run, execution_options={"yield_per": _PAGE}).partitions():
        target.exec_driver_sql(f"INSERT INTO {table.name} VALUES ({marks})", [tuple(row) for row in rows])


def _copy_inside_sqlite(source: str, target: Path, run_id: str) -> None:
    """The same without taking every row through Python, which makes the end of a large run some ten times quicker."""
    with closing(sqlite3.connect(target, isolation_level=None)) as copy:
        copy.execute("PRAGMA synchronous = OFF")
        copy.execute("ATTACH DATABASE ? AS whole", (source,))
        copy.execute("BEGIN")
        for table in SLICE_TABLES:
            columns = ", ".join(column.name for column in table.columns)
            rows = f"SELECT {columns} FROM whole.{table.name} WHERE run_id = ?"
            copy.execute(f"INSERT INTO main.{table.name} ({columns}) {rows}", (run_id,))
        copy.execute("COMMIT")


CatalogConnector = Catalog  # the name that programs import
