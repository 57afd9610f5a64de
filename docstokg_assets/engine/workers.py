"""The worker pool: threads that send requests, and the inbox through which results come back to the dispatcher.

A worker sends one request, gives its permit back, advances the search that it was sent for (so parsing and storing are parallel
as well) and posts what that search needs next. Workers never wait for limits; only requests that may go now are submitted.

A worker whose answer crawls receives next to no bytes, so it does not count as busy: other workers take its place, up to a limit.
Beyond that, crawling answers hold at most a quarter of the places; those that have crawled for longest are aborted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue
from typing import NamedTuple

from docstokg_assets.engine.driver import Next
from docstokg_assets.engine.request_queues import Task
from resources.clock import Clock, Moment
from resources.http.client import HttpClient
from resources.http.errors import HttpError
from resources.http.exchange import Reply, Send
from resources.rate_limit.limiter import Allowance

GRACE_S = 5.0  # for requests in flight, when the pass ends
_AFTER_INTERRUPT_S = 0.5
_LOOK_S = 0.25  # interval at which a pool without room looks for crawling answers
_APART_PER_WORKER = 8  # crawling answers that do not count as busy, for each worker,
_MOST_APART = 256  # and at most so many
_PATIENCE_S = 10.0  # before a crawling answer is aborted because there are too many
_QUICK_S = 0.1  # while requests take no longer than this, some are handed over before a worker is free


class Event(NamedTuple):
    """What a task needs next, or the error that ends the pass. `allowance`: its permit is free again. `send`: the request that
    was sent; `error`: why it has no whole answer."""

    task: Task
    step: Next | BaseException
    allowance: Allowance | None = None
    send: Send | None = None
    error: HttpError | None = None

    @property
    def sent(self) -> bool:
        return self.send is not None


class WorkerPool:
    """All methods are for the dispatcher's thread, except `post` and `wake`."""

    def __init__(self, client: HttpClient, count: int, clock: Clock) -> None:
        self._client, self._count, self._clock = client, count, clock
        self._jobs: SimpleQueue[tuple[Task, Send, Allowance, int, Moment | None] | None] = SimpleQueue()
        self._inbox: SimpleQueue[Event | None] = SimpleQueue()  # None: wake up, nothing to handle
        self._in_flight: dict[int, tuple[Send, float]] = {}  # by id of task, with the time when it was submitted
        self._takes_s = 1.0  # a request from submission to its event, on average
        self._crawling: set[int] = set()  # those of them that were slow at the last look
        self._next_look = 0.0
        self._apart = min(max(64, _APART_PER_WORKER * count), _MOST_APART)
        self._threads = 0
        self._hosts: set[str] = set()  # asked since `active_hosts` was last called

    def start(self, advance: Callable[[Task, Reply | HttpError | None], Next]) -> None:
        self._advance = advance
        for _ in range(self._count):
            self._add_thread()

    def _add_thread(self) -> None:
        name = f"worker-{self._threads:02}"
        self._threads += 1
        threading.Thread(target=self._work, name=name, daemon=True).start()

    def has_room(self, urgent: bool = False) -> bool:
        """Whether another request can be sent. Where requests are quick there is room for half as many again as there are
        workers, so that none of them waits for the dispatcher. An urgent one need not wait for transfers under way: it gets a
        thread of its own, up to as many again as there are workers."""
        if len(self._in_flight) >= self._count and (now := self._clock.monotonic()) >= self._next_look:
            self._next_look, slow = now + _LOOK_S, self._client.wire.watchdog.crawlers()
            self._crawling = {task for task, (send, _) in self._in_flight.items() if id(send) in slow}
            too_many = len(self._crawling) - self._apart - self._count // 4
            if too_many > 0:
                self._client.wire.watchdog.give_up(too_many, _PATIENCE_S)
        quick = self._takes_s < _QUICK_S and not self._crawling
        most = 2 * self._count if urgent else self._count + quick * self._count // 2
        return len(self._in_flight) - min(len(self._crawling), self._apart) < most

    def submit(
        self, task: Task, send: Send, allowance: Allowance, waited_s: float, granted: Moment | None = None
    ) -> None:
        """Send a request for which a permit and a token were taken at the moment `granted`."""
        self._in_flight[id(task)] = send, self._clock.monotonic()
        busy = len(self._in_flight)
        if self._threads < (busy if task.urgent else min(busy, self._count + len(self._crawling))):
            self._add_thread()
        self._hosts.add(send.host)
        self._jobs.put((task, send, allowance, round(waited_s * 1000), granted))

    def post(self, task: Task, step: Next | BaseException) -> None:
        """Report what a task needs next, for a task that did not send a request itself."""
        self._inbox.put(Event(task, step))

    def wake(self) -> None:
        """Make `events` return."""
        self._inbox.put(None)

    def events(self, timeout: float) -> Iterator[Event]:
        """All events that are there, after waiting for the first one at most `timeout` seconds."""
        try:
            event = self._inbox.get(timeout=timeout) if timeout > 0 else self._inbox.get_nowait()
            while True:
                if event is not None:
                    if (sent := self._in_flight.pop(id(event.task), None)) is not None:
                        self._takes_s += 0.1 * (self._clock.monotonic() - sent[1] - self._takes_s)
                    self._crawling.discard(id(event.task))
                    yield event
                event = self._inbox.get_nowait()
        except Empty:
            return

    def active_hosts(self) -> tuple[str, ...]:
        """Hosts of the requests since the last call and of those in flight."""
        hosts, self._hosts = self._hosts, {send.host for send, _ in self._in_flight.values()}
        return tuple(sorted(hosts))

    def shut_down(self, handle_events: Callable[[float], None]) -> None:
        """Let requests in flight finish within GRACE_S, then cut their connections, and end the threads. `handle_events` gets the
        seconds that it may wait for events."""
        end, interrupted = self._clock.monotonic() + GRACE_S, False
        while self._in_flight:
            left = end - self._clock.monotonic()
            if left <= 0 and interrupted:
                break
            if left <= 0:
                self._client.wire.watchdog.cut_all()
                interrupted, end = True, self._clock.monotonic() + _AFTER_INTERRUPT_S
            handle_events(max(0.05, min(left, 0.25)))
        for _ in range(self._threads):
            self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            task, send, allowance, waited_ms, granted = job
            step: Next | BaseException
            reply: Reply | HttpError | None
            sent, failure = False, None
            try:
                try:
                    reply = self._client.send(send, allowance, waited_ms, granted)
                except HttpError as error:
                    reply = failure = error
                finally:
                    self._client.limiter.leave(allowance)
                sent = reply is not None  # None: while this request waited, the host was closed or its turn was over
                task.state.requests += sent
                step = self._advance(task, reply)
            except BaseException as error:  # the dispatcher raises it
                step = error
            self._inbox.put(Event(task, step, allowance, send if sent else None, failure))
