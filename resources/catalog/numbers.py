"""The numbers that rows get when they are recorded, by which exports follow the catalog.

On PostgreSQL several processes commit at once, each with numbers of its own, and a commit with a low number can end after one
with a higher number. So every commit holds a shared lock until it ends, and whoever follows the numbers takes the lock alone
for a moment: then every number that was given out belongs to a transaction that has ended. SQLite has one writer at a time.
"""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection, func, select, text, update

from resources.catalog.database import Database, read_transaction
from resources.catalog.schema import artifacts, attempts, catalog_entries, meta, revisions

_NUMBERING = 0x6E756D62  # the advisory lock
_WAIT = "1s"  # commits that begin wait as long as the one who wants the lock alone does; then it is tried again


class LastNumbers(NamedTuple):
    """The highest numbers of attempts, artifacts and outcomes. All rows up to them can be seen, or will never be there."""

    attempt: int
    artifact: int
    revision: int


def begin_numbering(connection: Connection) -> None:
    """Announce that the transaction will record rows. To be called first, before it locks anything else."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock_shared(:key)"), {"key": _NUMBERING})


def take_revisions(connection: Connection, count: int) -> list[int]:
    """New numbers for outcomes, in rising order. To be called when their works are locked: a later outcome of the same work then
    has a higher number."""
    if not count:
        return []
    if connection.dialect.name == "postgresql":
        taken = select(revisions.next_value()).select_from(func.generate_series(1, count))
        return sorted(connection.execute(taken).scalars())
    counter = update(meta).where(meta.c.key == "revision").values(value=meta.c.value + count).returning(meta.c.value)
    last = int(connection.execute(counter).scalar_one())
    return list(range(last - count + 1, last + 1))


class Numbers(Database):
    @read_transaction
    def last_numbers(self, connection: Connection) -> LastNumbers:
        if self._in_file:
            counter = select(meta.c.value).where(meta.c.key == "revision")
            columns = (attempts.c.id, artifacts.c.id, catalog_entries.c.revision)
            attempt, artifact, revision = (connection.scalar(select(func.max(column))) or 0 for column in columns)
            return LastNumbers(attempt, artifact, max(revision, connection.scalar(counter) or 0))
        connection.execute(text(f"SET LOCAL lock_timeout = '{_WAIT}'"))
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _NUMBERING})
        sequences = (f"{attempts.name}_id_seq", f"{artifacts.name}_id_seq", revisions.name)
        # before its first number is taken, a sequence has that one as its `last_value`
        last = "SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END FROM"
        return LastNumbers._make(int(connection.scalar(text(f"{last} {name}")) or 0) for name in sequences)
