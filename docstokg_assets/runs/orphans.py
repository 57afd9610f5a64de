"""Files in the store that belong to no work: orphans, which the catalog does not name, part files whose writers were killed, and
quarantined files.

Orphans and part files count only when they have not changed for a while, and the store is listed before the catalog is read,
so that a file that a run is storing at this moment is not taken for an orphan.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from docstokg_assets.engine.download import FOLDERS
from resources.artifacts.store import CAS, QUARANTINE, ArtifactStore, Found
from resources.catalog.catalog import Catalog
from resources.processes import process_is_gone
from resources.records import AttemptRecord, Status

ARTIFACT_FOLDERS = (*sorted(set(FOLDERS.values())), CAS)  # of both layouts: a store may have had another one before


@dataclass(frozen=True, slots=True)
class Orphans:
    orphans: list[Found]
    stale_parts: list[Found]
    named: int  # files that the catalog names
    young: int  # files that it does not name, but that changed too recently to count


def find_orphans(catalog: Catalog, store: ArtifactStore, older_than_s: float) -> Orphans:
    before = time.time() - older_than_s
    stored = [found for folder in ARTIFACT_FOLDERS for found in store.iter_files(folder)]
    named = set(catalog.named_files())
    unnamed = [found for found in stored if found.path not in named]
    return Orphans(
        [found for found in unnamed if found.changed_at < before],
        stale_parts(store, older_than_s),
        len(named),
        sum(found.changed_at >= before for found in unnamed),
    )


def stale_parts(store: ArtifactStore, older_than_s: float) -> list[Found]:
    """Part files that nobody has written to for a while."""
    return [part for folder in ARTIFACT_FOLDERS for part in store.stale_parts(older_than_s, folder)]


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A rejected file, and what the catalog knows of it: nothing when its process was killed in between."""

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
    return sorted(owner.rpartition(":")[0] for owner in catalog.lease_owners() if not process_is_gone(owner))


def delete_orphans(store: ArtifactStore, found: Iterable[Found]) -> list[Found]:
    """Delete files; returns those that were still there."""
    return [each for each in found if store.delete(each.path)]
