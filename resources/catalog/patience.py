"""How long callers wait for a database that does not answer, and how that time shrinks once their run is being ended.

A server that was stopped with its port open never answers and never closes the connection; without a limit its clients hang too.
"""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections.abc import Iterator

POOL_SIZE = 5  # connections of a process, unless configured
ANSWER_S = 30.0  # without a byte from the server
SLOW_ANSWER_S = 3600.0  # the same for a query over whole tables
STOPPING_S = 5.0  # time left for statements that are under way when the run is being ended,
LAST_ANSWER_S = 3.0  # and for each answer to statements that begin after that


class Patience:
    """The limits of one opened database. Thread-safe."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._ends_at = math.inf

    def end_with(self, stop: threading.Event) -> None:
        """Wait only a little longer once `stop` is set."""
        self._stop, self._ends_at = stop, math.inf

    @property
    def ends_at(self) -> float:
        """By the monotonic clock; never, unless the run is being ended."""
        if self._ends_at == math.inf and self._stop.is_set():
            self._ends_at = time.monotonic() + STOPPING_S
        return self._ends_at

    def is_over(self) -> bool:
        return time.monotonic() >= self.ends_at

    def is_short(self) -> bool:
        """Whether the run is being ended."""
        return self.ends_at < math.inf

    def answer_until(self, since: float, limit_s: float) -> float:
        """Until when to wait for an answer of which nothing has come since `since`."""
        return min(since + limit_s, max(self.ends_at, since + LAST_ANSWER_S))

    def tries(self, seconds: float) -> Iterator[None]:
        """Yield at once, then after growing pauses, until `seconds` after the first try failed."""
        yield
        end = time.monotonic() + seconds
        for pause in itertools.chain((0.1, 0.2, 0.5, 1.0), itertools.repeat(2.0)):
            if time.monotonic() + pause > min(end, self.ends_at):
                return
            if not self._stop.is_set():
                self._stop.wait(pause)  # when the run is being ended, try once more at once
            else:
                time.sleep(pause)
            yield
