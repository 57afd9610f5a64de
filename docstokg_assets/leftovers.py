"""What lies in the store and belongs to nobody: orphans, which the catalog does not name, and parts whose writers were killed.

Looks only at what has been left alone for a while, and at the store before the catalog, so that what a run is storing at this
moment is not taken for an orphan. Showing and asking is the command line's.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from docstokg_assets.orchestrator import ARTIFACT_FOLDERS
from resources.artifacts.store import ArtifactStore, Found
from resources.catalog.catalog import Catalog
from resources.processes import process_is_gone


@dataclass(frozen=True, slots=True)
class Leftovers:
    orphans: list[Found]
    stale_parts: list[Found]
    named: int  # files that the catalog names
    young: int  # files that it does not name, but that are too young to be judged


def find_leftovers(catalog: Catalog, store: ArtifactStore, older_than_s: float) -> Leftovers:
    before = time.time() - older_than_s
    lying = [found for folder in ARTIFACT_FOLDERS for found in store.iter_files(folder)]
    named = set(catalog.named_files())
    unnamed = [found for found in lying if found.path not in named]
    return Leftovers(
        [found for found in unnamed if found.changed_at < before],
        [part for folder in ARTIFACT_FOLDERS for part in store.stale_parts(older_than_s, folder)],
        len(named),
        sum(found.changed_at >= before for found in unnamed),
    )


def processes_at_work(catalog: Catalog) -> list[str]:
    """Who holds works at the moment, by machine and process; those of this machine that have ended are not meant."""
    return sorted(owner.rpartition(":")[0] for owner in catalog.lease_owners() if not process_is_gone(owner))


def delete_leftovers(store: ArtifactStore, found: Iterable[Found]) -> list[Found]:
    """Those that were still there."""
    return [each for each in found if store.delete(each.path)]
