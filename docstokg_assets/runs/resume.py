"""Reopen finished works: those that are forced, whose files are damaged, or whose files may have changed.

Selects among the catalog's outcomes, checks the stored files, and puts works back into the queue with what is known about
them. They come due like all others, and a run fetches them.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any

from docstokg_assets.domain.identifiers import parse_identifier
from docstokg_assets.domain.plans import Tier
from docstokg_assets.domain.scope import WorkScope
from docstokg_assets.domain.works import Work
from docstokg_assets.engine.search_state import KeptCopy
from resources.artifacts.store import ArtifactStore, Unreadable
from resources.catalog import Catalog, Entry
from resources.http.canonical import canonical_url
from resources.http.redact import carries_credentials
from resources.records import ENDINGS, Classification, Ending, Kind, Reason

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
    again = {"fresh": True}  # the HTTP cache is gone past: what it knows led to the outcome that is doubted
    return catalog.reopen_with((end.work_id, again) for end in _entries(catalog, scope) if selection.holds(end))


@dataclass(slots=True)
class Verified:
    checked: int = 0
    missing: list[str] = field(default_factory=list)  # works
    damaged: list[str] = field(default_factory=list)

    @property
    def lost(self) -> list[str]:
        return self.missing + self.damaged


def verify(
    catalog: Catalog,
    store: ArtifactStore,
    scope: WorkScope,
    workers: int,
    stop: threading.Event,
    on_checked: Callable[[int], None] = lambda checked: None,
) -> Verified:
    """Hash every stored file again, several at a time. Delete a file that differs or cannot be read, for a file under its final
    name must be whole, and reopen its work; the new outcome says which file it replaces."""
    verified = Verified()
    stored = (end for end in _entries(catalog, scope) if _succeeded(end) and end.path and end.sha256)

    def stored_hash(path: str) -> str | None:
        try:
            return store.sha256_of(path)[0]
        except FileNotFoundError:
            return None
        except Unreadable:
            return "unreadable"

    def checked_files(end: Entry) -> list[dict[str, str | None]]:
        files = _files_of(catalog, end)
        return [{"path": path, "sha256": sha256, "found": stored_hash(path)} for path, sha256 in files.items()]

    with ThreadPoolExecutor(workers, thread_name_prefix="verify") as pool:
        while not stop.is_set() and (page := list(itertools.islice(stored, _AT_ONCE))):
            seen = {end.work_id: files for end, files in zip(page, pool.map(checked_files, page), strict=True)}
            differ = {i: bad for i, files in seen.items() if (bad := [f for f in files if f["found"] != f["sha256"]])}
            lost: list[tuple[str, Mapping[str, Any]]] = []
            for work_id in catalog.done_among(differ):  # others are being fetched at the moment
                for file in differ[work_id]:
                    if file["found"] is not None:
                        store.delete(str(file["path"]))
                first = differ[work_id][0]
                (verified.missing if first["found"] is None else verified.damaged).append(work_id)
                lost.append((work_id, {"replaces": first}))
            catalog.reopen_with(lost, only_done=True)
            verified.checked += sum(map(len, seen.values()))
            on_checked(verified.checked)
    return verified


def _files_of(catalog: Catalog, end: Entry) -> dict[str, str]:
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
            copy = _kept_copy(catalog, end)
            if copy is None:
                unknown += 1
            else:
                yield end.work_id, {"kept": asdict(copy), "fresh": True}

    reopened = catalog.reopen_with(copies(), only_done=True)  # not those that are being fetched again
    return reopened, unknown


def _kept_copy(catalog: Catalog, end: Entry) -> KeptCopy | None:
    if end.url is None or carries_credentials(end.url) or not (end.resolver and end.tier and end.kind):
        return None
    url = canonical_url(end.url)  # the validators of another address of the same bytes mean nothing at this one
    stored = [a for a in catalog.artifacts_of(end.work_id) if (a.sha256, a.url) == (end.sha256, url)]
    if not stored:
        return None
    last = stored[-1]
    if last.etag is None and last.last_modified is None:
        return None
    return KeptCopy(
        url=end.url,
        resolver=end.resolver,
        tier=Tier(end.tier),
        kind=end.kind,
        sha256=last.sha256,
        etag=last.etag,
        last_modified=last.last_modified,
        version=end.version,
        license=end.license,
    )


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
    return ENDINGS[end.reason] is Ending.SUCCESS


def _entries(catalog: Catalog, scope: WorkScope) -> Iterator[Entry]:
    return catalog.entries(of_run=scope.run_id, year=scope.year)
