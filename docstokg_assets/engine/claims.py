"""Claim due works from the catalog, except those whose host cannot take requests now, and renew the leases on them.

Groups with full queues are left out. Groups with an open circuit breaker are left out while other works are due, because requests
to them would be refused; if nothing else is due, their works are claimed too, since they may have copies on other hosts. A claim
continues where the last one ended as long as no group is admitted again, so the works of slow hosts are skipped once and not by
every claim. With thousands of slow hosts, groups are admitted all the time; all due works are then read again only as often as
that is cheap.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Container

from docstokg_assets.engine.scheduler import Scheduler
from resources.catalog.catalog import Catalog
from resources.catalog.rows import Claimed, QueueItem
from resources.clock import Clock
from resources.http.breaker import Phase
from resources.http.host_state import HostStateCache
from resources.scope import Lane, WorkScope

TICK_S = 0.5
_RESCAN_S = 5.0  # interval at which a claim reads all due works again, including those that earlier claims skipped
_RESCAN_SHARE = 40.0  # the pause after such a claim is at least so many times as long as the claim took


class Claims:
    """For the dispatcher's thread only. `take` is `Catalog.claim` for the works of a pass and their owner."""

    def __init__(self, take: Callable[..., Claimed], scheduler: Scheduler, hosts: HostStateCache, clock: Clock) -> None:
        self._take, self._scheduler, self._hosts, self._clock = take, scheduler, hosts, clock
        self._skipped: frozenset[str] = frozenset()  # groups left out since the last scan of all due works
        self._up_to: tuple[int, str] | None = None  # where the last claim ended
        self._saw_all = True  # whether that was the end of the due works
        self._found_none = True  # since the last scan of all due works
        self._rescan_at = self._rescan_soonest = 0.0
        self.next_at = 0.0  # no claim before this time: it is a write to the database

    def claim(self, limit: int) -> list[QueueItem]:
        now, full, hosts = self._clock.monotonic(), self._scheduler.full_groups(), self._hosts.broken()
        broken = {self._scheduler.group_of(host) for host, phase in hosts.items() if phase is Phase.OPEN} - full
        left_out = full | broken
        readmitted = len(self._skipped - left_out)
        is_time = now >= self._rescan_at or (readmitted > 0 and now >= self._rescan_soonest)
        rescans = not left_out or (self._saw_all and is_time)
        if rescans:
            self._up_to, self._skipped, self._found_none = None, left_out, True
            if left_out:  # a readmitted group has room for one or two works, however many are due
                limit = min(limit, 2 * max(1, readmitted))
        claimed = self._take(limit, left_out=left_out, after=self._up_to)
        items, self._up_to, self._saw_all = claimed.items, claimed.up_to, claimed.is_end
        self._found_none = self._found_none and not items
        if rescans:
            pause = _RESCAN_SHARE * (self._clock.monotonic() - now)
            self._rescan_soonest, self._rescan_at = now + max(TICK_S, pause), now + max(_RESCAN_S, pause)
        self._skipped |= left_out
        if broken and self._saw_all and self._found_none:
            self._found_none = False
            if items := self._take(limit, left_out=full, after=None).items:
                self._rescan_at = 0.0  # there may be more of these
        self.next_at = now if items or not self._saw_all else now + TICK_S
        if Phase.HALF_OPEN in hosts.values():
            # Links that fail together are often adjacent; without shuffling, the same few would be the probes every time.
            random.shuffle(items)
        return items


class UrgentClaims:
    """Claims interactive ingest items, however many others are open. `take` is as for `Claims`."""

    def __init__(self, take: Callable[..., Claimed], scope: WorkScope, clock: Clock, most: int) -> None:
        self._take, self._clock, self._most = take, clock, max(8, most)
        self._lanes = tuple(lane for lane in scope.lanes if lane is Lane.PRIORITY)
        self._urgent: set[str] = set()
        self.next_at = 0.0

    def is_urgent(self, item: QueueItem) -> bool:
        return bool(self._lanes) and item.priority >= Lane.PRIORITY

    def claim(self, open_works: Container[str]) -> list[QueueItem]:
        """The next urgent items. `open_works`: those under way, which bound their number."""
        now = self._clock.monotonic()
        if not self._lanes or now < self.next_at:
            return []
        self._urgent = {work_id for work_id in self._urgent if work_id in open_works}
        room = self._most - len(self._urgent)
        if room <= 0:
            return []
        self.next_at = now + TICK_S
        items = self._take(room, scope=WorkScope(lanes=self._lanes)).items
        self._urgent |= {item.work_id for item in items}
        return items


class WorkLeases:
    """The leases of a pass on its works: renewed in time, and not trusted after a pause.

    A process that was stopped, or whose machine was suspended, does not notice. It sees only that more time has passed than it
    expected, by the monotonic clock or, where that stood still as well, by the wall clock.
    """

    def __init__(self, catalog: Catalog, owner: str, lease_s: float, clock: Clock) -> None:
        self._catalog, self._owner, self._lease_s, self._clock = catalog, owner, lease_s, clock
        self._renewed = clock.monotonic(), clock.wall()

    def are_due(self) -> bool:
        return self._age() >= self._lease_s / 3

    def are_in_doubt(self) -> bool:
        """Whether another process may have taken over works since the last renewal."""
        return self._age() >= self._lease_s

    def renew(self) -> set[str]:
        """Renew the leases for another `lease_s`; returns the works that this process still holds."""
        now = self._clock.monotonic(), self._clock.wall()  # read first: the lease then ends no earlier than assumed
        held = self._catalog.heartbeat(self._owner, self._lease_s)
        self._renewed = now
        return held

    def _age(self) -> float:
        monotonic, wall = self._renewed
        return max(self._clock.monotonic() - monotonic, self._clock.wall() - wall)
