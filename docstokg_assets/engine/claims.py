"""Claim due works from the catalog, leaving out those of hosts that cannot be asked at the moment.

Groups whose queues are full are left out, and while there is anything else to do also groups with an open circuit breaker: their
works would only be refused. When nothing else is left these are claimed too, for they may have copies elsewhere. A claim
continues behind the one before it as long as no group is let in again, so that the many works of slow hosts are passed over once
and not for each claim. With thousands of slow hosts some group is let in at any moment; then its works are looked for as often as
that is cheap.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from docstokg_assets.engine.scheduler import Scheduler
from resources.catalog.rows import Claimed, QueueItem
from resources.clock import Clock
from resources.http.breaker import Phase
from resources.http.host_state import HostStateCache

TICK_S = 0.5
_RESCAN_S = 5.0  # so often a claim looks at all due works again, also those that earlier claims have passed over
_RESCAN_SHARE = 40.0  # a claim that takes long because it passes over many works is made no more often than this allows


class Claims:
    """Belongs to the dispatcher's thread. `take` is `Catalog.claim_behind` for the works of a pass and their owner."""

    def __init__(self, take: Callable[..., Claimed], scheduler: Scheduler, hosts: HostStateCache, clock: Clock) -> None:
        self._take, self._scheduler, self._hosts, self._clock = take, scheduler, hosts, clock
        self._passed_over: frozenset[str] = frozenset()  # groups left out since the last look at all due works
        self._up_to: tuple[int, str] | None = None  # where the last claim ended
        self._saw_all = True  # whether that was the end of the due works
        self._found_none = True  # since the last look at all due works
        self._rescan_at = self._rescan_soonest = 0.0
        self.next_at = 0.0  # not before: a claim is a write to the database

    def claim(self, limit: int) -> list[QueueItem]:
        now, full, hosts = self._clock.monotonic(), self._scheduler.full_groups(), self._hosts.broken()
        broken = {self._scheduler.group_of(host) for host, phase in hosts.items() if phase is Phase.OPEN} - full
        left_out = full | broken
        let_in_again = len(self._passed_over - left_out)
        is_time = now >= self._rescan_at or (let_in_again > 0 and now >= self._rescan_soonest)
        rescans = not left_out or (self._saw_all and is_time)
        if rescans:
            self._up_to, self._passed_over, self._found_none = None, left_out, True
            if left_out:  # a group that is let in again has place for a work or two, whatever it has in the catalog
                limit = min(limit, 2 * max(1, let_in_again))
        claimed = self._take(limit, left_out=left_out, after=self._up_to)
        items, self._up_to, self._saw_all = claimed.items, claimed.up_to, claimed.is_end
        self._found_none = self._found_none and not items
        if rescans:
            pause = _RESCAN_SHARE * (self._clock.monotonic() - now)
            self._rescan_soonest, self._rescan_at = now + max(TICK_S, pause), now + max(_RESCAN_S, pause)
        self._passed_over |= left_out
        if broken and self._saw_all and self._found_none:
            self._found_none = False
            if items := self._take(limit, left_out=full, after=None).items:
                self._rescan_at = 0.0  # there may be more of these
        self.next_at = now if items or not self._saw_all else now + TICK_S
        if Phase.HALF_OPEN in hosts.values():
            # Links that fail together often come together, so that the same few would be the probes every time.
            random.shuffle(items)
        return items
