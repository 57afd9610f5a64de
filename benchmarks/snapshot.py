"""A snapshot of one year becomes planned works in the queue, as `openalex_works` and `resolver_plans` do: works/s of each stage
and peak memory, in one process.

    .venv/bin/python benchmarks/snapshot.py [--works 100000] [--format jsonl|parquet] [--keep FOLDER]

The synthetic snapshot (records of about 5 KB of JSON) is written first, which takes longer than reading it; `--keep` uses that of
an earlier call again. Only numbers of one machine and one day compare.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from docstokg_assets.config import load_config, resolvers_of
from docstokg_assets.domain.works import Work
from docstokg_assets.lake.reader import WorksToPlan
from docstokg_assets.lake.writer import LakeWriter
from docstokg_assets.resolvers.registry import rules_hash
from docstokg_assets.runs.planning import plan_year, store_works
from docstokg_assets.sandbox.mix import Mix
from docstokg_assets.sandbox.snapshot import write_snapshot
from docstokg_assets.sandbox.universe import Universe
from docstokg_assets.sources.listing import Collected, in_batches, works_of_snapshot
from docstokg_assets.sources.local_filter import LocalFilter
from docstokg_assets.sources.snapshot import Snapshot
from resources.catalog.catalog import Catalog
from resources.folders import ReadFolder
from resources.lake.files import LakeFolder
from resources.processes import rare_collections

YEAR = 2024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--works", type=int, default=100_000)
    parser.add_argument("--format", choices=["jsonl", "parquet"], default="jsonl")
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = (options.keep or Path(folder)) / f"snapshot-{options.works}-{options.format}"
        if not (place / "data" / options.format).exists():
            write_snapshot(
                place, Universe(7, options.works, (YEAR, YEAR), Mix.load("default", None)), [YEAR], options.format
            )
        measure(Snapshot(ReadFolder(str(place))), Path(folder) / "data")


def measure(snapshot: Snapshot, root: Path) -> None:
    config, lake, now = load_config(None, {}, {}).value, LakeWriter(LakeFolder(root / "lake")), datetime.now(UTC)
    resolvers = resolvers_of(config)

    def works() -> Iterator[Work]:
        return works_of_snapshot(snapshot, YEAR, None, LocalFilter(""), Collected())

    with Catalog.open(root / "catalog.sqlite3") as catalog:
        with rare_collections():
            stage("read alone", lambda: sum(1 for _ in works()))
            kept = stage(
                "read and keep (openalex_works)",
                lambda: sum(store_works(lake, batch, now) for batch in in_batches(works(), local=True)),
            )

        def plan() -> int:
            to_plan = WorksToPlan(lake.files, rules_hash(resolvers), catalog.planned_from)
            works = to_plan.works(YEAR)
            return plan_year(to_plan, works, resolvers, config.rate_limit, catalog, lake, now).works

        planned = stage("plan and queue (resolver_plans)", plan)
        assert planned == kept == catalog.queue_counts(YEAR).total
        stage("plan again, nothing new", plan)


def stage(name: str, run: Callable[[], int]) -> int:
    began, cpu = time.monotonic(), time.process_time()
    works = run()
    elapsed, spent = time.monotonic() - began, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{name:34} {works:>9,} works {works / elapsed:>8,.0f}/s ({works / spent:,.0f} a CPU second), peak {peak:,.0f} MB",
        flush=True,
    )
    return works


if __name__ == "__main__":
    main()
