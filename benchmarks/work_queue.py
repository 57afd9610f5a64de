"""The queue at size: works a second when they are put in, and how long a claim of 64 takes at a million queued works.

    .venv/bin/python benchmarks/work_queue.py [--works 1000000] [--catalog sqlite|postgres]

`postgres` is a server of its own from the development wheel, with fsync on. Only numbers of one machine and one day compare.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from pydantic import SecretStr

from docstokg_assets_tests.support.servers import Postgres
from resources.catalog import Catalog, Location, NewItem

CLAIMS = 50
RECORD = {"title": "On the growth of ice in a closed vessel", "locations": ["https://example.org/a/paper.pdf"] * 6}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--works", type=int, default=1_000_000)
    parser.add_argument("--catalog", choices=("sqlite", "postgres"), default="sqlite")
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        with Catalog.open(place(options.catalog, folder, stack)) as catalog:
            measure(catalog, options.works)


def place(kind: str, folder: Path, stack: ExitStack) -> Location:
    """An empty place for a catalog; its server, if it has one, is removed with the stack."""
    if kind == "sqlite":
        return folder / "catalog.sqlite3"
    server = Postgres(durable=True)
    stack.callback(server.remove)
    server.start()
    return SecretStr(server.url)


def works(first: int, last: int) -> Iterator[NewItem]:
    for n in range(first, last):
        year = 2000 + n % 25
        yield NewItem(f"W{4_000_000_000 + n * 7919 % 1_000_003}", year, year, RECORD, "plan", f"host{n % 200}.org")


def measure(catalog: Catalog, size: int) -> None:
    catalog.start_run("run", "benchmark", "", {})
    first = min(100_000, size)
    for what, begin, end in (("enqueue", 0, first), ("more", first, size), ("again", 0, first)):
        began, cpu = time.monotonic(), time.process_time()
        catalog.enqueue(works(begin, end), "run")
        spent = time.monotonic() - began
        print(f"{what:<8} {end - begin:>9,} works  {spent:6.1f} s, CPU {time.process_time() - cpu:5.1f} s")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory  {peak:.0f} MB, libraries included")
    for name, filters in (
        ("claim 64", {}),
        ("claim 64 of a year", {"year": 2010}),
        ("claim 64 of a run", {"run_id": "run"}),
        ("claim 64, 20 groups excluded", {"exclude_groups": frozenset(f"host{n}.org" for n in range(20))}),
    ):
        times, cpu = [], time.process_time()
        for _ in range(CLAIMS):
            began = time.perf_counter()
            assert len(catalog.claim("benchmark", 64, 600, **filters)) == 64
            times.append(1000 * (time.perf_counter() - began))
        cpu = 1000 * (time.process_time() - cpu) / CLAIMS
        print(f"{name:<29} median {statistics.median(times):5.2f} ms, worst {max(times):6.2f} ms, CPU {cpu:5.2f} ms")


if __name__ == "__main__":
    main()
