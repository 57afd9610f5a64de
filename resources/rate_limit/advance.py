"""Take tokens of fast limits from the shared store in portions: for limits of hundreds of requests a second, asking the store for
each one costs more than the request.

Tokens taken in advance are spent for everybody, and are used within a tenth of a second by both clocks, or not at all. A token
that is used late could make arrivals denser than the limit, by as many as were taken; so the bucket's burst is smaller by that
number, and the limit holds in every window. Slower limits, and those with a small burst, are asked for each request.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from pyrate_limiter import Rate

from resources.rate_limit.stores import LimitStore

_KEEP_MS = 100
_SHARE = 4  # a portion is at most this part of the burst
_MOST_KEPT = 1_000  # buckets


@dataclass(slots=True)
class _Portion:
    taken_ms: int  # by the monotonic clock of the caller
    taken_at: float  # by the wall clock: the other one stands still while a machine is suspended
    left: int

    def is_fresh(self, now_ms: int) -> bool:
        return 0 <= now_ms - self.taken_ms <= _KEEP_MS and abs(time.time() - self.taken_at) * 1000 <= _KEEP_MS


class TokensInAdvance(LimitStore):
    """A LimitStore over another one. The limiter's lock protects it."""

    def __init__(self, store: LimitStore) -> None:
        self._store = store
        self._portions: dict[str, _Portion] = {}

    def spend(self, key: str, rate: Rate, now_ms: int, weight: int) -> int:
        size = portion_of(rate)
        if size <= 1:
            return self._store.spend(key, rate, now_ms, weight)
        portion = self._portions.get(key)
        if portion is not None and portion.left >= weight and portion.is_fresh(now_ms):
            portion.left -= weight  # a negative weight gives one back
            return 0
        narrow = Rate(rate.limit, rate.interval, burst=rate.burst - size)
        if weight < 0:
            return self._store.spend(key, narrow, now_ms, weight)
        taken_at = time.time()
        if self._store.spend(key, narrow, now_ms, size) > 0:
            return self._store.spend(key, narrow, now_ms, weight)
        if len(self._portions) >= _MOST_KEPT:
            self._portions.clear()
        self._portions[key] = _Portion(now_ms, taken_at, size - weight)
        return 0

    def close(self) -> None:
        self._store.close()


def portion_of(rate: Rate) -> int:
    """How many tokens are taken at once: those of a tenth of a second."""
    return int(min(_KEEP_MS * rate.limit / rate.interval, rate.burst / _SHARE))
