"""The interface of limiter backends, the error they share, and the backend that counts in memory.

Every backend decides in one atomic check with GCRA, the algorithm of pyrate-limiter: the check either spends a token or says
how long to wait, and never sleeps. The library's log buckets admitted more than the limit across processes; GCRA does not.
Each backend is a module of its own; `backends.py` opens the configured one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from pyrate_limiter import GCRA, Rate
from pyrate_limiter.abstracts.algorithm import Decision

from resources.errors import ExplainedError

_GCRA = GCRA()
_UNKNOWN_WAIT_MS = 50


class LimiterUnavailable(ExplainedError):
    """The store cannot be reached. Requests stop; they never go out unthrottled."""


class LimitStore(ABC):
    """An opened backend: the state of every bucket, by key."""

    @abstractmethod
    def spend(self, key: str, rate: Rate, now_ms: int, weight: int) -> int:
        """Take `weight` tokens of a bucket; a negative weight gives them back. Return 0, or the milliseconds to wait when
        there are not enough. `now_ms` is monotonic. LimiterUnavailable, within about two seconds, when the store cannot be
        reached."""

    def close(self) -> None:  # noqa: B027
        """Close what the backend keeps open, if anything."""


class MemoryLimits(LimitStore):
    """State in this process alone. The limiter's lock protects it."""

    def __init__(self) -> None:
        self._state: dict[str, float] = {}

    def spend(self, key: str, rate: Rate, now_ms: int, weight: int) -> int:
        self._state[key], wait_ms = gcra_step(self._state.get(key), rate, now_ms, weight)
        return wait_ms


def gcra_step(stored: float | None, rate: Rate, now_ms: int, weight: int) -> tuple[float, int]:
    """The new state of a bucket, and the wait in milliseconds. The state is the theoretical arrival time in microseconds.

    A time from before a reboot lies ahead of the monotonic clock; it is clamped to what a full burst owes.
    """
    if stored is None:
        (stored,) = _GCRA.initial([rate])
    latest = now_ms * 1000 + rate.burst * rate.interval * 1000 / rate.limit
    (state,), decision = _GCRA.step([rate], (min(stored, latest),), now_ms, weight)
    return state, wait_of(decision)


def wait_of(decision: Decision) -> int:
    return 0 if decision.allowed else decision.retry_after_ms or _UNKNOWN_WAIT_MS
