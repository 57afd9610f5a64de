"""An interactive request starts at once while bulk transfers hold all workers; shown by the arrivals at the server."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from docstokg_assets.ingest.run import IngestRun
from docstokg_assets.ingest.service import IngestService
from docstokg_assets.runs.services import open_services
from docstokg_assets.sandbox import Sandbox
from docstokg_assets_tests.support.configs import ConfigFor
from resources.scope import Lane

SANDBOX: dict[str, Any] = {"works_per_year": 5, "years": (2024, 2024), "enforce_limits": False}
BULK, WANTED = "bulk.press.org", "wanted.press.org"
WORKERS = 2


@pytest.mark.requirement("ING-9")
def test_an_interactive_request_starts_within_two_seconds_under_bulk(box: Sandbox, config_for: ConfigFor) -> None:
    big = {"pdf": 1, "size": 40_000_000, "drip": 2_000_000}  # 20 s each
    box.place(*({"url": f"https://{BULK}/{n}.pdf", **big} for n in range(WORKERS + 2)))
    box.place({"url": f"https://{WANTED}/1.pdf", "pdf": 2}, {"url": f"https://{BULK}/wanted.pdf", "pdf": 3})
    routes = {"ingest__routes__bulk": ["live"], "ingest__routes__priority": ["live"]}
    config = config_for(box, workers=WORKERS, robots__enabled=False, **routes)
    with open_services(config) as services, IngestRun(services, kind="ingest") as run:
        service = IngestService(services.catalog, config, run.wake)
        bulk = (service.validate({"base_url": f"https://{BULK}/{n}.pdf"}) for n in range(3_000))
        assert service.submit_many(bulk, Lane.BULK).items == 3_000
        thread = threading.Thread(target=run.drain_lanes, kwargs={"keep_on": True})
        thread.start()
        try:
            held = wait_for(lambda: [row for row in box.arrivals(BULK) if row["status"] == 200], WORKERS)
            for url in (f"https://{WANTED}/1.pdf", f"https://{BULK}/wanted.pdf"):
                began = time.monotonic()
                submitted = service.submit(service.validate({"base_url": url}))
                (*_, result) = service.watch(submitted.id, timeout_s=20)
                took = time.monotonic() - began
                assert (result.status, result.hit) == ("success", True)
                assert took < 4.0, f"{url} was answered after {took:.1f} s"
            arrived = next(row["time"] for row in box.arrivals(WANTED))
            assert arrived - held[-1]["time"] < 10.0
            in_flight = [row for row in box.arrivals(BULK) if row["status"] == 200 and "wanted" not in row["path"]]
            assert len(in_flight) == WORKERS, "the bulk transfers still hold all workers"
        finally:
            run.stop.set()
            thread.join(30)


def wait_for(look: Any, count: int) -> Any:
    end = time.monotonic() + 30
    while len(found := look()) < count:
        assert time.monotonic() < end, found
        time.sleep(0.05)
    return found
