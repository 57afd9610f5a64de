"""How the lake behaves when it grows: many attempts over many years, the metrics of one year, their memory.

    python benchmarks/lake_growth.py [--attempts 20_000_000] [--years 20] [--root FOLDER] [--keep]

Attempts and outcomes are made in batches and written as the export writes them, many small parts among them. The metrics of one
year are computed in a process of its own, whose time and highest memory are printed. Goal: under 10 s and 1 GB.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docstokg_assets.lake.views import open_lake
from docstokg_assets.lake.writer import BATCH_ROWS, SCHEMAS, LakeWriter
from docstokg_assets.reporting.metrics import compute_slis, run_summary
from resources.lake.files import LakeFolder
from resources.scope import WorkScope

FIRST_YEAR, START, PER_PART, PER_WORK = 2005, 1_750_000_000.0, 200_000, 5
HOSTS = [f"host{n}.example.org" for n in range(500)]
_EMPTY = dict.fromkeys(("content_type", "content_length_hdr", "retry_after_s"))


def attempts(first: int, count: int, years: int) -> Iterator[dict[str, list[Any]]]:
    for start in range(first, first + count, BATCH_ROWS):
        ns = range(start, min(start + BATCH_ROWS, first + count))
        hosts = [HOSTS[(n // PER_WORK) % len(HOSTS)] for n in ns]
        urls = [f"https://{host}/article/{n // PER_WORK}/{n % PER_WORK}" for n, host in zip(ns, hosts, strict=True)]
        size = len(ns)
        known: dict[str, list[Any]] = {
            "run_id": [f"run-{n // 1_000_000}" for n in ns],
            "worker_id": ["machine:1:abc"] * size,
            "seq": list(ns),
            "ts": [START + n / 50 for n in ns],
            "work_id": [f"W{n // PER_WORK}" for n in ns],
            "resolver": [("unpaywall", "crossref", "landing")[n % 3] for n in ns],
            "tier": [("direct_oa", "doi_redirect")[n % 2] for n in ns],
            "role": [("metadata", "landing", "artifact")[n % 3] for n in ns],
            "host": hosts,
            "url": urls,
            "canonical_url": urls,
            "verb": ["GET"] * size,
            "status": [("http-get", "http-get", "http-200")[n % 3] for n in ns],
            "reason": ["ok"] * size,
            "http_status": [429 if n % 400 == 0 else 200 for n in ns],
            "elapsed_ms": [n % 900 for n in ns],
            "bytes_written": [n % 1_000_000 for n in ns],
            "attempt": [1] * size,
            "cache_hit": [int(n % 7 == 0) for n in ns],
            "extra": ['{"sleep_ms": 12}'] * size,
            "year": [FIRST_YEAR + (n // PER_WORK) % years for n in ns],
        }
        yield {**{name: [None] * size for name in SCHEMAS["attempts"].names}, **known}


def outcomes(first: int, count: int, years: int) -> Iterator[dict[str, list[Any]]]:
    for start in range(first, first + count, BATCH_ROWS):
        ns = range(start, min(start + BATCH_ROWS, first + count))
        size = len(ns)
        known: dict[str, list[Any]] = {
            "work_id": [f"W{n}" for n in ns],
            "classification": ["success"] * size,
            "reason": ["ok" if n % 8 else "no-candidate" for n in ns],
            "kind": ["pdf"] * size,
            "url": [f"https://{HOSTS[n % len(HOSTS)]}/article/{n}" for n in ns],
            "resolver": ["unpaywall"] * size,
            "tier": ["direct_oa"] * size,
            "sha256": ["ab" * 32] * size,
            "bytes": [1_000_000] * size,
            "run_id": [f"run-{n * PER_WORK // 1_000_000}" for n in ns],
            "ttfp_ms": [800] * size,
            "requests": [PER_WORK] * size,
            "finished_at": [START + n for n in ns],
            "revision": list(ns),
            "year": [FIRST_YEAR + n % years for n in ns],
        }
        rest: dict[str, list[Any]] = {name: [None] * size for name in SCHEMAS["outcomes"].names}
        yield {**rest, "html_paths": [[]] * size, "fallback_chain": [[]] * size, "flags": [[]] * size, **known}


def fill(lake: LakeWriter, total: int, years: int) -> None:
    began = time.monotonic()
    for first in range(0, total, PER_PART):
        count = min(PER_PART, total - first)
        lake.append_columns("attempts", attempts(first, count, years))
        lake.append_columns("outcomes", outcomes(first // PER_WORK, count // PER_WORK, years))
    took = time.monotonic() - began
    parts = {table: len(lake.files.parts(table)) for table in ("attempts", "outcomes")}
    print(f"{total:,} attempts in {took:.0f} s ({total / took:,.0f}/s), parts: {parts}", flush=True)


def measure(folder: Path, year: int) -> None:
    """In a process of its own, so that the highest memory is that of the metrics."""
    began, scope = time.monotonic(), WorkScope(year)
    with open_lake(LakeFolder(folder), years=scope.years) as con:
        slis = compute_slis(con, scope)
        run_summary(con, scope)
    took, peak = time.monotonic() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"metrics of {year}: {slis.finished:,} works, {slis.requests:,} requests in {took:.1f} s, peak {peak:,.0f} MB"
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--attempts", type=int, default=20_000_000)
    options.add_argument("--years", type=int, default=20)
    options.add_argument("--root", type=Path)
    options.add_argument("--keep", action="store_true")
    options.add_argument("--measure", type=int, help="only measure this year of --root")
    given = options.parse_args()
    root = given.root or Path(tempfile.mkdtemp(prefix="lake-growth-"))
    if given.measure:
        measure(root / "lake", given.measure)
        return
    try:
        fill(LakeWriter(LakeFolder(root / "lake")), given.attempts, given.years)
        again = [sys.executable, __file__, "--root", str(root), "--measure", str(FIRST_YEAR + given.years // 2)]
        subprocess.run(again, check=True)
    finally:
        if not given.keep:
            shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
