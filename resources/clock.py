"""Time as a dependency: code that waits or writes a time is given a Clock, so that tests can control it."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import NamedTuple, Protocol


class Clock(Protocol):
    def monotonic(self) -> float:
        """Seconds that only ever grow; for waits and deadlines."""

    def wall(self) -> float:
        """Epoch seconds; for what is written down."""

    def sleep(self, seconds: float) -> None: ...


class SystemClock:
    def monotonic(self) -> float:
        return time.monotonic()

    def wall(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class Moment(NamedTuple):
    """A time by both clocks: while a machine is suspended, the monotonic one may stand still."""

    monotonic: float
    wall: float

    @classmethod
    def now(cls, clock: Clock) -> Moment:
        return cls(clock.monotonic(), clock.wall())

    def age_s(self, clock: Clock) -> float:
        """Seconds since then, by the clock that shows more of them."""
        return max(clock.monotonic() - self.monotonic, clock.wall() - self.wall)


def utc(epoch: float) -> datetime:
    return datetime.fromtimestamp(epoch, UTC)
