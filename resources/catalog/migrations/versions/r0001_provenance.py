"""Where an artifact really came from, and who else has the same bytes; leases found by their end."""

from alembic import op
from sqlalchemy import Column, text

from resources.catalog.schema import Text

revision = "0001"
down_revision = None


def upgrade() -> None:
    for name in ("final_url", "derivation", "derived_from"):
        op.add_column("artifacts", Column(name, Text))
    op.create_index("artifacts_sha256", "artifacts", ["sha256"])
    # A claim looks for leases that have ended: by their time, not by their owner.
    op.drop_index("queue_leased", "queue")
    leased = text("state = 'leased'")
    columns = ["lease_until", "lease_owner", "year"]
    op.create_index("queue_leased", "queue", columns, sqlite_where=leased, postgresql_where=leased)
