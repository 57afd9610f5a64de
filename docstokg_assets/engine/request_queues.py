"""What the dispatcher schedules: works under way, and the queues in which their next requests wait for the same limits. Plain
records that know how long a wait is; who goes when is decided by the dispatcher.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from docstokg_assets.domain.works import Work
from docstokg_assets.engine.search import Search, SearchState
from docstokg_assets.resolvers.registry import Resolution, ResolverResult
from resources.catalog.rows import QueueItem
from resources.http.attempts import AttemptLog
from resources.http.exchange import Exchange, Send
from resources.http.messages import Request
from resources.rate_limit.limiter import Allowance
from resources.records import DownloadOutcome

SHORT_WAIT_S = 2.0


@dataclass(slots=True)
class Task:
    """One work under way: its search, the exchange that the search waits for, and what it needs next."""

    item: QueueItem
    work: Work
    state: SearchState
    search: Search | Resolution
    log: AttemptLog
    exchange: Exchange | None = None
    send: Send | None = None
    batchable: Request | None = None  # what the exchange is for, as long as others can still be asked for with it
    alone: Request | None = None  # the same once it was asked with others: how it is asked if that was refused
    batched: list[Task] = field(default_factory=list)  # those that wait for the answer to this one's request,
    items: tuple[str, ...] = ()  # and what was asked for all of them
    since: float = 0.0  # when it began to wait for its queue
    began: float | None = None  # when its first request left; what it waited before is not its own slowness
    parent: Task | None = None  # whose question this one asks, side by side with others,
    subtasks: list[Task] = field(default_factory=list)  # and here those that ask for it,
    result: ResolverResult | DownloadOutcome | None = None  # and what one of them came back with,
    held_up: tuple[float, str] | None = None  # or that it must wait, for so long and why


@dataclass(slots=True)
class RequestQueue:
    allowance: Allowance
    tasks: deque[Task] = field(default_factory=deque)
    ready_at: float = 0.0
    busy: bool = False  # all permits of its group are out
    full: bool = False

    @property
    def at_once(self) -> int:
        """How many of the searches that wait here can be asked for in one request."""
        last = self.tasks[-1].batchable if self.tasks else None
        return last.batchable.most if last is not None and last.batchable is not None else 1

    @property
    def requests(self) -> int:
        return -(-len(self.tasks) // self.at_once)

    def lets_others_go(self, now: float) -> bool:
        """Whether its first request has time for more to join it."""
        return 0 < len(self.tasks) < self.at_once and now - self.tasks[0].since < SHORT_WAIT_S

    def urgency(self, now: float) -> tuple[bool, bool, float]:
        """Sorts queues in the order in which they have their turn."""
        first = self.tasks[0]
        return self.lets_others_go(now), first.began is None, first.since

    def wait_for_last(self, now: float) -> float:
        """How long a search that joins now would wait, by the limit alone."""
        return max(0.0, self.ready_at - now) + self.requests * self.allowance.interval_s


@dataclass(slots=True)
class ParkedFor:
    """Works of this pass that were given back and wait for the same group for the same reason."""

    works: int = 0
    until: float = 0.0  # by the monotonic clock
