"""A whole run over sandbox works: works/s, CPU per work, peak memory, requests per success and who got them, time to the first
file, time in commits. Limits and crawl-delays are out of the way, so that the machine is measured and not the patience.

    .venv/bin/python benchmarks/two_thousand_works.py [--works 2000] [--workers 16] [--catalog sqlite|postgres]

The sandbox runs beside it on the same machine and takes its share of the cores; its CPU time is not counted. Only numbers of one
machine and one day compare.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from docstokg_assets.config import load_config
from docstokg_assets.lake.views import query_lake
from docstokg_assets.runs.run import DownloadRun
from docstokg_assets.runs.services import open_services
from docstokg_assets.sandbox import Sandbox
from docstokg_assets_tests.support.servers import Postgres
from resources.catalog.catalog import Catalog
from resources.catalog.rows import Batch, Committed
from resources.lake.files import LakeFiles
from resources.rate_limit.policies import DEFAULT_POLICIES

FAST = "5000/second burst 1000"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--works", type=int, default=2000)
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--catalog", choices=("sqlite", "postgres"), default="sqlite")
    options = parser.parse_args()
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        storage = storage_of(options.catalog, stack)
        with Sandbox.start(root / "box", works_per_year=options.works, years=(2024, 2024), enforce_limits=False) as box:
            policies = dict.fromkeys(DEFAULT_POLICIES, FAST) | {"web.archive.org": {"metadata": FAST, "*": FAST}}
            settings = {
                "data_root": str(root / "data"),
                "workers": options.workers,
                "http.proxy": box.proxy_url,
                "http.ca_bundle": str(box.ca_bundle),
                "http.contact_email": "benchmark@library-of-tests.edu",
                "http.retry.base_delay_ms": 50,
                "http.breaker.open_s": 1.0,  # else the last works wait half a minute for the host that always fails
                "robots.enabled": False,
                "rate_limit.policies": policies,
                "rate_limit.concurrency": {"*": None, "arxiv.org": None, "api.crossref.org": None},
                **storage,
            }
            measure(load_config(None, {}, settings).value, options.workers)


def storage_of(kind: str, stack: ExitStack) -> dict[str, str]:
    if kind == "sqlite":
        return {}
    server = Postgres(durable=True)
    stack.callback(server.remove)
    server.start()
    return {"storage.backend": "postgres", "storage.url": server.url}


def time_commits(catalog: Catalog) -> list[float]:
    """The seconds of every commit from now on."""
    seconds: list[float] = []
    commit = catalog.commit

    def timed(batch: Batch) -> Committed:
        began = time.monotonic()
        try:
            return commit(batch)
        finally:
            seconds.append(time.monotonic() - began)

    catalog.commit = timed  # type: ignore[method-assign]
    return seconds


def measure(config, workers: int) -> None:  # type: ignore[no-untyped-def]
    began, cpu = time.monotonic(), time.process_time()
    with open_services(config) as services:
        commits = time_commits(services.catalog)
        with DownloadRun(services) as run:
            planned = run.store_and_enqueue(run.collect("publication_year:2024"))
            listed = time.monotonic()
            result = run.drain(run.own_works)
            drained = time.monotonic()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        services.export_lake()
    spent = time.process_time() - cpu
    exported = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"works              {planned.works} with {workers} workers")
    print(f"saved              {result.saved} ({result.saved / result.finished:.1%}), {result.bytes / 1e6:.1f} MB")
    print(f"listed and planned {planned.works / (listed - began):.0f} works/s")
    rate = 1 / (drained - listed)
    print(f"downloaded         {rate * result.finished:.1f} works/s, {rate * result.requests:.0f} requests/s")
    share = sum(commits) / (drained - began)
    print(f"commits            {len(commits)}, in them {share:.0%} of the time, on a thread of their own")
    print(
        f"CPU                {1000 * spent / planned.works:.1f} ms a work, {1000 * spent / result.requests:.2f} ms a request"
    )
    tell_economy(config.lake_files())
    print(f"peak memory        {peak:.0f} MB, {exported:.0f} MB with the export to Parquet (libraries included)")


def tell_economy(lake: LakeFiles) -> None:
    """Questions to APIs, HEADs and GETs, redirects and retries included; robots.txt is not asked for here."""
    ((own, every, p50, p95, most),) = query_lake(
        lake,
        "SELECT avg(requests) FILTER (classification = 'success'), sum(requests) / count(*) FILTER "
        "(classification = 'success'), quantile_cont(ttfp_ms, 0.5), quantile_cont(ttfp_ms, 0.95), max(ttfp_ms) FROM outcomes",
        limit=None,
    ).rows
    print(f"requests           {own:.2f} for each work that has its file, {every:.2f} with those for the others")
    print(f"first file after   {p50:.0f} ms in the median, {p95:.0f} ms for 95 %, {most:.0f} ms at most")
    table = query_lake(
        lake,
        "SELECT o.classification, a.resolver, a.role, a.verb, a.http_status, count(*) AS requests FROM attempts a "
        "JOIN outcomes o USING (work_id) WHERE a.http_status IS NOT NULL GROUP BY ALL ORDER BY requests DESC",
        limit=25,
    )
    for row in table.rows:
        print("    " + "  ".join(f"{value!s:<10}" for value in row))


if __name__ == "__main__":
    main()
