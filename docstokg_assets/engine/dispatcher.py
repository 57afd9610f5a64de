"""One pass over the due works: claims them from the catalog, drives their searches, records how they end.

The engine's parts, each in a module of its own, are what a Scrapy developer knows as scheduler, slots and downloader:
- `scheduler.py`: which request goes next, by limits and clock, and which works are parked;
- `workers.py`: the threads that send requests and advance the searches;
- `driver.py`: runs the generators of a task; `batching.py` and `concurrent_queries.py` combine and split requests;
- `recorder.py`: makes the results durable.

The dispatcher composes them. All scheduling happens in the thread that calls `run`. A pass ends when nothing is due, at its
deadline, at its budget of works, or when it is told to stop; then requests in flight get a grace period and all other works are
given back. A search that finds its host closed is parked until it opens; one whose host is broken tries other copies first.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from docstokg_assets.domain.works import Work
from docstokg_assets.engine.concurrent_queries import ConcurrentQueries, join_subtask, start_subtasks
from docstokg_assets.engine.driver import Next, TaskDriver, internal_error
from docstokg_assets.engine.progress import Progress, Waiting
from docstokg_assets.engine.recorder import Recorder
from docstokg_assets.engine.request_queues import Park, Task
from docstokg_assets.engine.scheduler import Scheduler
from docstokg_assets.engine.search import ResolverPipeline
from docstokg_assets.engine.search_state import SearchState, retry_time
from docstokg_assets.engine.workers import WorkerPool
from docstokg_assets.resolvers.registry import ResolverResult
from resources.catalog.catalog import Catalog
from resources.catalog.claims import Scope, Years
from resources.catalog.rows import Finished, Parked, QueueItem
from resources.clock import Clock
from resources.http.attempts import AttemptLog
from resources.http.client import HttpClient
from resources.http.errors import Interrupted
from resources.http.exchange import Pause, RequestPolicy, Send
from resources.records import DownloadOutcome, Reason

log = logging.getLogger(__name__)

_TICK_S = 0.5
_LOOK_S = 5.0  # so often a pass that waits looks whether others have left it something
_RESCAN_S = 5.0  # so often a claim looks at all due works again, also those that earlier claims have passed over


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
    soon_s: float = 60.0  # a work waits for a broken host that is tried again within this time before it fails
    retry_base_s: float = 3600.0
    max_tries: int = 5


@dataclass(slots=True)
class PassResult:
    """What a pass did. `ended` says why it ended: drained, deadline, budget or stopped."""

    ended: str = "drained"
    finished: int = 0
    saved: int = 0
    html_only: int = 0  # of those saved
    to_retry: int = 0  # of those finished: without success so far, a later pass tries them again
    parked: int = 0
    requests: int = 0
    bytes: int = 0
    elapsed_s: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)

    def count(self, entry: Finished) -> None:
        outcome = entry.outcome
        self.finished += 1
        self.saved += outcome.ok
        self.html_only += outcome.reason is Reason.HTML_ONLY
        self.to_retry += entry.retry_at is not None
        self.bytes += outcome.content_length or 0
        self.outcomes[str(outcome.reason)] += 1


class Dispatcher:
    """One pass. Use it once: `run`."""

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
        next_seq: Callable[[], int],
        stop: threading.Event,
        on_progress: Callable[[Progress], None] = lambda progress: None,
    ) -> None:
        self._client, self._catalog, self._pipeline, self._recorder = client, catalog, pipeline, recorder
        self._settings, self._clock, self._stop, self._on_progress = settings, clock, stop, on_progress
        self._scheduler = Scheduler(client.limiter, clock, workers=settings.workers, park_after_s=settings.park_after_s)
        self._workers = WorkerPool(client, settings.workers, clock)
        self._driver = TaskDriver(client, policies, self._workers.post)
        self._works = Scope(settings.year, settings.of_run)
        self._result = PassResult()
        self._next_seq = next_seq  # of attempts; goes on from pass to pass
        self._open: Counter[str] = Counter()  # works under way, until their commit returned
        self._open_lock = threading.Lock()  # the recorder's thread removes them
        self._started_works: set[str] = set()  # counted only where there is a budget
        self._held_elsewhere = 0  # works that other processes were seen to hold
        self._next_claim = 0.0
        self._left_out: frozenset[str] = frozenset()  # groups at the last claim,
        self._claimed_up_to: tuple[int, str] | None = None  # where it ended,
        self._saw_all = True  # whether that was the end of the due works,
        self._next_rescan = 0.0  # and when a claim starts from the top again
        self._next_look = 0.0  # at what is parked or held, when there is nothing to do

    # -- the pass -----------------------------------------------------------------------------------------------------

    def run(self) -> PassResult:
        started = self._clock.monotonic()
        deadline = float("inf") if self._settings.deadline_s is None else started + self._settings.deadline_s
        heartbeat, tick = started + self._settings.lease_s / 3, started
        self._recorder.done = self._on_recorded
        if self._settings.of_run is not None:
            self._catalog.take_over(self._settings.of_run)
        self._workers.start(self._driver.advance)
        try:
            while not self._is_over(deadline):
                self._claim_works()
                self._send_requests()
                if not self._open and not self._more_will_be_due(deadline):
                    break
                now = self._clock.monotonic()
                wake_at = min(now + _TICK_S, deadline, self._scheduler.next_ready(self._workers.has_room()))
                self._handle_events(max(0.0, wake_at - now))
                now = self._clock.monotonic()
                if now >= heartbeat and self._open:
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
            self._result.parked = self._scheduler.parked_works
            self._on_progress(self.progress())
        return self._result

    def progress(self) -> Progress:
        result, waiting = self._result, self._scheduler.waiting()
        if self._held_elsewhere and not self._open:
            waiting.append(Waiting("another process", self._held_elsewhere, None, "holds them"))
        finished, later = result.finished - result.to_retry, self._scheduler.parked_works + result.to_retry
        hosts = self._workers.active_hosts()
        return Progress(finished, result.saved - result.html_only, later, len(self._open), hosts, tuple(waiting))

    def replace_rules(
        self, pipeline: ResolverPipeline, policies: Mapping[str, RequestPolicy], *, config_hash: str
    ) -> None:
        """Change the rules for searches that begin from now on, and the limits also for those that wait for their turn."""
        self._pipeline, self._driver.policies = pipeline, policies
        self._settings = replace(self._settings, config_hash=config_hash)
        self._scheduler.reassign()

    def _is_over(self, deadline: float) -> bool:
        if self._recorder.failure is not None:
            raise self._recorder.failure
        if self._stop.is_set():
            self._result.ended = "stopped"
        elif self._clock.monotonic() >= deadline:
            self._result.ended = "deadline"
        else:
            return False
        return True

    def _wind_down(self) -> None:
        """No new claims; requests in flight get a grace period, then are cut; everything that waits goes back to the catalog."""

        def handle_events(timeout: float) -> None:
            try:
                self._handle_events(timeout)
            except Exception:
                log.exception("while ending the pass")
            self._give_back_waiting()

        self._give_back_waiting()
        self._workers.shut_down(handle_events)
        self._recorder.flush()
        if self._recorder.failure is None:
            self._catalog.release_owner(self._settings.owner)
            self._catalog.free_groups(self._settings.owner)

    def _give_back_waiting(self) -> None:
        for task, park in self._scheduler.remove_all():
            self._park(task, replace(park, seconds=0.0) if self._result.ended == "stopped" else park)

    # -- claims -------------------------------------------------------------------------------------------------------

    def _claim_works(self) -> None:
        """Claim works while there is room for them. Groups whose queues are full are left out."""
        most = max(64, self._settings.workers * 8)
        room, now = most + self._scheduler.batchable_tasks() - len(self._open), self._clock.monotonic()
        # Not for a few, and not again at once when nothing came: a claim is a write to the database.
        if room < most // 4 or now < self._next_claim:
            return
        if self._settings.max_works is not None:
            room = min(room, self._settings.max_works - len(self._started_works))
            self._result.ended = "budget" if room <= 0 else self._result.ended
        if room <= 0:
            return
        items = self._claim(min(room, 64), now)
        self._next_claim = now if items or not self._saw_all else now + _TICK_S
        for item in items:
            with self._open_lock:
                self._open[item.work_id] += 1
            self._scheduler.note_claimed(item.work_id)
            if self._settings.max_works is not None:
                self._started_works.add(item.work_id)
            self._begin(item)

    def _claim(self, limit: int, now: float) -> list[QueueItem]:
        """Continue behind the last claim until all due works were seen while some groups are left out, so that the many works
        of a slow host are passed over once and not for each claim."""
        left_out, settings = self._scheduler.full_groups(), self._settings
        if not left_out or (self._saw_all and (left_out != self._left_out or now >= self._next_rescan)):
            self._claimed_up_to, self._left_out, self._next_rescan = None, left_out, now + _RESCAN_S
        up_to, lease_s = self._claimed_up_to, settings.lease_s
        claimed = self._catalog.claim_behind(settings.owner, limit, lease_s, self._works, left_out, up_to)
        self._claimed_up_to, self._saw_all = claimed.up_to, claimed.is_end
        return claimed.items

    def _more_will_be_due(self, deadline: float) -> bool:
        """Whether works that are parked, or held by another process, come due before the deadline. Failed ones are not awaited:
        they have their outcome, and a later pass tries them again."""
        if self._settings.max_works is not None and len(self._started_works) >= self._settings.max_works:
            return False
        now = self._clock.monotonic()
        if now < self._next_look:
            return True
        outlook = self._catalog.outlook(self._works)
        self._held_elsewhere, self._next_look = outlook.held, now + (_TICK_S if outlook.due else _LOOK_S)
        if outlook.due or outlook.next_due is None:
            return outlook.due
        left = outlook.next_due - self._catalog.now()
        self._next_look = min(self._next_look, now + max(left, 0.0))
        return left < deadline - now

    # -- scheduling ---------------------------------------------------------------------------------------------------

    def _send_requests(self) -> None:
        """Continue tasks whose pause is over, and hand every request that may go now to a free worker."""
        for task in self._scheduler.resumed():
            self._place(task, self._driver.advance(task, None))
        for task, queue in self._scheduler.turns(self._workers.has_room):
            now = self._clock.monotonic()
            step = self._driver.prepare(task, queue, now)
            if isinstance(step, Send) and (step is task.send or task.batched):
                task.began = now if task.began is None else task.began
                self._workers.submit(task, step, queue.allowance, now - task.since)
            else:  # its host was closed meanwhile
                self._client.limiter.leave(queue.allowance)
                self._place(task, step)

    def _handle_events(self, timeout: float) -> None:
        for event in self._workers.events(timeout):
            self._result.requests += event.sent
            if event.allowance is not None:
                self._scheduler.permit_is_free(event.allowance.group)
            if isinstance(event.step, BaseException) and not isinstance(event.step, Interrupted):
                raise event.step
            self._place(event.task, event.step)

    def _place(self, task: Task, step: Next) -> None:
        """Put a task where its next step makes it wait, or end it."""
        park: Park | None = None
        if isinstance(step, Send):
            park = self._scheduler.enqueue(task, step)
        elif isinstance(step, Pause):
            park = self._scheduler.pause(task, step, may_wait=not self._stop.is_set())
        elif isinstance(step, Interrupted):
            park = Park(0.0, Reason.INTERRUPTED)
        elif isinstance(step, ConcurrentQueries):
            for subtask in start_subtasks(task, step):
                self._place(subtask, self._driver.advance(subtask, None))
        elif task.parent is not None:
            self._on_subtask_done(task.parent, task, step)
        else:
            assert isinstance(step, DownloadOutcome)
            self._finish(task, step)
        if park is not None:
            self._park(task, park)

    def _on_subtask_done(self, parent: Task, subtask: Task, result: ResolverResult | DownloadOutcome | Park) -> None:
        joined = join_subtask(parent, subtask, result)
        if isinstance(joined, DownloadOutcome):
            self._finish(parent, joined)
        elif isinstance(joined, Park):
            self._park(parent, joined)
        elif joined is not None:
            self._place(parent, self._driver.advance(parent, None, joined))

    # -- one work -----------------------------------------------------------------------------------------------------

    def _begin(self, item: QueueItem) -> None:
        work, state, fault = Work(item.work_id, year=item.year), SearchState(), None
        try:
            work = Work.from_json(item.record)
            state = self._pipeline.begin(work, item.progress)
        except Exception:
            fault = internal_error(item.work_id)
        emit, run, owner = self._recorder.record, self._settings.run_id, self._settings.owner
        attempts = AttemptLog(emit, self._clock, run, owner, self._next_seq, item.work_id, item.year)
        task = Task(item, work, state, self._pipeline.search(work, state, attempts), attempts)
        self._place(task, fault or self._driver.advance(task, None))

    def _finish(self, task: Task, outcome: DownloadOutcome) -> None:
        """Record the outcome, with the time of the next try if there is one; or park the work if a broken host opens soon."""
        state, settings, retry_at = task.state, self._settings, None
        if not outcome.ok or outcome.reason is Reason.HTML_ONLY:
            now = self._catalog.now()
            if (broken := state.opens_soon(now, settings.soon_s)) is not None:
                state.waits += 1
                group = self._scheduler.group_of(broken.host) if broken.host else None
                self._park(task, Park(max(0.0, (broken.until or now) - now), broken.reason, group))
                return
            if not outcome.ok:
                retry_at = retry_time(state, now, task.item.tries, settings.retry_base_s, settings.max_tries)
        task.add_active_time(self._clock.monotonic())
        self._recorder.record(
            Finished(
                work_id=task.item.work_id,
                year=task.item.year,
                title=task.work.title,
                doi=task.work.doi,
                outcome=outcome,
                run_id=settings.run_id,
                config_hash=settings.config_hash,
                owner=settings.owner,
                ttfp_ms=state.active_ms if outcome.ok else None,
                requests=state.requests,
                retry_at=retry_at,
                progress=state.to_json() if retry_at is not None else None,
                plan_hash=state.plan_hash or task.item.plan_hash,
                claimed_plan_hash=task.item.plan_hash,
            )
        )

    def _park(self, task: Task, park: Park) -> None:
        """Give a work back to the catalog with what was learnt, until its time has come. A subtask parks its work."""
        for other in task.batched:
            self._park(other, park)
        task.close()
        if park.group is None:
            waits_for = self._scheduler.allowance_of(task.send).group if task.send is not None else task.item.next_group
            park = replace(park, group=waits_for)
        if task.parent is not None:
            self._on_subtask_done(task.parent, task, park)
            return
        task.add_active_time(self._clock.monotonic())
        self._scheduler.note_parked(task.item.work_id, park)
        self._recorder.record(
            Parked(
                work_id=task.item.work_id,
                progress=task.state.to_json(),
                next_group=park.group,
                not_before=self._catalog.now() + park.seconds if park.seconds else 0.0,
                reason=park.reason,
                owner=self._settings.owner,
                plan_hash=task.state.plan_hash or task.item.plan_hash,
                claimed_plan_hash=task.item.plan_hash,
            )
        )

    def _on_recorded(self, entry: Finished | Parked, settled: bool) -> None:
        """Called by the recorder when an entry is durable. Not `settled`: the work is no longer ours, or is due again at once
        because its plan has changed."""
        if isinstance(entry, Finished) and settled:
            self._result.count(entry)
        with self._open_lock:
            self._open[entry.work_id] -= 1
            if self._open[entry.work_id] <= 0:
                del self._open[entry.work_id]
        self._workers.wake()
