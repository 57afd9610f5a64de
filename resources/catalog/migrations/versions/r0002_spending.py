"""What paid routes have spent on each day, for all runs and processes."""

from alembic import op
from sqlalchemy import Column, Integer

from resources.catalog.schema import Big, Text

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "spending",
        Column("name", Text, primary_key=True),
        Column("day", Integer, primary_key=True),
        Column("micros", Big, nullable=False),
    )
