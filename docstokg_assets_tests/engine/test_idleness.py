"""A crowd of urgent works that must wait for slow hosts, one or many, does not hold up the works behind it, nor is it moved
about."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from docstokg_assets.config import load_config
from docstokg_assets.domain.works import Location, Work
from docstokg_assets.engine.progress import Progress
from docstokg_assets.runs.run import DownloadRun
from docstokg_assets.runs.services import Services, open_services
from resources.catalog.rows import Batch, Claimed, Committed

PDF = b"%PDF-1.7\n" + b"x" * 4000 + b"\n%%EOF\n"
FAST_HOSTS = [f"fast{n}.example" for n in range(5)]
SLOW, FAST = 2_000, 100


class _Web(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    asked: Counter[str]

    def do_GET(self) -> None:
        self.asked[self.path.split("/")[2]] += 1
        self.send_response(200)
        self.send_header("Content-Type", "application/pdf")
        self.send_header("Content-Length", str(len(PDF)))
        self.end_headers()
        self.wfile.write(PDF)

    def log_message(self, *_: Any) -> None:
        return


@pytest.fixture
def web() -> Iterator[tuple[str, Counter[str]]]:
    asked: Counter[str] = Counter()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Web", (_Web,), {"asked": asked}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}", asked
    server.shutdown()
    server.server_close()


def works() -> Iterator[Work]:
    """The newest are the most urgent."""
    for n in range(SLOW):
        yield _work(f"A{n:04}", 2025, "slow.example")
    for n in range(FAST):
        yield _work(f"B{n:04}", 2020, FAST_HOSTS[n % len(FAST_HOSTS)])


def works_of_many(hosts: int) -> Iterator[Work]:
    """Ten works on each slow host, and a hundred behind them."""
    for n in range(10 * hosts):
        yield _work(f"A{n:05}", 2025, f"slow{n % hosts}.example")
    for n in range(FAST):
        yield _work(f"B{n:05}", 2020, FAST_HOSTS[n % len(FAST_HOSTS)])


def _work(work_id: str, year: int, host: str) -> Work:
    place = Location(pdf_url=f"http://{host}/{work_id}.pdf", is_oa=True)
    return Work(work_id, title=f"Work {work_id}", year=year, locations=(place,))


@pytest.mark.requirement("HTTP-10")
def test_works_behind_a_crowd_that_waits_are_done_while_it_waits(web: tuple[str, Counter[str]], tmp_path: Path) -> None:
    proxy, asked = web
    settings = {
        "data_root": str(tmp_path),
        "workers": 4,
        "http.proxy": proxy,
        "http.allow_http_hosts": ["slow.example", *FAST_HOSTS],
        "http.contact_email": "crawler@library-of-tests.edu",
        "robots.enabled": False,
        "rate_limit.policies": {"*": "1000/second burst 100", "slow.example": "0.33/second"},
        "rate_limit.concurrency": {"slow.example": 1},
        "resolvers.order": ["openalex"],
    }
    stop = threading.Event()
    most_open: list[int] = []
    with open_services(load_config(None, {}, settings).value) as services:
        catalog = services.catalog

        def look(progress: Progress) -> None:
            most_open.append(progress.open)
            if catalog.queue_counts(2020).done == FAST:
                stop.set()

        with DownloadRun(services, stop=stop) as run:
            run.store_and_enqueue(works())
            result = run.drain(run.own_works, deadline_s=60.0, on_progress=look)
        slow = catalog.queue_counts(2025)
    fast_asked = sum(asked[host] for host in FAST_HOSTS)
    assert (fast_asked, result.ended) == (FAST, "stopped")
    assert asked["slow.example"] == slow.done <= 1 + result.elapsed_s / 3  # its pace was kept meanwhile
    assert slow.total - slow.done == SLOW - asked["slow.example"]
    assert result.parked <= 200  # most of the crowd was left where it was
    assert max(most_open) <= 64 + 5  # besides what a slow host has in hand


@pytest.mark.requirement("TRU-7")
@pytest.mark.timeout(120)
@pytest.mark.parametrize(("hosts", "delay"), [(30, 10), (300, 100)])
def test_fault_59_slow_hosts_in_any_number_leave_the_fast_ones_their_room(
    web: tuple[str, Counter[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hosts: int, delay: int
) -> None:
    """All were asked a moment ago and want to be left alone for a while. Counted is what happens until the fast works are done:
    how many requests the slow hosts get, and how often the works that wait are moved about."""
    proxy, asked = web
    slow_hosts = [f"slow{n}.example" for n in range(hosts)]
    settings = {
        "data_root": str(tmp_path),
        "workers": 4,
        "http.proxy": proxy,
        "http.allow_http_hosts": [*slow_hosts, *FAST_HOSTS],
        "http.contact_email": "crawler@library-of-tests.edu",
        "rate_limit.policies": {"*": "1000/second burst 100"},
        "resolvers.order": ["openalex"],
    }
    stop, most_open, claims, parked = threading.Event(), list[int](), Counter[str](), list[str]()
    with open_services(load_config(None, {}, settings).value) as services, DownloadRun(services, stop=stop) as run:
        catalog = services.catalog
        run.store_and_enqueue(works_of_many(hosts))
        _make_slow(services, slow_hosts, delay)
        claim, commit = catalog.claim, catalog.commit

        def count_claims(*args: Any, **how: Any) -> Claimed:
            claimed = claim(*args, **how)
            claims.update(item.work_id for item in claimed.items)
            return claimed

        def count_parked(batch: Batch) -> Committed:
            if not stop.is_set():
                parked.extend(item.work_id for item in batch.parked)
            return commit(batch)

        def look(progress: Progress) -> None:
            most_open.append(progress.open)
            if catalog.queue_counts(2020).done == FAST:
                stop.set()

        monkeypatch.setattr(catalog, "claim", count_claims)
        monkeypatch.setattr(catalog, "commit", count_parked)
        result = run.drain(run.own_works, deadline_s=60.0, on_progress=look)
    turns = int(result.elapsed_s / delay)  # of each host
    assert (sum(asked[host] for host in FAST_HOSTS), result.ended) == (FAST, "stopped")
    assert sum(asked[host] for host in slow_hosts) <= hosts * turns
    assert max(most_open) <= 64 + 64
    assert (
        len(parked) <= (2 + turns) * hosts + 64
    )  # a group is learnt from a work or two; the others stay where they are
    assert sum(claims.values()) <= FAST + len(parked) + hosts * (2 + turns) + 64


def _make_slow(services: Services, hosts: list[str], delay: int) -> None:
    """Make known what robots.txt of each host asks for, and that it has just been asked for something."""
    for host in FAST_HOSTS:
        services.catalog.save_robots(host, 404, "")
    for host in hosts:
        services.catalog.save_robots(host, 200, f"User-agent: *\nCrawl-delay: {delay}\n")
        allowance = services.limiter.policy_for(host, "artifact", "openalex", float(delay))
        assert services.limiter.enter(allowance) == 0.0
        services.limiter.leave(allowance)
