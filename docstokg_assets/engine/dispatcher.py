"""Drives the searches of many works at once without letting a thread wait: queues by limit, a heap of ready times, and workers
that only ever move bytes.

A queue is a queue of searches whose next request falls under the same limits. A search whose turn is further away than
`park_after_s` goes back to the database with what it has learnt, and claims leave out groups whose queues are full, so a slow
host never stands in the way of a fast one. Nor does a closed or a broken one: a search that finds its host closed is given back
until it opens, one whose host is broken goes on with other copies first. One call of `run` is one pass: it ends when nothing
is due, at its deadline, or when it is told to stop; then transfers in flight get a grace, and everything else is given back.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from queue import Empty, SimpleQueue
from typing import Any

from docstokg_assets.domain.works import Work
from docstokg_assets.engine.progress import Progress, Waiting
from docstokg_assets.engine.recorder import Recorder
from docstokg_assets.engine.request_queues import SHORT_WAIT_S, ParkedFor, RequestQueue, Task
from docstokg_assets.engine.search import (
    PASS_ENDING_ERRORS,
    ConcurrentQueries,
    ResolverPipeline,
    SearchState,
    retry_time,
)
from docstokg_assets.resolvers.registry import ResolverResult
from resources.catalog.catalog import Catalog
from resources.catalog.queue import Years
from resources.catalog.rows import Finished, Parked, QueueItem
from resources.clock import Clock
from resources.http.attempts import AttemptLog
from resources.http.client import HttpClient
from resources.http.errors import HttpError, Interrupted
from resources.http.exchange import Exchange, Pause, Reply, RequestPolicy, Send, Step
from resources.http.messages import Request, Response, Role
from resources.rate_limit.limiter import Allowance
from resources.rate_limit.stores import LimiterUnavailable
from resources.records import ITS_TURN, Classification, DownloadOutcome, Reason

log = logging.getLogger(__name__)

GRACE_S = 5.0
_AFTER_THE_CUT_S = 0.5
_LIMITER_PATIENCE_S = 60.0
_TICK_S = 0.5
_FROM_THE_TOP_S = 5.0  # so often a claim looks at all due works again, also those behind which it went on


@dataclass(frozen=True, slots=True)
class PassSettings:
    workers: int
    run_id: str
    config_hash: str
    owner: str  # unique to this process; holds the leases
    year: Years | None = None  # which works: of a year, or of several,
    of_run: str | None = None  # or of a run
    deadline_s: float | None = None
    max_works: int | None = None
    lease_s: float = 120.0
    park_after_s: float = 60.0
    soon_s: float = 60.0  # a broken host that is tried again so soon is waited for before a work ends without success
    retry_base_s: float = 3600.0
    max_tries: int = 5


@dataclass(slots=True)
class PassResult:
    """What a pass did. `ended` says why it ended: drained, deadline, budget or stopped."""

    ended: str = "drained"
    finished: int = 0
    saved: int = 0
    html_only: int = 0  # of those saved
    to_retry: int = 0  # of those finished, without success so far; a later pass tries them again
    parked: int = 0
    requests: int = 0
    bytes: int = 0
    elapsed_s: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)


End = DownloadOutcome | Interrupted | ResolverResult | ConcurrentQueries
# of the allowance a permit is free again; whether a request was sent
Event = tuple[Task, Allowance | None, Step | End | BaseException, bool]


class Dispatcher:
    """One pass. All scheduling is in the thread that calls `run`; workers send, and advance the search they sent for."""

    def __init__(
        self,
        client: HttpClient,
        catalog: Catalog,
        pipeline: ResolverPipeline,
        recorder: Recorder,
        settings: PassSettings,
        *,
        clock: Clock,
        policies: Mapping[str, RequestPolicy],
        stop: threading.Event,
        on_progress: Callable[[Progress], None] = lambda progress: None,
    ) -> None:
        self._client, self._catalog, self.pipeline, self._recorder = client, catalog, pipeline, recorder
        self._settings, self._clock, self.policies, self._stop = settings, clock, policies, stop
        self._on_progress = on_progress
        self._queues: dict[Allowance, RequestQueue] = {}
        self._pauses: list[tuple[float, int, Task, Pause]] = []
        self._order = itertools.count()
        self._seq = itertools.count(1)
        self._jobs: SimpleQueue[tuple[Task, Send, Allowance, int] | None] = SimpleQueue()
        self._inbox: SimpleQueue[Event | None] = SimpleQueue()  # None: only look again
        self._in_flight: dict[int, str] = {}  # id of task -> host
        self._asked: set[str] = set()  # hosts since progress was last shown
        self._open: Counter[str] = Counter()  # works under way, until their commit returned
        self._open_lock = threading.Lock()  # the recorder takes them off
        self._threads: list[threading.Thread] = []
        self._result = PassResult()
        self._taken_up: set[str] = set()  # counted only where there is a budget
        self._parked: dict[str, tuple[str | None, str]] = {}  # works given back by this pass -> (group, why)
        self._ahead: defaultdict[tuple[str | None, str], ParkedFor] = defaultdict(ParkedFor)
        self._limiter_down_since: float | None = None
        self._claim_again = 0.0
        self._held_elsewhere = 0  # works that other processes were seen to hold
        self._left_out: frozenset[str] = frozenset()  # groups at the last claim,
        self._claimed_up_to: tuple[int, str] | None = None  # where it ended,
        self._from_the_top = 0.0  # and when the next one begins from the top again

    # -- the pass -----------------------------------------------------------------------------------------------------

    def run(self) -> PassResult:
        started = self._clock.monotonic()
        deadline = None if self._settings.deadline_s is None else started + self._settings.deadline_s
        heartbeat = started + self._settings.lease_s / 3
        tick = started
        self._recorder.done = self._recorded
        self._start_workers()
        try:
            while not self._over(deadline):
                self._fill()
                self._launch()
                if not self._open and not self._await_parked(deadline):
                    break
                self._take_events(self._next_wake(deadline))
                now = self._clock.monotonic()
                if now >= heartbeat:
                    self._catalog.heartbeat(self._settings.owner, self._settings.lease_s)
                    heartbeat = now + self._settings.lease_s / 3
                if now >= tick:
                    self._client.limiter.keep_leases()
                    self._on_progress(self.progress())
                    tick = now + _TICK_S
        except BaseException:
            self._stop.set()
            self._result.ended = "stopped"
            raise
        finally:
            self._wind_down()
            self._result.elapsed_s = self._clock.monotonic() - started
            self._result.parked = len(self._parked)
            self._on_progress(self.progress())
        return self._result

    def progress(self) -> Progress:
        hosts = tuple(sorted(self._asked))
        self._asked = set(self._in_flight.values())
        result = self._result
        finished, later = result.finished - result.to_retry, len(self._parked) + result.to_retry
        return Progress(finished, result.saved - result.html_only, later, len(self._open), hosts, self._waited_for())

    def _waited_for(self) -> tuple[Waiting, ...]:
        """Whom the works of this pass wait for: in queues, in pauses, or parked; the most works first."""
        now = self._clock.monotonic()
        works: Counter[tuple[str, str]] = Counter()
        left: defaultdict[tuple[str, str], float] = defaultdict(float)
        queues = self._queues.values()
        waits = [(queue.allowance.group, ITS_TURN, len(queue.tasks), queue.wait_for_last(now)) for queue in queues]
        waits += [(pause.host, str(pause.reason), 1, ready_at - now) for ready_at, _, _, pause in self._pauses]
        waits += [(group, why, p.works, p.until - now) for (group, why), p in self._ahead.items() if group is not None]
        for group, why, count, seconds in waits:
            works[group, why] += count
            left[group, why] = max(left[group, why], seconds)
        counted = [(key, count) for key, count in works.most_common() if count]
        waiting = [Waiting(group, count, round(max(0.0, left[group, why]), 1), why) for (group, why), count in counted]
        if self._held_elsewhere and not self._open:
            waiting.append(Waiting("another process", self._held_elsewhere, None, "holds them"))
        return tuple(waiting)

    def replace_rules(
        self, pipeline: ResolverPipeline, policies: Mapping[str, RequestPolicy], *, config_hash: str
    ) -> None:
        """For searches that begin from now on; those that wait for their turn do so under the limits as they are now."""
        self.pipeline, self.policies = pipeline, policies
        self._settings = replace(self._settings, config_hash=config_hash)
        waiting = [task for queue in self._queues.values() for task in queue.tasks]
        self._queues.clear()
        for task in waiting:
            assert task.send is not None
            self._queue_for(task.send).tasks.append(task)

    def _over(self, deadline: float | None) -> bool:
        if self._recorder.failure is not None:
            raise self._recorder.failure
        if self._stop.is_set():
            self._result.ended = "stopped"
            return True
        if deadline is not None and self._clock.monotonic() >= deadline:
            self._result.ended = "deadline"
            return True
        return False

    def _fill(self) -> None:
        """Claim works while there is room for them. Groups whose queues are full are left out."""
        most = max(64, self._settings.workers * 8)
        room, now = most + self._joinable() - len(self._open), self._clock.monotonic()
        # Not for a few, and not again at once when nothing came: a claim is a write to the database.
        if room < most // 4 or now < self._claim_again:
            return
        if self._settings.max_works is not None:
            room = min(room, self._settings.max_works - len(self._taken_up))
            self._result.ended = "budget" if room <= 0 else self._result.ended
        if room <= 0:
            return
        items = self._claim(min(room, 64), now)
        self._claim_again = now if items else now + _TICK_S
        for item in items:
            self._take_up(item)
            self._begin(item)

    def _claim(self, limit: int, now: float) -> list[QueueItem]:
        """Goes on behind the last claim while the same groups are left out: a hundred thousand works of a slow host are walked
        over once, not for each claim."""
        left_out = self._full_groups(now)
        if left_out != self._left_out or not left_out or now >= self._from_the_top:
            self._claimed_up_to, self._left_out, self._from_the_top = None, left_out, now + _FROM_THE_TOP_S
        items = self._catalog.claim(
            self._settings.owner,
            limit,
            self._settings.lease_s,
            year=self._settings.year,
            run_id=self._settings.of_run,
            exclude_groups=left_out,
            after=self._claimed_up_to,
        )
        if items:
            self._claimed_up_to = items[-1].priority, items[-1].work_id
        return items

    def _take_up(self, item: QueueItem) -> None:
        with self._open_lock:
            self._open[item.work_id] += 1
        if item.work_id in self._parked:
            self._ahead[self._parked.pop(item.work_id)].works -= 1
        if self._settings.max_works is not None:
            self._taken_up.add(item.work_id)

    def _full_groups(self, now: float) -> frozenset[str]:
        """A queue that was full is so until it is half empty: for every single place a claim would bring many works, and all
        but one would have to go back."""
        for queue in self._queues.values():
            queue.full = self._is_full(queue, now, 0.5 if queue.full else 1.0)
        return frozenset(queue.allowance.group for queue in self._queues.values() if queue.full)

    def _is_full(self, queue: RequestQueue, now: float, share: float = 1.0) -> bool:
        """A queue whose last search waits long, or that holds enough for all workers, takes no more: what is under way is
        bounded, and one host must not fill it alone."""
        wait = queue.wait_for_last(now)
        crowded = queue.requests >= share * 2 * self._settings.workers and wait > SHORT_WAIT_S
        return crowded or wait > share * self._settings.park_after_s

    def _await_parked(self, deadline: float | None) -> bool:
        """Whether works that are parked, or held by another process, come due before this pass must end. Failed ones are not
        waited for: they have their outcome, and a later pass tries them again."""
        if self._settings.max_works is not None and len(self._taken_up) >= self._settings.max_works:
            return False
        counts = self._catalog.queue_counts(self._settings.year, self._settings.of_run)
        if counts.queued_due:
            return True
        self._held_elsewhere = counts.leased
        if counts.parked + counts.leased == 0:
            return False
        due = self._catalog.next_due(self._settings.year, self._settings.of_run)
        left = None if deadline is None else deadline - self._clock.monotonic()
        return due is not None and (left is None or due - self._catalog.now() < left)

    # -- scheduling ---------------------------------------------------------------------------------------------------

    def _launch(self) -> None:
        """Hand out every step that may go now to workers that are free, one from each queue: searches that are under way before
        new ones, and last those that others may still join. No worker idles for these, and each takes more works along."""
        while self._pauses and self._pauses[0][0] <= self._clock.monotonic():
            task = heapq.heappop(self._pauses)[2]
            self._place(task, self._advance(task, None))
        now = self._clock.monotonic()  # behind all that were placed
        while len(self._in_flight) < self._settings.workers:
            ready = [x for x in self._queues.values() if x.tasks and not x.busy and x.ready_at <= now]
            progressed = False
            for queue in sorted(ready, key=lambda queue: queue.urgency(now)):
                if len(self._in_flight) >= self._settings.workers or (progressed and queue.lets_others_go(now)):
                    break
                progressed = self._send_first(queue, now) or progressed
            if not progressed:
                break
        for allowance in [a for a, queue in self._queues.items() if not queue.tasks and queue.ready_at <= now]:
            del self._queues[allowance]

    def _send_first(self, queue: RequestQueue, now: float) -> bool:
        try:
            wait = self._client.limiter.enter(queue.allowance)
        except LimiterUnavailable as error:
            self._limiter_down(now, error)
            queue.ready_at = now + 1.0
            return False
        self._limiter_down_since = None
        if wait is None:
            queue.busy = True
            return False
        if wait > 0:
            queue.ready_at = now + wait
            return False
        task = queue.tasks.popleft()
        step = self._join(task, queue, now)
        if not isinstance(step, Send) or not (step is task.send or task.batched):  # its host was closed meanwhile
            self._client.limiter.leave(queue.allowance)
            self._place(task, step)
            return True
        task.began = now if task.began is None else task.began
        self._in_flight[id(task)] = step.host
        self._asked.add(step.host)
        waited_s = max(0.0, now - task.since)  # it may have been placed since `now` was read
        self._jobs.put((task, step, queue.allowance, round(waited_s * 1000)))
        return True

    # -- several works in one request ---------------------------------------------------------------------------------

    def _joinable(self) -> int:
        """Searches that wait to be asked for with others take nobody's place: the more of them, the fewer requests."""
        return sum(min(len(queue.tasks), queue.at_once) for queue in self._queues.values() if queue.at_once > 1)

    def _join(self, task: Task, queue: RequestQueue, now: float) -> Step | End:
        """The request whose turn has come takes with it all that wait behind it for the same endpoint. Nobody waits for more to
        come, and what was sent once keeps to those that it was sent for, so that tries are counted."""
        assert task.send is not None
        request, task.batchable = task.batchable, None
        batchable = request.batchable if request is not None else None
        if request is None or batchable is None:
            return task.send
        items: dict[str, None] = {batchable.item: None}
        others: list[Task] = []
        for other in queue.tasks:
            asked = other.batchable.batchable if other.batchable is not None else None
            if asked is not None and asked.build == batchable.build and len(items) < batchable.most:
                items[asked.item] = None
                others.append(other)
        if not others:
            return task.send
        task.batchable = request
        for one in (task, *others):
            if one.exchange is not None:
                one.exchange.close()
            one.alone, one.exchange, one.batchable = one.batchable, None, None
            one.began = now if one.began is None else one.began
        taken = {id(other) for other in others}
        queue.tasks = deque(left for left in queue.tasks if id(left) not in taken)
        task.batched, task.items = others, tuple(items)
        whole = replace(batchable.build(task.items), resolver=request.resolver, tier=request.tier, cache=False)
        task.exchange = self._exchange(whole, _for_all(task.log, [other.item.work_id for other in others]))
        return self._advance(task, None)

    def _share(self, task: Task, answer: Response | HttpError) -> Response | HttpError:
        """What a batchable request brought goes to all for whom it was sent, a failure too."""
        if isinstance(answer, Response) and task.batched:
            answer = replace(answer, items=task.items)
        others, task.batched = task.batched, []
        for other in others:
            self._go_on(other, answer)
        return answer

    def _part(self, task: Task) -> None:
        """Those that batched a request go on alone: one item that is refused must not cost the others their answer."""
        others, task.batched = task.batched, []
        for other in others:
            self._retry_alone(other)
            self._go_on(other)

    def _retry_alone(self, task: Task) -> None:
        assert task.alone is not None
        task.exchange = self._exchange(task.alone, task.log)

    def _go_on(self, other: Task, feed: Response | HttpError | None = None) -> None:
        step: Step | End | BaseException
        try:
            step = self._advance(other, None, feed)
        except BaseException as error:  # the dispatcher raises it
            step = error
        self._inbox.put((other, None, step, False))

    def _limiter_down(self, now: float, error: LimiterUnavailable) -> None:
        """Nothing goes out unthrottled; the pass fails when the limiter does not come back."""
        if self._limiter_down_since is None:
            log.warning("requests stop: %s", error)
            self._limiter_down_since = now
        elif now - self._limiter_down_since > _LIMITER_PATIENCE_S:
            raise error

    def _place(self, task: Task, step: Step | End) -> None:
        """Put a search where its next step makes it wait, or end it."""
        now = self._clock.monotonic()
        if isinstance(step, ConcurrentQueries):
            self._start_subtasks(task, step)
        elif isinstance(step, ResolverResult) or (task.parent is not None and isinstance(step, DownloadOutcome)):
            assert task.parent is not None
            self._on_subtask_done(task, task.parent, step)
        elif isinstance(step, DownloadOutcome):
            self._finish(task, step)
        elif isinstance(step, Interrupted):
            self._park(task, 0.0, Reason.INTERRUPTED)
        elif isinstance(step, Pause):
            longest = SHORT_WAIT_S if step.untried else self._settings.park_after_s
            if step.seconds > longest or self._stop.is_set():
                self._park(task, step.seconds, step.reason, self._group_of(step.host))
            else:
                heapq.heappush(self._pauses, (now + step.seconds, next(self._order), task, step))
        else:
            task.send, task.since = step, now
            queue = self._queue_for(step)
            if self._is_full(queue, now):
                ahead = self._ahead[queue.allowance.group, ITS_TURN].works * queue.allowance.interval_s
                self._park(task, queue.wait_for_last(now) + ahead, ITS_TURN)
            else:
                queue.tasks.append(task)

    def _start_subtasks(self, task: Task, together: ConcurrentQueries) -> None:
        """One search goes several ways at once. Each way is a task of its own, so that its turns and pauses are too."""
        task.subtasks = [
            Task(task.item, task.work, SearchState(), question, task.log, parent=task)
            for question in together.questions
        ]
        for subtask in list(task.subtasks):
            self._place(subtask, self._advance(subtask, None))

    def _on_subtask_done(self, subtask: Task, parent: Task, result: ResolverResult | DownloadOutcome) -> None:
        """The last one to come back lets the search go on, or wait if any must wait."""
        subtask.result = result
        subtasks = parent.subtasks
        if any(one.result is None for one in subtasks):
            return
        parent.subtasks = []
        parent.state.requests += sum(one.state.requests for one in subtasks)
        parent.began = min((one.began for one in (parent, *subtasks) if one.began is not None), default=None)
        held_up = [(one.held_up, one) for one in subtasks if one.held_up is not None]
        failed = [one.result for one in subtasks if isinstance(one.result, DownloadOutcome)]
        if failed:
            self._finish(parent, failed[0])
        elif held_up:
            (seconds, reason), last = max(held_up, key=lambda pair: pair[0][0])
            parent.send = last.send
            self._park(parent, seconds, reason)
        else:
            self._place(parent, self._advance(parent, None, tuple(one.result for one in subtasks)))

    def _queue_for(self, send: Send) -> RequestQueue:
        allowance = self._client.limiter.policy_for(send.host, str(send.role), send.resolver, send.min_interval_s)
        queue = self._queues.get(allowance)
        if queue is None:
            queue = self._queues[allowance] = RequestQueue(allowance)
        return queue

    def _group_of(self, host: str) -> str:
        return self._client.limiter.policy_for(host, str(Role.ARTIFACT)).group

    def _next_wake(self, deadline: float | None) -> float:
        now = self._clock.monotonic()
        times = [now + _TICK_S]
        if self._pauses:
            times.append(self._pauses[0][0])
        if len(self._in_flight) < self._settings.workers:
            times += [queue.ready_at for queue in self._queues.values() if queue.tasks and not queue.busy]
        if deadline is not None:
            times.append(deadline)
        return max(0.0, min(times) - now)

    def _take_events(self, timeout: float) -> None:
        try:
            event = self._inbox.get(timeout=timeout) if timeout > 0 else self._inbox.get_nowait()
        except Empty:
            return
        self._handle(event)
        while True:
            try:
                self._handle(self._inbox.get_nowait())
            except Empty:
                return

    def _handle(self, event: Event | None) -> None:
        if event is None:
            return
        task, allowance, step, sent = event
        self._result.requests += sent
        self._in_flight.pop(id(task), None)
        for queue in self._queues.values():
            if allowance is not None and queue.allowance.group == allowance.group:
                queue.busy = False
        if isinstance(step, BaseException) and not isinstance(step, Interrupted):
            raise step
        self._place(task, step)

    # -- one work -----------------------------------------------------------------------------------------------------

    def _begin(self, item: QueueItem) -> None:
        work, state, fault = Work(item.work_id, year=item.year), SearchState(), None
        try:
            work = Work.from_json(item.record)
            state = self.pipeline.begin(work, item.progress)
        except Exception:
            fault = _internal_error(item)
        attempts = AttemptLog(
            self._recorder.record,
            self._clock,
            self._settings.run_id,
            self._settings.owner,
            lambda: next(self._seq),
            item.work_id,
            item.year,
        )
        search = self.pipeline.search(work, state, attempts)
        task = Task(item, work, state, search, attempts)
        self._place(task, fault or self._advance(task, None))

    def _advance(self, task: Task, reply: Reply | HttpError | None, feed: Any = None) -> Step | End:
        """Run the generators until they need the outside again, or are done. Faults of ours cost one work, not the run. `feed` is
        for a search whose request another one has sent."""
        try:
            return self._run_generators(task, reply, feed)
        except Interrupted as error:
            return error
        except PASS_ENDING_ERRORS:
            raise
        except Exception:
            outcome = _internal_error(task.item, task.state.chain)
            self._part(task)
            return outcome

    def _run_generators(self, task: Task, reply: Reply | HttpError | None, feed: Any) -> Step | End:
        while True:
            if task.exchange is not None:
                try:
                    if isinstance(reply, HttpError):
                        return task.exchange.throw(reply)
                    return task.exchange.send(reply)
                except StopIteration as done:
                    feed = done.value
                except HttpError as error:
                    feed = error
                if task.batched and len(task.items) > 1 and _is_refused(feed, task.alone):
                    self._part(task)
                    self._retry_alone(task)
                    reply = None
                    continue
                feed = self._share(task, feed)
            try:
                request = task.search.throw(feed) if isinstance(feed, HttpError) else task.search.send(feed)
            except StopIteration as done:
                end: End = done.value
                return end
            if isinstance(request, ConcurrentQueries):
                task.exchange = task.batchable = None
                return request
            task.batchable = request if request.batchable is not None else None
            task.exchange, reply = self._exchange(request, task.log), None

    def _exchange(self, request: Request, attempts: AttemptLog) -> Exchange:
        return self._client.exchange(request, attempts, self.policies.get(request.resolver or ""), patient=False)

    def _finish(self, task: Task, outcome: DownloadOutcome) -> None:
        state, retry_at = task.state, None
        if not outcome.ok or outcome.reason is Reason.HTML_ONLY:
            now = self._catalog.now()
            if (broken := state.opens_soon(now, self._settings.soon_s)) is not None:
                state.waits += 1
                seconds, host = broken.until - now if broken.until else 0.0, broken.host
                self._park(task, max(0.0, seconds), broken.reason, self._group_of(host) if host else None)
                return
            if not outcome.ok:
                retry_at = retry_time(
                    state, now, task.item.tries, self._settings.retry_base_s, self._settings.max_tries
                )
        self._add_active_time(task)
        self._recorder.record(
            Finished(
                work_id=task.item.work_id,
                year=task.item.year,
                title=task.work.title,
                doi=task.work.doi,
                outcome=outcome,
                run_id=self._settings.run_id,
                config_hash=self._settings.config_hash,
                owner=self._settings.owner,
                ttfp_ms=state.active_ms if outcome.ok else None,
                requests=state.requests,
                retry_at=retry_at,
                progress=state.to_json() if retry_at is not None else None,
                plan_hash=state.plan_hash or task.item.plan_hash,
                claimed_plan_hash=task.item.plan_hash,
            )
        )

    def _add_active_time(self, task: Task) -> None:
        if task.began is not None:
            task.state.active_ms += round((self._clock.monotonic() - task.began) * 1000)

    def _count(self, outcome: DownloadOutcome) -> None:
        result = self._result
        result.finished += 1
        result.saved += outcome.ok
        result.html_only += outcome.reason is Reason.HTML_ONLY
        result.bytes += outcome.content_length or 0
        result.outcomes[str(outcome.reason)] += 1

    def _park(self, task: Task, seconds: float, reason: str, group: str | None = None) -> None:
        """Back to the database, with what was learnt; asked again when its time has come."""
        for other in task.batched:
            self._park(other, seconds, reason, group)
        send, state = task.send, task.state
        task.search.close()
        if task.exchange is not None:
            task.exchange.close()
        if task.parent is not None:
            task.held_up = (seconds, reason)
            self._on_subtask_done(task, task.parent, ResolverResult())
            return
        self._add_active_time(task)
        if group is None:
            group = self._queue_for(send).allowance.group if send is not None else task.item.next_group
        self._parked[task.item.work_id] = key = group, str(reason)
        ahead = self._ahead[key]
        ahead.works, ahead.until = ahead.works + 1, max(ahead.until, self._clock.monotonic() + seconds)
        self._recorder.record(
            Parked(
                work_id=task.item.work_id,
                progress=state.to_json(),
                next_group=group,
                not_before=self._catalog.now() + seconds if seconds else 0.0,
                reason=reason,
                owner=self._settings.owner,
                plan_hash=state.plan_hash,
                claimed_plan_hash=task.item.plan_hash,
            )
        )

    def _recorded(self, entry: Finished | Parked, settled: bool) -> None:
        """Called by the recorder when an entry is durable. Not `settled`: the work is no longer ours, or is due again at once
        because its plan has changed."""
        if isinstance(entry, Finished) and settled:
            self._count(entry.outcome)
            self._result.to_retry += entry.retry_at is not None
        with self._open_lock:
            self._open[entry.work_id] -= 1
            if self._open[entry.work_id] <= 0:
                del self._open[entry.work_id]
        self._inbox.put(None)

    # -- workers ------------------------------------------------------------------------------------------------------

    def _start_workers(self) -> None:
        for number in range(self._settings.workers):
            thread = threading.Thread(target=self._work, name=f"worker-{number:02}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            task, send, allowance, waited_ms = job
            reply: Reply | HttpError | None
            try:
                reply = self._client.send(send, allowance, waited_ms)
            except HttpError as error:
                reply = error
            except BaseException as error:  # the dispatcher raises it
                self._client.limiter.leave(allowance)
                self._inbox.put((task, allowance, error, False))
                continue
            self._client.limiter.leave(allowance)
            sent = reply is not None  # else the host was closed while this waited
            task.state.requests += sent
            step: Step | End | BaseException
            try:
                step = self._advance(task, reply)
            except BaseException as error:
                step = error
            self._inbox.put((task, allowance, step, sent))

    def _wind_down(self) -> None:
        """No new claims; transfers in flight get a grace, then are cut; everything that waits goes back to the database."""
        self._give_back_waiting()
        end = self._clock.monotonic() + GRACE_S
        cut = False
        while self._in_flight:
            left = end - self._clock.monotonic()
            if left <= 0 and not cut:
                self._client.wire.interrupt()
                cut, end = True, self._clock.monotonic() + _AFTER_THE_CUT_S
            elif left <= 0:
                break
            try:
                self._take_events(max(0.05, min(left, 0.25)))
            except Exception:
                log.exception("while ending the pass")
            self._give_back_waiting()
        for _ in self._threads:
            self._jobs.put(None)
        self._recorder.flush()
        if self._recorder.failure is None:
            self._catalog.release_owner(self._settings.owner)
            self._catalog.free_groups(self._settings.owner)

    def _give_back_waiting(self) -> None:
        now = self._clock.monotonic()
        for queue in list(self._queues.values()):
            for position, task in enumerate(list(queue.tasks)):
                wait = max(0.0, queue.ready_at - now) + position * queue.allowance.interval_s
                self._park(task, 0.0 if self._result.ended == "stopped" else wait, ITS_TURN)
            queue.tasks.clear()
        for ready_at, _, task, pause in self._pauses:
            self._park(task, 0.0 if self._result.ended == "stopped" else max(0.0, ready_at - now), pause.reason)
        self._pauses.clear()


def _is_refused(answer: Response | HttpError, asked: Request | None) -> bool:
    """Whether a request for many may have failed for what one of them is; not for who asks, or how often."""
    if not isinstance(answer, Response) or not 400 <= answer.status < 500 or answer.status in (401, 403, 429):
        return False
    return asked is None or asked.batchable is None or not asked.batchable.is_for_all(answer)


def _internal_error(item: QueueItem, chain: Sequence[str] = ()) -> DownloadOutcome:
    """How a work ends when our own code failed; to be called where the error is at hand."""
    log.exception("the search for %s failed; it ends as %s", item.work_id, Reason.INTERNAL_ERROR)
    return DownloadOutcome(False, None, Classification.ERROR, Reason.INTERNAL_ERROR, fallback_chain=tuple(chain))


def _for_all(log: AttemptLog, others: Sequence[str]) -> AttemptLog:
    """Each attempt says for how many works it was made, and for which besides its own."""
    told = {"works": len(others) + 1, "also_for": list(others)}
    return replace(log, emit=lambda record: log.emit(replace(record, extra={**record.extra, **told})))
