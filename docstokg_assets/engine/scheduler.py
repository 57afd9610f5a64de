"""Decides which request goes next: queues by limit, a heap of pauses, and which works are parked instead of waiting here.

As in Scrapy each set of limits has a queue of its own (a "slot"), so that a slow host never blocks a fast one. Unlike there, a
queue takes no more tasks than can have their turn soon: a task whose turn is further away than `park_after_s` is to be parked in
the catalog, and claims leave out the groups of full queues. The scheduler never waits and starts nothing; it belongs to the
dispatcher's thread.
"""

from __future__ import annotations

import heapq
import itertools
import logging
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass

from docstokg_assets.engine.progress import Waiting
from docstokg_assets.engine.request_queues import SHORT_WAIT_S, Park, RequestQueue, Task
from resources.clock import Clock
from resources.http.exchange import Pause, Send
from resources.http.messages import Role
from resources.rate_limit.limiter import Allowance, Limiter
from resources.rate_limit.stores import LimiterUnavailable
from resources.records import ITS_TURN

log = logging.getLogger(__name__)

_LIMITER_PATIENCE_S = 60.0


@dataclass(slots=True)
class _ParkedWorks:
    """Works of this pass that are parked for the same group and the same reason."""

    count: int = 0
    until: float = 0.0  # by the monotonic clock


class Scheduler:
    def __init__(self, limiter: Limiter, clock: Clock, *, workers: int, park_after_s: float) -> None:
        self._limiter, self._clock, self._workers, self._park_after_s = limiter, clock, workers, park_after_s
        self._queues: dict[Allowance, RequestQueue] = {}
        self._pauses: list[tuple[float, int, Task, Pause]] = []  # heap by the time at which each ends
        self._order = itertools.count()
        self._parked: dict[str, tuple[str | None, str]] = {}  # work id -> (group, reason)
        self._parked_for: defaultdict[tuple[str | None, str], _ParkedWorks] = defaultdict(_ParkedWorks)
        self._limiter_down_since: float | None = None

    # -- tasks that wait ----------------------------------------------------------------------------------------------

    def enqueue(self, task: Task, send: Send) -> Park | None:
        """Let a task wait for its turn to send a request. If its queue is full the task is not taken: park it."""
        now = self._clock.monotonic()
        task.send, task.since = send, now
        queue = self._queue_for(send)
        if not self._is_full(queue, now):
            queue.tasks.append(task)
            return None
        group, interval = queue.allowance.group, queue.allowance.interval_s
        parked_before = self._parked_for[group, ITS_TURN].count * interval
        return Park(queue.wait_for_last(now) + parked_before, ITS_TURN, group)

    def pause(self, task: Task, pause: Pause, *, may_wait: bool = True) -> Park | None:
        """Let a task wait for so long. If that is too long, in particular for a task that has sent nothing yet: park it."""
        if may_wait and pause.seconds <= (SHORT_WAIT_S if pause.untried else self._park_after_s):
            ready_at = self._clock.monotonic() + pause.seconds
            heapq.heappush(self._pauses, (ready_at, next(self._order), task, pause))
            return None
        return Park(pause.seconds, pause.reason, self.group_of(pause.host))

    def resumed(self) -> Iterator[Task]:
        """Take the tasks whose pause is over."""
        while self._pauses and self._pauses[0][0] <= self._clock.monotonic():
            yield heapq.heappop(self._pauses)[2]

    def turns(self, has_room: Callable[[], bool]) -> Iterator[tuple[Task, RequestQueue]]:
        """Take the tasks that may send now, with permit and tokens, as long as there is room: one from each queue in turn,
        searches under way before new ones. Last come queues whose request could still be joined by more tasks: no worker idles
        for these, and each such request carries more works. The caller gives the permit back, also if it sends nothing."""
        now, progressed = self._clock.monotonic(), True
        while progressed and has_room():
            progressed = False
            ready = [
                queue for queue in self._queues.values() if queue.tasks and not queue.busy and queue.ready_at <= now
            ]
            for queue in sorted(ready, key=lambda queue: queue.urgency(now)):
                if not has_room() or (progressed and queue.can_wait(now)):
                    break
                if self._enter(queue, now):
                    progressed = True
                    yield queue.tasks.popleft(), queue
        for allowance in [a for a, queue in self._queues.items() if not queue.tasks and queue.ready_at <= now]:
            del self._queues[allowance]

    def _enter(self, queue: RequestQueue, now: float) -> bool:
        """Take a permit and the tokens, or note when to ask again. Nothing goes out unthrottled: while the limiter is unavailable
        requests stop, and the pass fails when it does not come back."""
        try:
            wait = self._limiter.enter(queue.allowance)
        except LimiterUnavailable as error:
            if self._limiter_down_since is None:
                log.warning("requests stop: %s", error)
                self._limiter_down_since = now
            elif now - self._limiter_down_since > _LIMITER_PATIENCE_S:
                raise
            queue.ready_at = now + 1.0
            return False
        self._limiter_down_since = None
        if wait is None:
            queue.busy = True
        elif wait > 0:
            queue.ready_at = now + wait
        return wait == 0

    def permit_is_free(self, group: str) -> None:
        for queue in self._queues.values():
            if queue.allowance.group == group:
                queue.busy = False

    def next_ready(self, has_room: bool) -> float:
        """When the next pause ends or, if there is room for a request, the next queue has its turn; infinity if never."""
        times = [self._pauses[0][0]] if self._pauses else []
        if has_room:
            times += [queue.ready_at for queue in self._queues.values() if queue.tasks and not queue.busy]
        return min(times, default=float("inf"))

    def reassign(self) -> None:
        """Put all waiting tasks into the queues of the limits as they are now, after these were changed."""
        queues, self._queues = self._queues, {}
        for task in [task for queue in queues.values() for task in queue.tasks]:
            assert task.send is not None
            self._queue_for(task.send).tasks.append(task)

    def remove_all(self, works: Set[str] | None = None) -> list[tuple[Task, Park]]:
        """Take all tasks that wait, or those of some works, each with what it would still wait for."""
        now, removed = self._clock.monotonic(), list[tuple[Task, Park]]()

        def stays(task: Task) -> bool:
            return works is not None and task.item.work_id not in works

        for queue in self._queues.values():
            group, interval, wait = queue.allowance.group, queue.allowance.interval_s, max(0.0, queue.ready_at - now)
            for position, task in enumerate(queue.tasks):
                if not stays(task):
                    removed.append((task, Park(wait + position * interval, ITS_TURN, group)))
            queue.tasks = deque(filter(stays, queue.tasks))
        for ready_at, _, task, pause in self._pauses:
            if not stays(task):
                removed.append((task, Park(max(0.0, ready_at - now), pause.reason, self.group_of(pause.host))))
        self._pauses = [entry for entry in self._pauses if stays(entry[2])]
        heapq.heapify(self._pauses)
        return removed

    # -- groups and their fullness ------------------------------------------------------------------------------------

    def group_of(self, host: str) -> str:
        return self._limiter.policy_for(host, str(Role.ARTIFACT)).group

    def allowance_of(self, send: Send) -> Allowance:
        return self._limiter.policy_for(send.host, str(send.role), send.resolver, send.min_interval_s)

    def _queue_for(self, send: Send) -> RequestQueue:
        allowance = self.allowance_of(send)
        queue = self._queues.get(allowance)
        if queue is None:
            queue = self._queues[allowance] = RequestQueue(allowance)
        return queue

    def full_groups(self) -> frozenset[str]:
        """Groups for which no more works should be claimed. A queue that was full stays so until it is half empty: else a claim
        would bring many works for a single place, and all but one would be parked."""
        now = self._clock.monotonic()
        for queue in self._queues.values():
            queue.full = self._is_full(queue, now, 0.5 if queue.full else 1.0)
        return frozenset(queue.allowance.group for queue in self._queues.values() if queue.full)

    def _is_full(self, queue: RequestQueue, now: float, share: float = 1.0) -> bool:
        """Whether the last task in a queue would wait too long, or one host would occupy all workers alone."""
        wait = queue.wait_for_last(now)
        crowded = queue.requests >= share * 2 * self._workers and wait > SHORT_WAIT_S
        return crowded or wait > share * self._park_after_s

    def batchable_tasks(self) -> int:
        """Tasks that will be sent in one request with others. They need no room of their own: the more of them, the better."""
        queues = self._queues.values()
        return sum(min(len(queue.tasks), queue.batch_size) for queue in queues if queue.batch_size > 1)

    # -- works that are parked ----------------------------------------------------------------------------------------

    @property
    def parked_works(self) -> int:
        return len(self._parked)

    def note_parked(self, work_id: str, park: Park) -> None:
        self._parked[work_id] = key = park.group, str(park.reason)
        works = self._parked_for[key]
        works.count, works.until = works.count + 1, max(works.until, self._clock.monotonic() + park.seconds)

    def note_claimed(self, work_id: str) -> None:
        if work_id in self._parked:
            self._parked_for[self._parked.pop(work_id)].count -= 1

    def waiting(self) -> list[Waiting]:
        """The hosts that works of this pass wait for, in queues, in pauses or parked; the most works first."""
        now = self._clock.monotonic()
        works: Counter[tuple[str, str]] = Counter()
        left: defaultdict[tuple[str, str], float] = defaultdict(float)
        queues, parked = self._queues.values(), self._parked_for.items()
        waits = [(queue.allowance.group, ITS_TURN, len(queue.tasks), queue.wait_for_last(now)) for queue in queues]
        waits += [(pause.host, str(pause.reason), 1, ready_at - now) for ready_at, _, _, pause in self._pauses]
        waits += [(group, why, p.count, p.until - now) for (group, why), p in parked if group is not None]
        for group, why, count, seconds in waits:
            works[group, why] += count
            left[group, why] = max(left[group, why], seconds)
        return [
            Waiting(group, count, round(left[group, why], 1), why)
            for (group, why), count in works.most_common()
            if count
        ]
