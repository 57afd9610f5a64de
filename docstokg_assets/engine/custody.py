"""The names of a work's files: which process may create one, adopt one, and remove one.

A process can be suspended between any two steps, for longer than its lease, while another process does its work. So checking the
lease does not protect a file; names do. A name is created once and never replaced (`ArtifactStore.commit`). Only the process that
created it removes it, when the catalog refused the outcome. A later file of a work gets a later name, and the process that
recorded the new file removes the earlier one. A file of a process that has ended is adopted, or skipped and later removed in the
same way.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from docstokg_assets.domain.naming import artifact_path, number_of
from docstokg_assets.domain.works import Work
from resources.artifacts.file_system import PartFile
from resources.artifacts.store import CAS, ArtifactStore, NameTaken, StoreError, Unreadable
from resources.catalog.catalog import Catalog
from resources.catalog.rows import Finished, Parked
from resources.processes import process_is_gone
from resources.records import DownloadOutcome

log = logging.getLogger(__name__)

GONE_AFTER_S = 86_400.0  # a process that created a name so long ago has ended, even if that was not seen


@dataclass(slots=True)
class WorkFiles:
    """The files of one work that its search knows."""

    earlier: Mapping[str, str] = field(default_factory=dict)  # path → SHA-256 of the files that the catalog names
    main: str | None = None  # the full text among them
    aside: Mapping[str, str] = field(default_factory=dict)  # path in quarantine of a damaged file → its name before
    put_back: list[str] = field(default_factory=list)  # files in `aside` that turned out to be whole
    made: list[str] = field(default_factory=list)  # names that this search has created
    skipped: list[str] = field(default_factory=list)  # names that ended processes left, and that were not used

    def names(self, work: Work, folder: str, extension: str) -> Iterator[str]:
        """The names for a new file, beginning with that of the earlier file; lower numbers are not used again."""
        first = max((number_of(path) for path in self.earlier if path.startswith(f"{folder}/")), default=1)
        for number in itertools.count(first):
            yield artifact_path(work.year, work.title, work.work_id, folder, extension, number)

    def store(
        self, store: ArtifactStore, part: PartFile, names: Iterator[str], sha256: str, note: bytes, by: str
    ) -> tuple[str, str]:
        """Store the part under the first free name; returns its path and that name. Bytes stored before keep their path."""
        name = next(names)
        for path, known in self.earlier.items():
            if known == sha256 and store.settled(path) == (sha256, part.bytes_written):
                part.discard()
                return path, name
        while True:
            try:
                stored = store.commit(part, name, sha256, note, by, durable=False)  # see `sync_names`
            except NameTaken:
                if name not in self.earlier and is_left(store, name):
                    self.skipped.append(name)
                name = next(names)
                continue
            self.made += [stored.path] if stored.own else []
            return stored.path, name

    def restore(self, store: ArtifactStore, by: str) -> bool:
        """Put back the files put aside that can be read after all; returns whether the full text is whole."""
        for aside, path in self.aside.items():
            if self._copy_back(store, aside, path, by):
                self.put_back.append(aside)
        return self.main is not None and self._is_whole(store, self.main)

    def _copy_back(self, store: ArtifactStore, aside: str, path: str, by: str) -> bool:
        sha256 = self.earlier.get(path, "")
        try:
            with store.open_read(aside) as kept:
                part = store.begin(path.rpartition("/")[0])
                try:
                    digest = hashlib.sha256()
                    while chunk := kept.read(1024 * 1024):
                        digest.update(chunk)
                        part.write(chunk)
                    if digest.hexdigest() == sha256:
                        store.commit(part, path, sha256, b"", by)
                finally:
                    part.discard()
        except NameTaken:
            return self._is_whole(store, path)
        except (OSError, Unreadable):  # missing, or still unreadable
            return False
        return digest.hexdigest() == sha256

    def _is_whole(self, store: ArtifactStore, path: str) -> bool:
        try:
            return store.sha256_of(path)[0] == self.earlier[path]
        except (OSError, Unreadable):
            return False

    def superseded_by(self, outcome: DownloadOutcome) -> tuple[str, ...]:
        """The files to remove when the outcome has been recorded. A file named by its hash stays: other works may use it."""
        if outcome.path is None:
            return tuple(self.put_back)
        named = {outcome.path, *outcome.html_paths}
        before = (path for path in (*self.earlier, *self.skipped) if not path.startswith(f"{CAS}/"))
        return (*(path for path in before if path not in named), *self.aside)


def is_left(store: ArtifactStore, path: str) -> bool:
    """Whether the process that created a name has ended, so that it will neither record nor remove it."""
    creator = store.creator_of(path)
    return creator is None or process_is_gone(creator.name) or time.time() - creator.at > GONE_AFTER_S


def sync_names(store: ArtifactStore, entries: Iterable[Finished | Parked]) -> None:
    """Before the commit: make the names durable that it will record, for all entries together."""
    store.sync({path for entry in entries for path in _names_in(entry)})


def _names_in(entry: Finished | Parked) -> Iterator[str]:
    yield from entry.made
    if isinstance(entry, Finished):
        yield from entry.outcome.html_paths
        yield from (file.path for file in (entry.outcome, *entry.outcome.beside) if file.path is not None)


def settle_files(catalog: Catalog, store: ArtifactStore, entry: Finished | Parked, recorded: bool) -> None:
    """After the commit: remove the files that were stored but not recorded, and those that a recorded outcome supersedes. Files
    that the catalog names now are kept: a commit whose answer was lost may have been made."""
    unneeded = list(entry.made)
    if recorded and isinstance(entry, Finished):
        named = (entry.outcome.path, *entry.outcome.html_paths)
        unneeded = [path for path in (*entry.made, *entry.superseded) if path not in named]
    if not unneeded or (recorded and isinstance(entry, Parked)):
        return
    try:
        still_named = catalog.files_of(entry.work_id)
        for path in unneeded:
            if path not in still_named:
                store.delete(path)
    except StoreError as error:
        log.warning("a file of %s that is not needed stays; `content gc` finds it: %s", entry.work_id, error)
