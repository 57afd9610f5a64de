"""What the plan of a work was made from, so that a year that did not change is planned again by comparing columns."""

from alembic import op
from sqlalchemy import Column

from resources.catalog.schema import Text

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.add_column("queue", Column("planned_from", Text))
