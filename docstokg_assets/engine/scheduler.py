"""Decides which request goes next: queues by limit, a heap of pauses, and which works are parked instead of waiting here.

As in Scrapy, each set of limits has its own queue (a "slot"), so that a slow host never blocks a fast one. Unlike in Scrapy, a
queue takes no more tasks than can have their turn soon, one or two of a slow limit, and all slow queues together take no more
than a share of the open works, so that many slow hosts leave room for the others. A task without a place is parked in the catalog
until its turn, and claims leave out groups that are full. Places are assigned again when the limiter reports a longer wait than
expected, as it does when other processes use the same limit. The scheduler never waits and starts nothing; it is for the
dispatcher's thread only.
"""

from __future__ import annotations

import heapq
import itertools
import logging
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass

from docstokg_assets.engine.progress import Waiting
from docstokg_assets.engine.request_queues import SHORT_WAIT_S, Park, RequestQueue, Task, most_open
from resources.clock import Clock, Moment
from resources.http.exchange import Pause, Send
from resources.http.messages import Role
from resources.rate_limit.limiter import Allowance, Limiter
from resources.rate_limit.stores import LimiterUnavailable
from resources.records import ITS_TURN

log = logging.getLogger(__name__)

_LIMITER_PATIENCE_S = 60.0
_MAKE_ROOM_S = 5.0  # in this time slow queues may admit as many tasks as there is room for


@dataclass(slots=True)
class _ParkedWorks:
    """Works of this pass that are parked for the same group and the same reason."""

    count: int = 0
    until: float = 0.0  # by the monotonic clock


class Scheduler:
    def __init__(self, limiter: Limiter, clock: Clock, *, workers: int, park_after_s: float) -> None:
        self._limiter, self._clock, self._workers, self._park_after_s = limiter, clock, workers, park_after_s
        self._most_aside = most_open(workers)  # tasks of slow queues
        self._queues: dict[Allowance, RequestQueue] = {}  # queues with tasks
        self._resting: dict[Allowance, RequestQueue] = {}  # queues without tasks whose next turn is known
        self._no_place: dict[str, RequestQueue] = {}  # by group: queues that refused a task since the last claim
        self._longer_wait: list[RequestQueue] = []  # queues whose wait the limiter has extended since `displaced`
        self._room_until = 0.0  # until then the room for slow queues is assigned
        self._pauses: list[tuple[float, int, Task, Pause]] = []  # heap by the time at which each ends
        self._order = itertools.count()
        self._parked: dict[str, tuple[str | None, str]] = {}  # work id -> (group, reason)
        self._parked_for: defaultdict[tuple[str | None, str], _ParkedWorks] = defaultdict(_ParkedWorks)
        self._limiter_down_since: float | None = None

    # -- tasks that wait ----------------------------------------------------------------------------------------------

    def enqueue(self, task: Task, send: Send) -> Park | None:
        """Let a task wait for its turn to send a request. Without a place for it, returns how to park it."""
        now = self._clock.monotonic()
        task.send, task.since = send, now
        queue = self._queue_for(send)
        aside = self._aside(now) if queue.is_slow(now) else 0
        if self._takes(queue, task, now, aside):
            if aside < self._most_aside or task.began is not None or queue.tasks or task.urgent:
                queue.add(task)
                return None
            # Its turn would be now, but too many tasks of slow queues wait. Claims leave out its group until there is room.
            self._room_until = max(self._room_until, now + _MAKE_ROOM_S) + _MAKE_ROOM_S / self._most_aside
            queue.ready_at = self._room_until
        return self._park_behind(queue, now)

    def put_off(self, group: str | None) -> Park | None:
        """How to park a claimed work before its search begins, if the group of its next request is full."""
        queue = self._no_place.get(group) if group is not None else None
        return self._park_behind(queue, self._clock.monotonic()) if queue is not None else None

    def displaced(self) -> Iterator[tuple[Task, Park]]:
        """Take the tasks whose wait has become longer than expected, and which have no place now."""
        now = self._clock.monotonic()
        queues, self._longer_wait = self._longer_wait, []
        for queue in queues:
            tasks, queue.tasks = queue.tasks, deque()
            aside, displaced = self._aside(now), list[Task]()
            for task in tasks:
                taken = self._takes(queue, task, now, aside + len(queue.tasks))
                (queue.tasks if taken else displaced).append(task)
            for task in displaced:
                yield task, self._park_behind(queue, now)

    def _takes(self, queue: RequestQueue, task: Task, now: float, aside: int) -> bool:
        """Whether a queue has a place for a task. A search in progress goes first: it has used turns of its host already."""
        if task.urgent:
            return max(0.0, queue.ready_at - now) <= self._park_after_s
        if task.began is not None:
            return queue.wait_for_last(now) <= self._park_after_s
        return not self._is_full(queue, now, aside)

    def _park_behind(self, queue: RequestQueue, now: float) -> Park:
        """Park a task behind those that wait in its queue and those that are parked for it."""
        group, wait = queue.allowance.group, queue.wait_for_last(now)
        self._no_place[group] = queue
        parked = self._parked_for[group, ITS_TURN]
        return Park(wait + min(parked.count * queue.interval_s, max(0.0, parked.until - now)), ITS_TURN, group)

    def pause(self, task: Task, pause: Pause, *, may_wait: bool = True) -> Park | None:
        """Let a task wait. If the pause is too long, above all for a task that has sent nothing yet, returns how to park it."""
        if may_wait and pause.seconds <= (SHORT_WAIT_S if pause.untried else self._park_after_s):
            ready_at = self._clock.monotonic() + pause.seconds
            heapq.heappush(self._pauses, (ready_at, next(self._order), task, pause))
            return None
        return Park(pause.seconds, pause.reason, self.group_of(pause.host))

    def resumed(self) -> Iterator[Task]:
        """Take the tasks whose pause is over."""
        while self._pauses and self._pauses[0][0] <= self._clock.monotonic():
            yield heapq.heappop(self._pauses)[2]

    def turns(self, has_room: Callable[[bool], bool], *, more: bool = False) -> Iterator[tuple[Task, RequestQueue]]:
        """Take the tasks that may send now, with permit and tokens, as long as there is room: one from each queue in turn,
        searches under way before new ones. Last come queues whose request could still be joined by more tasks: no worker idles
        for these, and each such request carries more works. The caller gives the permit back, also if it sends nothing.
        `more`: more tasks are about to be enqueued, so that requests that they could join stay here."""
        now, progressed = self._clock.monotonic(), True
        while progressed and has_room(self._has_urgent()):
            progressed = False
            ready = [
                queue
                for queue in self._queues.values()
                if queue.tasks and not queue.busy and queue.ready_at <= now and not (more and queue.can_wait(now))
            ]
            for queue in sorted(ready, key=lambda queue: queue.urgency(now)):
                if not has_room(queue.tasks[0].urgent) or (progressed and queue.can_wait(now)):
                    break
                if self._enter(queue, now):
                    progressed = True
                    yield queue.tasks.popleft(), queue
        for allowance in [a for a, queue in self._queues.items() if not queue.tasks]:
            queue = self._queues.pop(allowance)
            if queue.ready_at > now:
                self._resting[allowance] = queue

    def _has_urgent(self) -> bool:
        return any(queue.tasks[0].urgent for queue in self._queues.values() if queue.tasks)

    def _enter(self, queue: RequestQueue, now: float) -> bool:
        """Take a permit and the tokens, or note when to ask again. While the limiter is unavailable requests stop, and the pass
        fails when it stays unavailable."""
        queue.granted = Moment.now(self._clock)
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
            if wait > SHORT_WAIT_S:
                self._longer_wait.append(queue)
        else:
            queue.entered(now)
        return wait == 0

    def permit_is_free(self, group: str) -> None:
        for queue in self._queues.values():
            if queue.allowance.group == group:
                queue.busy = False

    def next_ready(self, has_room: bool, has_urgent_room: bool = False) -> float:
        """When the next pause ends or, if there is room for a request, the next queue has its turn; infinity if never."""
        times = [self._pauses[0][0]] if self._pauses else []
        waiting = [queue for queue in self._queues.values() if queue.tasks and not queue.busy]
        times += [q.ready_at for q in waiting if has_room or (has_urgent_room and q.tasks[0].urgent)]
        return min(times, default=float("inf"))

    def reassign(self) -> None:
        """Put all waiting tasks into the queues of the limits as they are now, after these were changed."""
        queues, self._queues = self._queues, {}
        self._resting, self._no_place = {}, {}
        for task in [task for queue in queues.values() for task in queue.tasks]:
            assert task.send is not None
            self._queue_for(task.send).tasks.append(task)

    def remove_all(self, works: Set[str] | None = None) -> list[tuple[Task, Park]]:
        """Take all waiting tasks, or those of some works, each with the rest of its wait."""
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
            resting = self._resting.pop(allowance, None)
            queue = self._queues[allowance] = resting if resting is not None else RequestQueue(allowance)
            queue.busy = False
        return queue

    def full_groups(self) -> frozenset[str]:
        """Groups for which no more works should be claimed. A full queue stays full until it is half empty: else a claim would
        bring many works for a single place, and all but one would be parked."""
        now = self._clock.monotonic()
        aside = self._aside(now)
        for queue in self._queues.values():
            queue.full = self._is_full(queue, now, aside, 0.5 if queue.full else 1.0)
        self._resting = {a: queue for a, queue in self._resting.items() if queue.ready_at > now}
        full = [queue for queue in self._queues.values() if queue.full]
        full += [queue for queue in self._resting.values() if queue.ready_at - now > SHORT_WAIT_S]
        self._no_place = {queue.allowance.group: queue for queue in full}
        return frozenset(self._no_place)

    def _is_full(self, queue: RequestQueue, now: float, aside: int, share: float = 1.0) -> bool:
        """Whether the last task in a queue would wait too long, one host would occupy all workers alone, or too many tasks of
        slow queues wait already."""
        wait = queue.wait_for_last(now)
        if wait > share * self._park_after_s:
            return True
        if wait <= SHORT_WAIT_S:
            return False
        most = min(2 * self._workers, queue.in_hand)
        return queue.requests >= share * most or (queue.is_slow(now) and 2 * aside >= self._most_aside)

    def _aside(self, now: float) -> int:
        """The number of tasks in slow queues."""
        return sum(len(queue.tasks) for queue in self._queues.values() if queue.is_slow(now))

    def need_no_room(self) -> int:
        """Open works that take no room from others, up to a limit: those that wait in slow queues or pauses, and those that will
        be sent in one request with others."""
        queues = self._queues.values()
        batched = sum(min(len(queue.tasks), queue.batch_size) for queue in queues if queue.batch_size > 1)
        return batched + min(self._most_aside, self._aside(self._clock.monotonic()) + len(self._pauses))

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
