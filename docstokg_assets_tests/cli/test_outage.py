"""Fault 60: the proxy or the network is gone in the middle of a pass."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from docstokg_assets.config import load_config
from docstokg_assets.domain.works import Location, Work
from docstokg_assets.engine.outage import NetworkUnavailable
from docstokg_assets.runs.run import DownloadRun
from docstokg_assets.runs.services import open_services
from docstokg_assets.sandbox import Sandbox
from docstokg_assets_tests.support.many_works import PDF
from docstokg_assets_tests.support.polite import RawServer
from docstokg_assets_tests.support.program import Place
from docstokg_assets_tests.support.relay import Relay

WORKS_PER_YEAR = 60
QUERY = ("--query", "publication_year:2024")
GOOD = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(PDF), PDF)


@pytest.fixture
def relay(box: Sandbox) -> Iterator[Relay]:
    relay = Relay(box.proxy_url)
    yield relay
    relay.stop()


def outcomes(place: Place) -> dict[str, int]:
    return dict(place.rows("SELECT reason, count(*) FROM catalog_entries GROUP BY reason"))


@pytest.mark.requirement("DL-4", "HTTP-9")
@pytest.mark.parametrize("gone", ["closed", "without network"])
def test_fault_60_a_pass_ends_when_its_proxy_is_gone_and_no_work_fails_for_it(
    place: Place, box: Sandbox, relay: Relay, gone: str
) -> None:
    whole = Place(place.folder / "whole", place.sections)
    whole.folder.mkdir()
    whole.write()
    assert whole.run(*QUERY).code in (0, 3)
    expected = outcomes(whole)
    box.reset()

    slow = {"policies": {"*": "20/second"}}
    place.write(
        http={**place.sections["http"], "proxy": relay.url}, rate_limit={**place.sections["rate_limit"], **slow}
    )
    process = place.start(*QUERY)
    place.wait_for(lambda: place.done() >= 3, process)
    if gone == "closed":
        relay.stop()
    else:
        relay.answer = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"
        relay.cut()
    ended = place.end(process)
    assert ended.code == 5, ended.err
    assert f"the proxy 127.0.0.1:{relay.port} cannot" in " ".join(ended.err.split())
    assert "run the same command again" in " ".join(ended.err.split())
    assert not {"conn-error", "timeout", "breaker-open", "internal-error"} & outcomes(place).keys()
    assert place.rows("SELECT count(*) FROM queue WHERE state IN ('leased', 'retry')") == [(0,)]
    assert place.done() < sum(expected.values())

    if gone == "closed":
        relay.start()
    relay.answer = None
    place.write(http={**place.sections["http"], "proxy": relay.url})
    again = place.run(*QUERY)
    assert again.code in (0, 3), again.err
    assert outcomes(place) == expected


def run_direct(root: Path, urls: list[str], stop_at: Callable[[], None] = lambda: None) -> list[str | None]:
    """The reasons of works with one URL each, without a proxy."""
    config: dict[str, Any] = {
        "data_root": str(root),
        "workers": 4,
        "http.contact_email": "crawler@library-of-tests.edu",
        "http.allow_http_hosts": [f"127.0.0.{n}" for n in range(1, 10)],
        "http.allow_private_hosts": [f"127.0.0.{n}" for n in range(1, 10)],
        "http.retry.base_delay_ms": 5,
        "http.retry.jitter_ms": 0,
        "robots.enabled": False,
        "rate_limit.policies": {"*": "1000/second burst 100"},
        "resolvers.order": ["openalex"],
        "download.head_precheck": False,
    }
    ids = [f"W{n}" for n in range(len(urls))]
    with open_services(load_config(None, {}, config).value) as services:
        try:
            with DownloadRun(services) as download:
                download.store_and_enqueue(
                    Work(i, title=f"Title {i}", year=2024, locations=(Location(pdf_url=url, is_oa=True),))
                    for i, url in zip(ids, urls, strict=True)
                )
                download.drain(download.own_works, on_progress=lambda _: stop_at())
        finally:
            entries = [services.catalog.entry(work_id) for work_id in ids]
            counts = services.catalog.queue_counts()
            reasons.clear()
            reasons.extend(str(entry.reason) if entry else None for entry in entries)
            assert counts.leased == 0
    return list(reasons)


reasons: list[str | None] = []


def test_hosts_that_are_gone_are_not_taken_for_the_network(tmp_path: Path) -> None:
    with closing(RawServer(lambda _: GOOD, "127.0.0.1")) as living:
        dead = []
        for n in range(2, 7):
            with closing(RawServer(lambda _: GOOD, f"127.0.0.{n}")) as server:
                dead.append(f"{server.url}/paper.pdf")
        found = run_direct(tmp_path, [f"{living.url}/{n}.pdf" for n in range(3)] + dead)
    assert found == ["ok"] * 3 + ["conn-error"] * 5


def test_fault_60_a_pass_ends_when_all_hosts_that_answered_are_gone(tmp_path: Path) -> None:
    servers: list[RawServer] = []
    answered = threading.Semaphore(0)

    def answer(request: Any) -> Any:
        answered.release()
        if len(servers) == 4 and sum(len(server.requests) for server in servers) >= 8:
            for server in servers:
                server.close()
            return None
        return GOOD

    servers += [RawServer(answer, f"127.0.0.{n}") for n in range(1, 5)]
    urls = [f"{server.url}/{n}.pdf" for n in range(10) for server in servers]
    with pytest.raises(NetworkUnavailable, match=r"hosts that answered before .* Check the network"):
        run_direct(tmp_path, urls)
    assert set(reasons) == {"ok", None}
