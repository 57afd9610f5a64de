"""Where an artifact really came from, and who else has the same bytes."""

from alembic import op
from sqlalchemy import Column

from resources.catalog.schema import Text

revision = "0001"
down_revision = None


def upgrade() -> None:
    for name in ("final_url", "derivation", "derived_from"):
        op.add_column("artifacts", Column(name, Text))
    op.create_index("artifacts_sha256", "artifacts", ["sha256"])
