"""What every backend of the limiter offers: a StateStore for each bucket, and one error when it cannot be asked.

A StateStore (pyrate-limiter's) decides in one atomic check, which either spends or says how long to wait, and never sleeps. The
library's log buckets admitted more than the limit across processes; these admit what GCRA says, no more. Each backend is a
module of its own; `backends.py` opens the one that is configured.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pyrate_limiter import InMemoryStateStore, Rate, StateStore
from pyrate_limiter.abstracts.algorithm import State

from resources.errors import ExplainedError

StoreFactory = Callable[[str], StateStore]


class LimiterUnavailable(ExplainedError):
    """The store cannot be asked. Requests stop; they never go out unthrottled."""


class Stores(Protocol):
    """An opened backend."""

    def store(self, key: str) -> StateStore:
        """The state of one bucket. Its `check` raises LimiterUnavailable, within about two seconds, when it cannot be asked."""

    def close(self) -> None: ...


class MemoryStores:
    """State in this process alone."""

    def store(self, key: str) -> StateStore:
        return InMemoryStateStore()

    def close(self) -> None:
        """There is nothing to close."""


def sane(state: State, rates: list[Rate], now: int) -> State:
    """Times from before a reboot lie ahead of the monotonic clock; nothing can be owed for longer than a full burst."""
    return tuple(
        min(value, now * 1000 + rate.burst * rate.interval * 1000 / rate.limit)
        for value, rate in zip(state, rates, strict=True)
    )
