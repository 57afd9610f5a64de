"""What the engine schedules: a `Task` for each work in progress, and the `RequestQueue` in which its next request waits.

A RequestQueue is what Scrapy calls a downloader slot: the requests under the same limits. These are plain records that compute
waiting times; the scheduler decides which request goes next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

from docstokg_assets.domain.works import Work
from docstokg_assets.engine.search_state import SearchState
from docstokg_assets.resolvers.registry import ResolverResult
from resources.artifacts.store import StoreError
from resources.catalog.errors import CatalogError
from resources.catalog.rows import QueueItem
from resources.clock import Moment
from resources.http.attempts import AttemptLog
from resources.http.exchange import Exchange, Send
from resources.http.messages import Request
from resources.rate_limit.limiter import Allowance
from resources.rate_limit.stores import LimiterUnavailable
from resources.records import DownloadOutcome

SHORT_WAIT_S = 2.0
_IN_HAND_S = 12.0  # a queue holds what can be sent within this time, which is longer than the pause between claims
PASS_ENDING_ERRORS = (
    StoreError,
    CatalogError,
    LimiterUnavailable,
)  # they end the pass, not only the task that met them


def most_open(workers: int) -> int:
    """The maximum number of works in progress at once, besides those that wait."""
    return max(64, workers * 8)


@dataclass(frozen=True, slots=True)
class Park:
    """Give a work back to the catalog for some seconds. `group`: the limit group that it waits for."""

    seconds: float
    reason: str
    group: str | None = None


@dataclass(slots=True)
class Task:
    """One work under way: its search, the exchange that the search waits for, and what it needs next."""

    item: QueueItem
    work: Work
    state: SearchState
    search: Generator[Any, Any, DownloadOutcome | ResolverResult]  # a Search; of a subtask, a resolver's Resolution
    log: AttemptLog
    exchange: Exchange | None = None
    send: Send | None = None
    since: float = 0.0  # when it began to wait in its queue
    urgent: bool = False  # somebody waits for it: it goes before all others, as far as limits allow
    began: float | None = None  # when its first request was sent; waiting before that does not count as its own time
    # Batching: a request that can be combined with others, and what was combined (batching.py).
    batchable: Request | None = None  # the request of `exchange`, as long as it can still be combined
    alone: Request | None = None  # the same once it was combined: sent if the combined one is refused
    batched: list[Task] = field(default_factory=list)  # the tasks that wait for the answer to this one's request
    items: tuple[str, ...] = ()  # what was asked for all of them
    # Concurrent resolver queries (concurrent_queries.py).
    parent: Task | None = None
    subtasks: list[Task] = field(default_factory=list)
    result: ResolverResult | DownloadOutcome | Park | None = None  # of a subtask that is done

    def add_active_time(self, now: float) -> None:
        if self.began is not None:
            self.state.active_ms += round((now - self.began) * 1000)

    def close(self) -> None:
        self.search.close()
        if self.exchange is not None:
            self.exchange.close()


@dataclass(slots=True)
class RequestQueue:
    """Tasks whose next requests share all limits, first come first served."""

    allowance: Allowance
    tasks: deque[Task] = field(default_factory=deque)
    ready_at: float = 0.0
    granted: Moment | None = None  # when the limiter was last asked
    busy: bool = False  # all permits of its group are in use
    full: bool = False
    interval_s: float = field(init=False)

    def __post_init__(self) -> None:
        self.interval_s = self.allowance.interval_s

    def is_slow(self, now: float) -> bool:
        """Whether a task waits here for more than a moment."""
        return self.interval_s > SHORT_WAIT_S or self.ready_at - now > SHORT_WAIT_S

    @property
    def in_hand(self) -> float:
        """The number of requests to hold here when the limit is used up: two for a slow limit."""
        return max(2.0, _IN_HAND_S / self.interval_s)

    @property
    def batch_size(self) -> int:
        """The number of waiting tasks that fit into one request."""
        last = self.tasks[-1].batchable if self.tasks else None
        return last.batchable.most if last is not None and last.batchable is not None else 1

    @property
    def requests(self) -> int:
        return -(-len(self.tasks) // self.batch_size)

    def can_wait(self, now: float) -> bool:
        """Whether the first request should let other queues go first, so that more tasks can join it."""
        return 0 < len(self.tasks) < self.batch_size and now - self.tasks[0].since < SHORT_WAIT_S

    def urgency(self, now: float) -> tuple[bool, bool, bool, float]:
        """Sort key, the most urgent first: tasks that somebody waits for, searches under way before new ones, then by time."""
        first = self.tasks[0]
        return not first.urgent, self.can_wait(now), first.began is None, first.since

    def add(self, task: Task) -> None:
        """Append a task; an urgent one goes before all that are not."""
        if not task.urgent:
            self.tasks.append(task)
            return
        behind = next((n for n, other in enumerate(self.tasks) if not other.urgent), len(self.tasks))
        self.tasks.insert(behind, task)

    def wait_for_last(self, now: float) -> float:
        """How long a task that joins now would wait, by the limit alone."""
        return max(0.0, self.ready_at - now) + self.requests * self.interval_s

    def entered(self, now: float) -> None:
        """Note that a request is sent now, so that a slow limit is not asked for the next one too early."""
        if self.interval_s > SHORT_WAIT_S:
            self.ready_at = now + self.allowance.next_token_s
