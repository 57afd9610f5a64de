"""Claims of a run, and looks at what waits, that do not walk over the works of others; outcomes of a year or a run by pages."""

from alembic import op
from sqlalchemy import Column, TextClause, text

from resources.catalog.schema import Text

revision = "0003"
down_revision = "0002"

_READY = text("state = 'queued' AND not_before = 0")
_WAITING = text("state IN ('queued', 'retry') AND not_before > 0")


def upgrade() -> None:
    op.add_column("queue", Column("run_id", Text))  # filled when a run takes its works over, as each pass does
    op.drop_index("queue_waiting", "queue")
    order: list[str | TextClause] = ["run_id", text("priority DESC"), "work_id", "next_group"]
    op.create_index("queue_ready_run", "queue", order, sqlite_where=_READY, postgresql_where=_READY)
    for name, columns in (
        ("queue_waiting", ["state", "not_before", "year"]),
        ("queue_waiting_year", ["year", "state", "not_before"]),
        ("queue_waiting_run", ["run_id", "state", "not_before"]),
    ):
        op.create_index(name, "queue", columns, sqlite_where=_WAITING, postgresql_where=_WAITING)
    op.create_index("entries_year_work", "catalog_entries", ["year", "work_id"])
    op.create_index("entries_run_work", "catalog_entries", ["run_id", "work_id"])
