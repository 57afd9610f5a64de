"""What this process knows of each host, shared by all processes through the catalog: its circuit breaker, and until when it is
closed.

What counts as a failure, and when a host is closed, is decided in `retry.py`. Rows are read again every few seconds, so that one
process learns what another one was told.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from resources.clock import Clock
from resources.http.breaker import Breaker, Phase, changes
from resources.http.settings import BreakerSettings

if TYPE_CHECKING:
    from resources.catalog.catalog import Catalog

_REREAD_S = 5.0
PROBES_OUT_S = 1.0  # check again so much later whether a probe has ended
_OTHERS_FIRST_S = 3.0  # so much longer a request leaves a host alone that has just failed it: others are tried first
_LATELY_S = 60.0


@dataclass(frozen=True, slots=True)
class HostPause:
    """A closed host: `until` as the catalog has it, and the same time by the monotonic clock when we first read it, so that
    setting the wall clock forward or back neither ends the pause nor prolongs it."""

    until: float = 0.0
    opens_at: float = 0.0
    read_at: float = 0.0


class HostStateCache:
    """This process's view of the shared host rows. Thread-safe."""

    def __init__(self, catalog: Catalog, clock: Clock, breaker: BreakerSettings | None = None) -> None:
        self._catalog, self._clock = catalog, clock
        self.breaker_settings = breaker or BreakerSettings()
        self._closed: dict[str, HostPause] = {}
        self._breakers: dict[str, tuple[Breaker, HostPause]] = {}
        self._broken: set[str] = set()  # hosts whose breaker is not closed
        self._lock = threading.Lock()

    def close(self, host: str, until: float, reason: str) -> None:
        """Send no request before `until`; a host that is closed for longer stays closed."""
        self._catalog.pause_host(host, until, reason)
        self._remember(host, until)

    def closed_until(self, host: str) -> float | None:
        """Wall time until which no request may go to the host, or None."""
        now = self._clock.monotonic()
        known = self._closed.get(host)
        if known is None or now - known.read_at > _REREAD_S:
            self._read_again(host)
            known = self._closed[host]
        left = known.opens_at - now
        return self._clock.wall() + left if left > 0 else None

    def _read_again(self, host: str) -> None:
        """Read what other processes have recorded, in one query."""
        known = self._breakers.get(host)
        read = self._catalog.host_pause(host)
        self._remember(host, read.closed_until)
        with self._lock:
            if self._breakers.get(host) is known:  # else another thread has changed it since
                self._note_breaker(host, Breaker.from_text(read.breaker))

    def _remember(self, host: str, until: float | None) -> None:
        self._closed[host] = self._noted(self._closed.get(host, HostPause()), until)

    def _noted(self, known: HostPause, until: float | None) -> HostPause:
        now = self._clock.monotonic()
        if until is not None and until != known.until:
            known = HostPause(until, max(known.opens_at, now + until - self._clock.wall()))
        return replace(known, read_at=now)

    # -- circuit breakers ---------------------------------------------------------------------------------------------

    def broken_until(self, host: str, *, tried: bool = False) -> float | None:
        """Wall time until which the host's breaker admits no request, or None. A healthy host costs a read now and then. One
        that has been `tried` and failed lets others be the probes."""
        if not self.breaker_settings.enabled:
            return None
        breaker, pause = self._breaker(host)
        now = self._breaker_time(breaker, pause)
        if tried and breaker.openings and (left := breaker.until + _OTHERS_FIRST_S - now) > 0:
            return self._clock.wall() + left
        if breaker.admits(now, self.breaker_settings):
            return None
        return self._clock.wall() + max(breaker.until - now, PROBES_OUT_S)

    def broken(self) -> dict[str, Phase]:
        """The hosts whose breaker is open, or has lately become half-open, as far as this process knows; reads nothing."""
        with self._lock:
            known = {host: self._breakers[host] for host in self._broken}
            now = {host: self._breaker_time(*state) for host, state in known.items()}
            self._broken -= {host for host, (breaker, _) in known.items() if now[host] - breaker.until > _LATELY_S}
            return {host: known[host][0].phase(now[host]) for host in self._broken}

    def admits(self, host: str) -> bool:
        """Whether a request may leave: the last check before it is sent, since it may have waited long. Counts probes."""
        if self.closed_until(host) is not None or self.broken_until(host) is not None:
            return False
        if not self.breaker_settings.enabled or not self._breaker(host)[0].openings:
            return True
        admitted = False

        def probe(breaker: Breaker, now: float) -> Breaker:
            nonlocal admitted
            admitted = breaker.admits(now, self.breaker_settings)
            return breaker.probed(now) if admitted and breaker.openings else breaker

        self._change_breaker(host, probe)
        return admitted

    def report(self, host: str, failed: bool | None) -> tuple[Phase, ...]:
        """Record how a request to the host ended; None when that says nothing about it. Return the phases its breaker entered."""
        if not self.breaker_settings.enabled:
            return ()
        known = self._breaker(host)[0]
        if not failed and not known.openings and (failed is None or not known.failures):
            return ()  # nothing would change

        def step(breaker: Breaker, now: float) -> Breaker:
            if failed is None:
                return breaker.told_nothing(now)
            return (breaker.failed if failed else breaker.succeeded)(now, self.breaker_settings)

        return self._change_breaker(host, step)

    def _breaker(self, host: str) -> tuple[Breaker, HostPause]:
        known = self._breakers.get(host)
        if known is None or self._clock.monotonic() - known[1].read_at > _REREAD_S:
            self._read_again(host)
            known = self._breakers[host]
        return known

    def _note_breaker(self, host: str, breaker: Breaker) -> tuple[Breaker, HostPause]:
        _, pause = self._breakers.get(host, (breaker, HostPause()))
        if breaker.until != pause.until:
            pause = HostPause()
        known = self._breakers[host] = breaker, self._noted(pause, breaker.until)
        (self._broken.add if breaker.openings else self._broken.discard)(host)
        return known

    def _breaker_time(self, breaker: Breaker, pause: HostPause) -> float:
        """Wall time, as if the clock had not been set since we read this pause."""
        if breaker.until != pause.until or not breaker.openings:
            return self._clock.wall()
        return breaker.until + self._clock.monotonic() - pause.opens_at

    def _change_breaker(self, host: str, step: Callable[[Breaker, float], Breaker]) -> tuple[Phase, ...]:
        entered: tuple[Phase, ...] = ()

        def change(text: str | None) -> tuple[str, float]:
            nonlocal entered
            before = Breaker.from_text(text)
            with self._lock:
                now = self._breaker_time(*self._note_breaker(host, before))
                after = step(before, now)
                self._note_breaker(host, after)
            entered = changes(before, after, now)
            return after.to_text(), after.until

        self._catalog.change_breaker(host, change)
        return entered
