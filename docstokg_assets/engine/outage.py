"""Notice that the proxy or the network is gone in the middle of a pass, and end the pass instead of failing all its works.

When requests to several hosts have failed to connect and nobody has answered since, requests stop and hosts that answered
before are tried. If one of them can be reached, the failures are those of the hosts, and the pass continues. If none can, the
pass ends with NetworkUnavailable. Works whose requests failed in that time are given back as they were claimed, because their
searches would otherwise count copies as broken that were never asked for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from urllib.parse import urlsplit

from docstokg_assets.engine.request_queues import Task
from docstokg_assets.engine.workers import Event
from resources.clock import Clock
from resources.errors import ExplainedError
from resources.http.errors import ConnectionFailed, DeadlineExceeded, KeptConnectionLost, NetworkDown
from resources.records import DownloadOutcome

_FAILURES = 3  # requests that failed, of so many hosts or of this machine's own connection, while nobody answered
_HOSTS = 5  # that answered last: they are tried
_TRUST_S = 10.0  # after a host was reached, before one is tried again

Host = tuple[str, int]  # name and port


class NetworkUnavailable(ExplainedError):
    """The proxy or the network is gone."""

    network_down = True


class OutageDetector:
    """For the dispatcher's thread. `probe` says why none of some hosts can be reached, or None; it may take some seconds. Its
    second argument: whether no request has left this machine."""

    def __init__(
        self, probe: Callable[[Sequence[Host], bool], str | None], clock: Clock, wake: Callable[[], None]
    ) -> None:
        self._probe, self._clock, self._wake = probe, clock, wake
        self._answered: dict[str, str] = {}  # the hosts that answered with a URL of each, the last one last
        self._failed: dict[str, int] = {}  # by host: requests that failed since somebody answered
        self._own_failures = 0  # of them, those that did not leave this machine
        self._works: set[str] = set()  # whose requests these were
        self._held: list[tuple[Task, DownloadOutcome]] = []
        self._probing: threading.Thread | None = None
        self._cause: str | None = None  # what the probe found
        self._not_before = 0.0
        self.confirmed = False

    @property
    def suspected(self) -> bool:
        """Whether requests must wait until it is known whether anybody can be reached."""
        return self._probing is not None or self.confirmed

    def observe(self, event: Event) -> None:
        """Note how a request ended."""
        if not event.sent or event.send is None:
            return
        error, host = event.error, event.send.host
        if error is None or error.head is not None:
            self._note_answer(host, event.send.url)
        elif isinstance(error, ConnectionFailed | DeadlineExceeded) and not isinstance(error, KeptConnectionLost):
            self._failed[host] = self._failed.get(host, 0) + 1
            self._own_failures += isinstance(error, NetworkDown)
            self._works.update(task.item.work_id for task in (event.task, *event.task.batched))
            self._look()

    def check(self) -> None:
        """Raise NetworkUnavailable when the probe has found nobody."""
        if self._probing is None or self._probing.is_alive():
            return
        self._probing = None
        if self._cause is None:
            self._not_before = self._clock.monotonic() + _TRUST_S
            return
        self.confirmed = True
        failed = f"{sum(self._failed.values())} requests to {len(self._failed)} hosts failed"
        raise NetworkUnavailable(
            f"the network is unavailable: {failed}, and {self._cause} "
            "Then run the same command again; works in progress were given back."
        )

    def holds(self, task: Task, outcome: DownloadOutcome) -> bool:
        """Keep a failed work until it is known whose failure it is."""
        if outcome.ok or not self.suspected or task.item.work_id not in self._works:
            return False
        self._held.append((task, outcome))
        return True

    def concerns(self, task: Task) -> bool:
        """Whether the state of a search is wrong because its requests failed while the network was gone."""
        return self.confirmed and task.item.work_id in self._works

    def released(self) -> Iterator[tuple[Task, DownloadOutcome]]:
        """Take the works that were kept, when they need not be any more or the pass ends."""
        if self._probing is None:
            held, self._held = self._held, []
            yield from held

    def _note_answer(self, host: str, url: str) -> None:
        self._answered.pop(host, None)
        self._answered[host] = url
        if len(self._answered) > _HOSTS:
            del self._answered[next(iter(self._answered))]
        if self._failed and not self.suspected:
            self._failed.clear()
            self._works.clear()
            self._own_failures = 0

    def _look(self) -> None:
        """Begin to try hosts, when enough has failed."""
        enough = len(self._failed) >= _FAILURES or self._own_failures >= _FAILURES
        if self.suspected or not enough or self._clock.monotonic() < self._not_before:
            return
        hosts = [(host, _port_of(url)) for host, url in reversed(self._answered.items())]
        none_left = self._own_failures == sum(self._failed.values())

        def probe() -> None:
            self._cause = self._probe(hosts, none_left)
            self._wake()

        self._probing = threading.Thread(target=probe, name="outage-probe", daemon=True)
        self._probing.start()


def _port_of(url: str) -> int:
    parts = urlsplit(url)
    return parts.port or (80 if parts.scheme == "http" else 443)
