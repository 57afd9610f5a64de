"""Makes what happened durable, in order: catalog commit first, then the lines of the manifest. One thread for all workers.

What arrives while a commit is under way goes into the next one together, so commits grow with the load instead of slowing
it. A work counts as done when its commit has returned; then, and not before, `done` is called for it.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from docstokg_assets.telemetry.sinks import SinkSet
from resources.catalog.catalog import Catalog
from resources.catalog.rows import Batch, Finished, Parked, entry_to_row
from resources.records import AttemptRecord

log = logging.getLogger(__name__)

_MAX_BATCH = 1_000
Entry = AttemptRecord | Finished | Parked


@dataclass(frozen=True, slots=True)
class _Flush:
    reached: threading.Event


class Recorder:
    """Use as a context manager; leaving it writes all that is left. `failure` is set when the catalog could not be written."""

    def __init__(
        self,
        catalog: Catalog,
        sinks: SinkSet,
        done: Callable[[Finished | Parked, bool], None] = lambda entry, ours: None,
    ) -> None:
        self._catalog, self._sinks, self.done = catalog, sinks, done
        self._inbox: queue.SimpleQueue[Entry | _Flush | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self.failure: Exception | None = None

    def __enter__(self) -> Recorder:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._inbox.put(None)
        self._thread.join()

    def record(self, entry: Entry) -> None:
        self._inbox.put(entry)

    def flush(self) -> None:
        """Returns when all that was recorded before is durable, or cannot become so."""
        reached = threading.Event()
        self._inbox.put(_Flush(reached))
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
            entries = [item for item in items if isinstance(item, AttemptRecord | Finished | Parked)]
            if entries and self.failure is None:
                try:
                    self._write(entries)
                except Exception as error:  # whatever it is, the dispatcher must stop rather than work for nothing
                    log.error("the catalog could not be written: %s", error)
                    self.failure = error
            for item in items:
                if isinstance(item, _Flush):
                    item.reached.set()

    def _write(self, entries: Iterable[Entry]) -> None:
        attempts = [e for e in entries if isinstance(e, AttemptRecord)]
        finished = [e for e in entries if isinstance(e, Finished)]
        parked = [e for e in entries if isinstance(e, Parked)]
        lost = set(self._catalog.commit(Batch(attempts, finished, parked)))
        for attempt in attempts:
            self._sinks.log_attempt(attempt)
        now = self._catalog.now() if finished else 0.0
        for end in finished:
            if end.work_id in lost:
                log.warning("%s was taken over by another process; its outcome here is not recorded", end.work_id)
            else:
                self._sinks.log_outcome(outcome_for_manifest(end, now))
            self.done(end, end.work_id not in lost)
        for back in parked:
            self.done(back, back.work_id not in lost)


def outcome_for_manifest(finished: Finished, now: float) -> dict[str, Any]:
    row = entry_to_row(finished, now, 0)
    outcome = finished.outcome
    lists = {"html_paths": outcome.html_paths, "fallback_chain": outcome.fallback_chain}
    return row | lists | {"meta": outcome.meta}
