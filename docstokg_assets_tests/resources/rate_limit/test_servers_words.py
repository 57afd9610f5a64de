"""Through both drivers, over a real socket: what a server says of its limits is kept from the next request on."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from docstokg_assets.config import load_config
from docstokg_assets.domain.works import Location, Work
from docstokg_assets.runs.run import DownloadRun
from docstokg_assets.runs.services import Services, open_services
from resources.clock import SystemClock
from resources.http.attempts import AttemptLog
from resources.http.errors import HostClosed
from resources.http.messages import Request, Role

HOST = "limits.example"


class Web:
    """Every host, behind a plain proxy: a file at every path, with `headers` besides."""

    def __init__(self) -> None:
        self.headers: dict[str, str] = {}
        self.arrivals: list[float] = []
        web = self

        class Host(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                web.arrivals.append(time.monotonic())
                body = b"%PDF-1.7\n" + self.path.encode() + b"x" * 4000 + b"\n%%EOF\n"
                self.send_response(200)
                headers = {"Content-Type": "application/pdf", "Content-Length": str(len(body))}
                for name, value in (headers | web.headers).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Host)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def web() -> Iterator[Web]:
    made = Web()
    threading.Thread(target=made.server.serve_forever, daemon=True).start()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def services(web: Web, tmp_path: Path) -> Iterator[Services]:
    values = {
        "data_root": str(tmp_path / "data"),
        "http.proxy": web.url,
        "http.allow_http_hosts": [HOST],
        "http.contact_email": "crawler@library-of-tests.edu",
        "robots.enabled": False,
        "resolvers.order": ["openalex"],
        "rate_limit.policies": {"*": "1000/second burst 100"},
        "rate_limit.concurrency": {"*": 8},
    }
    with open_services(load_config(None, {}, values).value) as opened:
        yield opened


def ask(services: Services, path: str) -> int:
    numbers = count(1)
    log = AttemptLog(lambda record: None, SystemClock(), "run", "owner", lambda: next(numbers))
    request = Request(f"http://{HOST}/{path}", Role.METADATA)
    return services.client.request_with_retries(request, log).status


@pytest.mark.requirement("HTTP-10")
def test_the_blocking_driver_slows_down_when_it_is_told_to(services: Services, web: Web) -> None:
    web.headers = {"X-Rate-Limit-Limit": "5", "X-Rate-Limit-Interval": "1s"}
    assert [ask(services, str(number)) for number in range(5)] == [200] * 5
    assert web.arrivals[-1] - web.arrivals[1] >= 0.6


@pytest.mark.requirement("HTTP-10")
def test_the_dispatcher_slows_down_when_it_is_told_to(services: Services, web: Web) -> None:
    web.headers = {"X-Rate-Limit-Limit": "5", "X-Rate-Limit-Interval": "1s", "X-Concurrency-Limit": "1"}
    ask(services, "first")
    with DownloadRun(services) as run:
        works = [
            Work(
                f"W{n}",
                title=f"Work {n}",
                year=2024,
                locations=(Location(pdf_url=f"http://{HOST}/{n}.pdf", is_oa=True),),
            )
            for n in range(1, 6)
        ]
        run.store_and_enqueue(works)
        result = run.drain(run.own_works, deadline_s=20)
    assert result.saved == 5
    times = web.arrivals[1:]
    assert all(sum(start <= moment < start + 1.0 for moment in times) <= 5 for start in times)
    assert times[-1] - times[0] >= 0.8


@pytest.mark.requirement("HTTP-10")
def test_a_budget_that_is_used_up_closes_the_host_until_it_is_filled_again(services: Services, web: Web) -> None:
    web.headers = {"X-RateLimit-Limit": "1000", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "3600"}
    assert ask(services, "last") == 200  # the answer itself is good
    with pytest.raises(HostClosed):
        ask(services, "one more")
    assert len(web.arrivals) == 1
    until = services.catalog.host_pause(HOST).closed_until
    assert until is not None and until - time.time() == pytest.approx(3600, abs=10)
