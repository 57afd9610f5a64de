"""Make attempts and outcomes durable, in order: first the catalog commit, then the manifest lines. One thread for all workers.

Events that arrive during a commit are committed together in the next one, so batches grow with the load. A work counts as
done when its commit has returned; `done` is called for it after that.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

from docstokg_assets.engine.custody import settle_files
from docstokg_assets.reporting.sinks import SinkSet
from resources.artifacts.store import ArtifactStore
from resources.catalog.catalog import Catalog
from resources.catalog.rows import Batch, Entry, Finished, Parked
from resources.records import AttemptRecord

log = logging.getLogger(__name__)

_MAX_BATCH = 1_000
Event = AttemptRecord | Finished | Parked


class Recorder:
    """A context manager; leaving it writes all that is left. `failure` is set when the catalog could not be written."""

    def __init__(
        self,
        catalog: Catalog,
        sinks: SinkSet,
        store: ArtifactStore | None = None,
        done: Callable[[Finished | Parked, bool], None] = lambda entry, settled: None,
    ) -> None:
        self._catalog, self._sinks, self._store, self.done = catalog, sinks, store, done
        self._inbox: queue.SimpleQueue[Event | threading.Event | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._held: dict[str, list[AttemptRecord]] = {}  # attempts that brought a file; their lines name its path
        self.config_hash: str | None = None  # of a configuration that is not the one that the run began with
        self.failure: Exception | None = None

    def __enter__(self) -> Recorder:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._inbox.put(None)
        self._thread.join()

    def record(self, event: Event) -> None:
        if self.config_hash is not None and isinstance(event, AttemptRecord):
            event = replace(event, extra={**event.extra, "config_hash": self.config_hash})
        self._inbox.put(event)

    def flush(self) -> None:
        """Return when all that was recorded before is durable, or cannot become so."""
        reached = threading.Event()
        self._inbox.put(reached)
        reached.wait()

    def _run(self) -> None:
        running = True
        while running:
            items = [self._inbox.get()]
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
                    log.error("the catalog could not be written: %s", error)
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
        committed = self._catalog.commit(Batch(attempts, finished, parked))
        lost, ends = set(committed.lost), {end.work_id: end for end in committed.entries}
        if self._store is not None:
            refused = lost.union(committed.kept)
            entries: list[Finished | Parked] = [*finished, *parked]
            for entry in entries:
                settle_files(self._catalog, self._store, entry, entry.work_id not in refused)
        for attempt in attempts:
            if attempt.work_id is not None and "sha256" in attempt.extra:
                self._held.setdefault(attempt.work_id, []).append(attempt)
            else:
                self._sinks.log_attempt(attempt)
        for item in finished:
            if item.work_id in lost:
                log.warning("%s was taken over by another process; its outcome here is not recorded", item.work_id)
            end = ends.get(item.work_id)
            self._log_work(item.work_id, end)
            reopened = end is not None and end.retry_at != item.retry_at
            self.done(item, item.work_id not in lost and not reopened)
        for back in parked:
            self._log_work(back.work_id, None)
            self.done(back, back.work_id not in lost)

    def _log_work(self, work_id: str, end: Entry | None) -> None:
        """Write the lines of a work that has ended or was parked; `end` is its outcome as recorded."""
        for attempt in self._held.pop(work_id, ()):
            self._sinks.log_attempt(attempt, end)
        if end is not None:
            self._sinks.log_outcome(end)
