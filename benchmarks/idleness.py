"""Whether works that must wait stand in the way of those that need not. A hundred thousand works of slow hosts are queued first
and are the most urgent; behind them stand a few thousand works on twenty fast hosts. The slow hosts, one or thousands, ask for
a crawl delay so that together they allow three requests a second.

    .venv/bin/python benchmarks/idleness.py [--hosts 1 30 300 3000] [--processes 1 3] [--slow 100000] [--fast 3000]
        [--workers 16] [--rounds 3] [--cold]

Printed: how long the fast works take alone and behind the crowd, with as many processes; the ratio (at most 1.15 is wanted); the
peak memory of the largest process that drains (below 200 MB is wanted), each measurement in new processes; how many works were
parked, and how many requests the slow hosts got. Every robots.txt is known beforehand, and each slow host was asked last so long
ago that from the start three of them a second have their turn; with `--cold` they were never asked, so that the first request
to each may go at once. The server is a process of its own; no other host is limited.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import re
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from origin import origin

from docstokg_assets.config import ContentDownloadConfig, load_config
from docstokg_assets.domain.works import Location, Work
from docstokg_assets.engine.progress import Progress
from docstokg_assets.runs.run import DownloadRun
from docstokg_assets.runs.services import open_services
from resources.clock import SystemClock
from resources.rate_limit.limiter import Limiter

FAST_HOSTS = tuple(f"fast{n}.example" for n in range(20))
SLOW_YEAR, FAST_YEAR = 2025, 2020  # the newest are the most urgent
TOGETHER_PER_S = 3.0


class Case(NamedTuple):
    root: Path
    port: int
    workers: int
    hosts: int
    slow: int
    fast: int
    cold: bool


class Measured(NamedTuple):
    """Of one process that drained, or of all of them together."""

    seconds: float
    cpu: float
    peak_mb: float
    parked: int
    slow_done: int


class _ThenClock(SystemClock):
    """Shows a time in the past."""

    ago = 0.0

    def monotonic(self) -> float:
        return super().monotonic() - self.ago


def slow_hosts(case: Case) -> list[str]:
    return [f"slow{n}.example" for n in range(case.hosts)]


def config_of(case: Case) -> ContentDownloadConfig:
    settings = {
        "data_root": str(case.root),
        "workers": case.workers,
        "http.proxy": f"http://127.0.0.1:{case.port}",
        "http.allow_http_hosts": [*slow_hosts(case), *FAST_HOSTS],
        "http.contact_email": "benchmark@library-of-tests.edu",
        "rate_limit.policies": {"*": "5000/second burst 1000"},
        "rate_limit.concurrency": {"*": None},
        "resolvers.order": ["openalex"],
    }
    return load_config(None, {}, settings).value


def works(case: Case) -> Iterator[Work]:
    for n in range(case.slow):
        yield _work(f"A{n:06}", SLOW_YEAR, f"http://slow{n % case.hosts}.example/{n}/60000.pdf")
    for n in range(case.fast):
        size = 50_000 + n * 7_919 % 150_000
        yield _work(f"B{n:06}", FAST_YEAR, f"http://{FAST_HOSTS[n % len(FAST_HOSTS)]}/{n}/{size}.pdf")


def _work(work_id: str, year: int, url: str) -> Work:
    return Work(work_id, title=f"Work {work_id}", year=year, locations=(Location(pdf_url=url, is_oa=True),))


def fill(case: Case) -> None:
    config, delay = config_of(case), case.hosts / TOGETHER_PER_S
    with open_services(config) as services, DownloadRun(services, account=False) as run:
        run.store_and_enqueue(works(case))
        for host in (*slow_hosts(case), *FAST_HOSTS):
            wish = "" if host in FAST_HOSTS else f"User-agent: *\nCrawl-delay: {delay:g}\n"
            services.catalog.save_robots(host, 200, wish)


def spend_tokens(case: Case) -> None:
    """Make it so that the hosts were asked last one after the other, three a second, up to now."""
    clock, delay = _ThenClock(), case.hosts / TOGETHER_PER_S
    with closing(Limiter.open(config_of(case).rate_limit, case.root / "limits.sqlite3", clock=clock)) as limiter:
        for number, host in enumerate(slow_hosts(case)):
            clock.ago = (case.hosts - 1 - number) / TOGETHER_PER_S
            allowance = limiter.policy_for(host, "artifact", "openalex", delay)
            assert limiter.enter(allowance) == 0.0


def drain(case: Case, results: multiprocessing.Queue[Measured]) -> None:
    """Until the fast works are done: the slow ones would take days."""
    stop = threading.Event()
    with open_services(config_of(case)) as services, DownloadRun(services, stop=stop, account=False) as run:
        catalog = services.catalog

        def look(_: Progress) -> None:
            if catalog.queue_counts(FAST_YEAR).done >= case.fast:
                stop.set()

        began, cpu = catalog.now(), time.process_time()
        parked = run.drain(on_progress=look).parked
        cpu = time.process_time() - cpu
        ends = [(entry.finished_at, entry.year) for entry in catalog.entries(settled_by=run.run_id)]
    last = max((end for end, year in ends if year == FAST_YEAR), default=began)
    slow_done = sum(year == SLOW_YEAR for _, year in ends)
    results.put(Measured(last - began, cpu, _peak_mb(), parked, slow_done))


def _peak_mb() -> float:
    """Of this process alone; the usual call counts what its parent had at the time."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def measure(case: Case, processes: int) -> Measured:
    context = multiprocessing.get_context("spawn")
    results: multiprocessing.Queue[Measured] = context.Queue()
    filling = context.Process(target=fill, args=(case,))
    filling.start()
    filling.join()
    if case.slow and not case.cold:
        spend_tokens(case)
    draining = [context.Process(target=drain, args=(case, results)) for _ in range(processes)]
    for job in draining:
        job.start()
    of_each = [results.get(timeout=1_800) for _ in draining]
    for job in draining:
        job.join()
    shutil.rmtree(case.root)
    seconds, cpu, peak, parked, slow_done = zip(*of_each, strict=True)
    return Measured(max(seconds), sum(cpu), max(peak), sum(parked), sum(slow_done))


def compare(case: Case, processes: int, rounds: int) -> None:
    alone, behind = list[Measured](), list[Measured]()
    for _ in range(rounds):
        alone.append(measure(case._replace(slow=0), processes))
        behind.append(measure(case, processes))
    print(f"{case.hosts} slow hosts, {processes} processes, load {os.getloadavg()[0]:.1f}")
    for slow, measured in ((0, alone), (case.slow, behind)):
        seconds, cpu, peak, parked, slow_done = (statistics.median(values) for values in zip(*measured, strict=True))
        print(
            f"  {case.fast} works behind {slow:6}: {seconds:6.2f} s, CPU {cpu:6.2f} s, peak {peak:4.0f} MB, "
            f"{parked:.0f} parked, {slow_done:.0f} slow ones done"
        )
    ratio = statistics.median(b.seconds / a.seconds for a, b in zip(alone, behind, strict=True))
    print(f"  ratio {ratio:.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, nargs="+", default=[1, 30, 300, 3_000])
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 3])
    parser.add_argument("--slow", type=int, default=100_000)
    parser.add_argument("--fast", type=int, default=3_000)
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cold", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, origin() as port:
        for hosts in options.hosts:
            case = Case(
                Path(folder, "data"), port, options.workers, hosts, options.slow, options.fast, cold=options.cold
            )
            for processes in options.processes:
                compare(case, processes, options.rounds)


if __name__ == "__main__":
    main()
