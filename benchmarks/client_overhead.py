"""What our layers cost on a warm host, beside a bare tuned `requests` loop that does the same: GET, SHA-256, write to a temporary
file, fsync, rename, fsync of the folder.

    .venv/bin/python benchmarks/client_overhead.py [--files 2000] [--rounds 5] [--workers 16] [--profile]

`bare`: a session for each thread, `trust_env` off, the request prepared once, `raw.stream(262144)`, an unbuffered file.
`client`: `HttpClient.request_with_retries` with guard, robots, host state, limiter in SQLite, attempts, artifact sink and store.
`pipeline`: a whole pass, from the claim of the work to its commit in the catalog and its manifest line; for information.
All take turns in one process; printed are medians of the rounds, and the median of each round's ratio to `bare`. CPU is that
of the process, all threads; the server is a process of its own. Only ratios mean something.
"""

from __future__ import annotations

import argparse
import cProfile
import hashlib
import itertools
import os
import pstats
import statistics
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import requests
from origin import origin

from docstokg_assets.config import ContentDownloadConfig, load_config
from docstokg_assets.domain.works import Location, Work
from docstokg_assets.engine.download import ArtifactSink, DownloadStreamResult
from docstokg_assets.runs.run import DownloadRun
from docstokg_assets.runs.services import Services, open_services
from resources.clock import SystemClock
from resources.http.attempts import AttemptLog
from resources.http.messages import Request, Role
from resources.records import AttemptRecord

CHUNK = 262_144
LARGE = 128 * 1024 * 1024
Way = Callable[[str], None]


class Bare:
    def __init__(self, folder: Path) -> None:
        self._folder, self._local = folder, threading.local()
        self._names = itertools.count()
        folder.mkdir()

    def fetch(self, url: str) -> None:
        local = self._local
        if not hasattr(local, "session"):
            local.session = requests.Session()
            local.session.trust_env = False
            local.request = local.session.prepare_request(requests.Request("GET", url))
        local.request.url = url
        final = self._folder / f"{next(self._names)}.pdf"
        part, digest = final.with_suffix(".part"), hashlib.sha256()
        answer = local.session.send(local.request, stream=True, timeout=(10, 60), allow_redirects=False)
        with open(part, "wb", buffering=0) as file:
            for chunk in answer.raw.stream(CHUNK, decode_content=False):
                digest.update(chunk)
                file.write(chunk)
            digest.hexdigest()
            os.fsync(file.fileno())
        os.replace(part, final)
        folder = os.open(self._folder, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)


class Client:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._names, seq = itertools.count(), itertools.count()
        kept: deque[AttemptRecord] = deque(maxlen=10_000)
        self._log = AttemptLog(kept.append, SystemClock(), "run", "benchmark", lambda: next(seq))

    def fetch(self, url: str) -> None:
        store = self._services.store
        request = Request(url, Role.ARTIFACT, sink=lambda head: ArtifactSink(head, store, LARGE * 2, LARGE))
        stream = self._services.client.request_with_retries(request, self._log).payload
        assert isinstance(stream, DownloadStreamResult) and stream.part is not None
        store.commit(stream.part, f"PDF/{next(self._names)}.pdf", stream.sha256)


def measure(job: Callable[[], None]) -> tuple[float, float]:
    """Seconds of wall and of CPU."""
    began, cpu = time.perf_counter(), time.process_time()
    job()
    return time.perf_counter() - began, time.process_time() - cpu


def in_threads(fetch: Way, urls: Sequence[str], workers: int) -> None:
    with ThreadPoolExecutor(workers) as pool:
        deque(pool.map(fetch, urls), maxlen=0)


def drained(services: Services, urls: Sequence[str], numbers: itertools.count[int]) -> tuple[float, float]:
    works = [
        Work(f"W{next(numbers)}", title="A work", year=2024, locations=(Location(pdf_url=url, is_oa=True),))
        for url in urls
    ]
    saved: list[int] = []
    with DownloadRun(services) as run:
        run.store_and_enqueue(works)
        spent = measure(lambda: saved.append(run.drain(run.own_works).saved))
    assert saved == [len(urls)]
    return spent


def show(title: str, unit: float, rounds: dict[str, list[tuple[float, float]]]) -> None:
    print(title)
    for name, spent in rounds.items():
        wall, cpu = (statistics.median(value) for value in zip(*spent, strict=True))
        against = list(zip(spent, rounds["bare"], strict=True))
        ratios = [statistics.median(ours[n] / bare[n] for ours, bare in against) for n in (0, 1)]
        print(
            f"  {name:9} wall {1000 * wall / unit:8.2f} ms  CPU {1000 * cpu / unit:8.2f} ms a file;"
            f"  ratio wall {ratios[0]:.2f}, CPU {ratios[1]:.2f}"
        )


def config_of(root: Path, workers: int) -> ContentDownloadConfig:
    settings = {
        "data_root": str(root),
        "workers": workers,
        "http.contact_email": "benchmark@library-of-tests.edu",
        "http.allow_http_hosts": ["127.0.0.1"],
        "http.allow_private_hosts": ["127.0.0.1"],
        "rate_limit.policies": {"*": "100000/second burst 10000"},
        "rate_limit.concurrency": {"*": None},
        "download.max_bytes": LARGE * 2,
        "resolvers.order": ["openalex"],
    }
    return load_config(None, {}, settings).value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument(
        "--profile", action="store_true", help="show where one thread of `client` spends its time, and end"
    )
    options = parser.parse_args()
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        base = f"http://127.0.0.1:{stack.enter_context(origin())}"
        services = stack.enter_context(open_services(config_of(root / "data", options.workers)))
        small = [f"{base}/{n}/{50_000 + n * 7_919 % 150_000}.pdf" for n in range(options.files)]
        bare, client, numbers = Bare(root / "bare"), Client(services), itertools.count()
        ways: dict[str, Way] = {"bare": bare.fetch, "client": client.fetch}
        for fetch in ways.values():
            in_threads(fetch, small[:200], options.workers)  # warm
        if options.profile:
            profile(lambda: deque(map(client.fetch, small), maxlen=0))
            return
        rounds: dict[str, list[tuple[float, float]]] = {"bare": [], "client": [], "pipeline": []}
        for turn in range(options.rounds):
            for name in sorted(ways, reverse=bool(turn % 2)):
                rounds[name].append(measure(lambda name=name: in_threads(ways[name], small, options.workers)))  # type: ignore[misc]
            rounds["pipeline"].append(drained(services, small, numbers))
        show(f"{len(small)} files of 50-200 KB, {options.workers} at once", len(small), rounds)
        large = [f"{base}/large{n}/{LARGE}.pdf" for n in range(4)]
        rounds = {"bare": [], "client": []}
        for turn in range(options.rounds):
            for name in sorted(ways, reverse=bool(turn % 2)):
                rounds[name].append(measure(lambda name=name: in_threads(ways[name], large, 4)))  # type: ignore[misc]
                for file in root.rglob("*.pdf"):
                    file.unlink()
        show("4 files of 128 MB, all at once", 4, rounds)


def profile(job: Callable[[], object]) -> None:
    profiler = cProfile.Profile()
    profiler.runcall(job)
    pstats.Stats(profiler).sort_stats("cumtime").print_stats(80)


if __name__ == "__main__":
    main()
