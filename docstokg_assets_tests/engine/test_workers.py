"""The worker pool with a client that sends nothing."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from docstokg_assets.engine import workers
from docstokg_assets.engine.request_queues import Task
from docstokg_assets.engine.workers import Event, WorkerPool
from docstokg_assets_tests.support.tasks import FakeLimiter, send_to, task
from resources.clock import SystemClock
from resources.http.errors import ConnectionFailed
from resources.http.exchange import Pause
from resources.records import Reason

NEXT = Pause(1.0, "a", Reason.BACKOFF)


class FakeClient:
    def __init__(self, reply: Any = "reply", held: bool = False) -> None:
        self.limiter, self.reply, self.cut = FakeLimiter(), reply, threading.Event()
        self.wire = SimpleNamespace(watchdog=SimpleNamespace(cut_all=self.cut.set, crawlers=dict))
        self.held = held

    def send(self, *_: Any) -> Any:
        if self.held:
            self.cut.wait(10)
        if isinstance(self.reply, BaseException):
            raise self.reply
        return self.reply


def submitted(client: FakeClient, advance: Any, one: Task) -> WorkerPool:
    pool = WorkerPool(cast("Any", client), 1, SystemClock())
    pool.start(advance)
    pool.submit(one, send_to("a"), client.limiter.policy_for("a", "metadata"), 0.5, None)
    return pool


def events(pool: WorkerPool) -> list[Event]:
    found = list(pool.events(5.0))
    pool.shut_down(lambda timeout: None)
    return found


@pytest.mark.parametrize(
    ("reply", "sent"),
    [("reply", True), (ConnectionFailed("reset"), True), (None, False)],
    ids=["sent", "failed", "closed"],
)
def test_a_worker_sends_gives_its_permit_back_and_advances_the_search(reply: Any, sent: bool) -> None:
    client, one, seen = FakeClient(reply), task(), list[Any]()

    def advance(advanced: Task, got: Any) -> Pause:
        assert client.limiter.left["a"] == 1
        seen.append((advanced, got))
        return NEXT

    pool = submitted(client, advance, one)
    assert not pool.has_room() and pool.active_hosts() == ("a",)
    (event,) = events(pool)
    assert (event.task, event.step, event.sent, one.state.requests) == (one, NEXT, sent, int(sent))
    assert event.allowance is not None and event.allowance.group == "a"
    assert seen == [(one, reply)] and pool.has_room()


@pytest.mark.parametrize("where", ["send", "advance"])
def test_an_unexpected_error_reaches_the_dispatcher_and_the_permit_is_free(where: str) -> None:
    fault = KeyError("ours")
    client = FakeClient(fault if where == "send" else "reply")

    def advance(*_: Any) -> Pause:
        raise fault

    (event,) = events(submitted(client, advance, task()))
    assert event.step is fault and client.limiter.left["a"] == 1


def test_waking_ends_the_wait_without_an_event() -> None:
    pool = WorkerPool(cast("Any", FakeClient()), 1, SystemClock())
    pool.wake()
    began = time.monotonic()
    assert list(pool.events(5.0)) == [] and time.monotonic() - began < 1.0
    one = task()
    pool.post(one, NEXT)
    assert list(pool.events(0.0)) == [Event(one, NEXT)]


@pytest.mark.requirement("TRU-5")
def test_others_take_the_place_of_a_worker_whose_answer_crawls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_LOOK_S", 0.0)
    client, slow, given_up = FakeClient(held=True), dict[int, Any](), list[Any]()
    watchdog = client.wire.watchdog
    watchdog.crawlers, watchdog.give_up = lambda: slow, lambda *what: given_up.append(what)
    pool = WorkerPool(cast("Any", client), 1, SystemClock())
    pool.start(lambda *_: NEXT)
    allowance, tasks = client.limiter.policy_for("a", "metadata"), [task() for _ in range(66)]
    for one in tasks[:65]:  # one place, and 64 that do not count
        send = send_to("a")
        pool.submit(one, send, allowance, 0.0)
        assert not pool.has_room()
        slow[id(send)] = send  # and keeps it, so that no other has its id
        assert pool.has_room() == (one is not tasks[64]) and bool(given_up) == (one is tasks[64])
    assert given_up[0] == (1, workers._PATIENCE_S)
    slow.popitem()
    assert not pool.has_room(), "the last one moves bytes again"
    client.cut.set()
    seen = list[Event]()
    while len(seen) < 65:
        seen.extend(pool.events(5.0))
    assert pool.has_room()
    pool.shut_down(lambda timeout: None)


@pytest.mark.requirement("HTTP-10")
def test_requests_that_outlive_the_grace_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "GRACE_S", 0.2)
    client, seen = FakeClient(held=True), list[Event]()
    pool = submitted(client, lambda *_: NEXT, task())
    pool.shut_down(lambda timeout: seen.extend(pool.events(timeout)))
    assert client.cut.is_set() and [event.step for event in seen] == [NEXT]
