"""Which files the catalog names, and a lock that keeps processes from naming more, so that unnamed files can be removed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from sqlalchemy import Connection, or_, select, text

from resources.catalog.claims import lease_owners
from resources.catalog.codec import from_json
from resources.catalog.numbers import Numbers
from resources.catalog.schema import artifacts, catalog_entries, queue

_PAGE = 1_000


class NamesMark(NamedTuple):
    """A position in the tables that name files: rows added later have higher numbers."""

    artifact: int = 0
    revision: int = 0


class Alone(NamedTuple):
    """The state while the lock is held. `busy`: processes that hold works; `named_since`: the files named after a mark."""

    busy: set[str]
    named_since: Callable[[NamesMark], set[str]]


class Names(Numbers):
    def names_mark(self) -> NamesMark:
        last = self.last_numbers()
        return NamesMark(last.artifact, last.revision)

    def named_files(self) -> Iterator[str]:
        """The path of every file that a row names, some more than once, including HTML pages kept for parked works. Reads a page
        of rows at a time."""
        with self._read(slow=True) as connection:
            yield from _paths(connection, NamesMark())
            kept = select(queue.c.progress).where(queue.c.progress.like('%"html":{%'))
            for progress in connection.execute(kept, execution_options={"yield_per": _PAGE}).scalars():
                yield from _kept_page(progress)

    def files_of(self, work_id: str) -> set[str]:
        """The paths of `named_files` that belong to one work."""
        with self._read() as connection:
            named = set(_paths(connection, NamesMark(), work_id))
            return named.union(
                _kept_page(connection.scalar(select(queue.c.progress).where(queue.c.work_id == work_id)))
            )

    def files_aside(self) -> list[str]:
        """Damaged files that were set aside, of works that have no replacement yet."""
        noted = select(queue.c.progress).where(queue.c.progress.like('%"aside":{"%'))
        return [path for row in self._rows(noted) for path in from_json(row["progress"])["aside"]]

    @contextmanager
    def alone(self) -> Iterator[Alone]:
        """Keep other processes from claiming or finishing works, and so from naming files. They wait, so keep the block short."""
        with self._write() as connection:
            if not self._in_file:
                connection.execute(text("LOCK TABLE queue IN SHARE MODE"))
            yield Alone(lease_owners(connection), lambda mark: set(_paths(connection, mark)))


def _kept_page(progress: str | None) -> list[str]:
    """The path of the HTML page in a work's stored progress, if there is one."""
    html = (from_json(progress) or {}).get("html")
    return [html["path"]] if html else []


def _paths(connection: Connection, mark: NamesMark, work_id: str | None = None) -> Iterator[str]:
    """The paths in rows after the mark, of one work or of all. A row of `artifacts` that a later file of the work has superseded
    does not count, unless the file is named by its hash. Pages kept for parked works are not in these rows: a page stored
    after the mark is too recent to be listed as an orphan."""
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
