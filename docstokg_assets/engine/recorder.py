"""Make attempts and outcomes durable, in order: names of files, catalog commit, manifest lines. One thread for all workers.

Events that arrive during a commit, or less than a moment after the last one, are committed together: one sync of a folder, one
transaction and one write to each file of the run serve many works. A work counts as done when its commit has returned; `done` is
called after that.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from docstokg_assets.engine.custody import settle_files, sync_names
from docstokg_assets.reporting.sinks import SinkSet
from resources.artifacts.store import ArtifactStore
from resources.catalog.catalog import Catalog
from resources.catalog.rows import Batch, Entry, Finished, Parked
from resources.records import AttemptRecord

log = logging.getLogger(__name__)

_MAX_BATCH = 1_000
_INTERVAL_S = 0.05  # between the beginnings of two commits, unless somebody waits for one
Event = AttemptRecord | Finished | Parked
Settled = tuple[Finished | Parked, bool]  # not `settled`: the catalog refused it, or the work is due again at once


class Recorder:
    """A context manager; leaving it writes all that is left. `failure` is set when the catalog could not be written."""

    def __init__(
        self,
        catalog: Catalog,
        sinks: SinkSet,
        store: ArtifactStore | None = None,
        done: Callable[[Sequence[Settled]], None] = lambda entries: None,
    ) -> None:
        self._catalog, self._sinks, self._store, self.done = catalog, sinks, store, done
        self._inbox: queue.SimpleQueue[Event | threading.Event | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._is_awaited = threading.Event()
        self._held: dict[str, list[AttemptRecord]] = {}  # attempts that brought a file; their lines name its path
        self.config_hash: str | None = None  # of a configuration that is not the one that the run began with
        self.failure: Exception | None = None

    def __enter__(self) -> Recorder:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._inbox.put(None)
        self._is_awaited.set()
        self._thread.join()

    def record(self, event: Event) -> None:
        if self.config_hash is not None and isinstance(event, AttemptRecord):
            event = replace(event, extra={**event.extra, "config_hash": self.config_hash})
        self._inbox.put(event)

    def flush(self) -> None:
        """Return when all that was recorded before is durable, or cannot become so."""
        reached = threading.Event()
        self._inbox.put(reached)
        self._is_awaited.set()
        reached.wait()

    def _run(self) -> None:
        running, next_at = True, 0.0
        while running:
            items = [self._inbox.get()]
            if (early := next_at - time.monotonic()) > 0:
                self._is_awaited.wait(early)
            self._is_awaited.clear()  # whoever sets it after this has put an item before, or waits one interval
            next_at = time.monotonic() + _INTERVAL_S
            while len(items) < _MAX_BATCH:
                try:
                    items.append(self._inbox.get_nowait())
                except queue.Empty:
                    break
            running = None not in items
            events = [item for item in items if isinstance(item, Event)]
            if events and self.failure is None:
                try:
                    self._write(events)
                except Exception as error:  # of any kind: the dispatcher must stop, because its results would be lost
                    log.error("results could not be recorded: %s", error)
                    self.failure = error
            for item in items:
                if isinstance(item, threading.Event):
                    item.set()
        for work_id in list(self._held):
            self._log_work(work_id, None)

    def _write(self, events: Sequence[Event]) -> None:
        attempts = [e for e in events if isinstance(e, AttemptRecord)]
        finished = [e for e in events if isinstance(e, Finished)]
        parked = [e for e in events if isinstance(e, Parked)]
        entries: list[Finished | Parked] = [*finished, *parked]
        if self._store is not None:
            sync_names(self._store, entries)
        committed = self._catalog.commit(Batch(attempts, finished, parked))
        lost, ends = set(committed.lost), {end.work_id: end for end in committed.entries}
        if self._store is not None:
            refused = lost.union(committed.kept)
            for entry in entries:
                settle_files(self._catalog, self._store, entry, entry.work_id not in refused)
        with self._sinks.together():
            self._log(attempts, entries, ends)
        for item in finished:
            if item.work_id in lost:
                log.warning("%s was taken over by another process; its outcome here is not recorded", item.work_id)
        if entries:
            self.done([(entry, entry.work_id not in lost and not _is_reopened(entry, ends)) for entry in entries])

    def _log(
        self, attempts: Sequence[AttemptRecord], entries: Sequence[Finished | Parked], ends: Mapping[str, Entry]
    ) -> None:
        for attempt in attempts:
            if attempt.work_id is not None and "sha256" in attempt.extra:
                self._held.setdefault(attempt.work_id, []).append(attempt)
            else:
                self._sinks.log_attempt(attempt)
        for entry in entries:
            self._log_work(entry.work_id, ends.get(entry.work_id) if isinstance(entry, Finished) else None)

    def _log_work(self, work_id: str, end: Entry | None) -> None:
        """Write the lines of a work that has ended or was parked; `end` is its outcome as recorded."""
        for attempt in self._held.pop(work_id, ()):
            self._sinks.log_attempt(attempt, end)
        if end is not None:
            self._sinks.log_outcome(end)


def _is_reopened(entry: Finished | Parked, ends: Mapping[str, Entry]) -> bool:
    end = ends.get(entry.work_id)
    return isinstance(entry, Finished) and end is not None and end.retry_at != entry.retry_at
