"""The leases of a pass on its works: renewed in time, and not taken for granted after a pause.

A process that was stopped, or whose machine was suspended, does not notice. What it sees is that more time has passed than it
thought, by the monotonic clock or, where that stood still as well, by the clock on the wall.
"""

from __future__ import annotations

from resources.catalog.catalog import Catalog
from resources.clock import Clock


class WorkLeases:
    def __init__(self, catalog: Catalog, owner: str, lease_s: float, clock: Clock) -> None:
        self._catalog, self._owner, self._lease_s, self._clock = catalog, owner, lease_s, clock
        self._renewed = clock.monotonic(), clock.wall()

    def are_due(self) -> bool:
        return self._age() >= self._lease_s / 3

    def are_in_doubt(self) -> bool:
        """Whether another process may have taken works over since they were last renewed."""
        return self._age() >= self._lease_s

    def renew(self) -> set[str]:
        """The works that are still ours, for another `lease_s`."""
        now = self._clock.monotonic(), self._clock.wall()  # before: the lease counts from some time after it
        held = self._catalog.heartbeat(self._owner, self._lease_s)
        self._renewed = now
        return held

    def _age(self) -> float:
        monotonic, wall = self._renewed
        return max(self._clock.monotonic() - monotonic, self._clock.wall() - wall)
