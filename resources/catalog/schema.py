"""The tables and indexes of the catalog, schema v4. Says what is stored and how it is found; statements are others'.

A change here needs a revision in `migrations`, which brings older catalogs to the same state; a test compares the two.

Times are epoch seconds by the clock of the database; JSON is text, so that rows can be copied without being understood.
"""

from __future__ import annotations

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
)


def _partial(name: str, where: TextClause, *columns: ColumnElement[Any]) -> None:
    Index(name, *columns, sqlite_where=where, postgresql_where=where)


_partial("queue_ready", READY, queue.c.priority.desc(), queue.c.work_id, queue.c.next_group)
_partial("queue_ready_year", READY, queue.c.year, queue.c.priority.desc(), queue.c.work_id, queue.c.next_group)
_partial("queue_waiting", WAITING, queue.c.not_before, queue.c.year)
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

attempts = Table(
    "attempts",
    metadata,
    Column("id", Big, primary_key=True),
    Column("ts", Float, nullable=False),
    Column("run_id", Text, nullable=False),  # empty when the attempt belongs to no run: NULLs would not be unique
    Column("resolver", Text),
    Column("url", Text, nullable=False),
    Column("verb", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("http_status", Integer),
    Column("content_type", Text),
    Column("elapsed_ms", Integer),
    Column("bytes_written", Big),
    Column("content_length_hdr", Big),
    Column("reason", Text),
    Column("extra", Text, nullable=False),
    Column("work_id", Text),
    Column("year", Integer),
    Column("tier", Text),
    Column("role", Text),
    Column("host", Text),
    Column("canonical_url", Text),
    Column("attempt", Integer, nullable=False),
    Column("retry_after_s", Float),
    Column("cache_hit", Integer, nullable=False),
    Column("worker_id", Text, nullable=False),
    Column("seq", Big, nullable=False),
    UniqueConstraint("run_id", "worker_id", "seq"),
    Index("attempts_year", "year", "id"),
    Index("attempts_run", "run_id", "id"),
    sqlite_autoincrement=True,
)

artifacts = Table(
    "artifacts",
    metadata,
    Column("id", Big, primary_key=True),
    Column("work_id", Text, nullable=False),
    Column("url", Text, nullable=False),  # canonical
    Column("sha256", Text, nullable=False),
    Column("path", Text, nullable=False),
    Column("kind", Text),
    Column("bytes", Big),
    Column("content_type", Text),
    Column("etag", Text),
    Column("last_modified", Text),
    Column("license", Text),
    Column("version", Text),
    Column("resolver", Text),
    Column("tier", Text),
    Column("run_id", Text, nullable=False),
    Column("stored_at", Float, nullable=False),
    Column("final_url", Text),  # where redirects led, when they led elsewhere
    Column(
        "derivation", Text
    ),  # what kind of a derivative of `derived_from` it is, e.g. an archive's capture of that address
    Column("derived_from", Text),
    UniqueConstraint("work_id", "url", "sha256").ddl_if(dialect="sqlite"),
    Index("artifacts_run", "run_id"),
    Index("artifacts_sha256", "sha256"),  # the works that have the same bytes
    sqlite_autoincrement=True,
)
# The same for PostgreSQL, whose indexes do not take URLs of any length.
_once = (artifacts.c.work_id, artifacts.c.sha256, func.md5(artifacts.c.url))
Index("artifacts_once", *_once, unique=True).ddl_if(dialect="postgresql")

catalog_entries = Table(
    "catalog_entries",
    metadata,
    Column("work_id", Text, primary_key=True),
    Column("year", Integer),
    Column("title", Text),
    Column("doi", Text),
    Column("classification", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("kind", Text),
    Column("url", Text),
    Column("resolver", Text),
    Column("tier", Text),
    Column("http_status", Integer),
    Column("path", Text),
    Column("sha256", Text),
    Column("bytes", Big),
    Column("content_type", Text),
    Column("license", Text),
    Column("version", Text),
    Column("html_paths", Text, nullable=False),
    Column("fallback_chain", Text, nullable=False),
    Column("retry_at", Float),
    Column("run_id", Text, nullable=False),
    Column("config_hash", Text, nullable=False),
    Column("ttfp_ms", Integer),
    Column("requests", Integer, nullable=False),
    Column("finished_at", Float, nullable=False),
    Column("meta", Text, nullable=False),  # what else is worth knowing: the other failures, the address after redirects
    Column("revision", Big, nullable=False, unique=True),
    Index("entries_year", "year", "classification", "reason", "kind"),
    Index("entries_run", "run_id", "classification", "reason", "kind"),
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

# What a run's slice (manifest.sqlite3) holds, besides meta.
SLICE_TABLES = (runs, run_works, attempts, artifacts, catalog_entries)
