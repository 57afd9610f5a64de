"""Ingest requests and results, and the kind of a queue item. The indexes of works leave ingest items out."""

from alembic import op
from sqlalchemy import Column, Float, Integer, PrimaryKeyConstraint, TextClause, UniqueConstraint, text

from resources.catalog.schema import Big, Text

revision = "0004"
down_revision = "0003"

_READY = "kind = '{}' AND state = 'queued' AND not_before = 0"
_WAITING = "kind = '{}' AND state IN ('queued', 'retry') AND not_before > 0"
_BY_PRIORITY: list[str | TextClause] = [text("priority DESC"), "work_id", "next_group"]


def upgrade() -> None:
    op.add_column("queue", Column("kind", Text, nullable=False, server_default=text("'work'")))
    for name, condition, columns in (
        ("queue_ready", _READY.format("work"), _BY_PRIORITY),
        ("queue_ready_year", _READY.format("work"), ["year", *_BY_PRIORITY]),
        ("queue_ready_run", _READY.format("work"), ["run_id", *_BY_PRIORITY]),
        ("queue_waiting", _WAITING.format("work"), ["state", "not_before", "year"]),
        ("queue_waiting_year", _WAITING.format("work"), ["year", "state", "not_before"]),
        ("queue_waiting_run", _WAITING.format("work"), ["run_id", "state", "not_before"]),
        ("queue_counts", "kind = 'work'", ["year", "state", "not_before", "lease_until"]),
        ("ingest_ready", _READY.format("ingest"), _BY_PRIORITY),
        ("ingest_waiting", _WAITING.format("ingest"), ["priority", "state", "not_before"]),
    ):
        if name.startswith("queue_"):
            op.drop_index(name, "queue")
        where = text(condition)
        op.create_index(name, "queue", columns, sqlite_where=where, postgresql_where=where)
    _create_ingest_tables()


def _create_ingest_tables() -> None:
    texts = ("ingest_type", "base_url", "link_source", "link_source_id")
    op.create_table(
        "ingest_request",
        *(Column(name, Text, nullable=False) for name in texts),
        Column("created", Float, nullable=False),
        Column("ingest_request_source", Text),
        Column("release_stage", Text),
        Column("request", Text, nullable=False),
        PrimaryKeyConstraint(*texts),
    )
    op.create_index("ingest_request_created", "ingest_request", ["ingest_request_source", "created"])
    op.create_table(
        "ingest_file_result",
        Column("ingest_type", Text, nullable=False),
        Column("base_url", Text, nullable=False),
        Column("updated", Float, nullable=False),
        Column("hit", Integer, nullable=False),
        Column("status", Text, nullable=False),
        Column("terminal_url", Text),
        Column("terminal_dt", Text),
        Column("terminal_status_code", Integer),
        Column("terminal_sha1hex", Text),
        Column("error_message", Text),
        Column("hops", Text, nullable=False),
        Column("route", Text),
        Column("reason", Text),
        Column("tries", Integer, nullable=False),
        Column("next_try", Float),
        Column("flags", Text, nullable=False),
        *(Column(name, Text) for name in ("file_meta", "cdx", "revisit_cdx", "path")),
        Column("item_id", Text, nullable=False),
        Column("run_id", Text),
        Column("revision", Big, nullable=False),
        PrimaryKeyConstraint("ingest_type", "base_url"),
        UniqueConstraint("revision"),
    )
    op.create_index("ingest_result_terminal_url", "ingest_file_result", ["terminal_url"], postgresql_using="hash")
    op.create_index("ingest_result_sha1", "ingest_file_result", ["terminal_sha1hex"])
    op.create_index("ingest_result_status", "ingest_file_result", ["status", "updated"])
    op.create_index("ingest_result_item", "ingest_file_result", ["item_id"])
