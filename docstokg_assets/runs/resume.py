"""Reopen finished works: those that are forced, whose files are damaged, or whose files may have changed.

Selects among the catalog's outcomes, checks the stored files, and puts works back into the queue with what is known about
them. They come due like all others, and a run fetches them.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from docstokg_assets.domain.identifiers import parse_identifier
from docstokg_assets.domain.works import Work
from docstokg_assets.engine.search_state import KEPT
from resources.artifacts.store import QUARANTINE, ArtifactStore, NameTaken, Unreadable
from resources.catalog.catalog import Catalog
from resources.catalog.checked import FileCheck, Found
from resources.catalog.rows import Entry
from resources.http.canonical import canonical_url
from resources.http.redact import carries_credentials
from resources.records import Classification, Ending, Kind, Reason
from resources.scope import WorkScope

_AT_ONCE = 200
_FILES = frozenset({Kind.PDF, Kind.PDF_UNKNOWN, Kind.XML})
_STATUSES = ("failed", *(str(classification) for classification in Classification))


class FilterError(ValueError):
    """A filter with an unknown key or value; the message names it and the known ones."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Outcomes by `key=value`: several values of a key are alternatives, all keys must hold."""

    wanted: Mapping[str, frozenset[str]]

    @classmethod
    def parse(cls, filters: Iterable[str], resolvers: Sequence[str]) -> Selection:
        known: dict[str, Sequence[str] | None] = {
            "status": _STATUSES,
            "reason": tuple(str(reason) for reason in Reason),
            "resolver": resolvers,
            "year": None,
        }
        wanted: dict[str, set[str]] = {}
        for text in filters:
            key, equals, value = (part.strip() for part in text.partition("="))
            if not equals or key not in known:
                raise FilterError(f"--filter {text!r}: give {', '.join(f'{name}=…' for name in known)}")
            values = known[key]
            if values is not None and value not in values:
                raise FilterError(f"--filter {text!r}: there is no {key} {value!r}; there are {', '.join(values)}")
            if values is None and not value.isdecimal():
                raise FilterError(f"--filter {text!r}: a year is a number, such as 2024; 0 stands for an unknown one")
            wanted.setdefault(key, set()).add(value)
        return cls({key: frozenset(values) for key, values in wanted.items()})

    def holds(self, end: Entry) -> bool:
        facts: dict[str, set[str | None]] = {
            "status": {str(end.classification), None if _succeeded(end) else "failed"},
            "reason": {str(end.reason)},
            "resolver": {end.resolver},
            "year": {str(end.year or 0)},
        }
        return all(values & facts[key] for key, values in self.wanted.items())


def force(catalog: Catalog, scope: WorkScope, selection: Selection) -> int:
    """Reopen the selected works, to be searched for again from the start; returns how many."""
    ends = (end for end in _entries(catalog, scope) if selection.holds(end))
    # `fresh` ignores the HTTP cache, because its answers led to the outcome that is searched for again.
    return catalog.reopen((end.work_id, {**_files_in_progress(catalog, end), "fresh": True}) for end in ends)


@dataclass(slots=True)
class Verified:
    checked: int = 0
    missing: list[str] = field(default_factory=list)  # works
    damaged: list[str] = field(default_factory=list)
    no_room_for: str | None = None  # the damaged file at which it stopped, because the quarantine has no room

    @property
    def lost(self) -> list[str]:
        return self.missing + self.damaged


def verify(
    catalog: Catalog,
    store: ArtifactStore,
    scope: WorkScope,
    workers: int,
    stop: threading.Event,
    on_checked: Callable[[int], None],
    max_quarantine_bytes: int,
) -> Verified:
    """Hash every stored file again, several at a time. Reopen the work of a file that is missing, differs or cannot be read, and
    put that file aside in quarantine, because a file under its final name must be whole. Nothing is deleted until a replacement
    is recorded. If none is found, and the file can be read again, the search puts it back. Stops where the quarantine has no
    room."""
    verified, room = Verified(), None
    stored = (end for end in _entries(catalog, scope) if _succeeded(end) and end.path and end.sha256)

    def stored_hash(path: str) -> tuple[str | None, int]:
        try:
            return store.sha256_of(path)
        except FileNotFoundError:
            return None, 0
        except Unreadable:
            return "unreadable", 0

    def checked_file(path: str, sha256: str, size: int) -> _Checked:
        found, found_size = stored_hash(path)
        if found not in (sha256, None):
            found, found_size = stored_hash(path)  # read again: it may have been a transient disk or network error
        return _Checked(path, sha256, found, found_size or size)

    def checked_files(end: Entry) -> list[_Checked]:
        return [checked_file(path, sha256, end.bytes or 0) for path, sha256 in files_of(catalog, end).items()]

    with ThreadPoolExecutor(workers, thread_name_prefix="verify") as pool:
        while not stop.is_set() and (page := list(itertools.islice(stored, _AT_ONCE))):
            seen = list(zip(page, pool.map(checked_files, page), strict=True))
            differ = {
                end.work_id: (end, bad) for end, files in seen if (bad := [f for f in files if f.found != f.sha256])
            }
            catalog.record_file_checks(_as_check(end, files) for end, files in seen)
            for work_id in sorted(catalog.done_among(differ)):  # the other works are being downloaded now
                end, bad = differ[work_id]
                if room is None:
                    room = max_quarantine_bytes - sum(found.bytes for found in store.iter_files(QUARANTINE))
                for file in bad:
                    if file.found is not None and (room := room - file.bytes) < 0:
                        verified.no_room_for = file.path
                        return verified
                aside = {_free_name(store, file): file.path for file in bad}
                replaces = {"path": bad[0].path, "sha256": bad[0].sha256, "found": bad[0].found}
                progress = {**_files_in_progress(catalog, end), "replaces": replaces, "aside": aside}
                if catalog.reopen([(work_id, progress)], only_done=True):  # records where the files will be
                    for place, path in aside.items():
                        _set_aside(catalog, store, work_id, path, place)
                    (verified.missing if bad[0].found is None else verified.damaged).append(work_id)
            verified.checked += sum(len(files) for _, files in seen)
            on_checked(verified.checked)
    return verified


def _set_aside(catalog: Catalog, store: ArtifactStore, work_id: str, path: str, place: str) -> None:
    """Put a damaged file aside. If its work was finished meanwhile and the catalog names the file again, put it back."""
    if store.set_aside(path, place) and catalog.done_among([work_id]) and path in catalog.files_of(work_id):
        with suppress(NameTaken):
            store.set_aside(place, path)


@dataclass(frozen=True, slots=True)
class _Checked:
    path: str
    sha256: str
    found: str | None  # hash of the stored bytes; None: no file
    bytes: int


def _as_check(end: Entry, files: Sequence[_Checked]) -> FileCheck:
    """What the catalog remembers of the check: the first file that is not sound gives the result."""
    bad = next((file for file in files if file.found != file.sha256), None)
    states = {None: Found.MISSING, "unreadable": Found.UNREADABLE}
    found = Found.SOUND if bad is None else states.get(bad.found, Found.DAMAGED)
    return FileCheck(end.work_id, str(end.path), str(end.sha256), found, bad.path if bad else None)


def _free_name(store: ArtifactStore, file: _Checked) -> str:
    """Where a damaged file is put aside. A missing one may be there already, put aside by a process that was killed then."""
    numbered = (f"{QUARANTINE}/{file.path}.{number}" for number in itertools.count(2))
    places = itertools.chain([f"{QUARANTINE}/{file.path}"], numbered)
    return next(place for place in places if file.found is None or not store.exists(place))


def _files_in_progress(catalog: Catalog, end: Entry) -> dict[str, Any]:
    """What a new search must know of the files that a work has."""
    return {"stored": files_of(catalog, end), "main": end.path} if end.path and end.sha256 else {}


def files_of(catalog: Catalog, end: Entry) -> dict[str, str]:
    """Path and hash of all stored files of a work: its full text and its pages."""
    files = {str(end.path): str(end.sha256)}
    if set(end.html_paths) - files.keys():
        stored = {artifact.path: artifact.sha256 for artifact in catalog.artifacts_of(end.work_id)}
        files = {path: stored[path] for path in end.html_paths if path in stored} | files
    return files


def still_lost(catalog: Catalog, store: ArtifactStore, work_ids: Iterable[str]) -> list[str]:
    """Return those of the works that still have no file in the store."""
    ends = {end.work_id: end for end in catalog.entries_of(work_ids)}
    return [i for i, end in sorted(ends.items()) if end.path is None or not store.exists(end.path)]


def revalidate(catalog: Catalog, scope: WorkScope) -> tuple[int, int]:
    """Reopen works with a PDF or XML file for a conditional request to its host: (reopened, without a validator).

    Possible when the host sent an ETag or a date with the file, and the URL was recorded without credentials.
    """
    unknown = 0

    def copies() -> Iterator[tuple[str, Mapping[str, Any]]]:
        nonlocal unknown
        for end in _entries(catalog, scope):
            if end.retry_at is not None or end.reason is not Reason.OK or end.kind not in _FILES:
                continue
            kept = _kept_copy(catalog, end)
            if kept is None:
                unknown += 1
            else:
                yield end.work_id, {**_files_in_progress(catalog, end), "kept": kept, "fresh": True}

    reopened = catalog.reopen(copies(), only_done=True)  # works that are being downloaded stay as they are
    return reopened, unknown


def _kept_copy(catalog: Catalog, end: Entry) -> dict[str, str | None] | None:
    """`kept` of a SearchState: the stored file and the validators that its host sent with it; None if there are none."""
    if end.url is None or carries_credentials(end.url) or not (end.resolver and end.tier and end.kind):
        return None
    url = canonical_url(end.url)  # validators are valid only for the URL that sent them
    stored = [a for a in catalog.artifacts_of(end.work_id) if (a.sha256, a.url) == (end.sha256, url)]
    if not stored:
        return None
    validators = {"etag": stored[-1].etag, "last_modified": stored[-1].last_modified}
    if not any(value is not None for value in validators.values()):
        return None
    return {name: getattr(end, name) for name in KEPT if name not in validators} | validators


def failed_lines(catalog: Catalog, scope: WorkScope) -> Iterator[str]:
    """The works without a full text as lines for a source of ids or URLs, each after a comment with its reason."""
    failed = (end for end in _entries(catalog, scope) if not _succeeded(end))
    while page := list(itertools.islice(failed, _AT_ONCE)):
        records = dict(catalog.records_of(end.work_id for end in page))
        for end in page:
            work = Work.from_json(records[end.work_id])
            by_id = end.work_id if parse_identifier(end.work_id) is not None else None
            name = by_id or (f"arXiv:{work.arxiv_id}" if work.arxiv_id else None) or work.doi
            yield f"# {end.reason}: {work.title or end.work_id}"
            yield name if name is not None else f"# no id, only an address: {next(iter(work.urls), end.work_id)}"


def _succeeded(end: Entry) -> bool:
    return end.reason.ending is Ending.SUCCESS


def _entries(catalog: Catalog, scope: WorkScope) -> Iterator[Entry]:
    return catalog.entries(year=scope.year, run_id=scope.run_id)
