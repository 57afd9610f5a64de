"""Which stored files were read again, and what each listing of a year brought."""

import sqlalchemy as sa
from alembic import op

from resources.catalog.schema import Big, Text

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.create_table(
        "file_checks",
        sa.Column("work_id", Text, primary_key=True),
        sa.Column("path", Text, nullable=False),
        sa.Column("sha256", Text, nullable=False),
        sa.Column("checked_at", sa.Float, nullable=False),
        sa.Column("found", Text, nullable=False),
        sa.Column("bad_path", Text),
    )
    op.create_table(
        "listings",
        sa.Column("run_id", Text, primary_key=True),
        sa.Column("year", sa.Integer, primary_key=True),
        sa.Column("source", Text, nullable=False),
        sa.Column("filter", Text, nullable=False),
        sa.Column("changed_since", Text),
        sa.Column("works", Big, nullable=False),
        sa.Column("complete", sa.Integer, nullable=False),
        sa.Column("at", sa.Float, nullable=False),
    )
    op.create_index("listings_year", "listings", ["year", "at"])
