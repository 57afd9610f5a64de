"""Brings an older catalog to the tables of `schema`, with alembic. A new catalog is made from `schema` and marked as up to date,
so that alembic is imported only when there is something to do. Opening and locking are `database`'s.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Column, Connection, MetaData, PrimaryKeyConstraint, String, Table, insert, inspect, select

from resources.errors import ExplainedError

HEAD = "0007"  # the newest file in versions/
_marks = Table(  # as alembic itself makes it
    "alembic_version",
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)


class NewerCatalog(ExplainedError):
    """The catalog has been through a revision that this program does not know."""


def mark_as_new(connection: Connection) -> None:
    _marks.create(connection)
    connection.execute(insert(_marks), {"version_num": HEAD})


def migrate(connection: Connection) -> None:
    """Inside the caller's transaction: all of it or nothing. A catalog without a mark is from before the first revision."""
    marked = inspect(connection).has_table(_marks.name)
    found = connection.scalar(select(_marks.c.version_num)) if marked else None
    if found == HEAD:
        return
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if found is not None and found not in known:
        raise NewerCatalog(found)
    command.upgrade(config, "head")
