"""Fault 58: a host with broken links among good ones."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from docstokg_assets.config import load_config
from docstokg_assets.domain.works import Location, Work
from docstokg_assets.runs.run import DownloadRun
from docstokg_assets.runs.services import open_services

BROKEN, GOOD = 12, 30
OPEN_S = 1.5


@pytest.mark.requirement("TRU-6", "HTTP-9")
@pytest.mark.parametrize("order", ["broken first", "mixed"])
def test_fault_58_broken_links_do_not_put_off_the_good_ones_of_their_host(
    serve: Callable[..., Any], answers: Any, pdf: bytes, tmp_path: Path, order: str
) -> None:
    numbers = range(BROKEN + GOOD)
    bad = set(range(BROKEN)) if order == "broken first" else {n for n in numbers if n % 7 in (0, 3)}
    assert len(bad) == BROKEN

    def answer(request: Any) -> bytes:
        number = int(request.path.rpartition("/")[2].removesuffix(".pdf"))
        broken = answers.ok(b"", "503 Service Unavailable")
        return bytes(broken if number in bad else answers.ok(pdf, Content_Type="application/pdf"))

    config: dict[str, Any] = {
        "data_root": str(tmp_path / "data"),
        "workers": 4,
        "http.contact_email": "crawler@library-of-tests.edu",
        "http.allow_http_hosts": ["a.example"],
        "http.proxy": serve(answer).url,
        "http.retry.max_attempts": 1 if order == "broken first" else 2,
        "http.retry.base_delay_ms": 5,
        "http.breaker.open_s": OPEN_S,
        "http.breaker.max_open_s": OPEN_S,
        "robots.enabled": False,
        "rate_limit.policies": {"*": "1000/second burst 100"},
        "resolvers.order": ["openalex"],
    }
    works = [
        Work(
            f"W{n:02}", title=f"T{n}", year=2024, locations=(Location(pdf_url=f"http://a.example/{n}.pdf", is_oa=True),)
        )
        for n in numbers
    ]
    good = {f"W{n:02}" for n in numbers if n not in bad}
    with open_services(load_config(None, {}, config).value) as services, DownloadRun(services) as run:
        run.store_and_enqueue(works)
        until = time.monotonic() + 60
        while True:
            run.drain(run.own_works)
            entries = {entry.work_id: entry for entry in services.catalog.entries()}
            left = [entries[i] for i in sorted(good) if str(entries[i].reason) != "ok"]
            if not left:
                break
            # refused, and due with the host: never put off by `retry_base_s`
            assert {str(entry.reason) for entry in left} == {"breaker-open"} and time.monotonic() < until
            due = max(entry.retry_at or 0.0 for entry in left)
            assert due < time.time() + OPEN_S + 4
            assert services.catalog.queue_counts().done == len(entries) - len(left) - len(bad)
            time.sleep(max(0.0, due - time.time()))
        tries = {item.work_id: item.tries for item in services.catalog.claim("test", 99, 60).items}
        assert not tries and {entries[f"W{n:02}"].reason for n in bad} <= {"http-5xx", "breaker-open"}
