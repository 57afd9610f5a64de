"""Ten thousand malformed answers: no crash, no hang, each ends in a Response or in an error of the documented tree, and none of
them leaks into the answer of the next request."""

from __future__ import annotations

import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from docstokg_assets.reporting.reasons import REASON_TEXT
from docstokg_assets_tests.support import hostile_server
from resources.http.errors import HttpError
from resources.http.exchange import RequestPolicy
from resources.http.messages import Request, Response, Role
from resources.http.settings import RetrySettings

ANSWERS = 10_000
THREADS = 16
HOSTS = tuple(f"127.0.7.{n}" for n in range(1, THREADS + 1))
QUICK = {
    "timeout": 0.3,
    "deadline_s": 0.5,
    "retry": {"max_attempts": 1},
    "breaker": {"enabled": False},  # it would keep most of them from being asked for
    "allow_http_hosts": HOSTS,
    "allow_private_hosts": HOSTS,
    "max_page_bytes": 1_000_000,
}
AGAIN = RetrySettings(max_attempts=4, base_delay_ms=5, jitter_ms=0)
FREE = {"policies": {"*": "1000000/s burst 100000"}}


class Sink:
    def __init__(self) -> None:
        self.size, self.ended = 0, ""

    def write(self, chunk: bytes) -> None:
        self.size += len(chunk)

    def finish(self) -> int:
        self.ended = "finished"
        return self.size

    def abort(self) -> None:
        self.ended = "aborted"


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with subprocess.Popen(
        [sys.executable, hostile_server.__file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None and server.stdin is not None
        yield int(server.stdout.readline())
        server.stdin.close()


def ask_for(client: Any, number: int, port: int) -> str:
    """How the `number`-th answer ended: a reason, or `status`; afterwards the same host gives a sound answer, now and then."""
    base = f"http://{HOSTS[number % THREADS]}:{port}"
    sink = Sink()
    as_file = number % 2 == 0
    request = Request(
        f"{base}/bad/{number}",
        Role.ARTIFACT if as_file else Role.LANDING,
        sink=(lambda head: sink) if as_file else None,
    )
    began = time.monotonic()
    try:
        response = client.ask(request)
    except HttpError as error:
        ended = str(error.reason)
        assert error.reason in REASON_TEXT and str(error)
        assert sink.ended != "finished"
    else:
        assert isinstance(response, Response) and 200 <= response.status <= 999, response.status
        ended = "answer"
    assert time.monotonic() - began < 5
    if number % 4 < 2:  # of a file and of a page
        # the server may close its end just then, as servers do; that is asked again
        good = client.ask(Request(f"{base}/good/{number}", request.role), policy=RequestPolicy(retry=AGAIN))
        assert good.body == b"good %d" % number, good
    return ended


@pytest.mark.requirement("HTTP-2")
def test_ten_thousand_malformed_answers_end_in_documented_reasons(polite: Callable[..., Any], port: int) -> None:
    client = polite(http=QUICK, limits=FREE)
    faults: list[str] = []

    def ask(number: int) -> str:
        try:
            return ask_for(client, number, port)
        except BaseException:
            faults.append(f"answer {number}: {traceback.format_exc()}")
            return "fault"

    began = time.monotonic()
    with ThreadPoolExecutor(THREADS) as pool:
        ended = Counter(pool.map(ask, range(ANSWERS), timeout=120))
    took = time.monotonic() - began
    print(f"{ANSWERS} malformed and {ANSWERS // 2} sound answers in {took:.1f} s: {dict(ended)}")
    assert not faults, f"{len(faults)} of {ANSWERS}; the first: {faults[0]}"
    assert sum(ended.values()) == ANSWERS and len(ended) >= 7
    assert {str(record.reason) for record in client.attempts} <= {str(reason) for reason in REASON_TEXT}
    assert len(client.attempts) >= ANSWERS * 1.5
    assert took < 60
