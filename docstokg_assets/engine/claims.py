"""Claim due works from the catalog, leaving out those of hosts that cannot be asked at the moment.

Groups whose queues are full are left out, and while there is anything else to do also groups with an open circuit breaker: their
works would only be refused. When nothing else is left these are claimed too, for they may have copies elsewhere. A claim
continues behind the one before it as long as the same groups are left out, so that the many works of a slow host are passed over
once and not for each claim.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from docstokg_assets.engine.scheduler import Scheduler
from resources.catalog.rows import QueueItem
from resources.http.breaker import Phase
from resources.http.host_state import HostStateCache

_RESCAN_S = 5.0  # so often a claim looks at all due works again, also those that earlier claims have passed over


class Claims:
    """Belongs to the dispatcher's thread. `take` is `Catalog.claim` for the works of a pass and their owner."""

    def __init__(self, take: Callable[..., list[QueueItem]], scheduler: Scheduler, hosts: HostStateCache) -> None:
        self._take, self._scheduler, self._hosts = take, scheduler, hosts
        self._left_out: frozenset[str] = frozenset()  # groups at the last claim,
        self._claimed_up_to: tuple[int, str] | None = None  # where it ended,
        self._next_rescan = 0.0  # and when a claim starts from the top again

    def claim(self, limit: int, now: float) -> list[QueueItem]:
        full, hosts = self._scheduler.full_groups(), self._hosts.broken()
        broken = {self._scheduler.group_of(host) for host, phase in hosts.items() if phase is Phase.OPEN} - full
        left_out = full | broken
        if rescan := left_out != self._left_out or not left_out or now >= self._next_rescan:
            self._claimed_up_to, self._left_out, self._next_rescan = None, left_out, now + _RESCAN_S
        items = self._take(limit, exclude_groups=left_out, after=self._claimed_up_to)
        if items:
            self._claimed_up_to = items[-1].priority, items[-1].work_id
        elif broken and rescan and (items := self._take(limit, exclude_groups=full)):
            self._next_rescan = 0.0  # there may be more of these
        if Phase.HALF_OPEN in hosts.values():
            # Links that fail together often come together, so that the same few would be the probes every time.
            random.shuffle(items)
        return items
