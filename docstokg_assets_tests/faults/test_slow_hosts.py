"""Faults 63 and 64: hosts that drip their answers, and hosts that close kept connections, over raw sockets."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from docstokg_assets_tests.support.many_works import PDF, run_works
from resources.http.errors import DeadlineExceeded, HttpError, KeptConnectionLost
from resources.http.messages import Request, Role

HEAD = b"HTTP/1.1 200 OK\r\nX-Long: "
DRIPPING, GOOD = 40, 100


def drip(*_: Any) -> list[Any]:
    return [HEAD, *[b"x", 0.5] * 1000]


# -- answers that drip ------------------------------------------------------------------------------------------------


@pytest.mark.requirement("TRU-5")
def test_fault_63_a_head_that_drips_ends_at_the_read_timeout(
    polite: Callable[..., Any], serve: Callable[..., Any]
) -> None:
    client = polite(http={"timeout_read_s": 1.5, "deadline_s": 60.0, "retry": {"max_attempts": 1}})
    began = time.monotonic()
    with pytest.raises(DeadlineExceeded, match="the head of the answer"):
        client.ask(Request(serve(drip).url, Role.LANDING))
    assert 1.4 <= time.monotonic() - began < 15


def test_fault_63_interim_answers_do_not_prolong_it(polite: Callable[..., Any], serve: Callable[..., Any]) -> None:
    client = polite(http={"timeout_read_s": 1.0, "deadline_s": 60.0, "retry": {"max_attempts": 1}})
    server = serve([*[b"HTTP/1.1 102 Processing\r\n\r\n", 0.3] * 20, HEAD])
    with pytest.raises(DeadlineExceeded, match="the head of the answer"):
        client.ask(Request(server.url, Role.LANDING))


def test_fault_63_a_body_has_the_time_of_the_whole_answer(
    polite: Callable[..., Any], serve: Callable[..., Any]
) -> None:
    client = polite(http={"timeout_read_s": 0.8, "deadline_s": 60.0, "retry": {"max_attempts": 1}})
    server = serve([b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n", *[b"x", 0.2] * 8])
    assert client.ask(Request(server.url, Role.LANDING)).body == b"x" * 8


class DripsUntil(list[Any]):
    """A head that drips until the event is set, and is then ended."""

    def __init__(self, over: threading.Event) -> None:
        self.over = over

    def __iter__(self) -> Iterator[Any]:
        yield HEAD
        while not self.over.is_set():
            yield b"x"
            yield 0.2
        yield b"\r\nConnection: close\r\n\r\n"


@pytest.mark.requirement("TRU-5")
def test_fault_63_good_works_are_not_held_up_by_hosts_that_drip(serve: Callable[..., Any], tmp_path: Path) -> None:
    """Eight workers, forty hosts that drip their heads: every good paper is fetched before one of the drips is over."""
    over, fetched = threading.Event(), set[str]()
    good = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(PDF), PDF)

    def answer(request: Any) -> Any:
        if "drip" in request.path:
            return DripsUntil(over)
        fetched.add(request.path)
        if len(fetched) == GOOD:
            over.set()
        return good

    names = [f"drip{n}" for n in range(DRIPPING)] + [f"good{n}" for n in range(GOOD)]
    urls = [f"http://{name}.example/1.pdf" for name in names]
    done = run_works(tmp_path / "data", serve(answer), urls, workers=8, http__retry__max_attempts=1)
    assert Counter(reason for url, reason in done.reasons.items() if "good" in url) == {"ok": GOOD}
    dripped = [reason for url, reason in done.reasons.items() if "drip" in url]
    assert "timeout" not in dripped, "the good ones waited for a drip to end"


def test_fault_63_answers_that_crawl_are_known_by_their_rate(
    polite: Callable[..., Any], serve: Callable[..., Any]
) -> None:
    """Those that drip crawl and can be given up; those that flow do not crawl, though their body is not whole yet."""
    client = polite(http={"retry": {"max_attempts": 1}})
    flowing = serve([b"HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n", *[bytes(20_000), 0.1] * 450])
    wire, ended = client.client.wire, dict[str, BaseException]()

    def ask(url: str) -> None:
        try:
            client.ask(Request(url, Role.LANDING))
        except Exception as error:
            ended[url] = error

    urls = serve(drip).url, flowing.url
    threads = [threading.Thread(target=ask, args=(url,), daemon=True) for url in urls]
    for thread in threads:
        thread.start()
    end = time.monotonic() + 20
    while time.monotonic() < end and [watched.url for watched in wire.watchdog.crawlers().values()] != [f"{urls[0]}/"]:
        time.sleep(0.1)
    assert [watched.url for watched in wire.watchdog.crawlers().values()] == [f"{urls[0]}/"]
    wire.watchdog.give_up(5, 600.0)  # it has not crawled for so long
    assert not ended
    wire.watchdog.give_up(5, 0.1)
    threads[0].join(10)
    assert isinstance(ended[urls[0]], DeadlineExceeded) and urls[1] not in ended
    wire.watchdog.cut_all()
    threads[1].join(10)


# -- connections that are closed without a word -----------------------------------------------------------------------


class HangsUp:
    """Answers the first request of each connection and closes it when the second one has come."""

    def __init__(self, body: bytes) -> None:
        self.body, self.seen, self.died = body, Counter[int](), 0

    def __call__(self, request: Any) -> bytes | None:
        self.seen[request.connection] += 1
        if self.seen[request.connection] > 1:
            self.died += 1
            return None
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(self.body), self.body)


@pytest.mark.requirement("TRU-5")
def test_fault_64_every_paper_is_fetched_from_a_host_that_closes_kept_connections(
    serve: Callable[..., Any], tmp_path: Path
) -> None:
    host = HangsUp(PDF)
    server = serve(host)
    urls = [f"http://rude.example/{n}.pdf" for n in range(40)]
    done = run_works(tmp_path / "data", server, urls, http__retry__max_attempts=1)
    assert Counter(done.reasons.values()) == {"ok": 40}
    assert done.breakers == {"rude.example": None}
    again = [record for record in done.attempts if str(record.status) == "retry"]
    assert 1 <= host.died == len(again) <= 8, "each worker may lose one"
    assert {(str(record.reason), record.extra["sleep_ms"]) for record in again} == {("conn-error", 0)}
    assert len(server.requests) == len(done.attempts) == 40 + host.died


@pytest.mark.requirement("TRU-5")
def test_fault_64_it_is_sent_once_more_with_a_token_of_its_own_and_no_connection_is_kept_afterwards(
    polite: Callable[..., Any], serve: Callable[..., Any]
) -> None:
    host = HangsUp(b"fine")
    server = serve(host)
    client = polite(limits={"policies": {"*": "2/second"}}, http={"retry": {"max_attempts": 1}})
    began = time.monotonic()
    for _ in range(4):
        assert client.ask(Request(server.url, Role.LANDING)).body == b"fine"
    assert (host.died, len(server.requests), server.connections) == (1, 5, 4)
    assert time.monotonic() - began >= 2.0, "five requests, half a second apart"
    kept = [request.headers.get("connection", "") for request in server.requests]
    assert kept == ["keep-alive"] * 2 + ["close"] * 3 or kept == [""] * 2 + ["close"] * 3
    assert client.client.hosts.broken_until(server.host) is None


@pytest.mark.parametrize(("verb", "repeatable", "sent"), [("GET", False, 3), ("HEAD", True, 3), ("POST", False, 2)])
def test_fault_64_only_what_may_be_sent_twice_is(
    polite: Callable[..., Any], serve: Callable[..., Any], verb: str, repeatable: bool, sent: int
) -> None:
    host = HangsUp(b"")
    server, client = serve(host), polite(http={"retry": {"max_attempts": 1}})
    request = Request(server.url, Role.METADATA, verb=verb, repeatable=repeatable, cache=False)
    assert client.ask(request).ok
    if sent == 3:
        assert client.ask(request).ok
    else:
        with pytest.raises(KeptConnectionLost):
            client.ask(request)
    assert len(server.requests) == sent


def test_fault_64_a_connection_that_dies_after_the_first_byte_or_is_new_is_a_failure(
    polite: Callable[..., Any], serve: Callable[..., Any], answers: Any
) -> None:
    server = serve(lambda request: answers.ok() if request.number == 1 else b"HT connection: close")
    client = polite(http={"retry": {"max_attempts": 1}})
    assert client.ask(Request(server.url, Role.LANDING)).ok
    new = serve(lambda request: None)
    for url in (new.url, "https://no-such-name.invalid/", "http://127.0.0.4:9/", server.url):
        with pytest.raises(HttpError) as failed:
            client.ask(Request(url, Role.LANDING))
        assert not isinstance(failed.value, KeptConnectionLost)
    assert (len(new.requests), len(server.requests)) == (1, 2)
