"""Files in the store that belong to no work: orphans, which the catalog does not name, part files whose writers were killed, and
quarantined files.

Orphans and part files count only when they have not changed for a while, so that a file that a run is storing at this moment is
not listed. An orphan is removed only while no process holds a work and the catalog still does not name it, because a search may
have adopted it after it was listed. Names are kept on disk, so memory use does not grow with the store.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from itertools import islice

from docstokg_assets.engine.download import FOLDERS
from resources.artifacts.store import CAS, QUARANTINE, ArtifactStore, Found
from resources.catalog.catalog import Catalog
from resources.catalog.names import NamesMark
from resources.errors import ExplainedError
from resources.processes import process_is_gone
from resources.records import AttemptRecord, Status

ARTIFACT_FOLDERS = (*sorted(set(FOLDERS.values())), CAS)  # of both layouts: the setting may have been changed
MOST_LISTED = 100_000  # orphans at a time
_BATCH = 500
_REMOVED_AT_ONCE = 50  # other processes wait for the catalog during this time


class StoreBusy(ExplainedError):
    """Another process holds works, and may be storing or adopting files."""


@dataclass(frozen=True, slots=True)
class Orphans:
    orphans: list[Found]
    stale_parts: list[Found]
    named: int  # files that the catalog names, some more than once
    young: int  # files that it does not name, but that changed too recently to count
    more: int  # orphans beyond those that are listed


def find_orphans(catalog: Catalog, store: ArtifactStore, older_than_s: float) -> Orphans:
    before, orphans = time.time() - older_than_s, list[Found]()
    young = more = 0
    with closing(sqlite3.connect("")) as names:  # a temporary file
        names.execute("PRAGMA journal_mode = OFF")
        names.execute("PRAGMA synchronous = OFF")
        names.execute("CREATE TABLE named (path TEXT PRIMARY KEY) WITHOUT ROWID")
        names.executemany("INSERT OR IGNORE INTO named VALUES (?)", ((path,) for path in catalog.named_files()))
        stored = (found for folder in ARTIFACT_FOLDERS for found in store.iter_files(folder))
        while batch := list(islice(stored, _BATCH)):
            paths, marks = [found.path for found in batch], ", ".join("?" * len(batch))
            known = {path for (path,) in names.execute(f"SELECT path FROM named WHERE path IN ({marks})", paths)}
            unnamed = [found for found in batch if found.path not in known]
            old = [found for found in unnamed if found.changed_at < before]
            young += len(unnamed) - len(old)
            room = MOST_LISTED - len(orphans)
            orphans += old[:room]
            more += len(old[room:])
        (named,) = names.execute("SELECT count(*) FROM named").fetchone()
    return Orphans(orphans, stale_parts(store, older_than_s), named, young, more)


def stale_parts(store: ArtifactStore, older_than_s: float) -> list[Found]:
    """Part files that have not been written to for a while."""
    return [part for folder in ARTIFACT_FOLDERS for part in store.stale_parts(older_than_s, folder)]


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A rejected file and its attempt in the catalog; without one if the process was killed in between."""

    found: Found
    work_id: str | None = None
    url: str | None = None
    reason: str | None = None
    fault: str | None = None


def find_quarantined(catalog: Catalog, store: ArtifactStore, older_than_s: float = 0.0) -> list[Quarantined]:
    """The quarantined files, one entry for each work and URL that brought the file."""
    before = time.time() - older_than_s
    waiting = set(catalog.files_aside())  # for a replacement, or to be put back
    stored = [found for found in store.iter_files(QUARANTINE) if found.changed_at <= before]
    stored = [found for found in stored if found.path not in waiting]
    attempts: dict[str, dict[tuple[str | None, str], AttemptRecord]] = {}
    for attempt in catalog.attempts_with("quarantined", Status.CONTENT_POLICY_SKIP) if stored else ():
        attempts.setdefault(attempt.extra["quarantined"], {})[attempt.work_id, attempt.url] = attempt
    return [
        Quarantined(found, attempt.work_id, attempt.url, str(attempt.reason), attempt.extra.get("fault"))
        if attempt
        else Quarantined(found)
        for found in stored
        for attempt in attempts.get(found.path, {None: None}).values()
    ]


def processes_at_work(catalog: Catalog) -> list[str]:
    """Processes that hold works now, by machine and process id; without those of this machine that have ended."""
    return _living(catalog.lease_owners())


def _living(owners: Iterable[str]) -> list[str]:
    return sorted(owner.rpartition(":")[0] for owner in owners if not process_is_gone(owner))


def delete_files(store: ArtifactStore, found: Iterable[Found]) -> list[Found]:
    """Delete files; returns those that were still there."""
    return [each for each in found if store.delete(each.path)]


def delete_unnamed(catalog: Catalog, store: ArtifactStore, found: Iterable[Found], mark: NamesMark) -> list[Found]:
    """Delete files that the catalog did not name at the mark and does not name now; returns those that were still there.
    StoreBusy as soon as a living process holds works: it may be about to adopt one of them."""
    remaining, removed = iter(found), list[Found]()
    while batch := list(islice(remaining, _REMOVED_AT_ONCE)):
        with catalog.alone() as moment:
            if busy := _living(moment.busy):
                done = f"{len(removed):,} files were removed before that. " if removed else ""
                raise StoreBusy(
                    f"runs are in progress ({', '.join(busy)}), and their files look like orphans. {done}Run gc when they "
                    "have ended."
                )
            named = moment.named_since(mark)
            removed += delete_files(store, [each for each in batch if each.path not in named])
    return removed
