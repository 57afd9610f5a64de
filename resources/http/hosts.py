"""What is known of each host: its robots.txt rules, its circuit breaker, and until when it is closed. Shared through a HostStore
by all processes.

Decides nothing about when robots.txt is fetched or what counts as a failure; the exchange does that. Rows are read again
from the store every few seconds, so that one process learns what another one was told.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from protego import Protego

from resources.clock import Clock
from resources.http.breaker import Breaker, Phase, changes
from resources.http.settings import BreakerSettings

MAX_ROBOTS_BYTES = 500 * 1024
UNAVAILABLE_FOR_S = 600.0
_MOST_LETTERS = 2_000_000  # of all robots.txt at hand; parsed they take twenty times as much
_LEAST_WEIGHT = 500
_LONGEST_CRAWL_DELAY_S = 86_400.0  # by then robots.txt is read again
_REREAD_S = 5.0
PROBES_OUT_S = 1.0  # look again so much later whether a probe came back


class RobotsRow(Protocol):
    @property
    def status(self) -> int | None: ...
    @property
    def body(self) -> str: ...
    @property
    def fetched_at(self) -> float: ...


class HostClosure(Protocol):
    @property
    def closed_until(self) -> float | None: ...
    @property
    def breaker(self) -> str | None: ...


class HostStore(Protocol):
    """Where host state is kept; `resources.catalog.Catalog` is one."""

    def robots(self, host: str) -> RobotsRow | None: ...
    def save_robots(self, host: str, status: int | None, body: str) -> None: ...
    def close_host(self, host: str, until: float, reason: str) -> None: ...
    def closure(self, host: str) -> HostClosure: ...
    def change_breaker(self, host: str, change: Callable[[str | None], tuple[str, float]]) -> None: ...


@dataclass(frozen=True)
class Rules:
    """robots.txt of one host as RFC 9309 reads it: 4xx allows all, 5xx and silence forbid all for now."""

    parser: Protego | None
    available: bool
    expires: float  # wall time
    letters: int = 0  # that were parsed

    @classmethod
    def read(cls, status: int | None, body: str, fetched_at: float, ttl_s: float) -> Rules:
        if status is None or status >= 500 or status == 429:
            return cls(None, False, fetched_at + UNAVAILABLE_FOR_S)
        text = body if 200 <= status < 300 else ""
        return cls(Protego.parse(text), True, fetched_at + ttl_s, len(text))

    def allows(self, url: str, agent: str) -> bool:
        return self.parser is not None and bool(self.parser.can_fetch(url, agent))

    def crawl_delay(self, agent: str) -> float | None:
        delay = self.parser.crawl_delay(agent) if self.parser is not None else None
        return min(float(delay), _LONGEST_CRAWL_DELAY_S) if delay else None


@dataclass(frozen=True, slots=True)
class HostPause:
    """A closed host: `until` as the store has it, and what that was by the monotonic clock when we first heard of it, so that
    a wall clock that is set forward or back neither ends the pause nor prolongs it."""

    until: float = 0.0
    opens_at: float = 0.0
    read_at: float = 0.0


def _weight(rules: Rules) -> int:
    """Of what is kept for a host in memory; those without a robots.txt weigh something too."""
    return rules.letters + _LEAST_WEIGHT


class HostStateCache:
    """This process's view of the hosts, over the shared store."""

    def __init__(
        self, store: HostStore, clock: Clock, robots_ttl_s: float, breaker: BreakerSettings | None = None
    ) -> None:
        self._store, self._clock, self.robots_ttl_s = store, clock, robots_ttl_s
        self.breaker_rules = breaker or BreakerSettings()
        self._rules: dict[str, Rules] = {}  # those of many hosts; what is not here any more is in the store
        self._letters = 0
        self._fetching: set[str] = set()
        self._closed: dict[str, HostPause] = {}
        self._breakers: dict[str, tuple[Breaker, HostPause]] = {}
        self._lock = threading.Lock()

    def rules(self, host: str) -> Rules | None:
        """The rules in force, or None when robots.txt must be fetched first."""
        now = self._clock.wall()
        known = self._rules.get(host)
        if known is None or known.expires <= now:
            row = self._store.robots(host)
            if row is None:
                return None
            known = self._keep(host, Rules.read(row.status, row.body, row.fetched_at, self.robots_ttl_s))
        return known if known.expires > now else None

    def begin_fetch(self, host: str) -> bool:
        """True for the one caller that shall fetch robots.txt; the others look again a little later."""
        with self._lock:
            if host in self._fetching:
                return False
            self._fetching.add(host)
            return True

    def end_fetch(self, host: str) -> None:
        with self._lock:
            self._fetching.discard(host)

    def save_rules(self, host: str, status: int | None, body: str) -> Rules:
        self._store.save_robots(host, status, body)
        return self._keep(host, Rules.read(status, body, self._clock.wall(), self.robots_ttl_s))

    def _keep(self, host: str, rules: Rules) -> Rules:
        with self._lock:
            before = self._rules.pop(host, None)
            self._rules[host] = rules
            self._letters += _weight(rules) - (_weight(before) if before is not None else 0)
            while self._letters > _MOST_LETTERS and len(self._rules) > 1:
                self._letters -= _weight(self._rules.pop(next(iter(self._rules))))
        return rules

    def close(self, host: str, until: float, reason: str) -> None:
        """No request before `until`; a host that is closed for longer stays so."""
        self._store.close_host(host, until, reason)
        self._remember(host, until)

    def closed_until(self, host: str) -> float | None:
        """Wall time until which the host wants no request, or None."""
        now = self._clock.monotonic()
        known = self._closed.get(host)
        if known is None or now - known.read_at > _REREAD_S:
            self._read_again(host)
            known = self._closed[host]
        left = known.opens_at - now
        return self._clock.wall() + left if left > 0 else None

    def _read_again(self, host: str) -> None:
        """What other processes have learnt, in one read."""
        known = self._breakers.get(host)
        read = self._store.closure(host)
        self._remember(host, read.closed_until)
        with self._lock:
            if self._breakers.get(host) is known:  # else another thread has changed it since
                self._hear_breaker(host, Breaker.from_text(read.breaker))

    def _remember(self, host: str, until: float | None) -> None:
        self._closed[host] = self._heard(self._closed.get(host, HostPause()), until)

    def _heard(self, known: HostPause, until: float | None) -> HostPause:
        now = self._clock.monotonic()
        if until is not None and until != known.until:
            known = HostPause(until, max(known.opens_at, now + until - self._clock.wall()))
        return replace(known, read_at=now)

    # -- circuit breakers ---------------------------------------------------------------------------------------------

    def broken_until(self, host: str) -> float | None:
        """Wall time until which the host's breaker lets nothing through, or None. A healthy host costs a read now and then."""
        if not self.breaker_rules.enabled:
            return None
        breaker, closure = self._breaker(host)
        now = self._breaker_time(breaker, closure)
        if breaker.admits(now, self.breaker_rules):
            return None
        return self._clock.wall() + max(breaker.until - now, PROBES_OUT_S)

    def admits(self, host: str) -> bool:
        """Asked at the last moment before a request leaves, which may have waited long for its turn. Counts probes."""
        if self.closed_until(host) is not None or self.broken_until(host) is not None:
            return False
        if not self.breaker_rules.enabled or not self._breaker(host)[0].openings:
            return True
        admitted = False

        def probe(breaker: Breaker, now: float) -> Breaker:
            nonlocal admitted
            admitted = breaker.admits(now, self.breaker_rules)
            return breaker.probed(now) if admitted and breaker.openings else breaker

        self._change_breaker(host, probe)
        return admitted

    def report(self, host: str, failed: bool | None) -> tuple[Phase, ...]:
        """How a request to the host ended; None when that says nothing about it. Returns the phases that its breaker entered."""
        if not self.breaker_rules.enabled or (not failed and not self._breaker(host)[0].openings):
            return ()

        def step(breaker: Breaker, now: float) -> Breaker:
            if failed is None:
                return breaker.told_nothing(now)
            return (breaker.failed if failed else breaker.succeeded)(now, self.breaker_rules)

        return self._change_breaker(host, step)

    def _breaker(self, host: str) -> tuple[Breaker, HostPause]:
        known = self._breakers.get(host)
        if known is None or self._clock.monotonic() - known[1].read_at > _REREAD_S:
            self._read_again(host)
            known = self._breakers[host]
        return known

    def _hear_breaker(self, host: str, breaker: Breaker) -> tuple[Breaker, HostPause]:
        _, closure = self._breakers.get(host, (breaker, HostPause()))
        if breaker.until != closure.until:
            closure = HostPause()
        known = self._breakers[host] = breaker, self._heard(closure, breaker.until)
        return known

    def _breaker_time(self, breaker: Breaker, closure: HostPause) -> float:
        """Wall time, but as if nobody had set the clock since we heard of this pause."""
        if breaker.until != closure.until or not breaker.openings:
            return self._clock.wall()
        return breaker.until + self._clock.monotonic() - closure.opens_at

    def _change_breaker(self, host: str, step: Callable[[Breaker, float], Breaker]) -> tuple[Phase, ...]:
        entered: tuple[Phase, ...] = ()

        def change(text: str | None) -> tuple[str, float]:
            nonlocal entered
            before = Breaker.from_text(text)
            with self._lock:
                now = self._breaker_time(*self._hear_breaker(host, before))
                after = step(before, now)
                self._hear_breaker(host, after)
            entered = changes(before, after, now)
            return after.to_text(), after.until

        self._store.change_breaker(host, change)
        return entered
