"""On PostgreSQL the numbers of outcomes come from a sequence, so that commits need not wait for each other."""

from alembic import op
from sqlalchemy import text
from sqlalchemy.schema import CreateSequence

from resources.catalog.schema import revisions

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    connection = op.get_bind()
    if connection.dialect.name != "postgresql":
        return
    # a process of the previous version that is still running finds no counter, and stops
    last = connection.execute(text("DELETE FROM meta WHERE key = 'revision' RETURNING value")).scalar_one()
    connection.execute(CreateSequence(revisions))
    connection.execute(text("SELECT setval('revisions', :last, true)"), {"last": last}) if last else None
