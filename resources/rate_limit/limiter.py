"""Decide whether a request may go out now, and if not, when to try again. Never sleeps; the drivers wait or do other work.

A request needs a permit of its group (concurrency), and a token of each rate limit that applies to it. Tokens are counted for
all processes together; a group whose provider caps connections is leased to one process at a time, so that the cap holds too. A
thread keeps the leases of requests under way, whatever else the process is held up by; and who is about to send after more than
a second, because it was frozen or stalled, has lease and tokens confirmed first.
"""

from __future__ import annotations

import logging
import math
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyrate_limiter import Rate as Bucket

from resources.clock import Clock, Moment, SystemClock
from resources.rate_limit.backends import open_limits
from resources.rate_limit.policies import domain_interval, resolve_policy
from resources.rate_limit.root_lock import RootLock
from resources.rate_limit.server_limits import ServerLimits, Window
from resources.rate_limit.settings import Rate, RateLimitSettings
from resources.rate_limit.stores import LimiterUnavailable, LimitStore

if TYPE_CHECKING:
    from resources.catalog.catalog import Catalog

log = logging.getLogger(__name__)

_LEASE_S = 15.0  # a lease that is not renewed for so long is free for other processes
_KEEP_S = 3.0  # so often the leases of requests under way are renewed
_UNUSED_S = 8.0  # a lease that is not needed for so long after its turn is given up, before it runs out
_FRESH_S = 1.0  # so long a token or a lease counts without being checked again
_TURN_S = 2.0  # after that, and after some requests, a process gives the group up to one that waits for it
_TURN_REQUESTS = 3
_LEASE_RETRY_S = 0.5
_MOST_RESOLVED = 10_000  # kinds of request whose limits are remembered
_SLOW_FAILURE_S = 0.5  # of a store that cannot be reached
_SERVER_LIMITS_S = 600.0  # how long limits from response headers count, unless they are repeated

# Tokens are spent when a request leaves; it arrives a little later, and not always equally late. Spacing tokens slightly wider
# than the limit keeps arrivals within it.
_MARGIN = 0.02
_MARGIN_MS = 50.0


@dataclass(frozen=True, slots=True)
class Allowance:
    """The limits of one kind of request, resolved: what `enter` checks."""

    group: str
    demands: tuple[tuple[str, Rate], ...]  # (bucket key, rate), the slowest first: it is the one that mostly refuses
    concurrency: int | None
    exclusive: bool = False  # the cap counts for all processes together

    @property
    def interval_s(self) -> float:
        """Seconds between two requests in the long run."""
        return 1.0 / self.demands[0][1].per_second

    @property
    def next_token_s(self) -> float:
        """Seconds from a token of the slowest rate to the next one; 0 where a burst may leave one."""
        rate = self.demands[0][1]
        return bucket(rate).interval / 1000.0 if rate.burst == 1 else 0.0


class Limiter:
    def __init__(
        self,
        settings: RateLimitSettings,
        store: LimitStore,
        *,
        leases: Catalog | None = None,
        owner: str = "",
        clock: Clock | None = None,
        root_lock: RootLock | None = None,
    ) -> None:
        """Takes over `store` and `root_lock`: `close` closes them."""
        self._settings, self._store, self._leases, self._owner = settings, store, leases, owner
        self._clock, self._root_lock = clock or SystemClock(), root_lock
        self._open: Counter[str] = Counter()
        self._turn_ends: dict[str, float] = {}  # group leased by us -> when others may have it
        self._leased_at: dict[str, Moment] = {}  # and when we last knew that it is
        self._lease_s: dict[str, float] = {}  # for how long: it outlasts the turn, in which nobody asks again
        self._not_before: dict[str, float] = {}  # group that we gave up -> when we may want it again
        self._resolver_rates: dict[str, Rate] = {}
        self._resolved: dict[tuple[str, str, str | None, float | None], Allowance] = {}
        # group -> limits that its server stated, and until when they count
        self._windows: dict[str, tuple[Window, float]] = {}
        self._caps: dict[str, tuple[int, float]] = {}
        self._down_until, self._down_message = 0.0, ""
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._keeper: threading.Thread | None = None
        self.on_given_up: Callable[[str], None] = lambda group: None  # closes the connections that are kept for it

    @classmethod
    def open(cls, settings: RateLimitSettings, path: Path, **options: Any) -> Limiter:
        """Open the configured backend; LimiterUnavailable when it cannot be used. `path` is the limiter's file in the data
        root; `options` are those of the constructor."""
        store, root_lock = open_limits(settings, path)
        return cls(settings, store, root_lock=root_lock, **options)

    def limit_resolvers(self, rates: Mapping[str, Rate]) -> None:
        """Set the rate limits of all resolvers, which count besides those of the hosts they ask."""
        self._resolver_rates = dict(rates)
        self._resolved = {}

    def replace_settings(self, settings: RateLimitSettings) -> None:
        """Use new policies from now on; tokens spent under the old ones stay spent."""
        self._settings = settings
        self._resolved = {}

    def policy_for(
        self, host: str, role: str, resolver: str | None = None, min_interval_s: float | None = None
    ) -> Allowance:
        resolved, asked = self._resolved, (host, role, resolver, min_interval_s)
        known = resolved.get(asked)
        if known is None:
            if len(resolved) >= _MOST_RESOLVED:
                resolved.clear()
            known = resolved[asked] = self._resolve(*asked)
        return known

    def _resolve(self, host: str, role: str, resolver: str | None, min_interval_s: float | None) -> Allowance:
        policy = resolve_policy(self._settings, host, role)
        demands = [(policy.key, policy.rate)]
        if min_interval_s and 1.0 / min_interval_s < policy.rate.per_second:
            # robots.txt asks for a slower pace; in a bucket of its own, because one bucket has one rate
            demands.append((f"crawl:{host}", Rate(1.0 / min_interval_s, 1)))
        if resolver is not None and resolver in self._resolver_rates:
            demands.append((f"resolver:{resolver}", self._resolver_rates[resolver]))
        interval = domain_interval(self._settings, host)
        if interval is not None:
            demands.append((f"domain:{interval[0]}", Rate(1.0 / interval[1], 1)))
        demands.sort(key=lambda demand: demand[1].per_second)
        return Allowance(policy.group, tuple(demands), policy.concurrency, policy.exclusive)

    def enter(self, allowance: Allowance) -> float | None:
        """0.0: permit and tokens are taken, send (and `leave` afterwards). Otherwise the seconds until it is worth trying again,
        or None when a request of this process must leave first. LimiterUnavailable when the store cannot be reached."""
        with self._lock:
            group, began = allowance.group, self._clock.monotonic()
            if began < self._down_until:
                raise LimiterUnavailable(self._down_message)
            cap, exclusive = self._cap(allowance, began)
            if cap is not None and self._open[group] >= cap:
                return None
            if exclusive and not self._holds_lease(group, allowance.interval_s):
                return _LEASE_RETRY_S
            try:
                wait = self._spend_all(self._demands(allowance, began))
            except LimiterUnavailable as error:
                # Not every thread in turn must wait for a store that takes long to fail.
                now = self._clock.monotonic()
                if now - began > _SLOW_FAILURE_S:
                    self._down_until, self._down_message = now + 2 * (now - began), str(error)
                raise
            if wait == 0.0:
                self._open[group] += 1
            return wait

    def learn(self, allowance: Allowance, stated: ServerLimits) -> None:
        """Apply the limits that a server states besides the policy, to all hosts of the group and for a while. They can only
        slow us down: the policy's own buckets and cap stay as they are."""
        group, now = allowance.group, self._clock.monotonic()
        window, cap = stated.window, stated.concurrency
        with self._lock:
            if window is not None and not any(window.allows(rate) for _, rate in allowance.demands):
                known = self._windows.get(group)
                if known is None or now >= known[1] or window.per_second <= known[0].per_second:
                    self._windows[group] = window, now + max(_SERVER_LIMITS_S, window.seconds)
            if cap is not None and (allowance.concurrency is None or cap < allowance.concurrency):
                fewer = self._caps.get(group)
                if fewer is None or now >= fewer[1] or cap <= fewer[0]:
                    self._caps[group] = cap, now + _SERVER_LIMITS_S

    def leave(self, allowance: Allowance) -> None:
        with self._lock:
            self._open[allowance.group] -= 1

    def confirm(self, allowance: Allowance, granted: Moment) -> bool:
        """Whether a request may still go for which `enter` was asked at the moment `granted`: the last check before it is sent.
        If this process was stalled since, others may have used the tokens of this time, or the group itself."""
        with self._lock:
            for _ in range(3):  # and if it is stalled while it checks, again
                began = Moment.now(self._clock)
                if granted.age_s(self._clock) > _FRESH_S:
                    granted = began
                    if not self._spend_again(allowance, began.monotonic):
                        return False
                if self._cap(allowance, began.monotonic)[1] and not self._lease_is_ours(allowance.group):
                    return False
                if began.age_s(self._clock) <= _FRESH_S:
                    return True
            return False

    def _spend_again(self, allowance: Allowance, now: float) -> bool:
        try:
            return self._spend_all(self._demands(allowance, now)) == 0.0
        except LimiterUnavailable:
            return False  # whoever asks next is told so

    def keep_leases(self) -> None:
        """Renew the leases of groups with requests under way, and give up those that nobody here needs: a connection that is
        kept for a group must not outlive the lease."""
        with self._lock:
            for group, turn_ends in list(self._turn_ends.items()):
                if self._open[group]:
                    self._renew(group)
                elif self._clock.monotonic() - turn_ends > _UNUSED_S:
                    self._give_up(group)

    def free_leases(self) -> None:
        """Give up the groups of which no request is under way."""
        with self._lock:
            for group in [group for group in self._turn_ends if not self._open[group]]:
                self._give_up(group)

    def close(self) -> None:
        self._closed.set()
        if self._keeper is not None:
            self._keeper.join(_KEEP_S)
        self._store.close()
        if self._root_lock is not None:
            self._root_lock.close()

    def _keep_leases_until_closed(self) -> None:
        while not self._closed.wait(_KEEP_S):
            try:
                self.keep_leases()
            except Exception as error:  # the catalog cannot be reached: nobody else can take the group from it either
                log.warning("the leases of groups could not be renewed: %s", error)

    def _lease_is_ours(self, group: str) -> bool:
        """Whether we hold the lease still, as known for no longer than a second."""
        if self._leases is None:
            return True
        known = self._leased_at.get(group)
        return known is not None and (known.age_s(self._clock) <= _FRESH_S or self._renew(group))

    def _renew(self, group: str) -> bool:
        assert self._leases is not None
        asked = Moment.now(self._clock)
        if self._leases.lease_group(group, self._owner, self._lease_s.get(group, _LEASE_S)):
            self._leased_at[group] = asked
            return True
        if group in self._turn_ends:  # it ran out, and is another process's now
            self._forget(group)
        return False

    def _give_up(self, group: str) -> None:
        assert self._leases is not None
        self._forget(group)
        self._leases.free_group(group, self._owner)

    def _forget(self, group: str) -> None:
        del self._turn_ends[group]
        self._leased_at.pop(group, None)
        self.on_given_up(group)

    def _holds_lease(self, group: str, interval_s: float) -> bool:
        """Whether this process holds the lease. Processes that want the same group take turns, which are longer than the time
        between two requests: handing the group over must not cost more than using it."""
        if self._leases is None:
            return True
        now = self._clock.monotonic()
        turn_ends = self._turn_ends.get(group)
        if turn_ends is not None and now < turn_ends:
            return True
        if turn_ends is not None and self._leases.group_is_wanted(group):
            if self._open[group] == 0:
                self._give_up(group)
                self._not_before[group] = now + 2 * _LEASE_RETRY_S
            return False
        turn_s = max(_TURN_S, _TURN_REQUESTS * interval_s)
        self._lease_s[group] = _LEASE_S + turn_s - _TURN_S
        if now < self._not_before.get(group, 0.0) or not self._renew(group):
            return False
        self._turn_ends[group] = now + turn_s
        if self._keeper is None:
            self._keeper = threading.Thread(target=self._keep_leases_until_closed, name="group-leases", daemon=True)
            self._keeper.start()
        return True

    def _cap(self, allowance: Allowance, now: float) -> tuple[int | None, bool]:
        """The concurrency cap, and whether it counts for all processes together."""
        cap, until = self._caps.get(allowance.group, (0, 0.0))
        return (cap, True) if now < until else (allowance.concurrency, allowance.exclusive)

    def _demands(self, allowance: Allowance, now: float) -> tuple[tuple[str, Rate], ...]:
        window, until = self._windows.get(allowance.group, (None, 0.0))
        if window is None or now >= until:
            return allowance.demands
        return (f"announced:{allowance.group}", Rate(window.per_second, 1)), *allowance.demands

    def _spend_all(self, demands: tuple[tuple[str, Rate], ...]) -> float:
        for position, (key, rate) in enumerate(demands):
            wait = self._spend(key, rate, 1)
            if wait > 0:
                for taken in demands[:position]:
                    self._spend(*taken, -1)  # given back: a request that does not go costs nothing
                return wait
        return 0.0

    def _spend(self, key: str, rate: Rate, weight: int) -> float:
        return self._store.spend(key, bucket(rate), int(self._clock.monotonic() * 1000), weight) / 1000.0


@lru_cache
def bucket(rate: Rate) -> Bucket:
    """The rate as the library wants it, a little slower than allowed."""
    interval_ms = 1000.0 / rate.per_second
    if rate.burst == 1:
        interval_ms += max(_MARGIN * interval_ms, min(_MARGIN_MS, 0.1 * interval_ms))
    return Bucket(1, max(1, math.ceil(interval_ms)), burst=rate.burst)
