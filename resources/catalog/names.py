"""Which files the catalog names, and a moment in which nobody can name another one: what is removed then is nobody's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from sqlalchemy import Connection, or_, select, text
from sqlalchemy import func as sql

from resources.catalog.database import Database
from resources.catalog.rows import from_json
from resources.catalog.schema import LEASED, artifacts, catalog_entries, group_leases, meta, queue

_PAGE = 1_000


class NamesMark(NamedTuple):
    """How far the names were read: what is named later has a higher number."""

    artifact: int
    revision: int


class Alone(NamedTuple):
    """`busy`: who holds works all the same; `named_since`: the files that were named after a mark."""

    busy: set[str]
    named_since: Callable[[NamesMark], set[str]]


class Names(Database):
    def names_mark(self) -> NamesMark:
        with self._read() as connection:
            artifact = connection.scalar(select(sql.max(artifacts.c.id))) or 0
            revision = connection.scalar(select(meta.c.value).where(meta.c.key == "revision")) or 0
        return NamesMark(artifact, revision)

    def named_files(self) -> Iterator[str]:
        """The path of every file that a row names, some more than once; also what is kept for a work whose search still waits.
        Rows come a page at a time."""
        with self._read(slow=True) as connection:
            yield from _paths(connection, NamesMark(0, 0))
            kept = select(queue.c.progress).where(queue.c.progress.like('%"html":{%'))
            for progress in connection.execute(kept, execution_options={"yield_per": _PAGE}).scalars():
                if html := from_json(progress)["html"]:
                    yield html["path"]

    def files_of(self, work_id: str) -> set[str]:
        """What `named_files` gives of one work."""
        with self._read() as connection:
            named = set(_paths(connection, NamesMark(0, 0), work_id))
            kept = connection.scalar(select(queue.c.progress).where(queue.c.work_id == work_id))
        html = (from_json(kept) or {}).get("html") if kept else None
        return named | ({html["path"]} if html else set())

    def files_aside(self) -> list[str]:
        """Files that were put aside as damaged, for works that have no other by now."""
        noted = select(queue.c.progress).where(queue.c.progress.like('%"aside":{"%'))
        with self._read() as connection:
            progress = connection.execute(noted).scalars().all()
        return [path for one in progress for path in from_json(one)["aside"]]

    @contextmanager
    def alone(self) -> Iterator[Alone]:
        """While this lasts nobody claims or settles a work, and so nobody names a file. Keep it short: all others wait."""
        with self._write() as connection:
            if not self._in_file:
                connection.execute(text("LOCK TABLE queue IN SHARE MODE"))
            holders = connection.execute(select(queue.c.lease_owner).where(LEASED).distinct()).scalars()
            busy = {str(owner) for owner in holders} | set(connection.execute(select(group_leases.c.owner)).scalars())
            yield Alone(busy, lambda mark: set(_paths(connection, mark)))


def _paths(connection: Connection, mark: NamesMark, work_id: str | None = None) -> Iterator[str]:
    """What rows name that came after the mark, of one work or of all. A row of `artifacts` that a later file of its work has
    superseded names none, unless its file is named by its hash. Pages that were kept for a work that waits were stored by
    whoever parked it, and are as young as that."""
    c, pages = catalog_entries.c, {"yield_per": _PAGE}
    current = or_(c.path.is_(None), artifacts.c.path.startswith("cas/", autoescape=True))
    stored = select(artifacts.c.path).outerjoin(catalog_entries, c.work_id == artifacts.c.work_id)
    stored = stored.where(artifacts.c.id > mark.artifact, current)
    ended = select(c.path, c.html_paths).where(c.revision > mark.revision)
    if work_id is not None:
        stored, ended = stored.where(artifacts.c.work_id == work_id), ended.where(c.work_id == work_id)
    yield from connection.execute(stored, execution_options=pages).scalars()
    for path, html_paths in connection.execute(ended, execution_options=pages):
        if path is not None:
            yield path
        if html_paths != "[]":
            yield from from_json(html_paths)
