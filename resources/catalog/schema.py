"""The tables and indexes of the catalog, schema v4. Attempts, outcomes and artifacts are declared in `resources.tables`, those
that never leave the catalog here. Statements are in the other modules.

A change of a table needs a revision in `migrations`, which brings older catalogs to the same state; a test compares the two.

Times are epoch seconds by the clock of the database; JSON is text, so that rows can be copied without being understood.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    TextClause,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy import Text as AnyText
from sqlalchemy.schema import SchemaItem

from resources.tables import ARTIFACTS, ATTEMPTS, OUTCOMES, Into, Type
from resources.tables import Table as Declaration

metadata = MetaData()
Text = AnyText().with_variant(
    AnyText(collation="C"), "postgresql"
)  # in the order of SQLite, whatever the server's language
Big = BigInteger().with_variant(Integer, "sqlite")  # SQLite numbers rows by itself only under the exact name INTEGER

# What is not done is in exactly one of these conditions. They are literal SQL because a partial index is only used by a
# query that repeats its condition word for word. What has waited long enough is first made READY, then claimed, so that
# a claim never walks over works that still wait, however many there are.
READY = text("state = 'queued' AND not_before = 0")
WAITING = text("state IN ('queued', 'retry') AND not_before > 0")
LEASED = text("state = 'leased'")

_SQL_TYPES: Mapping[Type, Any] = {
    **dict.fromkeys((Type.TEXT, Type.TEXTS, Type.JSON), Text),
    **dict.fromkeys((Type.INT, Type.FLAG), Integer),
    **dict.fromkeys((Type.REAL, Type.TIME), Float),
    Type.BIG: Big,
}


def table(declared: Declaration, *more: SchemaItem, name: str | None = None, **options: Any) -> Table:
    """The table of the catalog that `resources.tables` declares, with constraints and indexes."""
    columns = [
        Column(
            c.name, _SQL_TYPES[c.type], primary_key=c.key, nullable=not (c.required or c.key), unique=c.unique or None
        )
        for c in declared.columns_in(Into.CATALOG)
    ]
    return Table(name or declared.name, metadata, *columns, *more, **options)


meta = Table(
    "meta",
    metadata,
    Column("key", Text, primary_key=True),
    Column("value", Big, nullable=False),
)

queue = Table(
    "queue",
    metadata,
    Column("work_id", Text, primary_key=True),
    Column("year", Integer),
    Column("priority", Integer, nullable=False),
    Column("record", Text, nullable=False),
    Column("plan_hash", Text, nullable=False),
    Column("state", Text, nullable=False),  # queued | leased | retry | done
    Column("not_before", Float, nullable=False),
    Column("next_group", Text),
    Column("progress", Text),
    Column("tries", Integer, nullable=False),
    Column("lease_owner", Text),
    Column("lease_until", Float),
    Column("wait_reason", Text),
    Column("updated_at", Float, nullable=False),
    Column("run_id", Text),  # the last run that queued it or took it over; all runs that wanted it are in run_works
)


def _partial(name: str, where: TextClause, *columns: ColumnElement[Any]) -> None:
    Index(name, *columns, sqlite_where=where, postgresql_where=where)


_partial("queue_ready", READY, queue.c.priority.desc(), queue.c.work_id, queue.c.next_group)
_partial("queue_ready_year", READY, queue.c.year, queue.c.priority.desc(), queue.c.work_id, queue.c.next_group)
_partial("queue_ready_run", READY, queue.c.run_id, queue.c.priority.desc(), queue.c.work_id, queue.c.next_group)
_partial("queue_waiting", WAITING, queue.c.state, queue.c.not_before, queue.c.year)
_partial("queue_waiting_year", WAITING, queue.c.year, queue.c.state, queue.c.not_before)
_partial("queue_waiting_run", WAITING, queue.c.run_id, queue.c.state, queue.c.not_before)
_partial("queue_leased", LEASED, queue.c.lease_until, queue.c.lease_owner, queue.c.year)
Index("queue_counts", queue.c.year, queue.c.state, queue.c.not_before, queue.c.lease_until)

runs = Table(
    "runs",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("started_at", Float, nullable=False),
    Column("finished_at", Float),
    Column("config_hash", Text, nullable=False),
    Column("scope", Text, nullable=False),
    Column("summary", Text),
    Column("progress", Text),  # where the run is at this moment, for those who watch from another process
)

run_works = Table(
    "run_works",
    metadata,
    Column("run_id", Text, ForeignKey("runs.run_id"), primary_key=True),
    Column("work_id", Text, primary_key=True),
    sqlite_with_rowid=False,
)

attempts = table(
    ATTEMPTS,
    UniqueConstraint("run_id", "worker_id", "seq"),
    Index("attempts_year", "year", "id"),
    Index("attempts_run", "run_id", "id"),
    sqlite_autoincrement=True,
)

artifacts = table(
    ARTIFACTS,
    UniqueConstraint("work_id", "url", "sha256").ddl_if(dialect="sqlite"),
    Index("artifacts_run", "run_id"),
    Index("artifacts_sha256", "sha256"),  # the works that have the same bytes
    sqlite_autoincrement=True,
)
# The same for PostgreSQL, whose indexes do not take URLs of any length.
_once = (artifacts.c.work_id, artifacts.c.sha256, func.md5(artifacts.c.url))
Index("artifacts_once", *_once, unique=True).ddl_if(dialect="postgresql")

catalog_entries = table(
    OUTCOMES,
    Index("entries_year", "year", "classification", "reason", "kind"),
    Index("entries_run", "run_id", "classification", "reason", "kind"),
    Index("entries_year_work", "year", "work_id"),
    Index("entries_run_work", "run_id", "work_id"),
    name="catalog_entries",
)

hosts = Table(
    "hosts",
    metadata,
    Column("host", Text, primary_key=True),
    Column("robots_body", Text),
    Column("robots_status", Integer),
    Column("robots_fetched_at", Float),
    Column("closed_until", Float),
    Column("note", Text),
    Column("breaker", Text),  # JSON, see resources.http.breaker
    Column("breaker_until", Float),
    Column("updated_at", Float, nullable=False),
)

group_leases = Table(
    "group_leases",
    metadata,
    Column("grp", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("until", Float, nullable=False),
    Column("wanted_until", Float, nullable=False),  # somebody else was refused it lately
)

exports = Table(
    "exports",
    metadata,
    Column("name", Text, primary_key=True),
    Column("position", Big, nullable=False),
    Column("updated_at", Float, nullable=False),
)

spending = Table(
    "spending",
    metadata,
    Column("name", Text, primary_key=True),  # of the paid route
    Column("day", Integer, primary_key=True),  # days since 1970, UTC
    Column("micros", Big, nullable=False),  # millionths of a dollar
)

set_aside = Table(
    "set_aside",
    metadata,
    Column("id", Big, primary_key=True),
    Column("run_id", Text),
    Column("source", Text, nullable=False),
    Column("item", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("ts", Float, nullable=False),
)
