"""Measure ingest: loading, memory, searches with captures in the archive, and the latency of an interactive request.

    python -m benchmarks.ingest [--requests 200000] [--items 400]

Loads requests into a new SQLite catalog (and PostgreSQL with --postgres URL), searches items whose captures are in the sandbox's
archive with the limits out of the way, and submits interactive requests while idle and under bulk.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from docstokg_assets.config import ContentDownloadConfig, load_config
from docstokg_assets.ingest.loading import Rejected, read_requests
from docstokg_assets.ingest.run import IngestRun
from docstokg_assets.ingest.service import IngestService
from docstokg_assets.runs.services import open_services
from docstokg_assets.sandbox import Sandbox
from resources.catalog.catalog import Catalog
from resources.catalog.database import Location
from resources.scope import Lane, WorkScope

_FAST = "5000/second burst 1000"


def _lines(count: int) -> Iterator[bytes]:
    for n in range(count):
        request = {
            "ingest_type": "pdf",
            "base_url": f"https://journal{n % 997}.example.org/article/{n}/file.pdf?download=true",
            "link_source": "unpaywall",
            "link_source_id": f"10.5555/bench.{n}",
            "ingest_request_source": "unpaywall",
            "ext_ids": {"doi": f"10.5555/bench.{n}"},
            "edit_extra": {"oa_status": "green", "evidence": "oa repository (via OAI-PMH doi match)"},
        }
        yield json.dumps(request).encode()


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def load(location: Location, config: ContentDownloadConfig, count: int) -> dict[str, Any]:
    """Requests a second: read from JSON, validated, stored and due."""
    before = _peak_mb()
    with Catalog.open(location) as catalog:
        service = IngestService(catalog, config)
        began, cpu = time.perf_counter(), time.process_time()
        counts = service.submit_many(read_requests(_lines(count), Rejected(), config.http), Lane.BULK)
        took, cpu = time.perf_counter() - began, time.process_time() - cpu
        assert counts.items == count, counts
        claim = time.perf_counter()
        service.catalog.claim("bench", 64, 60, WorkScope(lanes=(Lane.BULK,)))
        claim = time.perf_counter() - claim
    rate = {"loaded/s": round(count / took), "cpu us/request": round(cpu / count * 1e6, 1)}
    return {
        **rate,
        "peak MB": round(_peak_mb()),
        "grew MB": round(_peak_mb() - before),
        "claim ms": round(claim * 1e3, 1),
    }


def _config(box: Sandbox, root: Path, **changes: Any) -> ContentDownloadConfig:
    values: dict[str, Any] = {
        "data_root": str(root),
        "http.proxy": box.proxy_url,
        "http.ca_bundle": str(box.ca_bundle),
        "http.contact_email": "bench@library-of-tests.edu",
        "robots.enabled": False,
        "rate_limit.policies": {"*": _FAST, "web.archive.org": {"metadata": _FAST, "*": _FAST}},
        "rate_limit.concurrency": {"*": None},
        **changes,
    }
    return load_config(None, {}, values).value


def search(box: Sandbox, root: Path, items: int) -> dict[str, Any]:
    """Items a second with their captures in the archive."""
    config = _config(box, root)
    urls = [f"https://archived.press.org/{n}.pdf" for n in range(items)]
    box.place(*({"url": url, "pdf": n, "timestamp": "20250101000000"} for n, url in enumerate(urls)))
    with open_services(config) as services:
        service = IngestService(services.catalog, config)
        service.submit_many((service.validate({"base_url": url}) for url in urls), Lane.BULK)
        with IngestRun(services, kind="bench") as run:
            began, cpu = time.perf_counter(), time.process_time()
            result = run.drain_lanes()
            took, cpu = time.perf_counter() - began, time.process_time() - cpu
        assert result.saved == items, result
    return {"ingested/s": round(items / took, 1), "cpu ms/request": round(cpu / items * 1e3, 2)}


def latency(box: Sandbox, root: Path, bulk: int) -> dict[str, Any]:
    """Seconds from submit to answer of an interactive request: idle, and while bulk transfers hold all workers."""
    config = _config(box, root, **{"ingest.routes": {"bulk": ["live"], "priority": ["live"]}})
    big = {"pdf": 1, "size": 100_000_000, "drip": 2_000_000}
    box.place(*({"url": f"https://bulk.press.org/{n}.pdf", **big} for n in range(config.workers + 2)))
    box.place(*({"url": f"https://wanted.press.org/{n}.pdf", "pdf": n} for n in range(40)))
    with open_services(config) as services, IngestRun(services, kind="bench") as run:
        service = IngestService(services.catalog, config, run.wake)
        thread = threading.Thread(target=run.drain_lanes, kwargs={"keep_on": True}, daemon=True)
        thread.start()
        idle = [_answered(service, n) for n in range(20)]
        urls = (f"https://bulk.press.org/{n}.pdf" for n in range(bulk))
        service.submit_many((service.validate({"base_url": url}) for url in urls), Lane.BULK)
        while len(box.arrivals("bulk.press.org")) < config.workers:
            time.sleep(0.1)
        busy = [_answered(service, n) for n in range(20, 40)]
        run.stop.set()
        thread.join()
    return {"idle s": _spread(idle), f"under a bulk of {bulk:,} s": _spread(busy)}


def _answered(service: IngestService, n: int) -> float:
    began = time.perf_counter()
    submitted = service.submit(service.validate({"base_url": f"https://wanted.press.org/{n}.pdf"}))
    (*_, result) = service.watch(submitted.id, timeout_s=30)
    assert result.hit, result
    return time.perf_counter() - began


def _spread(times: list[float]) -> dict[str, float]:
    return {"median": round(statistics.median(times), 2), "worst": round(max(times), 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=200_000)
    parser.add_argument("--items", type=int, default=400)
    parser.add_argument("--bulk", type=int, default=100_000)
    parser.add_argument("--postgres", help="URL of an empty database")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        config = ContentDownloadConfig(data_root=root)
        print("load, SQLite:", load(root / "load.sqlite3", config, given.requests), flush=True)
        if given.postgres:
            print("load, PostgreSQL:", load(SecretStr(given.postgres), config, given.requests), flush=True)
        with Sandbox.start(root / "box", works_per_year=5, years=(2024, 2024), enforce_limits=False) as box:
            print("search:", search(box, root / "search", given.items), flush=True)
            print("latency:", latency(box, root / "latency", given.bulk), flush=True)


if __name__ == "__main__":
    main()
