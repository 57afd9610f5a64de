"""Read stored files again and compare them with the catalog, a budget of bytes at a time.

Files that were bad before come first, then those that were never read since they were stored, then those that were read longest
ago. So a bad file is reported until it is replaced, and over time every file is read.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from docstokg_assets.runs.resume import files_of
from resources.artifacts.store import ArtifactStore, Unreadable
from resources.catalog.catalog import Catalog
from resources.catalog.checked import AuditState, FileCheck, Found
from resources.catalog.rows import Entry
from resources.scope import Years

_PAGE = 200
_READERS = 4
_NO_FILES = AuditState(0, 0, 0, 0, None)


@dataclass(slots=True)
class Audit:
    """What a pass over stored files read and found. `bad`: work and file of each bad one, also of those known before."""

    read: int = 0
    bytes: int = 0
    bad: list[tuple[str, str]] = field(default_factory=list)
    state: AuditState = _NO_FILES


def audit_files(
    catalog: Catalog, store: ArtifactStore, years: Years | None, budget: int, stop: threading.Event | None = None
) -> Audit:
    """Read files until `budget` bytes are read (at least one file, and all that were bad before), and remember what was found."""
    audit, began = Audit(), catalog.now()
    with ThreadPoolExecutor(_READERS, thread_name_prefix="audit") as pool:
        _read(catalog, store, pool, [entry for entry, _ in catalog.remembered_bad(years)], audit)
        audit.bytes = 0  # what was bad is read on top of the budget, so that the rest is not starved
        while audit.bytes < budget and not (stop and stop.is_set()):
            page = _within(catalog.next_to_read(years, began, _PAGE), budget - audit.bytes)
            if not page:
                break
            _read(catalog, store, pool, page, audit)
    known = [(entry.work_id, str(entry.path)) for entry in catalog.known_bad(years)]
    audit.bad = known + [(entry.work_id, path) for entry, path in catalog.remembered_bad(years)]
    audit.state = catalog.audit_state(years)
    return audit


def _within(entries: Iterable[Entry], budget: int) -> list[Entry]:
    """The first entries that together reach the budget."""
    chosen: list[Entry] = []
    for entry in entries:
        if budget <= 0 and chosen:
            break
        chosen.append(entry)
        budget -= entry.bytes or 0
    return chosen


def _read(catalog: Catalog, store: ArtifactStore, pool: ThreadPoolExecutor, entries: list[Entry], audit: Audit) -> None:
    checks = list(pool.map(lambda entry: check_files(catalog, store, entry), entries))
    catalog.record_file_checks(checks)
    audit.read += len(checks)
    audit.bytes += sum(entry.bytes or 0 for entry in entries)


def check_files(catalog: Catalog, store: ArtifactStore, entry: Entry) -> FileCheck:
    """Read the files of a work: its full text and its pages. The first one that is not sound gives the result."""
    found, bad = Found.SOUND, None
    for path, sha256 in files_of(catalog, entry).items():
        found = stored_state(store, path, sha256)
        if found is not Found.SOUND:
            bad = path
            break
    return FileCheck(entry.work_id, str(entry.path), str(entry.sha256), found, bad)


def stored_state(store: ArtifactStore, path: str, sha256: str) -> Found:
    """Whether a file has its recorded hash. Reads a bad one twice: a disk or a network may have erred."""
    found = _read_once(store, path, sha256)
    return found if found is Found.SOUND or found is Found.MISSING else _read_once(store, path, sha256)


def _read_once(store: ArtifactStore, path: str, sha256: str) -> Found:
    try:
        return Found.SOUND if store.sha256_of(path)[0] == sha256 else Found.DAMAGED
    except FileNotFoundError:
        return Found.MISSING
    except Unreadable:
        return Found.UNREADABLE
