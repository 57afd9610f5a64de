"""Whether a crowd of works that must wait stands in the way of those that need not. A hundred thousand works of a provider that
allows one request in 3 s are queued first and are the most urgent; behind them stand a thousand works on twenty fast hosts.

    .venv/bin/python benchmarks/idleness.py [--slow 100000] [--fast 1000] [--workers 16] [--rounds 3]

Printed: how long the fast works take alone and behind the crowd, the ratio (at most 1.15 is wanted), and the peak memory of the
process that drains (below 200 MB is wanted), a new process for each measurement. The server is a process of its own; no host
but the slow one is limited.
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from origin import origin

from docstokg_assets.config import ContentDownloadConfig, load_config
from docstokg_assets.domain.works import Location, Work
from docstokg_assets.engine.progress import Progress
from docstokg_assets.runs.run import DownloadRun
from docstokg_assets.runs.services import open_services

FAST_HOSTS = tuple(f"fast{n}.example" for n in range(20))
SLOW_HOST = "slow.example"
SLOW_YEAR, FAST_YEAR = 2025, 2020  # the newest are the most urgent

Place = tuple[Path, int, int]  # data root, port of the server, workers
Measured = tuple[float, float, float, int]


def config_of(root: Path, port: int, workers: int) -> ContentDownloadConfig:
    settings = {
        "data_root": str(root),
        "workers": workers,
        "http.proxy": f"http://127.0.0.1:{port}",
        "http.allow_http_hosts": [SLOW_HOST, *FAST_HOSTS],
        "http.contact_email": "benchmark@library-of-tests.edu",
        "robots.enabled": False,
        "rate_limit.policies": {"*": "5000/second burst 1000", SLOW_HOST: "0.33/second"},
        "rate_limit.concurrency": {"*": None, SLOW_HOST: 1},
        "resolvers.order": ["openalex"],
    }
    return load_config(None, {}, settings).value


def works(slow: int, fast: int) -> Iterator[Work]:
    for n in range(slow):
        yield _work(f"A{n:06}", SLOW_YEAR, f"http://{SLOW_HOST}/{n}/60000.pdf")
    for n in range(fast):
        size = 50_000 + n * 7_919 % 150_000
        yield _work(f"B{n:06}", FAST_YEAR, f"http://{FAST_HOSTS[n % len(FAST_HOSTS)]}/{n}/{size}.pdf")


def _work(work_id: str, year: int, url: str) -> Work:
    return Work(work_id, title=f"Work {work_id}", year=year, locations=(Location(pdf_url=url, is_oa=True),))


def fill(place: Place, slow: int, fast: int) -> None:
    with open_services(config_of(*place)) as services, DownloadRun(services, account=False) as run:
        run.store_and_enqueue(works(slow, fast))


def drain(place: Place, fast: int, results: multiprocessing.Queue[Measured]) -> None:
    """Until the fast works are done: the slow ones would take days. Puts seconds, CPU seconds, peak MB and works parked."""
    stop = threading.Event()
    with open_services(config_of(*place)) as services, DownloadRun(services, stop=stop, account=False) as run:
        catalog = services.catalog

        def look(_: Progress) -> None:
            if catalog.queue_counts(FAST_YEAR).done >= fast:
                stop.set()

        began, cpu = catalog.now(), time.process_time()
        parked = run.drain(on_progress=look).parked
        cpu = time.process_time() - cpu
        last = max(entry.finished_at for entry in catalog.entries(run_id=run.run_id) if entry.year == FAST_YEAR)
    results.put((last - began, cpu, _peak_mb(), parked))


def _peak_mb() -> float:
    """Of this process alone; the usual call counts what its parent had at the time."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def measure(place: Place, slow: int, fast: int) -> Measured:
    context = multiprocessing.get_context("spawn")
    results: multiprocessing.Queue[Measured] = context.Queue()
    for job in (
        context.Process(target=fill, args=(place, slow, fast)),
        context.Process(target=drain, args=(place, fast, results)),
    ):
        job.start()
        job.join()
    shutil.rmtree(place[0])
    return results.get(timeout=10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slow", type=int, default=100_000)
    parser.add_argument("--fast", type=int, default=1_000)
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    rounds: dict[int, list[Measured]] = {0: [], options.slow: []}
    with tempfile.TemporaryDirectory() as folder, origin() as port:
        for _ in range(options.rounds):
            for slow, measured in rounds.items():
                measured.append(measure((Path(folder, "data"), port, options.workers), slow, options.fast))
    for slow, measured in rounds.items():
        seconds, cpu, peak, parked = (statistics.median(values) for values in zip(*measured, strict=True))
        print(
            f"{options.fast} works behind {slow:6}: {seconds:6.2f} s, CPU {cpu:6.2f} s, peak {peak:4.0f} MB, {parked:.0f} parked"
        )
    alone, behind = rounds.values()
    print(f"ratio {statistics.median(b[0] / a[0] for a, b in zip(alone, behind, strict=True)):.2f}")


if __name__ == "__main__":
    main()
