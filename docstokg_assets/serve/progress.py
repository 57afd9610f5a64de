"""Follows the requests that somebody watches: which hosts are asked, what they answer, how it ends.

One thread reads the catalog for all watchers, so that its load does not grow with their number. Watchers compare `version`
with the one they saw last.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from docstokg_assets.ingest.records import PENDING, FileIngestResult
from docstokg_assets.ingest.service import IngestService
from docstokg_assets.reporting.explain_work import RequestSummary, requests_of
from resources.errors import ExplainedError
from resources.records import AttemptRecord
from resources.scope import INGEST_YEAR

log = logging.getLogger(__name__)

POLL_S = 0.3
MAX_WATCHED = 1_000
_MANY_ATTEMPTS = 200_000  # then only the latest are read for a request that was tried before
_PAGE = 2_000


class TooManyWatched(ExplainedError):
    """More requests are watched than the server follows."""


class UnknownRequest(ExplainedError):
    """There is no request with this id."""


class Watched:
    """One request: its result and its attempts so far. Read `version` first, then the rest."""

    def __init__(self, id: str, after: float | None, result: FileIngestResult, attempts: list[AttemptRecord]) -> None:
        self.id, self.after, self.version, self.watchers = id, after, 1, 0
        self.item_id = "-".join(id.split("-")[:2])
        self.result, self.attempts = result, attempts

    @property
    def requests(self) -> tuple[RequestSummary, ...]:
        return requests_of(self.attempts)


class ProgressHub:
    """`watch` yields what is known of a request, kept up to date until the block ends. A context manager."""

    def __init__(self, service: IngestService, poll_s: float = POLL_S) -> None:
        self._service, self._catalog, self._poll_s = service, service.catalog, poll_s
        self._watched: dict[tuple[str, float | None], Watched] = {}
        self._changed = threading.Condition()
        self._position = 0
        self._stop, self._wanted = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)

    def __enter__(self) -> ProgressHub:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._wanted.set()
        with self._changed:
            self._changed.notify_all()
        self._thread.join(10)

    @property
    def count(self) -> int:
        return len(self._watched)

    @property
    def is_stopping(self) -> bool:
        return self._stop.is_set()

    @contextmanager
    def watch(self, id: str, after: float | None = None) -> Iterator[Watched]:
        """`after`: an answer older than this does not count. Raises UnknownRequest and TooManyWatched."""
        key = id, after
        with self._changed:
            watched = self._watched.get(key)
            if watched is not None:
                watched.watchers += 1
        if watched is None:
            watched = self._begin(key)
        try:
            yield watched
        finally:
            with self._changed:
                watched.watchers -= 1
                if not watched.watchers:
                    self._watched.pop(key, None)

    def wait(self, watched: Watched, version: int, timeout_s: float, is_over: Callable[[], bool]) -> None:
        """Block until there is a newer version, the time is over, or `is_over` holds after a wake-up."""
        with self._changed:
            self._changed.wait_for(
                lambda: watched.version > version or self._stop.is_set() or is_over(), timeout=timeout_s
            )

    def _begin(self, key: tuple[str, float | None]) -> Watched:
        id, after = key
        if len(self._watched) >= MAX_WATCHED:
            raise TooManyWatched(f"{MAX_WATCHED:,} requests are being watched. Try again later, or ask for the result.")
        position = self._catalog.attempt_position()
        result = self._result(id, after)
        if result is None:
            raise UnknownRequest(f"There is no ingest request {id[:80]!r}. Submit it first.")
        item_id = "-".join(id.split("-")[:2])
        many = self._catalog.has_more_attempts(INGEST_YEAR, _MANY_ATTEMPTS)
        since = max(0, position - _MANY_ATTEMPTS) if many else 0
        attempts = self._catalog.attempts_of(item_id, INGEST_YEAR, since)
        with self._changed:
            if not self._watched:
                self._position = position
            watched = self._watched.setdefault(key, Watched(id, after, result, attempts))
            watched.watchers += 1
            self._wanted.set()
        return watched

    def _result(self, id: str, after: float | None) -> FileIngestResult | None:
        result = self._service.result(id)
        if result is not None and after is not None and result.is_final and (result.updated or 0.0) < after:
            return result.model_copy(update={"status": PENDING, "hit": False})
        return result

    # -- the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stop.is_set():
            if not self._watched:
                self._wanted.clear()
                if not self._watched:
                    self._wanted.wait()
                continue
            try:
                self._poll()
            except ExplainedError as error:  # the database is away for a while; watchers wait
                log.warning("the progress of requests cannot be read: %s", error)
                self._stop.wait(2)
            except Exception:
                log.exception("while following requests")
                self._stop.wait(2)
            self._stop.wait(self._poll_s)

    def _poll(self) -> None:
        """Results first: the attempts of a request are recorded with its result or before, so that none is missing then."""
        with self._changed:
            followed = list(self._watched.values())
        results = {id(each): self._result(each.id, each.after) for each in followed if not each.result.is_final}
        news: dict[str, list[AttemptRecord]] = {}
        while page := self._catalog.attempts_after(self._position, _PAGE, year=INGEST_YEAR):
            self._position = page[-1].position
            for _, record in page:
                for item_id in (record.work_id, *record.extra.get("also_for", ())):
                    if item_id:
                        news.setdefault(item_id, []).append(record)
        for watched in followed:
            self._update(watched, results.get(id(watched)), news.get(watched.item_id, []))

    def _update(self, watched: Watched, result: FileIngestResult | None, news: list[AttemptRecord]) -> None:
        known = {(each.run_id, each.worker_id, each.seq) for each in watched.attempts} if news else set()
        fresh = [each for each in news if (each.run_id, each.worker_id, each.seq) not in known]
        if not fresh and (result is None or result == watched.result):
            return
        with self._changed:
            watched.attempts = [*watched.attempts, *fresh]
            watched.result = result or watched.result
            watched.version += 1
            self._changed.notify_all()
