"""What the checks of a year remember: which stored files were read again, what listings brought, which hosts answered."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, and_, case, or_, select
from sqlalchemy import func as sql

from resources.catalog.claims import in_scope, year_is
from resources.catalog.database import Database, now_of, portions, slow_read_transaction, upsert, write_transaction
from resources.catalog.rows import Entry
from resources.catalog.schema import attempts, catalog_entries, file_checks, listings
from resources.records import Classification, Kind, Reason, Status
from resources.scope import Years


class Found(StrEnum):
    """What reading the stored files of a work again showed."""

    SOUND = "sound"
    MISSING = "missing"
    DAMAGED = "damaged"
    UNREADABLE = "unreadable"


_BAD = (str(Found.DAMAGED), str(Found.UNREADABLE))


class FileCheck(NamedTuple):
    """The result of reading the files of one work. `path` and `sha256` are those of its outcome."""

    work_id: str
    path: str
    sha256: str
    found: Found
    bad_path: str | None = None


class AuditState(NamedTuple):
    """How much of what is stored was read again since it was stored. `oldest`: when the file that was not looked at for the
    longest time was read, or stored if it was never read."""

    files: int
    bytes: int
    read: int
    bad: int
    oldest: float | None


class HostContact(NamedTuple):
    """The requests of one run to one host: sent, unanswered (connection refused or lost, timeout), and not sent because the
    host's circuit breaker is open."""

    host: str
    sent: int
    unanswered: int
    refused: int


class Listing(NamedTuple):
    """What a listing of a year brought. `changed_since` is empty for a full one. An incomplete one continues in the next run, and
    its `works` are those up to the point where that run begins."""

    run_id: str
    year: int
    source: str
    filter: str
    changed_since: str | None
    works: int
    complete: bool
    at: float = 0.0  # filled by the catalog


_UNANSWERED = (Reason.CONN_ERROR, Reason.TIMEOUT)
_e, _f = catalog_entries.c, file_checks.c
_CURRENT = and_(_f.work_id == _e.work_id, _f.path == _e.path, _f.sha256 == _e.sha256)
_WITH_CHECKS = catalog_entries.outerjoin(file_checks, _CURRENT)


class Checked(Database):
    # stored files

    def remembered_bad(self, year: Years | None) -> list[tuple[Entry, str]]:
        """The outcomes whose files were bad when they were last read, each with the bad file."""
        statement = select(catalog_entries, _f.bad_path).select_from(_WITH_CHECKS)
        rows = self._rows(statement.where(*_stored(year), _f.found.in_(_BAD)).order_by(_e.work_id), slow=True)
        return [(Entry.from_row(row), str(row["bad_path"] or row["path"])) for row in rows]

    def next_to_read(self, year: Years | None, before: float, limit: int) -> list[Entry]:
        """The outcomes whose files were not read since `before`: first those that were never read again, then the oldest."""
        due = or_(_f.checked_at.is_(None), _f.checked_at < before)
        statement = select(catalog_entries).select_from(_WITH_CHECKS).where(*_stored(year), due)
        order = (_f.checked_at.is_not(None), _f.checked_at, _e.finished_at, _e.work_id)
        return [Entry.from_row(row) for row in self._rows(statement.order_by(*order).limit(limit), slow=True)]

    def record_file_checks(self, checks: Iterable[FileCheck]) -> None:
        for portion in portions(checks):
            self._record_file_checks(portion)

    @write_transaction
    def _record_file_checks(self, connection: Connection, checks: list[FileCheck]) -> None:
        now = now_of(connection)
        rows = [{**check._asdict(), "found": str(check.found), "checked_at": now} for check in checks]
        connection.execute(upsert(file_checks, ["path", "sha256", "checked_at", "found", "bad_path"]), rows)

    def known_bad(self, year: Years | None) -> list[Entry]:
        """The outcomes that call a file a success although it is corrupt or has no hash."""
        bad = or_(_e.kind == str(Kind.PDF_CORRUPT), _e.sha256.is_(None))
        return [Entry.from_row(row) for row in self._rows(select(catalog_entries).where(*_successes(year), bad))]

    def audit_state(self, year: Years | None) -> AuditState:
        (row,) = self._rows(_audit().where(*_stored(year)), slow=True)
        return AuditState(**row)

    def audit_by_year(self) -> dict[int, AuditState]:
        """The state of each year that has files; 0: without a year."""
        of_year = sql.coalesce(_e.year, 0).label("year")
        rows = self._rows(_audit().add_columns(of_year).where(*_stored(None)).group_by(of_year), slow=True)
        return {row["year"]: AuditState(**{name: row[name] for name in AuditState._fields}) for row in rows}

    # listings

    @write_transaction
    def save_listing(self, connection: Connection, listing: Listing) -> None:
        row = {**listing._asdict(), "complete": int(listing.complete), "at": now_of(connection)}
        changing = [c.name for c in listings.columns if not c.primary_key]
        connection.execute(upsert(listings, changing), row)

    def listings_of(self, year: int, limit: int = 100) -> list[Listing]:
        """The listings of a year, the newest first."""
        c = listings.c
        rows = self._rows(select(listings).where(c.year == year).order_by(c.at.desc(), c.run_id).limit(limit))
        return [Listing(**{**row, "complete": bool(row["complete"])}) for row in rows]

    # hosts

    @slow_read_transaction
    def last_contacts(self, connection: Connection, year: Years | None) -> Sequence[HostContact]:
        """How the hosts answered the last run that sent requests for works of these years; the host with most requests first."""
        c, of_works = attempts.c, attempts.c.work_id.is_not(None)
        scopes = [[]] if year is None else [[year_is(c.year, one)] for one in _each(year)]
        last = [select(c.id, c.run_id).where(*scope, of_works).order_by(c.id.desc()).limit(1) for scope in scopes]
        found = [(row.id, row.run_id) for each in last if (row := connection.execute(each).first()) is not None]
        return _contacts(connection, max(found)[1], in_scope(attempts, year, None)) if found else []


def _each(year: Years) -> tuple[int, ...]:
    return (year,) if isinstance(year, int) else year


def _contacts(connection: Connection, run_id: str, scope: list[ColumnElement[bool]]) -> list[HostContact]:
    c = attempts.c
    unanswered = and_(c.http_status.is_(None), c.reason.in_([str(reason) for reason in _UNANSWERED]))
    refused = and_(c.http_status.is_(None), c.reason == str(Reason.BREAKER_OPEN), c.status == str(Status.SKIPPED))
    sent = and_(c.cache_hit == 0, or_(c.http_status.is_not(None), unanswered))
    counts = [_count(sent).label("sent"), _count(unanswered).label("unanswered"), _count(refused).label("refused")]
    wanted = (c.run_id == run_id, c.work_id.is_not(None), c.host.is_not(None), *scope)
    rows = connection.execute(select(c.host, *counts).where(*wanted).group_by(c.host)).mappings()
    contacts = [HostContact(**row) for row in rows]
    return sorted((each for each in contacts if each.sent or each.refused), key=lambda each: (-each.sent, each.host))


def _count(condition: ColumnElement[bool]) -> ColumnElement[int]:
    return sql.sum(case((condition, 1), else_=0))


def _successes(year: Years | None) -> list[ColumnElement[bool]]:
    success = _e.classification == str(Classification.SUCCESS)
    return [*in_scope(catalog_entries, year, None), success, _e.path.is_not(None)]


def _stored(year: Years | None) -> list[ColumnElement[bool]]:
    return [*_successes(year), _e.sha256.is_not(None)]


def _audit() -> Select[tuple[int, int, int, int, float]]:
    columns = (
        sql.count().label("files"),
        sql.coalesce(sql.sum(_e.bytes), 0).label("bytes"),
        sql.count(_f.work_id).label("read"),
        _count(_f.found.in_(_BAD)).label("bad"),
        sql.min(sql.coalesce(_f.checked_at, _e.finished_at)).label("oldest"),
    )
    return select(*columns).select_from(_WITH_CHECKS)
