"""What lies in the store and is no work's file: orphans, which the catalog does not name, parts whose writers were killed, and
what was put in quarantine.

Of the first two it looks only at what has been left alone for a while, and at the store before the catalog, so that what a
run is storing at this moment is not taken for an orphan. Showing and asking is the command line's.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from docstokg_assets.runs.run import ARTIFACT_FOLDERS
from resources.artifacts.store import QUARANTINE, ArtifactStore, Found
from resources.catalog.catalog import Catalog
from resources.processes import process_is_gone
from resources.records import AttemptRecord, Status


@dataclass(frozen=True, slots=True)
class Orphans:
    orphans: list[Found]
    stale_parts: list[Found]
    named: int  # files that the catalog names
    young: int  # files that it does not name, but that are too young to be judged


def find_orphans(catalog: Catalog, store: ArtifactStore, older_than_s: float) -> Orphans:
    before = time.time() - older_than_s
    lying = [found for folder in ARTIFACT_FOLDERS for found in store.iter_files(folder)]
    named = set(catalog.named_files())
    unnamed = [found for found in lying if found.path not in named]
    return Orphans(
        [found for found in unnamed if found.changed_at < before],
        [part for folder in ARTIFACT_FOLDERS for part in store.stale_parts(older_than_s, folder)],
        len(named),
        sum(found.changed_at >= before for found in unnamed),
    )


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A file that is not what it says, and what the catalog knows of it: nothing when its process was killed in between."""

    found: Found
    work_id: str | None = None
    url: str | None = None
    reason: str | None = None
    fault: str | None = None


def find_quarantined(catalog: Catalog, store: ArtifactStore, older_than_s: float = 0.0) -> list[Quarantined]:
    """One for each work and URL that brought the file."""
    before = time.time() - older_than_s
    lying = [found for found in store.iter_files(QUARANTINE) if found.changed_at <= before]
    known: dict[str, dict[tuple[str | None, str], AttemptRecord]] = {}
    for attempt in catalog.attempts_with("quarantined", Status.CONTENT_POLICY_SKIP) if lying else ():
        of_file = known.setdefault(attempt.extra["quarantined"], {})
        of_file[attempt.work_id, attempt.url] = attempt
    return [
        Quarantined(found, told.work_id, told.url, str(told.reason), told.extra.get("fault"))
        if told
        else Quarantined(found)
        for found in lying
        for told in known.get(found.path, {None: None}).values()
    ]


def processes_at_work(catalog: Catalog) -> list[str]:
    """Who holds works at the moment, by machine and process; those of this machine that have ended are not meant."""
    return sorted(owner.rpartition(":")[0] for owner in catalog.lease_owners() if not process_is_gone(owner))


def delete_orphans(store: ArtifactStore, found: Iterable[Found]) -> list[Found]:
    """Those that were still there."""
    return [each for each in found if store.delete(each.path)]
