"""Whose the names of a work's files are: who may make one, take one over, and remove one.

A process can stand still between any two steps, for longer than its lease, while another does its work. So no look at the lease
protects a file; names do. A name is made once and never replaced (`ArtifactStore.commit`). It belongs to the process that made
it, and only that one removes it, when the catalog did not take what it had to say. A later file of a work gets a later name, and
the file before is let go by whoever recorded the new one. What a process left that has ended is adopted, or passed over and let
go in the same way.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
import time
from collections.abc import Collection, Iterator, Mapping
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

GONE_AFTER_S = 86_400.0  # whoever made a name that long ago, and was not seen to end, will not record it any more


@dataclass(slots=True)
class WorkFiles:
    """The files of one work, as its search knows them."""

    earlier: Mapping[str, str] = field(default_factory=dict)  # path → SHA-256 of those that the catalog names
    main: str | None = None  # the full text among them
    aside: Mapping[str, str] = field(default_factory=dict)  # where damaged ones were put → the names that they had
    put_back: list[str] = field(default_factory=list)  # those of them that turned out to be whole
    made: list[str] = field(default_factory=list)  # names that this search has made
    passed: list[str] = field(default_factory=list)  # names of ended processes that it has passed over

    def names(self, work: Work, folder: str, extension: str) -> Iterator[str]:
        """The names for a new file, from that of the earlier one on: those before were let go, and are not used again."""
        first = max((number_of(path) for path in self.earlier if path.startswith(f"{folder}/")), default=1)
        for number in itertools.count(first):
            yield artifact_path(work.year, work.title, work.work_id, folder, extension, number)

    def store(
        self, store: ArtifactStore, part: PartFile, names: Iterator[str], sha256: str, note: bytes, by: str
    ) -> tuple[str, str]:
        """Give the part a name; the path where it is then, and the name. The same bytes as before keep theirs."""
        name = next(names)
        for path, known in self.earlier.items():
            if known == sha256 and store.settled(path) == (sha256, part.bytes_written):
                part.discard()
                return path, name
        while True:
            try:
                stored = store.commit(part, name, sha256, note, by)
            except NameTaken:
                if name not in self.earlier and is_left(store, name):
                    self.passed.append(name)
                name = next(names)
                continue
            self.made += [stored.path] if stored.own else []
            return stored.path, name

    def restore(self, store: ArtifactStore, by: str) -> bool:
        """Put back what was put aside, and reads well after all; whether the full text is there again, or still."""
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
        except (OSError, Unreadable):  # not there, or still not to be read
            return False
        return digest.hexdigest() == sha256

    def _is_whole(self, store: ArtifactStore, path: str) -> bool:
        try:
            return store.sha256_of(path)[0] == self.earlier[path]
        except (OSError, Unreadable):
            return False

    def superseded_by(self, outcome: DownloadOutcome) -> tuple[str, ...]:
        """What goes when the outcome has been recorded. A file that is named by its hash may be of other works and stays."""
        if outcome.path is None:
            return tuple(self.put_back)
        named = {outcome.path, *outcome.html_paths}
        before = [
            path for path in (*self.earlier, *self.passed) if path not in named and not path.startswith(f"{CAS}/")
        ]
        return (*before, *self.aside)


def is_left(store: ArtifactStore, path: str) -> bool:
    """Whether the process that made a name has ended, so that it will neither record nor remove it."""
    creator = store.creator_of(path)
    return creator is None or process_is_gone(creator.name) or time.time() - creator.at > GONE_AFTER_S


def settle_files(catalog: Catalog, store: ArtifactStore, entry: Finished | Parked, recorded: bool) -> None:
    """After the commit: remove the names that were made for nothing, and what a recorded outcome has superseded. The catalog is
    asked once more, for a commit whose answer was lost may have been made all the same."""
    doomed: Collection[str] = entry.made
    if recorded and isinstance(entry, Parked):
        doomed = ()
    elif recorded and isinstance(entry, Finished):
        outcome = entry.outcome
        doomed = [path for path in entry.made if path not in (outcome.path, *outcome.html_paths)]
        doomed += entry.lets_go
    if not doomed:
        return
    try:
        named = catalog.files_of(entry.work_id)
        for path in doomed:
            if path not in named:
                store.delete(path)
    except StoreError as error:
        log.warning("a file of %s that is not needed stays; `content gc` finds it: %s", entry.work_id, error)
