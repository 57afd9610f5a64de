"""The engine of `content serve`: a thread that searches for what is requested, until it is told to stop."""

from __future__ import annotations

import logging
import threading

from docstokg_assets.ingest.run import IngestRun
from docstokg_assets.runs.services import Services
from resources.errors import ExplainedError

log = logging.getLogger(__name__)

_RUN_S = 86_400.0  # a new run begins after a day, so that no run folder grows without end
_PAUSE_S = 5.0  # after a run that failed


class Worker:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._stop, self._failed = threading.Event(), False
        self._run: IngestRun | None = None
        self._thread = threading.Thread(target=self._work, name="engine")

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Look for urgent requests now."""
        if (run := self._run) is not None:
            run.wake()

    def stop(self) -> None:
        """End in order: downloads in progress get a few seconds. Waits for the end."""
        self._stop.set()
        if (run := self._run) is not None:
            run.stop.set()
            run.wake()
        if self._thread.ident is not None:
            self._thread.join()

    @property
    def is_healthy(self) -> bool:
        return self._thread.is_alive() and not self._failed

    def _work(self) -> None:
        while not self._stop.is_set():
            try:
                self._run_once()
            except ExplainedError as error:
                self._failed = True
                log.error("the engine stopped and starts again in %.0f s: %s", _PAUSE_S, error)
            except Exception:
                self._failed = True
                log.exception("the engine stopped and starts again in %.0f s", _PAUSE_S)
            if self._failed:
                self._stop.wait(_PAUSE_S)

    def _run_once(self) -> None:
        run = IngestRun(self._services, kind="serve")  # with an event of its own, which a failure sets
        with run:
            self._run, self._failed = run, False
            try:
                if not self._stop.is_set():  # else `stop` did not see the run
                    run.drain_lanes(deadline_s=_RUN_S, keep_on=True)
            finally:
                self._run = None
