"""Claims the due works of a pass from the catalog, without those whose groups take no more at the moment."""

from __future__ import annotations

from typing import Any

from resources.catalog.catalog import Catalog
from resources.catalog.rows import QueueItem
from resources.clock import Clock

TICK_S = 0.5
_RESCAN_S = 5.0  # so often a claim looks at all due works again, also those that earlier claims have passed over
_RESCAN_SHARE = 40.0  # a claim that takes long because it passes over many works is made no more often than this allows


class Claims:
    """Continues behind the last claim as long as no group is let in again, so that the many works of slow hosts are passed over
    once and not for each claim. With thousands of slow hosts some group is let in at any moment; then its works are looked for
    as often as that is cheap."""

    def __init__(self, catalog: Catalog, owner: str, lease_s: float, clock: Clock, **scope: Any) -> None:
        """`scope`: which works, as `Catalog.claim` takes it."""
        self._catalog, self._owner, self._lease_s, self._clock, self._scope = catalog, owner, lease_s, clock, scope
        self._passed_over: frozenset[str] = frozenset()  # groups left out since the last look at all due works
        self._up_to: tuple[int, str] | None = None  # where the last claim ended
        self._rescan_at = self._rescan_soonest = 0.0
        self.next_at = 0.0  # not before: a claim is a write to the database

    def claim(self, limit: int, left_out: frozenset[str]) -> list[QueueItem]:
        now = self._clock.monotonic()
        let_in_again = len(self._passed_over - left_out)
        rescans = not left_out or now >= self._rescan_at or (let_in_again > 0 and now >= self._rescan_soonest)
        if rescans:
            self._up_to, self._passed_over = None, left_out
            if left_out:  # a group that is let in again has place for a work or two, whatever it has in the catalog
                limit = min(limit, 2 * max(1, let_in_again))
        items = self._catalog.claim(
            self._owner, limit, self._lease_s, **self._scope, exclude_groups=left_out, after=self._up_to
        )
        if rescans:
            pause = _RESCAN_SHARE * (self._clock.monotonic() - now)
            self._rescan_soonest, self._rescan_at = now + max(TICK_S, pause), now + max(_RESCAN_S, pause)
        self._passed_over |= left_out
        if items:
            self._up_to = items[-1].priority, items[-1].work_id
        self.next_at = now if items else now + TICK_S
        return items
