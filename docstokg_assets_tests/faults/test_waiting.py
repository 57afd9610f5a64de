"""Faults 33, 38, 46 and 55: hosts that want to be left alone, clocks that jump, and a source whose budget is spent."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from email.utils import formatdate
from itertools import count
from typing import Any

import pytest

from docstokg_assets.sandbox import Sandbox
from docstokg_assets.sources import SourceError
from docstokg_assets.sources.listing import BlockingDriver
from docstokg_assets.sources.openalex_api import OpenAlexApi
from resources.http.attempts import AttemptLog
from resources.http.errors import HostClosed, HttpError
from resources.http.messages import Request, Role
from resources.records import AttemptRecord

URL, OTHER = "http://a.example/1.pdf", "http://b.example/1.pdf"
HOST = "api.openalex.org"
PLAN = {"error": "Plan upgrade required", "message": 'The "from_updated_date" filter requires a Premium plan.'}
SPENT = {"error": "Rate limit exceeded", "message": "Insufficient budget. Resets at midnight UTC.", "retryAfter": 40000}


def busy(answers: Any, retry_after: str) -> bytes:
    return answers.ok(b"later", "429 Too Many Requests", Retry_After=retry_after)  # type: ignore[no-any-return]


@pytest.mark.requirement("HTTP-4")
@pytest.mark.parametrize("form", ["seconds", "date"])
def test_fault_33_a_host_that_wants_an_hour_is_closed_and_the_work_comes_back_then(
    pull: Callable[..., Any], answers: Any, form: str
) -> None:
    hour = "3600" if form == "seconds" else formatdate(time.time() + 3600, usegmt=True)
    got = pull(busy(answers, hour), URL, "http://a.example/2.pdf")
    assert got.reason == "retry-after" and len(got.server.requests) == 1  # the second copy is not asked for
    assert got.entry.retry_at == pytest.approx(time.time() + 3600, abs=10)
    assert [str(record.reason) for record in got.attempts] == ["retry-after"] * 2


@pytest.mark.requirement("HTTP-4")
def test_fault_33_meanwhile_the_work_goes_on_elsewhere(pull: Callable[..., Any], answers: Any, pdf: bytes) -> None:
    plan = {URL: busy(answers, "3600"), OTHER: answers.ok(pdf, Content_Type="application/pdf")}
    got = pull(lambda request: plan[request.path], URL, OTHER)
    assert got.reason == "ok" and list(got.files.values()) == [pdf]


@pytest.mark.requirement("HTTP-4")
@pytest.mark.parametrize(
    "junk", ["soon", "-5", "1e9", "9" * 400 + "x", "Mon, 99 Foo 2024 99:99:99 GMT", "\xff", "3600 s"]
)
def test_fault_33_junk_is_answered_by_backoff(pull: Callable[..., Any], answers: Any, pdf: bytes, junk: str) -> None:
    good = answers.ok(pdf, Content_Type="application/pdf")
    got = pull(lambda request: busy(answers, junk) if request.number == 1 else good, URL)
    assert got.reason == "ok"
    assert [str(record.reason) for record in got.attempts] == ["backoff", "ok"]


STATUSES = ["400 Bad Request", "403 Forbidden", "404 Not Found", "408 Request Timeout", "410 Gone", "429 Too Many Requests",
            "500 Broken", "501 Not Implemented", "503 Busy", "599 Odd"]  # fmt: skip
REQUESTS: dict[str, dict[str, Any]] = {
    "page": {"role": Role.LANDING},
    "guess": {"role": Role.ARTIFACT, "repeatable": False},
    "precheck": {"role": Role.ARTIFACT, "verb": "HEAD"},
    "post": {"role": Role.METADATA, "verb": "POST", "body": b"{}", "repeatable": False},
}


@pytest.mark.requirement("TRU-4", "HTTP-4")
@pytest.mark.parametrize(
    ("kind", "status", "seconds"),
    [
        *(("page", status, 3600) for status in STATUSES),
        *((kind, status, 3600) for kind in REQUESTS for status in ("404 Not Found", "503 Busy") if kind != "page"),
        ("page", "404 Not Found", 30),
        ("guess", "503 Busy", 30),
    ],
)
def test_fault_55_retry_after_closes_the_host_whatever_becomes_of_the_request(
    polite: Callable[..., Any],
    serve: Callable[..., Any],
    answers: Any,
    fake_clock: Any,
    status: str,
    kind: str,
    seconds: int,
) -> None:
    body = b"" if kind == "precheck" else b"no"
    server = serve(answers.ok(body, status, Retry_After=str(seconds)))
    client = polite(clock=fake_clock, http={"retry": {"max_attempts": 1}})
    began = fake_clock.wall()
    with suppress(HostClosed):
        assert client.ask(Request(server.url, **REQUESTS[kind])).status == int(status[:3])
    assert client.client.hosts.closed_until(server.host) == pytest.approx(began + seconds, abs=1)
    assert client.told("retry_after_s") == [(float(seconds),)]
    before = len(server.requests)
    with suppress(HostClosed):
        client.ask(Request(server.url, Role.LANDING))
    assert len(server.requests) == before + (seconds == 30)  # a short pause is waited for
    assert fake_clock.wall() - began >= (seconds if seconds == 30 else 0)


@pytest.mark.parametrize("body", ["short", "not-gzip", "too-large"])
def test_fault_55_also_where_the_body_of_the_answer_is_broken(
    polite: Callable[..., Any], serve: Callable[..., Any], answers: Any, fake_clock: Any, body: str
) -> None:
    broken = {
        "short": answers.ok(b"no", "503 Busy", Retry_After="3600", Connection="close")[:-1],
        "not-gzip": answers.ok(b"no gzip at all", "404 Gone", Retry_After="3600", Content_Encoding="gzip"),
        "too-large": answers.ok(b"x" * 5000, "403 No", Retry_After="3600"),
    }
    server = serve(broken[body])
    client = polite(clock=fake_clock, http={"retry": {"max_attempts": 1}, "max_page_bytes": 1000})
    with pytest.raises(HttpError):
        client.ask(Request(server.url, Role.LANDING))
    assert client.client.hosts.closed_until(server.host) == pytest.approx(fake_clock.wall() + 3600, abs=1)


def test_fault_55_also_in_an_answer_to_the_request_for_robots_txt(
    polite: Callable[..., Any], serve: Callable[..., Any], answers: Any, fake_clock: Any
) -> None:
    server = serve(answers.ok(b"", "404 Not Found", Retry_After="3600"))
    client = polite(clock=fake_clock, robots=True)
    with pytest.raises(HostClosed):
        client.ask(Request(f"{server.url}/paper", Role.LANDING))
    assert [request.path for request in server.requests] == ["/robots.txt"]


@pytest.mark.parametrize("seconds", [30, 3600])
def test_fault_55_a_redirect_with_a_retry_after_is_followed_later(
    polite: Callable[..., Any], serve: Callable[..., Any], answers: Any, fake_clock: Any, seconds: int
) -> None:
    server = serve(lambda r: answers.moved("/b", Retry_After=str(seconds)) if r.path == "/a" else answers.ok())
    client, began = polite(clock=fake_clock), fake_clock.wall()
    if seconds == 30:
        assert client.ask(Request(f"{server.url}/a", Role.LANDING)).ok
        assert fake_clock.wall() == pytest.approx(began + 30, abs=1)
    else:
        with pytest.raises(HostClosed) as later:
            client.ask(Request(f"{server.url}/a", Role.LANDING))
        assert later.value.until == pytest.approx(began + 3600, abs=1)
    assert client.client.hosts.closed_until(server.host) is None  # it was said of one request


@pytest.mark.requirement("TRU-4", "HTTP-4")
def test_fault_55_the_next_copy_on_that_host_is_not_asked_for(pull: Callable[..., Any], answers: Any) -> None:
    got = pull(answers.ok(b"", "403 Forbidden", Retry_After="3600"), URL, "http://a.example/2.pdf")
    assert len(got.server.requests) == 1
    assert got.entry.retry_at == pytest.approx(time.time() + 3600, abs=10)


def test_a_request_timeout_said_by_the_host_is_one(pull: Callable[..., Any], answers: Any) -> None:
    """408 is no refusal: it is not asked for again at once, but later."""
    got = pull(answers.ok(b"", "408 Request Timeout"), URL)
    assert got.reason == "timeout" and len(got.server.requests) == 1
    assert got.entry.retry_at is not None
    assert [(str(record.reason), record.http_status) for record in got.attempts] == [("timeout", 408)]


@pytest.mark.parametrize("jump", [3600.0, -3600.0])
def test_fault_38_a_pause_under_way_is_neither_cut_nor_drawn_out_by_a_clock_that_jumps(
    polite: Callable[..., Any], serve: Callable[..., Any], answers: Any, fake_clock: Any, jump: float
) -> None:
    """The wall clock jumps while the client sleeps; the monotonic one says how long it slept."""
    server = serve(lambda request: busy(answers, "40") if request.number == 1 else answers.ok())
    slept = fake_clock.sleep

    def sleep(seconds: float) -> None:
        slept(seconds)
        if 1010 < fake_clock.now < 1010.5:
            fake_clock.offset += jump

    fake_clock.sleep = sleep
    client = polite(clock=fake_clock)
    assert client.ask(Request(server.url, Role.LANDING)).ok
    assert fake_clock.now == pytest.approx(1040.0, abs=1.0)


@pytest.mark.requirement("HTTP-2")
@pytest.mark.parametrize(
    ("body", "says", "remedy"),
    [(PLAN, "wants another plan", "Leave that filter or sort order out"), (SPENT, "budget is spent", "midnight UTC")],
)
def test_fault_46_openalex_is_not_asked_again_and_the_message_says_what_helps(
    polite: Callable[..., Any], sandbox: Sandbox, body: dict[str, Any], says: str, remedy: str
) -> None:
    sandbox.add_fault(
        host=HOST, status=429, body=json.dumps(body), type="application/json", headers={"Retry-After": "40000"}
    )
    client = polite(through=sandbox)
    attempts: list[AttemptRecord] = []
    numbers = count(1)
    log = AttemptLog(attempts.append, client.client.clock, "run", "source", lambda: next(numbers))
    with pytest.raises(SourceError) as refused:
        BlockingDriver(client.client, log, threading.Event()).ask(OpenAlexApi("sandbox-key").page("type:article"))
    assert says in str(refused.value) and remedy in str(refused.value)
    assert len(sandbox.arrivals(HOST)) == len(attempts) == 1
    assert client.client.hosts.closed_until(HOST) is None  # single works cost nothing, and may still be asked for
