"""The tables and indexes of the catalog, schema v4. Attempts, outcomes and artifacts are declared in `resources.tables`, tables
that never leave the catalog here. Statements are in the other modules.

A change of a table needs a revision in `migrations`, which brings older catalogs to the same state; a test compares the two.

Times are epoch seconds by the clock of the database. JSON is stored as text, so that rows can be copied without parsing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.schema import SchemaItem

from resources.scope import ItemKind
from resources.tables import ARTIFACTS, ATTEMPTS, INGEST_REQUESTS, INGEST_RESULTS, OUTCOMES, Into, Table, Type

metadata = sa.MetaData()
# in the order of SQLite, whatever the server's language
Text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
# SQLite numbers rows by itself only under the exact name INTEGER
Big = sa.BigInteger().with_variant(sa.Integer, "sqlite")

# A work that is not done meets exactly one of these conditions. They are literal SQL because a partial index is only used by a
# query that repeats its condition word for word. A work that has waited long enough is first made READY, then claimed, so
# that a claim never walks over works that still wait, however many there are.
# Works and ingest items have indexes of their own, so that neither is walked over for the other.
READY = {kind: sa.text(f"kind = '{kind}' AND state = 'queued' AND not_before = 0") for kind in ItemKind}
WAITING = {kind: sa.text(f"kind = '{kind}' AND state IN ('queued', 'retry') AND not_before > 0") for kind in ItemKind}
LEASED = sa.text("state = 'leased'")

_SQL_TYPES: Mapping[Type, Any] = {
    **dict.fromkeys((Type.TEXT, Type.TEXTS, Type.JSON), Text),
    **dict.fromkeys((Type.INT, Type.FLAG), sa.Integer),
    **dict.fromkeys((Type.REAL, Type.TIME), sa.Float),
    Type.BIG: Big,
}


def table(declared: Table, *more: SchemaItem, name: str | None = None, **options: Any) -> sa.Table:
    """The table of the catalog that `resources.tables` declares, with constraints and indexes."""
    columns = [
        sa.Column(c.name, _SQL_TYPES[c.type], primary_key=c.key, nullable=not (c.required or c.key), unique=c.unique)
        for c in declared.columns_in(Into.CATALOG)
    ]
    return sa.Table(name or declared.name, metadata, *columns, *more, **options)


meta = sa.Table("meta", metadata, sa.Column("key", Text, primary_key=True), sa.Column("value", Big, nullable=False))

# The numbers of outcomes on PostgreSQL; SQLite counts them in `meta`, under "revision".
revisions = sa.Sequence("revisions", metadata=metadata)

queue = sa.Table(
    "queue",
    metadata,
    sa.Column("work_id", Text, primary_key=True),
    sa.Column("year", sa.Integer),
    sa.Column("priority", sa.Integer, nullable=False),
    sa.Column("record", Text, nullable=False),
    sa.Column("plan_hash", Text, nullable=False),
    sa.Column("state", Text, nullable=False),  # queued | leased | retry | done
    sa.Column("not_before", sa.Float, nullable=False),
    sa.Column("next_group", Text),
    sa.Column("progress", Text),
    sa.Column("tries", sa.Integer, nullable=False),
    sa.Column("lease_owner", Text),
    sa.Column("lease_until", sa.Float),
    sa.Column("wait_reason", Text),
    sa.Column("updated_at", sa.Float, nullable=False),
    sa.Column("run_id", Text),  # the last run that queued it or took it over; all runs that wanted it are in run_works
    sa.Column("kind", Text, nullable=False, server_default=sa.text("'work'")),  # see ItemKind
    sa.Column("planned_from", Text),  # what its plan was made from, see docstokg_assets.lake.reader; NULL: not known
)


def _partial(name: str, where: sa.TextClause, *columns: sa.ColumnElement[Any]) -> None:
    sa.Index(name, *columns, sqlite_where=where, postgresql_where=where)


_READY, _WAITING = READY[ItemKind.WORK], WAITING[ItemKind.WORK]
_partial("queue_ready", _READY, queue.c.priority.desc(), queue.c.work_id, queue.c.next_group)
_partial("queue_ready_year", _READY, queue.c.year, queue.c.priority.desc(), queue.c.work_id, queue.c.next_group)
_partial("queue_ready_run", _READY, queue.c.run_id, queue.c.priority.desc(), queue.c.work_id, queue.c.next_group)
_partial("queue_waiting", _WAITING, queue.c.state, queue.c.not_before, queue.c.year)
_partial("queue_waiting_year", _WAITING, queue.c.year, queue.c.state, queue.c.not_before)
_partial("queue_waiting_run", _WAITING, queue.c.run_id, queue.c.state, queue.c.not_before)
_partial("ingest_ready", READY[ItemKind.INGEST], queue.c.priority.desc(), queue.c.work_id, queue.c.next_group)
_partial("ingest_waiting", WAITING[ItemKind.INGEST], queue.c.priority, queue.c.state, queue.c.not_before)
_partial("queue_leased", LEASED, queue.c.lease_until, queue.c.lease_owner, queue.c.year)
WORKS = sa.text(f"kind = '{ItemKind.WORK}'")
_partial("queue_counts", WORKS, queue.c.year, queue.c.state, queue.c.not_before, queue.c.lease_until)

runs = sa.Table(
    "runs",
    metadata,
    sa.Column("run_id", Text, primary_key=True),
    sa.Column("kind", Text, nullable=False),
    sa.Column("started_at", sa.Float, nullable=False),
    sa.Column("finished_at", sa.Float),
    sa.Column("config_hash", Text, nullable=False),
    sa.Column("scope", Text, nullable=False),
    sa.Column("summary", Text),
    sa.Column("progress", Text),  # where the run is at this moment, for other processes
)

run_works = sa.Table(
    "run_works",
    metadata,
    sa.Column("run_id", Text, sa.ForeignKey("runs.run_id"), primary_key=True),
    sa.Column("work_id", Text, primary_key=True),
    sqlite_with_rowid=False,
)

attempts = table(
    ATTEMPTS,
    sa.UniqueConstraint("run_id", "worker_id", "seq"),
    sa.Index("attempts_year", "year", "id"),
    sa.Index("attempts_run", "run_id", "id"),
    sqlite_autoincrement=True,
)

artifacts = table(
    ARTIFACTS,
    sa.UniqueConstraint("work_id", "url", "sha256").ddl_if(dialect="sqlite"),
    sa.Index("artifacts_run", "run_id"),
    sa.Index("artifacts_sha256", "sha256"),  # the works that have the same bytes
    sqlite_autoincrement=True,
)
# The same for PostgreSQL, whose indexes do not take URLs of any length.
_once = (artifacts.c.work_id, artifacts.c.sha256, sa.func.md5(artifacts.c.url))
sa.Index("artifacts_once", *_once, unique=True).ddl_if(dialect="postgresql")

catalog_entries = table(
    OUTCOMES,
    sa.Index("entries_year", "year", "classification", "reason", "kind"),
    sa.Index("entries_run", "run_id", "classification", "reason", "kind"),
    sa.Index("entries_year_work", "year", "work_id"),
    sa.Index("entries_run_work", "run_id", "work_id"),
    name="catalog_entries",
)

file_checks = sa.Table(
    "file_checks",  # when the stored files of a work were last read again, and what was found
    metadata,
    sa.Column("work_id", Text, primary_key=True),
    sa.Column("path", Text, nullable=False),
    sa.Column(
        "sha256", Text, nullable=False
    ),  # as recorded; a row about another file than the current one counts as none
    sa.Column("checked_at", sa.Float, nullable=False),
    sa.Column("found", Text, nullable=False),  # sound | missing | damaged | unreadable
    sa.Column("bad_path", Text),  # the file of the work that is not sound
)

listings = sa.Table(
    "listings",  # what each listing of a year brought
    metadata,
    sa.Column("run_id", Text, primary_key=True),
    sa.Column("year", sa.Integer, primary_key=True),
    sa.Column("source", Text, nullable=False),
    sa.Column("filter", Text, nullable=False),
    sa.Column("changed_since", Text),  # empty: a full listing
    sa.Column("works", Big, nullable=False),
    sa.Column("complete", sa.Integer, nullable=False),
    sa.Column("at", sa.Float, nullable=False),
    sa.Index("listings_year", "year", "at"),
)

hosts = sa.Table(
    "hosts",
    metadata,
    sa.Column("host", Text, primary_key=True),
    sa.Column("robots_body", Text),
    sa.Column("robots_status", sa.Integer),
    sa.Column("robots_fetched_at", sa.Float),
    sa.Column("closed_until", sa.Float),
    sa.Column("note", Text),
    sa.Column("breaker", Text),  # JSON, see resources.http.breaker
    sa.Column("breaker_until", sa.Float),
    sa.Column("updated_at", sa.Float, nullable=False),
)

group_leases = sa.Table(
    "group_leases",
    metadata,
    sa.Column("grp", Text, primary_key=True),
    sa.Column("owner", Text, nullable=False),
    sa.Column("until", sa.Float, nullable=False),
    sa.Column("wanted_until", sa.Float, nullable=False),  # another process was refused it lately
)

exports = sa.Table(
    "exports",
    metadata,
    sa.Column("name", Text, primary_key=True),
    sa.Column("position", Big, nullable=False),
    sa.Column("updated_at", sa.Float, nullable=False),
)

spending = sa.Table(
    "spending",
    metadata,
    sa.Column("name", Text, primary_key=True),  # of the paid route
    sa.Column("day", sa.Integer, primary_key=True),  # days since 1970, UTC
    sa.Column("micros", Big, nullable=False),  # millionths of a dollar
)

set_aside = sa.Table(
    "set_aside",
    metadata,
    sa.Column("id", Big, primary_key=True),
    sa.Column("run_id", Text),
    sa.Column("source", Text, nullable=False),
    sa.Column("item", Text, nullable=False),
    sa.Column("reason", Text, nullable=False),
    sa.Column("ts", sa.Float, nullable=False),
)

ingest_request = table(INGEST_REQUESTS, sa.Index("ingest_request_created", "ingest_request_source", "created"))

ingest_file_result = table(
    INGEST_RESULTS,
    # a hash: PostgreSQL's ordered indexes do not take URLs of any length
    sa.Index("ingest_result_terminal_url", "terminal_url", postgresql_using="hash"),
    sa.Index("ingest_result_sha1", "terminal_sha1hex"),
    sa.Index("ingest_result_status", "status", "updated"),
    sa.Index("ingest_result_item", "item_id"),
)
