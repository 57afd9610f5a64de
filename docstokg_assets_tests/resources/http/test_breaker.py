"""When a failing host is left alone, and how it is taken back: the state machine alone, and over real sockets and a catalog."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from docstokg_assets.sandbox import Sandbox
from resources.catalog.catalog import Catalog
from resources.http.breaker import PROBE_LOST_S, Breaker, Phase, changes
from resources.http.errors import BreakerOpen, HttpError, RobotsUnavailable
from resources.http.exchange import Pause, Reply, Send
from resources.http.host_state import HostStateCache
from resources.http.messages import Request, ResponseHead, Role
from resources.http.settings import BreakerSettings
from resources.records import Reason, Status

RULES = BreakerSettings()
ONCE = {"retry": {"max_attempts": 1}}
T = 1_700_000_000.0


def opened(times: int = 1, at: float = T) -> Breaker:
    """A breaker that has just opened for the `times`-th time."""
    breaker = Breaker()
    for _ in range(RULES.failures):
        breaker = breaker.failed(at, RULES)
    for _ in range(times - 1):
        breaker = breaker.failed(breaker.until, RULES)
    return breaker


# -- the state machine ------------------------------------------------------------------------------------------------


@pytest.mark.requirement("HTTP-9")
def test_five_failures_within_a_minute_open_it_for_half_a_minute() -> None:
    breaker = Breaker()
    for second in range(4):
        breaker = breaker.failed(T + second, RULES)
        assert breaker.phase(T + second) is Phase.CLOSED
    breaker = breaker.failed(T + 59, RULES)
    assert breaker.phase(T + 59) is Phase.OPEN and breaker.until == T + 89
    assert not breaker.admits(T + 88.9, RULES) and breaker.admits(T + 89, RULES)


@pytest.mark.requirement("HTTP-9", "TRU-6")
def test_only_failures_in_a_row_open_it() -> None:
    breaker = Breaker()
    for n in range(40):
        breaker = breaker.succeeded(T, RULES) if n % 5 == 4 else breaker.failed(T, RULES)
        assert breaker.phase(T) is Phase.CLOSED
    assert breaker == Breaker()


@pytest.mark.requirement("HTTP-9")
def test_failures_that_are_spread_out_do_not_open_it() -> None:
    breaker = Breaker()
    for n in range(50):
        breaker = breaker.failed(T + n * 15, RULES)
        assert breaker.phase(T + n * 15) is Phase.CLOSED and len(breaker.failures) <= 4


@pytest.mark.requirement("HTTP-9")
def test_three_probes_go_out_and_three_successes_close_it() -> None:
    breaker = opened()
    now = breaker.until
    for _ in range(3):
        assert breaker.admits(now, RULES)
        breaker = breaker.probed(now)
    assert not breaker.admits(now, RULES)
    for n in range(3):
        assert breaker.phase(now) is Phase.HALF_OPEN and breaker.successes == n and not breaker.admits(now, RULES)
        breaker = breaker.succeeded(now, RULES)
    assert breaker == Breaker()


@pytest.mark.requirement("HTTP-9")
def test_a_failed_probe_opens_it_for_twice_as_long_up_to_an_hour() -> None:
    breaker, since, pauses = opened(), T, []
    for _ in range(10):
        pauses.append(breaker.until - since)
        since = breaker.until
        breaker = breaker.probed(since).failed(since, RULES)
    assert pauses == [30, 60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]
    assert opened(times=500).until < float("inf")


@pytest.mark.requirement("HTTP-9")
def test_after_it_was_closed_the_pauses_begin_small_again() -> None:
    breaker = opened(times=4)
    for _ in range(3):
        breaker = breaker.probed(breaker.until).succeeded(max(breaker.until, T), RULES)
    assert breaker == Breaker() and opened(at=T + 9999).until == T + 9999 + 30


@pytest.mark.requirement("HTTP-9")
def test_a_probe_whose_process_died_is_replaced() -> None:
    breaker = opened()
    for _ in range(3):
        breaker = breaker.probed(breaker.until)
    assert not breaker.admits(breaker.until + PROBE_LOST_S - 1, RULES)
    assert breaker.admits(breaker.until + PROBE_LOST_S, RULES)


@pytest.mark.requirement("HTTP-9")
def test_what_left_before_it_opened_changes_nothing() -> None:
    breaker = opened()
    assert breaker.failed(T + 1, RULES) == breaker.succeeded(T + 1, RULES) == breaker


@pytest.mark.requirement("HTTP-9")
def test_the_changes_between_two_states_are_named() -> None:
    before = Breaker(failures=(T,) * 4)
    assert changes(before, before.failed(T, RULES), T) == (Phase.OPEN,)
    half = opened()
    now = half.until
    probing = half.probed(now)
    assert changes(half, probing, now) == changes(probing, probing.told_nothing(now), now) == ()
    assert changes(probing, probing.failed(now, RULES), now) == (Phase.HALF_OPEN, Phase.OPEN)
    one = probing.succeeded(now, RULES)
    assert changes(probing, one, now) == (Phase.HALF_OPEN,)
    assert changes(one, one.failed(now, RULES), now) == (Phase.OPEN,)
    two = one.succeeded(now, RULES)
    assert changes(one, two, now) == () and changes(two, two.succeeded(now, RULES), now) == (Phase.CLOSED,)


class AnyHistory(RuleBasedStateMachine):
    """Whatever happens in whatever order: what leaves is bounded, what is open opens again, and the state survives its text."""

    def __init__(self) -> None:
        super().__init__()
        self.breaker, self.now = Breaker(), T
        self.out: list[float] = []  # probes under way
        self.failures: list[float] = []  # in a row

    @rule(seconds=st.floats(0, 200) | st.sampled_from([0.0, 30.0, 60.0, 3600.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.out = [at for at in self.out if self.now - at < PROBE_LOST_S]

    @rule()
    def a_request_asks(self) -> None:
        phase = self.breaker.phase(self.now)
        if not self.breaker.admits(self.now, RULES):
            assert phase is not Phase.CLOSED
        elif phase is Phase.HALF_OPEN:
            self.breaker = self.breaker.probed(self.now)
            self.out.append(self.now)
            assert len(self.out) <= RULES.probes
        else:
            assert phase is Phase.CLOSED

    @rule()
    def a_request_fails(self) -> None:
        phase = self.breaker.phase(self.now)
        after = self.breaker.failed(self.now, RULES)
        if phase is Phase.CLOSED:
            self.failures = [at for at in self.failures if at > self.now - RULES.window_s] + [self.now]
            opens = len(self.failures) >= RULES.failures
            assert (after.phase(self.now) is Phase.OPEN) == opens
        elif phase is Phase.HALF_OPEN:
            assert after.openings == self.breaker.openings + 1
        if after.openings > self.breaker.openings:
            pause = min(RULES.open_s * 2.0 ** (after.openings - 1), RULES.max_open_s)
            assert after.until - self.now == pytest.approx(pause)
            self.failures, self.out = [], []
        self.breaker = after

    @rule()
    def a_request_succeeds(self) -> None:
        before, phase = self.breaker, self.breaker.phase(self.now)
        self.breaker = before.succeeded(self.now, RULES)
        if phase is Phase.HALF_OPEN:
            self.out = self.out[1:]
            assert (self.breaker == Breaker()) == (before.successes == RULES.probes - 1)
        elif phase is Phase.CLOSED:
            assert self.breaker == Breaker()
            self.failures = []
        else:
            assert self.breaker == before
        if not self.breaker.openings and before.openings:
            self.out = []

    @invariant()
    def it_survives_its_text(self) -> None:
        assert Breaker.from_text(self.breaker.to_text()) == self.breaker

    @invariant()
    def it_opens_within_an_hour(self) -> None:
        assert self.breaker.until - self.now <= RULES.max_open_s
        assert self.breaker.phase(self.now + RULES.max_open_s) is not Phase.OPEN


TestAnyHistory = pytest.mark.requirement("HTTP-9")(AnyHistory.TestCase)
TestAnyHistory.settings = hypothesis_settings(max_examples=60, stateful_step_count=40, deadline=None)


# -- the book, shared through a catalog -------------------------------------------------------------------------------


def host_state(catalog: Catalog, clock: Any) -> HostStateCache:
    return HostStateCache(catalog, clock)


def fail(hosts: HostStateCache, times: int = 5) -> list[Phase]:
    return [phase for _ in range(times) for phase in hosts.report("a.org", True)]


@pytest.mark.requirement("HTTP-9")
def test_a_breaker_is_shared_by_all_processes(catalog: Catalog, fake_clock: Any) -> None:
    one, other = host_state(catalog, fake_clock), host_state(catalog, fake_clock)
    assert fail(one, 3) + fail(other, 2) == [Phase.OPEN]  # the failures of all of them count
    assert one.admits("b.org")
    fake_clock.sleep(5.1)  # by then everybody has looked again
    assert not one.admits("a.org") and not other.admits("a.org")
    fake_clock.sleep(25)
    assert [one.admits("a.org"), other.admits("a.org"), one.admits("a.org"), other.admits("a.org")] == [True] * 3 + [
        False
    ]
    assert other.report("a.org", False) == (Phase.HALF_OPEN,)
    assert one.report("a.org", False) == () and one.report("a.org", False) == (Phase.CLOSED,)
    fake_clock.sleep(5.1)
    assert one.admits("a.org") and other.admits("a.org")


@pytest.mark.requirement("HTTP-9")
def test_a_healthy_host_costs_no_writes(catalog: Catalog, fake_clock: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = host_state(catalog, fake_clock)
    monkeypatch.setattr(catalog, "change_breaker", lambda *args: pytest.fail("written"))
    reads: list[str] = []
    read = catalog.host_pause
    monkeypatch.setattr(catalog, "host_pause", lambda host: reads.append(host) or read(host))
    for _ in range(1000):
        assert hosts.admits("a.org") and hosts.report("a.org", False) == () and hosts.report("a.org", None) == ()
    assert reads == ["a.org"]


@pytest.mark.requirement("HTTP-9", "TRU-6")
def test_a_success_resets_the_count_for_all_processes_with_one_write(
    catalog: Catalog, fake_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = host_state(catalog, fake_clock), host_state(catalog, fake_clock)
    fail(one, 4)
    writes: list[str] = []
    write = catalog.change_breaker
    monkeypatch.setattr(catalog, "change_breaker", lambda host, step: writes.append(host) or write(host, step))
    for _ in range(10):
        other.report("a.org", False)
    assert writes == ["a.org"] and fail(one, 4) == [] and fail(other, 1) == [Phase.OPEN]


@pytest.mark.requirement("HTTP-9", "TRU-6")
def test_broken_hosts_are_known_without_reading(
    catalog: Catalog, fake_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = host_state(catalog, fake_clock)
    fail(hosts)
    hosts.report("well.org", False)
    monkeypatch.setattr(catalog, "host_pause", lambda host: pytest.fail("read"))
    assert hosts.broken() == {"a.org": Phase.OPEN}
    fake_clock.sleep(31)
    assert hosts.broken() == {"a.org": Phase.HALF_OPEN}
    fake_clock.sleep(60)
    assert hosts.broken() == {}, "nobody has asked it for long"


@pytest.mark.requirement("HTTP-9")
def test_a_probe_that_says_nothing_is_given_back(catalog: Catalog, fake_clock: Any) -> None:
    hosts = host_state(catalog, fake_clock)
    fail(hosts)
    fake_clock.sleep(31)
    for _ in range(10):
        assert hosts.admits("a.org") and hosts.report("a.org", None) == ()


@pytest.mark.requirement("HTTP-9")
@pytest.mark.parametrize("by", [-3600.0, 3600.0])
def test_a_clock_that_is_set_neither_ends_nor_prolongs_the_pause(catalog: Catalog, fake_clock: Any, by: float) -> None:
    hosts = host_state(catalog, fake_clock)
    fail(hosts)
    fake_clock.offset += by
    fake_clock.sleep(29)
    assert not hosts.admits("a.org")
    assert hosts.broken_until("a.org") == pytest.approx(fake_clock.wall() + 1)
    fake_clock.sleep(1.1)
    assert hosts.admits("a.org")


# -- over real sockets ------------------------------------------------------------------------------------------------


def page(server: Any, path: str = "/") -> Request:
    return Request(server.url + path, Role.METADATA)


@pytest.mark.requirement("HTTP-9")
@pytest.mark.requirement("TEL-1")
def test_a_failing_host_is_left_alone_and_taken_back(
    serve: Callable[..., Any], polite: Callable[..., Any], answers: Any, fake_clock: Any
) -> None:
    well = threading.Event()
    server = serve(lambda request: answers.ok() if well.is_set() else answers.ok(b"", "503 Service Unavailable"))
    client = polite(http=ONCE, clock=fake_clock)
    for _ in range(5):
        assert client.ask(page(server)).status == 503
    began = fake_clock.now
    client.ask(page(server))  # waits, then it is the probe, and fails
    assert fake_clock.now - began == pytest.approx(30, abs=0.5) and len(server.requests) == 6
    well.set()
    assert client.ask(page(server)).ok
    assert fake_clock.now - began == pytest.approx(90, abs=1)
    assert client.ask(page(server)).ok and client.ask(page(server)).ok
    changed = [(a.status, a.reason, a.retry_after_s) for a in client.attempts if a.status.startswith("breaker")]
    assert changed == [
        (Status.BREAKER_OPEN, Reason.BREAKER_OPEN, 30.0),
        (Status.BREAKER_HALF_OPEN, None, None),
        (Status.BREAKER_OPEN, Reason.BREAKER_OPEN, 60.0),
        (Status.BREAKER_HALF_OPEN, None, None),
        (Status.BREAKER_CLOSED, None, None),
    ]
    assert len(server.requests) == 9


@pytest.mark.requirement("HTTP-9")
def test_a_longer_pause_is_not_waited_for(
    serve: Callable[..., Any], polite: Callable[..., Any], answers: Any, fake_clock: Any
) -> None:
    server = serve(answers.ok(b"", "500 Oh"))
    client = polite(http=ONCE | {"breaker": {"open_s": 120}}, clock=fake_clock)
    for _ in range(5):
        client.ask(page(server))
    with pytest.raises(BreakerOpen) as caught:
        client.ask(page(server))
    assert caught.value.until == pytest.approx(fake_clock.wall() + 120) and caught.value.reason is Reason.BREAKER_OPEN
    assert client.told("status", "reason")[-1] == (Status.SKIPPED, Reason.BREAKER_OPEN)
    assert len(server.requests) == 5


@pytest.mark.requirement("HTTP-9")
@pytest.mark.requirement("HTTP-2")
def test_the_retries_of_one_request_count_each_and_end_when_it_opens(
    serve: Callable[..., Any], polite: Callable[..., Any], answers: Any, fake_clock: Any
) -> None:
    server = serve(answers.ok(b"", "503 Oh"))
    client = polite(http={"breaker": {"open_s": 120}}, clock=fake_clock)
    assert client.ask(page(server)).status == 503 and len(server.requests) == 4
    with pytest.raises(BreakerOpen):
        client.ask(page(server, "/other"))
    assert len(server.requests) == 5


@pytest.mark.requirement("HTTP-9")
@pytest.mark.parametrize("answer", ["429 Too Many Requests", "404 Not Found", "403 Forbidden", "200 OK"])
def test_other_answers_do_not_open_it(
    serve: Callable[..., Any], polite: Callable[..., Any], answers: Any, fake_clock: Any, answer: str
) -> None:
    server = serve(answers.ok(b"", answer))
    client = polite(http=ONCE, clock=fake_clock)
    for _ in range(8):
        client.ask(page(server))
    assert len(server.requests) == 8 and not any(a.status is Status.BREAKER_OPEN for a in client.attempts)


@pytest.mark.requirement("HTTP-9")
def test_connection_errors_open_it(serve: Callable[..., Any], polite: Callable[..., Any], fake_clock: Any) -> None:
    server = serve(lambda request: None)
    client = polite(http=ONCE | {"breaker": {"open_s": 120}}, clock=fake_clock)
    for _ in range(5):
        with pytest.raises(HttpError):
            client.ask(page(server))
    with pytest.raises(BreakerOpen):
        client.ask(page(server))


@pytest.mark.requirement("HTTP-9")
def test_a_breaker_can_be_switched_off(serve: Callable[..., Any], polite: Callable[..., Any], answers: Any) -> None:
    server = serve(answers.ok(b"", "503 Oh"))
    client = polite(http=ONCE | {"breaker": {"enabled": False}})
    assert [client.ask(page(server)).status for _ in range(8)] == [503] * 8


@pytest.mark.requirement("HTTP-9")
def test_what_waited_for_its_turn_meanwhile_does_not_leave(
    serve: Callable[..., Any], polite: Callable[..., Any], answers: Any, fake_clock: Any
) -> None:
    server = serve(answers.ok(b"", "503 Oh"))
    client = polite(http=ONCE, clock=fake_clock)
    queued = client.client.exchange(page(server), client.log)
    step = next(queued)
    assert isinstance(step, Send)
    for _ in range(5):
        client.ask(page(server))
    allowance = client.client.limiter.policy_for(step.host, str(step.role), None, None)
    assert client.client.send(step, allowance) is None and len(server.requests) == 5
    pause = queued.send(None)
    assert isinstance(pause, Pause) and pause.reason is Reason.BREAKER_OPEN and pause.seconds == pytest.approx(30)
    fake_clock.sleep(31)
    assert isinstance(queued.send(None), Send)
    with pytest.raises(StopIteration) as done:  # it was not counted as a try
        queued.send(Reply(ResponseHead(200, step.url, {}), b"", None, 0, 1))
    assert done.value.value.status == 200 and client.attempts[-1].attempt == 1


@pytest.mark.requirement("HTTP-9", "TRU-6")
def test_a_link_that_has_just_failed_leaves_the_probes_to_others(
    serve: Callable[..., Any], polite: Callable[..., Any], answers: Any, fake_clock: Any
) -> None:
    server = serve(answers.ok(b"", "503 Oh"))
    client = polite(clock=fake_clock).client
    log = polite(clock=fake_clock).log
    bad = [client.exchange(page(server, f"/{n}"), log, patient=False) for n in range(5)]
    for exchange in bad:
        step = next(exchange)
        assert isinstance(step, Send)
        allowance = client.limiter.policy_for(step.host, str(step.role), None, None)
        assert isinstance(exchange.send(client.send(step, allowance)), Pause)  # to be tried again
    opens = client.hosts.broken_until(server.host)
    assert opens is not None
    with pytest.raises(BreakerOpen) as refused:
        next(client.exchange(page(server, "/good"), log, patient=False))
    assert not refused.value.tried and refused.value.until == pytest.approx(opens)
    with pytest.raises(BreakerOpen) as tried:
        bad[0].send(None)
    assert tried.value.tried and tried.value.until == pytest.approx(opens + 3)
    fake_clock.sleep(30.5)
    assert isinstance(next(client.exchange(page(server, "/good"), log, patient=False)), Send)
    with pytest.raises(BreakerOpen):
        bad[1].send(None)
    fake_clock.sleep(3)
    assert isinstance(bad[2].send(None), Send), "nobody else came"


@pytest.mark.requirement("HTTP-9")
def test_at_most_three_probes_leave_at_once(
    serve: Callable[..., Any], polite: Callable[..., Any], answers: Any, fake_clock: Any
) -> None:
    well = threading.Event()
    server = serve(lambda request: [0.5, answers.ok()] if well.is_set() else answers.ok(b"", "503 Oh"))
    client = polite(http=ONCE, clock=fake_clock)
    for _ in range(5):
        client.ask(page(server))
    well.set()
    fake_clock.sleep(31)
    waiting = [client.client.exchange(page(server), client.log) for _ in range(8)]
    sends = [next(exchange) for exchange in waiting]
    assert all(isinstance(send, Send) for send in sends)
    allowance = client.client.limiter.policy_for(sends[0].host, "metadata", None, None)
    replies: list[Any] = []
    threads = [
        threading.Thread(target=lambda s=send: replies.append(client.client.send(s, allowance))) for send in sends
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len([reply for reply in replies if reply is not None]) == 3 and len(server.requests) == 5 + 3


@pytest.mark.requirement("HTTP-9")
@pytest.mark.requirement("HTTP-13")
def test_an_open_breaker_says_nothing_about_robots(
    sandbox: Sandbox, polite: Callable[..., Any], fake_clock: Any
) -> None:
    client = polite(through=sandbox, robots=True, clock=fake_clock, http={"breaker": {"open_s": 120}})
    for _ in range(5):
        client.client.hosts.report("www.plainpages.example", True)
    with pytest.raises(BreakerOpen):
        client.ask(Request("https://www.plainpages.example/", Role.LANDING))
    assert client.client.robots.rules("www.plainpages.example") is None
    fake_clock.sleep(121)
    try:
        assert client.ask(Request("https://www.plainpages.example/", Role.LANDING)).status in (200, 404)
    except RobotsUnavailable:
        pytest.fail("the open breaker was taken for an unreadable robots.txt")
