"""Queries for outcomes, attempts and artifacts, and for how many of them there are."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Select, Table, case, select
from sqlalchemy import func as sql

from resources.catalog.claims import in_scope, year_is
from resources.catalog.database import Database, read_transaction, slow_read_transaction
from resources.catalog.exports import OF_WORKS
from resources.catalog.rows import Artifact, CountUpTo, Entry, OutcomeCount, StoredAttempt
from resources.catalog.schema import artifacts, attempts, catalog_entries, run_works
from resources.records import AttemptRecord, Classification, Kind, Reason, Status
from resources.scope import Years

Columns = Mapping[str, Sequence[Any]]  # no columns at all when there are no rows
_ENTRIES = select(catalog_entries)


class Queries(Database):
    # outcomes

    def entry(self, work_id: str) -> Entry | None:
        return next(self.entries_of([work_id]), None)

    def entries_of(self, work_ids: Iterable[str]) -> Iterator[Entry]:
        """The latest outcomes of these works, those that have one."""
        return map(Entry.from_row, self._rows_by_portions(_ENTRIES, catalog_entries.c.work_id, work_ids))

    def entries(
        self,
        *,
        year: Years | None = None,
        run_id: str | None = None,
        settled_by: str | None = None,
        classification: Classification | None = None,
        reason: Reason | None = None,
    ) -> Iterator[Entry]:
        """The latest outcomes by work id. `run_id`: of the works that this run queued, whichever run settled them; `settled_by`:
        settled by this run."""
        equal = {"run_id": settled_by, "classification": classification, "reason": reason}
        same = [catalog_entries.c[name] == str(value) for name, value in equal.items() if value is not None]
        years = year if isinstance(year, tuple) else (year,)
        found = (self._entries(one, run_id, same) for one in dict.fromkeys(years))
        return heapq.merge(*found, key=lambda entry: entry.work_id)

    def _entries(self, year: int | None, run_id: str | None, same: list[ColumnElement[bool]]) -> Iterator[Entry]:
        """For each of these scopes an index has the outcomes by work id, so that a page costs the same wherever it begins."""
        statement = _ENTRIES.where(*in_scope(catalog_entries, year, None), *same)
        key: ColumnElement[str] = catalog_entries.c.work_id
        if run_id is not None:
            statement = statement.join(run_works, run_works.c.work_id == catalog_entries.c.work_id)
            statement, key = statement.where(run_works.c.run_id == run_id), run_works.c.work_id
        elif year is not None:  # PostgreSQL does not see that "is null" means one year
            statement = statement.order_by(catalog_entries.c.year)
        return map(Entry.from_row, self._rows_by_pages(statement, key, ""))

    def outcome_counts(
        self, year: Years | None = None, run_id: str | None = None, *, settled_by: str | None = None
    ) -> list[OutcomeCount]:
        """How works ended, the most frequent first. `run_id` and `settled_by` as for `entries`."""
        c, count = catalog_entries.c, sql.count().label("count")
        kinds, conditions = (c.classification, c.reason, c.kind), in_scope(catalog_entries, year, run_id)
        if settled_by is not None:
            conditions.append(c.run_id == settled_by)
        order = (sql.count().desc(), *(kind.nulls_first() for kind in kinds))
        statement = select(*kinds, count).where(*conditions).group_by(*kinds).order_by(*order)
        rows = map(itemgetter("classification", "reason", "kind", "count"), self._rows(statement, slow=True))
        return [OutcomeCount(Classification(c), Reason(r), Kind(kind) if kind else None, n) for c, r, kind, n in rows]

    def latest_files(self, run_id: str, limit: int) -> list[Entry]:
        """What the run stored last, the newest first."""
        c = catalog_entries.c
        stored = (c.run_id == run_id, c.classification == str(Classification.SUCCESS), c.path.is_not(None))
        statement = _ENTRIES.where(*stored).order_by(c.finished_at.desc(), c.work_id).limit(limit)
        return [Entry.from_row(row) for row in self._rows(statement)]

    def counted_outcomes(self, run_id: str) -> list[dict[str, Any]]:
        """The outcomes that a run settled, equal ones as one row with their number `n`; `waits`: for another try."""
        c = catalog_entries.c
        waits = case((c.retry_at.is_not(None), 1), else_=0).label("waits")
        return self._counted(run_id, catalog_entries, [c.resolver, c.classification, c.reason, waits])

    def counted_attempts(self, run_id: str) -> list[dict[str, Any]]:
        """The attempts of a run, equal ones as one row with their number `n`."""
        c = attempts.c
        return self._counted(run_id, attempts, [c.resolver, c.role, c.status, c.reason, c.http_status])

    def _counted(self, run_id: str, table: Table, columns: Sequence[ColumnElement[Any]]) -> list[dict[str, Any]]:
        statement = select(*columns, sql.count().label("n")).where(table.c.run_id == run_id)
        return [dict(row) for row in self._rows(statement.group_by(*columns).order_by(*columns), slow=True)]

    @slow_read_transaction
    def counted_up_to(
        self, connection: Connection, year: int | None, attempt: int, revision: int
    ) -> tuple[CountUpTo, CountUpTo]:
        """How many attempts of a year there are up to a position, how many outcomes up to a revision, and how many in all."""

        def counted(key: Column[int], most: int) -> CountUpTo:
            whole = select(sql.count()).select_from(key.table).where(*in_scope(key.table, year, None))
            if key.table is attempts:
                whole = whole.where(OF_WORKS)
            return CountUpTo(connection.scalar(whole.where(key <= most)) or 0, connection.scalar(whole) or 0)

        return counted(attempts.c.id, attempt), counted(catalog_entries.c.revision, revision)

    def entry_columns_after(self, revision: int, limit: int) -> Columns:
        """The outcomes that changed after `revision`, each as it is now, column by column and as they are stored."""
        return self._columns(_ENTRIES, catalog_entries.c.revision, revision, limit)

    # artifacts

    def artifacts_of(self, work_id: str) -> list[Artifact]:
        """The files that were stored for a work, the first one first."""
        return self._artifacts(artifacts.c.work_id == work_id)

    def works_with(self, sha256: str) -> list[Artifact]:
        """Every place where these bytes are known: the same file may be of several works, or of one from several URLs."""
        return self._artifacts(artifacts.c.sha256 == sha256)

    def artifacts_after(self, position: int, limit: int) -> list[Artifact]:
        return self._artifacts(artifacts.c.id > position, limit)

    def _artifacts(self, condition: ColumnElement[bool], limit: int | None = None) -> list[Artifact]:
        statement = select(artifacts).where(condition).order_by(artifacts.c.id).limit(limit)
        return [Artifact.from_row(row) for row in self._rows(statement)]

    # attempts

    def attempts_after(
        self, position: int, limit: int, *, year: int | None = None, run_id: str | None = None
    ) -> list[StoredAttempt]:
        """The attempts recorded after `position`, in the order in which they were recorded."""
        statement = select(attempts).where(attempts.c.id > position, *in_scope(attempts, year, None))
        if run_id is not None:
            statement = statement.where(attempts.c.run_id == run_id)
        return [StoredAttempt.from_row(row) for row in self._rows(statement.order_by(attempts.c.id).limit(limit))]

    @read_transaction
    def attempt_position(self, connection: Connection) -> int:
        """The position of the attempt that was recorded last."""
        return connection.scalar(select(sql.max(attempts.c.id))) or 0

    def attempt_columns_after(self, position: int, limit: int) -> Columns:
        """The same rows as `attempts_after`, column by column and as they are stored; faster for very many. Without those of
        ingest items, which are exported with their results."""
        return self._columns(select(attempts).where(OF_WORKS), attempts.c.id, position, limit)

    def attempts_of(self, work_id: str, year: int | None, after: int = 0) -> list[AttemptRecord]:
        """All attempts for a work after a position, in their order, including those made for several works at once. Uses the
        index of the year, as there is none of works."""
        shared = attempts.c.extra.like('%"also_for"%') & attempts.c.extra.contains(f'"{work_id}"', autoescape=True)
        of_year = (year_is(attempts.c.year, year or 0), attempts.c.id > after)
        same = (*of_year, (attempts.c.work_id == work_id) | shared)
        rows = self._rows(select(attempts).where(*same).order_by(attempts.c.id))
        return [StoredAttempt.from_row(row).record for row in rows]

    def has_more_attempts(self, year: int | None, than: int) -> bool:
        """Whether a year has more attempts than that; no more of them are counted."""
        return self._has_more(select(attempts.c.id).where(year_is(attempts.c.year, year or 0)), than)

    def attempts_with(self, key: str, status: Status) -> Iterator[AttemptRecord]:
        """The attempts of this status whose `extra` has something under `key`, in their order. Reads all attempts."""
        found = select(attempts).where(attempts.c.status == str(status), attempts.c.extra.like(f'%"{key}":%'))
        with self._read(slow=True) as connection:
            for row in connection.execute(found.order_by(attempts.c.id)).mappings():
                yield StoredAttempt.from_row(row).record

    @read_transaction
    def _columns(
        self, connection: Connection, statement: Select[Any], key: ColumnElement[int], after: int, limit: int
    ) -> Columns:
        found = connection.execute(statement.where(key > after).order_by(key).limit(limit))
        names, cursor = tuple(found.keys()), found.cursor
        assert cursor is not None  # a SELECT has one; its tuples cost half of what the rows of SQLAlchemy do
        columns = tuple(zip(*cursor.fetchall(), strict=True))
        return dict(zip(names, columns, strict=True)) if columns else {}
