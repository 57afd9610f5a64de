"""A large catalog becomes telemetry: seconds and peak memory for the end of a run, and for attempts and outcomes to Parquet.

    .venv/bin/python benchmarks/manifest.py [--attempts 1000000] [--works 1000000]

A run of one year is written into a fresh catalog first, which is not measured. Each step then runs in a process of its own, so
that its peak memory is its own; the interpreter with its libraries is part of it. Only numbers of one machine and day compare.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import insert

from docstokg_assets.lake.views import open_lake
from docstokg_assets.lake.writer import LakeWriter, export_manifest
from docstokg_assets.reporting.metrics import compute_slis
from docstokg_assets.reporting.run_files import rebuild_lines, summary_of_run, write_account
from resources.catalog.catalog import Catalog
from resources.catalog.rows import Finished, attempt_to_row, entry_of, entry_to_row
from resources.catalog.schema import attempts, catalog_entries
from resources.lake.files import LakeFolder
from resources.records import AttemptRecord, Classification, DownloadOutcome, Kind, Reason, Status
from resources.scope import WorkScope

RUN, YEAR, BATCH = "run", 2024, 20_000
START = datetime(2026, 1, 1, tzinfo=UTC)
HOSTS = ("arxiv.org", "europepmc.org", "journal.example.org", "repository.example.edu")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--attempts", type=int, default=1_000_000)
    parser.add_argument("--works", type=int, default=1_000_000)
    parser.add_argument("--step", choices=STEPS)
    parser.add_argument("--root", type=Path)
    options = parser.parse_args()
    if options.step:
        began = time.perf_counter()
        with Catalog.open(options.root / "catalog.sqlite3") as catalog:
            told = STEPS[options.step](catalog, options.root)
        took, cpu = time.perf_counter() - began, time.process_time()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{options.step:<10} {took:7.1f} s {cpu:7.1f} s CPU {peak:6.0f} MB peak   {told}", flush=True)
        return
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        fill(root / "catalog.sqlite3", options.attempts, options.works)
        print(f"{options.attempts:,} attempts and {options.works:,} works of one year")
        for step in STEPS:
            subprocess.run([sys.executable, __file__, "--step", step, "--root", folder], check=True)


def fill(path: Path, count: int, works: int) -> None:
    with Catalog.open(path) as catalog:
        catalog.start_run(RUN, "benchmark", "sha256:0", {})
        # Straight into the tables: a commit would look for a million leases, which is not what is measured.
        for table, rows in ((attempts, attempt_rows(count, works)), (catalog_entries, entry_rows(works))):
            batch = []
            with catalog._write() as connection:
                for row in rows:
                    batch.append(row)
                    if len(batch) == BATCH:
                        connection.execute(insert(table), batch)
                        batch = []
                if batch:
                    connection.execute(insert(table), batch)


def attempt_rows(count: int, works: int) -> Iterator[dict[str, object]]:
    for n in range(count):
        host = HOSTS[n % len(HOSTS)]
        url = f"https://{host}/article/{n}/pdf"
        yield attempt_to_row(
            AttemptRecord(
                ts=START + timedelta(milliseconds=n),
                run_id=RUN,
                resolver=("openalex", "unpaywall", "landing")[n % 3],
                url=url,
                verb="GET",
                status=Status.HTTP_GET if n % 3 else Status.HTTP_200,
                http_status=404 if n % 7 == 0 else 200,
                content_type="application/pdf",
                elapsed_ms=n % 3000,
                bytes_written=100_000 + n,
                reason=Reason.HTTP_4XX if n % 7 == 0 else Reason.OK,
                extra={"sleep_ms": n % 900, "sha256": f"{n:064x}"} if n % 3 == 0 else {},
                work_id=f"W{n % works}",
                year=YEAR,
                tier="direct_oa",
                role="artifact",
                host=host,
                canonical_url=url,
                worker_id="benchmark:1",
                seq=n,
            )
        )


def entry_rows(works: int) -> Iterator[dict[str, object]]:
    for n in range(works):
        ok = n % 5 > 0
        outcome = DownloadOutcome(
            ok=ok,
            path=f"PDF/2024__a-title-of-usual-length-about-something-{n}__W{n}.pdf" if ok else None,
            classification=Classification.SUCCESS if ok else Classification.ERROR,
            reason=Reason.OK if ok else Reason.HTTP_4XX,
            kind=Kind.PDF if ok else None,
            url=f"https://{HOSTS[n % len(HOSTS)]}/article/{n}/pdf",
            resolver="openalex",
            tier="direct_oa",
            sha256=f"{n:064x}" if ok else None,
            content_length=100_000 + n if ok else None,
            fallback_chain=("openalex", "unpaywall"),
        )
        title, doi = f"A title of usual length about something {n}", f"10.5555/{n}"
        finished = Finished(f"W{n}", YEAR, title, doi, outcome, RUN, "sha256:0", "w", n % 9000, 2)
        yield entry_to_row(entry_of(finished, START.timestamp() + n / 1000, n + 1))


def account(catalog: Catalog, root: Path) -> str:
    summary = summary_of_run(catalog, RUN, Counter())
    catalog.finish_run(RUN, summary)
    counted = time.perf_counter()
    write_account(catalog, root / RUN, RUN, summary, 1000)
    return f"of which manifest.sqlite3 {time.perf_counter() - counted:.1f} s"


def export(catalog: Catalog, root: Path) -> str:
    exported = export_manifest(catalog, LakeWriter(LakeFolder(root / "lake")))
    size = sum((root / "lake" / part).stat().st_size for part in exported.parts) / 1e6
    return f"{exported.attempts:,} attempts, {exported.outcomes:,} outcomes to Parquet, {size:.0f} MB"


def indicators(catalog: Catalog, root: Path) -> str:
    with open_lake(LakeFolder(root / "lake")) as con:
        slis = compute_slis(con, WorkScope(YEAR))
    return f"yield {slis.yield_:.3f}"


def rebuild(catalog: Catalog, root: Path) -> str:
    run = catalog.run(RUN)
    assert run is not None
    return f"{rebuild_lines(catalog, root / RUN, run):,} attempts to JSONL and CSV"


STEPS = {"account": account, "export": export, "indicators": indicators, "rebuild": rebuild}

if __name__ == "__main__":
    main()
