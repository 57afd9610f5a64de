"""When a request is repeated, after which delay, and when a host is left alone: the decision alone, and over real sockets."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from email.utils import formatdate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstokg_assets.sandbox import Sandbox
from resources.catalog.catalog import Catalog
from resources.http.errors import (
    AddressRefused,
    BodyTooLarge,
    BodyTooShort,
    BodyTruncated,
    ConnectionFailed,
    DeadlineExceeded,
    HostClosed,
    Interrupted,
    ProtocolViolation,
    TlsFailed,
)
from resources.http.messages import Request, Role
from resources.http.retry import Again, CloseHost, Settled, backoff, decide, parse_retry_after
from resources.http.settings import RetrySettings
from resources.records import Reason, Status

NOW = 1_700_000_000.0
HOST = "www.plainpages.example"
PAGE = Request(f"https://{HOST}/", Role.LANDING)


def decided(tries: int, answer: Any, retry_after: str | None = None, **settings: Any) -> Any:
    headers = {} if retry_after is None else {"retry-after": retry_after}
    return decide(RetrySettings(**settings), tries, answer, headers, random.Random(1), NOW)


# -- the decision -----------------------------------------------------------------------------------------------------


@pytest.mark.requirement("HTTP-3")
def test_delays_double_from_three_quarters_of_a_second_with_a_little_jitter() -> None:
    settings, dice = RetrySettings(), random.Random(42)
    expected = [0.75 * 2**n + dice.uniform(0, 100) / 1000 for n in range(4)] + [8.0, 8.0]
    again = random.Random(42)
    assert [backoff(settings, n, again) for n in range(6)] == pytest.approx(expected)


@pytest.mark.requirement("HTTP-3")
@given(
    n=st.integers(0, 10_000),
    seed=st.integers(),
    base=st.integers(0, 60_000),
    cap=st.integers(0, 60_000),
    jitter=st.integers(0, 5_000),
)
def test_a_delay_stays_within_its_bounds(n: int, seed: int, base: int, cap: int, jitter: int) -> None:
    settings = RetrySettings(base_delay_ms=base, max_delay_ms=cap, jitter_ms=jitter)
    delay_ms = backoff(settings, n, random.Random(seed)) * 1000
    least = min(base * 2.0 ** min(n, 100), cap)
    assert least - 1e-6 <= delay_ms <= min(least + jitter, cap) + 1e-6


@pytest.mark.requirement("HTTP-2")
@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_busy_and_broken_servers_are_asked_three_times_more(status: int) -> None:
    assert [type(decided(tries, status)) for tries in (1, 2, 3, 4)] == [Again, Again, Again, Settled]


@pytest.mark.requirement("HTTP-2")
@pytest.mark.parametrize("status", [200, 204, 301, 304, 400, 401, 403, 404, 410, 418, 451, 501, 505])
def test_other_answers_settle_it(status: int) -> None:
    assert decided(1, status) == Settled()
    assert decided(1, status, "120") == Settled(120.0 if status >= 400 else None)  # other requests wait nevertheless


@pytest.mark.requirement("HTTP-2")
def test_errors_of_the_connection_are_repeated_and_refusals_are_not() -> None:
    for kind in (ConnectionFailed, DeadlineExceeded, ProtocolViolation, BodyTooShort, BodyTruncated):
        assert isinstance(decided(3, kind("x")), Again)
        assert decided(4, kind("x")) == Settled()
    for refusal in (TlsFailed("x"), BodyTooLarge("x"), Interrupted("x"), AddressRefused("x")):
        assert decided(1, refusal) == Settled()


@pytest.mark.requirement("HTTP-4")
def test_a_retry_after_wins_when_it_is_longer_than_the_backoff() -> None:
    assert decided(1, 429, "30") == Again(30.0, Reason.RETRY_AFTER, 30.0)
    assert decided(1, 429, "60") == Again(60.0, Reason.RETRY_AFTER, 60.0)
    short = decided(2, 503, "1")
    assert short.reason is Reason.BACKOFF and 1.5 <= short.delay_s <= 1.6
    assert decided(1, 503, formatdate(NOW + 20, usegmt=True)) == Again(20.0, Reason.RETRY_AFTER, 20.0)


@pytest.mark.requirement("HTTP-4")
def test_a_longer_retry_after_closes_the_host_at_any_try() -> None:
    for tries in (1, 4):
        assert decided(tries, 429, "61") == CloseHost(61.0)
        assert decided(tries, 503, formatdate(NOW + 3600, usegmt=True)) == CloseHost(3600.0)


@pytest.mark.requirement("HTTP-4")
@pytest.mark.parametrize(
    "junk", ["", "soon", "-1", "1.5", "12 minutes", "٣", "²", "Mon, 99 Foo 2024 99:99:99 GMT", "\x00"]
)
def test_a_junk_retry_after_falls_back_to_backoff(junk: str) -> None:
    assert parse_retry_after(junk, NOW) is None
    assert decided(1, 429, junk).reason is Reason.BACKOFF


@pytest.mark.requirement("HTTP-4")
def test_dates_are_read_by_the_given_clock_and_in_gmt() -> None:
    assert parse_retry_after(formatdate(NOW + 90, usegmt=True), NOW) == 90.0
    assert parse_retry_after(formatdate(NOW - 90, usegmt=True), NOW) == 0.0
    assert parse_retry_after(formatdate(NOW + 90)[:-6], NOW) == 90.0  # without a zone
    assert parse_retry_after(" 7 ", NOW) == 7.0


@pytest.mark.requirement("HTTP-4")
@given(
    text=st.text(max_size=60)
    | st.from_regex(r"[0-9]{1,5000}", fullmatch=True)
    | st.datetimes().map(lambda d: f"{d:%a, %d %b} {d.year} {d:%H:%M:%S} GMT")
    | st.from_regex(r"[A-Z][a-z]{2}, [0-9]{1,2} [A-Z][a-z]{2} [0-9]{1,6} [0-9:+. -]{1,12}", fullmatch=True)
)
def test_any_retry_after_is_a_finite_time_or_junk(text: str) -> None:
    seconds = parse_retry_after(text, NOW)
    assert seconds is None or (math.isfinite(seconds) and 0 <= seconds <= 367 * 86_400)


# -- over real sockets ------------------------------------------------------------------------------------------------


@pytest.mark.requirement("HTTP-1")
@pytest.mark.requirement("HTTP-2")
@pytest.mark.parametrize("status", [429, 503])
def test_exactly_one_and_three_requests_arrive_on_a_persistent_failure(
    polite: Callable[..., Any], sandbox: Sandbox, status: int
) -> None:
    sandbox.add_fault(host=HOST, status=status)
    client = polite(through=sandbox)
    assert client.ask(PAGE).status == status
    assert [arrival["status"] for arrival in sandbox.arrivals(HOST)] == [status] * 4
    assert client.told("status", "attempt", "http_status") == [
        (Status.RETRY, 1, status),
        (Status.RETRY, 2, status),
        (Status.RETRY, 3, status),
        (Status.HTTP_GET, 4, status),
    ]


@pytest.mark.requirement("HTTP-2")
@pytest.mark.parametrize("status", [200, 404])
def test_a_final_answer_is_asked_for_once(polite: Callable[..., Any], sandbox: Sandbox, status: int) -> None:
    sandbox.add_fault(host=HOST, status=status)
    assert polite(through=sandbox).ask(PAGE).status == status
    assert len(sandbox.arrivals(HOST)) == 1


@pytest.mark.requirement("HTTP-2")
def test_a_failure_that_passes_is_followed_by_the_answer(polite: Callable[..., Any], sandbox: Sandbox) -> None:
    sandbox.add_fault(host=HOST, status=502, times=2)
    assert polite(through=sandbox).ask(PAGE).ok
    assert [arrival["status"] for arrival in sandbox.arrivals(HOST)] == [502, 502, 200]


@pytest.mark.requirement("HTTP-2")
@pytest.mark.requirement("HTTP-3")
@pytest.mark.requirement("HTTP-12")
def test_the_pauses_between_the_tries_are_the_decided_ones(
    polite: Callable[..., Any], sandbox: Sandbox, fake_clock: Any
) -> None:
    sandbox.add_fault(host=HOST, status=503)
    client = polite(through=sandbox, http={"retry": {}}, clock=fake_clock)
    began = fake_clock.now
    client.ask(PAGE)
    dice = random.Random(7)
    delays = [backoff(RetrySettings(), n, dice) for n in range(3)]
    assert fake_clock.now - began == pytest.approx(sum(delays))
    assert [record.extra.get("sleep_ms") for record in client.attempts] == [*(round(d * 1000) for d in delays), None]


@pytest.mark.requirement("HTTP-4")
def test_a_retry_after_of_seconds_is_waited_for(polite: Callable[..., Any], sandbox: Sandbox, fake_clock: Any) -> None:
    sandbox.add_fault(host=HOST, status=429, headers={"Retry-After": "40"}, times=1)
    client = polite(through=sandbox, clock=fake_clock)
    began = fake_clock.now
    assert client.ask(PAGE).ok
    assert fake_clock.now - began == pytest.approx(40.0)
    assert client.told("status", "reason", "retry_after_s")[0] == (Status.RETRY, Reason.RETRY_AFTER, 40.0)
    assert client.attempts[0].extra["sleep_ms"] == 40_000


@pytest.mark.requirement("HTTP-4")
def test_while_a_host_wants_a_short_pause_nobody_else_asks_it_either(
    polite: Callable[..., Any], sandbox: Sandbox, fake_clock: Any
) -> None:
    """The last try of one exchange says so; the next exchange waits, although it saw nothing of it."""
    sandbox.add_fault(host=HOST, status=429, headers={"Retry-After": "9"}, times=1)
    client = polite(through=sandbox, http={"retry": {"max_attempts": 1}}, clock=fake_clock)
    assert client.ask(PAGE).status == 429
    before = fake_clock.now
    assert client.ask(PAGE).ok
    assert fake_clock.now - before == pytest.approx(9.0)


@pytest.mark.requirement("HTTP-4")
def test_a_longer_retry_after_closes_the_host(
    polite: Callable[..., Any], sandbox: Sandbox, fake_clock: Any, catalog: Catalog
) -> None:
    fake_clock.offset += catalog.now() - fake_clock.wall()  # the catalog has the time of its database
    sandbox.add_fault(host=HOST, status=429, headers={"Retry-After": "3600"})
    client = polite(through=sandbox, clock=fake_clock, hosts=catalog)
    with pytest.raises(HostClosed) as first:
        client.ask(PAGE)
    assert first.value.until == pytest.approx(fake_clock.wall() + 3600)
    assert first.value.reason is Reason.RETRY_AFTER
    for driver in (client, polite(through=sandbox, clock=fake_clock, hosts=catalog)):  # this process, and another one
        with pytest.raises(HostClosed) as later:
            driver.ask(Request(f"https://{HOST}/other", Role.ARTIFACT))
        assert later.value.until == pytest.approx(fake_clock.wall() + 3600, abs=0.01)
        assert driver.told("status", "reason")[-1] == (Status.SKIPPED, Reason.RETRY_AFTER)
    assert len(sandbox.arrivals(HOST)) == 1
    assert client.ask(Request("https://www.gatehouse.example/", Role.LANDING)).ok  # other hosts are open

    sandbox.clear_faults()
    fake_clock.now += 3541.0  # 59 s are left, and those are waited for
    assert client.ask(PAGE).ok
    assert fake_clock.now == pytest.approx(1000.0 + 3600.0, abs=0.1)


@pytest.mark.requirement("HTTP-4")
def test_a_shorter_wish_does_not_open_a_closed_host(polite: Callable[..., Any], fake_clock: Any) -> None:
    hosts = polite(clock=fake_clock).client.hosts
    hosts.close("a.org", fake_clock.wall() + 3600, "retry-after")
    hosts.close("a.org", fake_clock.wall() + 5, "retry-after")
    assert hosts.closed_until("a.org") == pytest.approx(fake_clock.wall() + 3600)


@pytest.mark.requirement("HTTP-4")
@pytest.mark.parametrize("jump", [3600.0, -3600.0])
def test_a_wall_clock_that_jumps_neither_opens_a_host_nor_keeps_it_closed(
    polite: Callable[..., Any], fake_clock: Any, catalog: Catalog, jump: float
) -> None:
    """Fault 38. The row in the catalog has wall time; this process counts down by the monotonic clock."""
    fake_clock.offset += catalog.now() - fake_clock.wall()
    hosts = polite(clock=fake_clock, hosts=catalog).client.hosts
    hosts.close("a.org", fake_clock.wall() + 1000, "retry-after")
    fake_clock.offset += jump
    for step in (0, 6, 993):  # the store is read again in between
        fake_clock.now += step
        left = hosts.closed_until("a.org")
        assert left is not None and left - fake_clock.wall() == pytest.approx(1000 - (fake_clock.now - 1000.0))
    fake_clock.now += 2
    assert hosts.closed_until("a.org") is None


@pytest.mark.requirement("HTTP-2")
def test_a_server_that_hangs_up_is_asked_again(
    polite: Callable[..., Any], serve: Callable[..., Any], answers: Any
) -> None:
    server = serve(lambda request: None if request.number < 4 else answers.ok())
    client = polite()
    assert client.ask(Request(server.url, Role.METADATA)).body == b"fine"
    assert len(server.requests) == 4
    assert [record.extra.get("cause") for record in client.attempts] == ["conn-error"] * 3 + [None]
    never = serve(lambda request: None)
    with pytest.raises(ConnectionFailed):
        polite().ask(Request(never.url, Role.METADATA))  # the first one has a breaker that would open now, and wait
    assert len(never.requests) == 4


@pytest.mark.requirement("HTTP-2")
def test_a_port_where_nobody_listens_is_a_connection_error(
    polite: Callable[..., Any], serve: Callable[..., Any]
) -> None:
    server = serve(b"")
    server.close()
    client = polite()
    with pytest.raises(ConnectionFailed) as caught:
        client.ask(Request(server.url, Role.METADATA))
    assert "ConnectionRefusedError" in str(caught.value)
    assert [record.attempt for record in client.attempts] == [1, 2, 3, 4]


@pytest.mark.requirement("HTTP-2")
@pytest.mark.requirement("HTTP-6")
def test_a_certificate_that_is_not_trusted_is_not_tried_again(polite: Callable[..., Any], sandbox: Sandbox) -> None:
    client = polite(through=sandbox, http={"ca_bundle": None})
    with pytest.raises(TlsFailed):
        client.ask(PAGE)
    assert client.told("status", "reason", "attempt") == [(Status.DOWNLOAD_ERROR, Reason.TLS_ERROR, 1)]
    assert sandbox.arrivals(HOST) == []


@pytest.mark.requirement("HTTP-6")
def test_certificate_checks_can_be_switched_off_with_a_warning(polite: Callable[..., Any], sandbox: Sandbox) -> None:
    client = polite(through=sandbox, http={"ca_bundle": None, "verify_tls": False})
    with pytest.warns(Warning, match="Unverified HTTPS request"):
        assert client.ask(PAGE).ok


@pytest.mark.requirement("HTTP-2")
def test_a_caller_can_say_that_an_answer_is_final(polite: Callable[..., Any], sandbox: Sandbox) -> None:
    sandbox.add_fault(host=HOST, status=429, body="Plan upgrade required", headers={"Retry-After": "7200"})
    client = polite(through=sandbox)

    def spent(status: int, headers: Any, body: bytes) -> bool:
        return status == 429 and b"upgrade" in body and headers["retry-after"] == "7200"

    assert client.ask(Request(f"https://{HOST}/", Role.METADATA, final=spent)).status == 429
    assert client.told("status", "reason") == [(Status.HTTP_GET, Reason.RATE_LIMITED)]
    assert client.client.hosts.closed_until(HOST) is None
    with pytest.raises(HostClosed):  # another 429, of which it says nothing
        client.ask(Request(f"https://{HOST}/", Role.METADATA, final=lambda status, headers, body: False))
    assert len(sandbox.arrivals(HOST)) == 2


@pytest.mark.requirement("HTTP-2")
def test_waiting_ends_when_the_run_does(polite: Callable[..., Any], sandbox: Sandbox) -> None:
    sandbox.add_fault(host=HOST, status=503, headers={"Retry-After": "50"})
    with pytest.raises(Interrupted):
        polite(through=sandbox).ask(PAGE, stopped=lambda: True)
    assert len(sandbox.arrivals(HOST)) == 1
