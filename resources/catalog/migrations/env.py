"""What alembic runs: the revisions, on the connection and in the transaction of whoever opens the catalog."""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
