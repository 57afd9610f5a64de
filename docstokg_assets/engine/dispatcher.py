"""One pass over the due works: claims them from the catalog, drives their searches, records how they end.

The engine's parts, each in a module of its own, are what a Scrapy developer knows as scheduler, slots and downloader:
- `claims.py`: which due works are taken next;
- `scheduler.py`: which request goes next, by limits and clock, and which works are parked;
- `workers.py`: the threads that send requests and advance the searches;
- `driver.py`: runs the generators of a task; `batching.py` and `concurrent_queries.py` combine and split requests;
- `recorder.py`: makes the results durable.

The dispatcher composes them. All scheduling happens in the thread that calls `run`. A pass ends when nothing is due, at its
deadline, at its maximum number of works, or when `stop` is set; then requests in flight get a grace period and all other works
are given back. A search that finds its host closed is parked until it opens; one whose host is broken tries other copies first.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from docstokg_assets.domain.works import Work
from docstokg_assets.engine.claims import TICK_S, Claims, UrgentClaims, WorkLeases
from docstokg_assets.engine.concurrent_queries import ConcurrentQueries, join_subtask, start_subtasks
from docstokg_assets.engine.driver import Next, TaskDriver, internal_error
from docstokg_assets.engine.entries import RecordedBy, finished_entry, parked_entry
from docstokg_assets.engine.open_works import OpenWorks
from docstokg_assets.engine.outage import OutageDetector
from docstokg_assets.engine.progress import ANOTHER_PROCESS, PassResult, Progress, Waiting
from docstokg_assets.engine.recorder import Recorder, Settled
from docstokg_assets.engine.request_queues import Park, Task, most_open
from docstokg_assets.engine.scheduler import Scheduler
from docstokg_assets.engine.search import ResolverPipeline
from docstokg_assets.engine.search_state import NextTry, SearchState
from docstokg_assets.engine.workers import WorkerPool
from docstokg_assets.resolvers.registry import ResolverResult
from resources.catalog.catalog import Catalog
from resources.catalog.rows import Finished, QueueItem
from resources.http.attempts import AttemptLog
from resources.http.client import HttpClient
from resources.http.errors import Interrupted
from resources.http.exchange import Pause, RequestPolicy, Send
from resources.records import DownloadOutcome, Reason
from resources.scope import WorkScope

log = logging.getLogger(__name__)

LOOK_S = 5.0
_BEGIN_AT_ONCE = 8  # searches that begin before events are handled and requests sent again
_TAKEN_OVER = Park(0.0, Reason.INTERRUPTED)


class Dispatcher:
    """One pass. Use it once: `run`."""

    def __init__(
        self,
        client: HttpClient,
        catalog: Catalog,
        pipeline: ResolverPipeline,
        recorder: Recorder,
        scope: WorkScope,
        *,
        workers: int,
        run_id: str,
        config_hash: str,
        policies: Mapping[str, RequestPolicy],
        next_seq: Callable[[], int],
        stop: threading.Event,
        on_progress: Callable[[Progress], None],
        look_s: float = LOOK_S,
    ) -> None:
        """`look_s`: interval at which an idle pass looks for works that other processes have given back."""
        owner, settings, clock = pipeline.owner, pipeline.settings, client.clock
        self._client, self._catalog, self._pipeline, self._recorder = client, catalog, pipeline, recorder
        self._owner, self._by = owner, RecordedBy(run_id, owner, config_hash)
        self._clock, self._stop, self._on_progress = clock, stop, on_progress
        self._scheduler = Scheduler(client.limiter, clock, workers=workers, park_after_s=settings.park_after_s)
        self._works = scope
        take = partial(catalog.claim, owner, lease_s=settings.lease_s, scope=self._works)
        self._claims = Claims(take, self._scheduler, client.hosts, clock)
        self._urgent_claims = UrgentClaims(take, scope, clock, workers)
        self._workers, self._most_open = WorkerPool(client, workers, clock), most_open(workers)
        self._driver = TaskDriver(client, policies, self._workers.post)
        self._network = OutageDetector(client.why_unreachable, clock, self._workers.wake)
        self._result = PassResult()
        self._look_s = look_s
        self._next_seq = next_seq  # numbers attempts, over all passes
        self._open = OpenWorks()
        self._leases = WorkLeases(catalog, owner, settings.lease_s, clock)
        self._taken_over: set[str] = set()  # works in progress here that another process has claimed since
        self._max_works: int | None = None
        self._started_works: set[str] = set()  # counted only where there is a maximum
        self._held_elsewhere, self._next_look = 0, 0.0  # works seen held by others; when an idle pass looks again

    # -- the pass -----------------------------------------------------------------------------------------------------

    def run(self, deadline_s: float | None, max_works: int | None, keep_on: bool = False) -> PassResult:
        """`keep_on`: do not end when nothing is due."""
        started = tick = self._clock.monotonic()
        deadline = float("inf") if deadline_s is None else started + deadline_s
        self._recorder.done, self._max_works = self._on_recorded, max_works
        if self._works.run_id is not None:
            self._catalog.take_over(self._works.run_id)
        self._workers.start(self._driver.advance)
        try:
            while not self._is_over(deadline):
                self._keep_leases()
                self._claim_works()
                self._start(self._open.take_claimed(_BEGIN_AT_ONCE))  # the workers wait for no more than these
                self._send_requests()
                if not keep_on and not self._open and not self._more_will_be_due(deadline):
                    break
                now = self._clock.monotonic()
                rooms = self._workers.has_room(), self._workers.has_room(urgent=True)
                wake_at = min(now + TICK_S, deadline, self._scheduler.next_ready(*rooms))
                wake_at = now if self._open.claimed else wake_at
                self._handle_events(max(0.0, wake_at - now))
                now = self._clock.monotonic()
                if now >= tick:
                    self._on_progress(self.progress())
                    tick = now + TICK_S
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
            waiting.append(Waiting(ANOTHER_PROCESS, self._held_elsewhere, None, "holds them"))
        finished, later = result.finished - result.to_retry, self._scheduler.parked_works + result.to_retry
        now = len(self._open), self._workers.active_hosts(), tuple(waiting)
        return Progress(finished, result.saved - result.html_only, later, *now)

    def wake(self) -> None:
        """Look for urgent items now. Can be called from any thread."""
        self._urgent_claims.next_at = 0.0
        self._workers.wake()

    def replace_rules(
        self, pipeline: ResolverPipeline, policies: Mapping[str, RequestPolicy], *, config_hash: str
    ) -> None:
        """Change the rules for searches that begin from now on, and the limits also for those that wait for their turn."""
        self._pipeline, self._driver.policies = pipeline, policies
        self._by = replace(self._by, config_hash=config_hash)
        self._scheduler.reassign()

    def _is_over(self, deadline: float) -> bool:
        if self._recorder.failure is not None:
            raise self._recorder.failure
        self._network.check()
        self._finish_released()
        ended = "stopped" if self._stop.is_set() else "deadline" if self._clock.monotonic() >= deadline else None
        self._result.ended = ended or self._result.ended
        return ended is not None

    def _finish_released(self) -> None:
        for task, outcome in self._network.released():
            self._finish(task, outcome)

    def _wind_down(self) -> None:
        """Give all waiting works back to the catalog; requests in flight get a grace period, then are cut."""

        def handle_events(timeout: float) -> None:
            try:
                self._handle_events(timeout)
            except Exception:
                log.exception("while ending the pass")
            self._give_back_waiting()

        self._give_back_waiting()
        self._finish_released()
        self._workers.shut_down(handle_events)
        self._recorder.flush()
        if self._recorder.failure is None:
            self._catalog.release_owner(self._owner)
            self._client.limiter.free_leases()
            self._catalog.free_groups(self._owner)

    def _give_back_waiting(self) -> None:
        for task, park in self._scheduler.remove_all():
            self._park(task, replace(park, seconds=0.0) if self._result.ended == "stopped" else park)

    # -- claims -------------------------------------------------------------------------------------------------------

    def _keep_leases(self) -> None:
        """Renew the leases when it is time; stop working on works that another process has taken over meanwhile."""
        if not self._leases.are_due():
            return
        held = self._leases.renew()
        works = self._open.ids()
        if unknown := held - works:  # claimed in a transaction whose answer was lost
            self._catalog.release_owner(self._owner, unknown)
        self._taken_over = works - held
        if not self._taken_over:
            return
        waiting = self._scheduler.remove_all(self._taken_over)
        if waiting:
            log.warning("%d works were taken over by another process, because this one stood still", len(waiting))
        for task, _ in waiting:
            self._park(task, _TAKEN_OVER)  # the catalog refuses it
        for item in self._open.drop_claimed(self._taken_over):
            self._record_parked(item, _TAKEN_OVER, None)
        self._recorder.flush()  # before the same works can be claimed again

    def _claim_works(self) -> None:
        """Claim urgent items at once, others while there is room for them."""
        self._start(self._note_open(self._urgent_claims.claim(self._open)))
        # A claim is a write to the database: not for a few works, and not at once after one that found none.
        if self._open.claimed or self._clock.monotonic() < self._claims.next_at:
            return
        room = self._most_open + self._scheduler.need_no_room() - len(self._open)
        if room < self._most_open // 4:
            return
        if self._max_works is not None:
            room = min(room, self._max_works - len(self._started_works))
            self._result.ended = "budget" if room <= 0 else self._result.ended
        if room <= 0:
            return
        self._open.claimed.extend(self._note_open(self._claims.claim(min(room, 64))))

    def _note_open(self, items: Sequence[QueueItem]) -> Sequence[QueueItem]:
        self._open.add(items)
        self._taken_over.difference_update(item.work_id for item in items)
        return items

    def _start(self, items: Sequence[QueueItem]) -> None:
        at = 0.0
        for item in items:
            self._scheduler.note_claimed(item.work_id)
            park = self._scheduler.put_off(item.next_group)
            if park is None or self._urgent_claims.is_urgent(item):
                self._started_works |= {item.work_id} if self._max_works is not None else set()
                self._begin(item)
            else:  # without starting a search: a claim can bring many works of one slow host
                at = at or self._catalog.now()
                self._record_parked(item, park, at)

    def _more_will_be_due(self, deadline: float) -> bool:
        """Whether parked works, or works that another process holds, come due before the deadline. Failed works are not waited
        for: they have an outcome, and a later pass tries them again."""
        if self._max_works is not None and len(self._started_works) >= self._max_works:
            return False
        if (now := self._clock.monotonic()) < self._next_look:
            return True
        outlook = self._catalog.outlook(self._works)
        self._held_elsewhere, self._next_look = outlook.held, now + (TICK_S if outlook.due else self._look_s)
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
        for task, queue in self._scheduler.turns(self._may_send, more=bool(self._open.claimed)):
            now = self._clock.monotonic()
            step = self._driver.prepare(task, queue, now)
            if isinstance(step, Send) and (step is task.send or task.batched):
                task.began = now if task.began is None else task.began
                self._workers.submit(task, step, queue.allowance, now - task.since, queue.granted)
            else:  # its host was closed meanwhile
                self._client.limiter.leave(queue.allowance)
                self._place(task, step)
        at = 0.0
        for task, park in self._scheduler.displaced():
            at = at or self._catalog.now()
            self._park(task, park, at)

    def _may_send(self, urgent: bool = False) -> bool:
        return self._workers.has_room(urgent) and not self._leases.are_in_doubt() and not self._network.suspected

    def _handle_events(self, timeout: float) -> None:
        for event in self._workers.events(timeout):
            self._result.requests += event.sent
            self._network.observe(event)
            if event.allowance is not None:
                self._scheduler.permit_is_free(event.allowance.group)
            if isinstance(event.step, BaseException) and not isinstance(event.step, Interrupted):
                raise event.step
            self._place(event.task, event.step)

    def _place(self, task: Task, step: Next) -> None:
        """Put a task where its next step makes it wait, or end it."""
        park: Park | None = None
        if task.item.work_id in self._taken_over and isinstance(step, Send | Pause | ConcurrentQueries):
            park = _TAKEN_OVER
        elif isinstance(step, Send):
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
        if isinstance(joined, Park):
            self._park(parent, joined)
        elif joined is not None:
            end = joined if isinstance(joined, DownloadOutcome) else self._driver.advance(parent, None, joined)
            self._place(parent, end)

    # -- one work -----------------------------------------------------------------------------------------------------

    def _begin(self, item: QueueItem) -> None:
        work, state, fault = Work(item.work_id, year=item.year), SearchState(), None
        try:
            work = Work.from_json(item.record)
            state = self._pipeline.begin(work, item.progress)
        except Exception:
            fault = internal_error(item.work_id)
        emit, run_id, owner = self._recorder.record, self._by.run_id, self._owner
        attempts = AttemptLog(emit, self._clock, run_id, owner, self._next_seq, item.work_id, item.year)
        task = Task(item, work, state, self._pipeline.search(work, state, attempts), attempts)
        task.urgent = self._urgent_claims.is_urgent(item)
        self._place(task, fault or self._driver.advance(task, None))

    def _finish(self, task: Task, outcome: DownloadOutcome) -> None:
        """Record the outcome, with the time of the next try if there is one; or park the work if a broken host opens soon."""
        if self._network.concerns(task) and not outcome.ok:
            self._park(task, Park(0.0, Reason.INTERRUPTED))
            return
        if self._network.holds(task, outcome):
            return
        state, following = task.state, NextTry()
        if not outcome.ok or outcome.reason is Reason.HTML_ONLY:
            now = self._catalog.now()
            if (broken := state.opens_soon(now)) is not None:
                state.wait_for_host()
                group = self._scheduler.group_of(broken.host) if broken.host else None
                self._park(task, Park(max(0.0, (broken.until or now) - now), broken.reason, group))
                return
            if not outcome.ok:
                following = self._pipeline.next_try(outcome, state, now, task.item.tries)
        task.add_active_time(self._clock.monotonic())
        group = self._scheduler.group_of(following.host) if following.host is not None else None
        result = self._pipeline.result_of(task.work, outcome, state, following, task.item.tries)
        self._recorder.record(finished_entry(task, outcome, following, group, self._by, result))

    def _park(self, task: Task, park: Park, now: float | None = None) -> None:
        """Give a work back to the catalog with its search state until a time. A subtask parks its work. `now`: the catalog's
        time, if it is known."""
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
        # one whose requests failed because the network was gone is given back as it was claimed
        state = None if self._network.concerns(task) else task.state
        self._record_parked(task.item, park, now, state, task.state.files.made)

    def _record_parked(
        self,
        item: QueueItem,
        park: Park,
        now: float | None,
        state: SearchState | None = None,
        made: Sequence[str] = (),
    ) -> None:
        """Record that a work is parked. Without `state` its progress is as it was claimed."""
        if park.reason is not _TAKEN_OVER.reason:
            self._scheduler.note_parked(item.work_id, park)
        not_before = (now or self._catalog.now()) + park.seconds if park.seconds else 0.0
        self._recorder.record(parked_entry(item, park, not_before, self._by, state, made))

    def _on_recorded(self, entries: Sequence[Settled]) -> None:
        """Called by the recorder when entries are durable."""
        for entry, settled in entries:
            if isinstance(entry, Finished) and settled:
                self._result.count(entry)
        self._open.remove(entry.work_id for entry, _ in entries)
        self._workers.wake()
