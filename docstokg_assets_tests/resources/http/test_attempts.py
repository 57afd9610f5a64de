"""What is written down of each try."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from docstokg_assets.sandbox import Sandbox
from resources.http.errors import BodyTooShort, ContentRefused
from resources.http.messages import Request, ResponseHead, Role, parse_length
from resources.records import Reason, Status

HOST = "www.plainpages.example"


class Keep:
    def __init__(self) -> None:
        self.body = b""

    def write(self, chunk: bytes) -> None:
        self.body += chunk

    def finish(self) -> bytes:
        return self.body

    def abort(self) -> None: ...


def test_a_record_says_who_asked_whom_for_what_and_what_came(polite: Callable[..., Any], sandbox: Sandbox) -> None:
    url = f"http://me:secret@{HOST}:80/?token=secret&b=1#top"
    client = polite(through=sandbox)
    client.ask(Request(url, Role.LANDING, resolver="landing", tier="landing_scrape"))
    [record] = client.attempts
    assert (record.run_id, record.worker_id, record.seq, record.work_id, record.year) == (
        "run",
        "worker",
        1,
        "W1",
        2024,
    )
    assert (record.resolver, record.tier, record.role, record.host) == ("landing", "landing_scrape", "landing", HOST)
    assert record.url == f"https://{HOST}/?token=***&b=1"
    assert record.canonical_url == f"https://{HOST}?b=1&token=***"
    assert (record.verb, record.status, record.reason, record.http_status) == ("GET", Status.HTTP_GET, Reason.OK, 200)
    assert record.content_type == "text/html"
    assert record.content_length_hdr and record.content_length_hdr > 0
    assert record.attempt == 1
    assert record.elapsed_ms is not None and record.elapsed_ms < 5000
    assert datetime.now(UTC) - record.ts < timedelta(seconds=30)


@pytest.mark.parametrize(
    ("fields", "answer", "status", "reason"),
    [
        ({}, "200 OK", Status.HTTP_GET, Reason.OK),
        ({}, "404 Not Found", Status.HTTP_GET, Reason.HTTP_4XX),
        ({}, "501 Not Implemented", Status.HTTP_GET, Reason.HTTP_5XX),
        ({"verb": "HEAD"}, "200 OK", Status.HTTP_HEAD, Reason.OK),
        ({"verb": "HEAD"}, "405 No", Status.HTTP_HEAD, Reason.HTTP_4XX),
        ({"role": Role.ARTIFACT}, "200 OK", Status.HTTP_200, Reason.OK),
        ({"role": Role.ARTIFACT}, "403 Forbidden", Status.HTTP_GET, Reason.HTTP_4XX),
        ({"role": Role.ARTIFACT}, "304 Not Modified", Status.HTTP_304, Reason.NOT_MODIFIED),
    ],
)
def test_each_answer_has_its_tokens(
    polite: Callable[..., Any],
    serve: Callable[..., Any],
    answers: Any,
    fields: dict[str, Any],
    answer: str,
    status: Status,
    reason: Reason,
) -> None:
    bodiless = fields.get("verb") == "HEAD" or answer.startswith("304")
    server = serve(answers.ok(b"" if bodiless else b"x", answer))
    client = polite()
    client.ask(Request(**{"url": server.url, "role": Role.METADATA, **fields}))
    assert client.told("verb", "status", "reason", "http_status") == [
        (fields.get("verb", "GET"), status, reason, int(answer[:3]))
    ]


def test_there_is_one_record_for_each_try_and_each_hop(
    polite: Callable[..., Any], serve: Callable[..., Any], answers: Any
) -> None:
    plan = [
        answers.ok(b"", "503 Busy"),
        answers.moved("/there"),
        answers.ok(b"", "429 Slow", Retry_After="0"),
        answers.ok(b"done"),
    ]
    server = serve(lambda request: plan[request.number - 1])
    client = polite(http={"retry": {"base_delay_ms": 3, "jitter_ms": 0}})
    client.ask(Request(f"{server.url}/here", Role.ARTIFACT, sink=lambda head: Keep()))
    fields = ("status", "reason", "http_status", "attempt", "retry_after_s", "bytes_written")
    assert client.told(*fields) == [
        (Status.RETRY, Reason.BACKOFF, 503, 1, None, None),
        (Status.HTTP_GET, Reason.OK, 302, 2, None, None),
        (Status.RETRY, Reason.BACKOFF, 429, 1, 0.0, None),
        (Status.HTTP_200, Reason.OK, 200, 2, None, 4),
    ]
    assert [record.seq for record in client.attempts] == [1, 2, 3, 4]
    assert [record.url.rpartition("/")[2] for record in client.attempts] == ["here", "here", "there", "there"]
    assert client.attempts[0].extra == {"attempt": 1, "sleep_ms": 3}


@pytest.mark.requirement("DL-5")
def test_a_body_that_is_too_short_is_recorded_as_such(polite: Callable[..., Any], sandbox: Sandbox) -> None:
    sandbox.add_fault(host=HOST, status=200, body="0123456789", truncate=4)
    client = polite(through=sandbox)
    with pytest.raises(BodyTooShort):
        client.ask(Request(f"https://{HOST}/x", Role.ARTIFACT, sink=lambda head: Keep()))
    assert client.told("status", "reason", "attempt") == [
        *((Status.RETRY, Reason.BACKOFF, n) for n in (1, 2, 3)),
        (Status.SIZE_MISMATCH, Reason.SIZE_MISMATCH, 4),
    ]
    assert {record.extra["cause"] for record in client.attempts} == {"size-mismatch"}


def test_what_a_sink_refuses_is_a_matter_of_policy(
    polite: Callable[..., Any], serve: Callable[..., Any], answers: Any
) -> None:
    def refuse(head: ResponseHead) -> Keep:
        raise ContentRefused("too much", reason=Reason.POLICY_SIZE)

    server = serve(answers.ok(b"x"))
    client = polite()
    with pytest.raises(ContentRefused):
        client.ask(Request(server.url, Role.ARTIFACT, sink=refuse))
    assert client.told("status", "reason") == [(Status.CONTENT_POLICY_SKIP, Reason.POLICY_SIZE)]
    assert len(server.requests) == 1


@pytest.mark.requirement("HTTP-12")
def test_time_spent_waiting_for_the_limiter_is_told(
    polite: Callable[..., Any], serve: Callable[..., Any], answers: Any
) -> None:
    server = serve(answers.ok())
    client = polite(limits={"policies": {"*": "5/s"}})
    for _ in range(2):
        client.ask(Request(server.url, Role.METADATA))
    first, second = (record.extra.get("sleep_ms", 0) for record in client.attempts)
    assert first < second and second >= 150


@pytest.mark.parametrize(
    ("header", "length"),
    [("5", 5), (None, None), ("", None), ("-5", None), ("5, 5", None), ("²", None), ("٣", None), ("9" * 30, None)],
)
def test_a_length_is_a_number_that_a_store_can_hold(header: str | None, length: int | None) -> None:
    assert parse_length(header) == length


@pytest.mark.parametrize("length", ["²", "9" * 30])
def test_an_absurd_content_length_is_survived(
    polite: Callable[..., Any], serve: Callable[..., Any], length: str
) -> None:
    server = serve(f"HTTP/1.1 404 No\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n".encode("latin-1"))
    client = polite(http={"retry": {"max_attempts": 1}})
    try:
        assert client.ask(Request(server.url, Role.METADATA)).status == 404
    except BodyTooShort:
        assert length.isdigit()
    assert client.attempts[0].content_length_hdr is None
