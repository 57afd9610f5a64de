"""CPU time of a commit for each work, with one attempt and one file each, in groups as the recorder makes them.

.venv/bin/python benchmarks/commits.py [--works 2000] [--group 25]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from pydantic import SecretStr

from docstokg_assets_tests.support.servers import Postgres
from resources.catalog.catalog import Catalog
from resources.catalog.database import Location
from resources.catalog.rows import Batch, Finished, NewItem, QueueItem
from resources.records import AttemptRecord, Classification, DownloadOutcome, Kind, Reason, Status

OWNER = "benchmark:1:a"


def attempt(item: QueueItem, seq: int) -> AttemptRecord:
    url = f"https://a.example/{item.work_id}.pdf"
    return AttemptRecord(
        ts=datetime.now(UTC),
        run_id="run",
        resolver="landing",
        url=url,
        verb="GET",
        status=Status.HTTP_GET,
        reason=Reason.OK,
        http_status=200,
        work_id=item.work_id,
        year=item.year,
        host="a.example",
        canonical_url=url,
        worker_id=OWNER,
        seq=seq,
        extra={"sha256": f"{seq:064x}"},
    )


def finished(item: QueueItem, seq: int) -> Finished:
    outcome = DownloadOutcome(
        True,
        f"PDF/{item.work_id}.pdf",
        Classification.SUCCESS,
        Reason.OK,
        kind=Kind.PDF,
        url=f"https://a.example/{item.work_id}.pdf",
        resolver="landing",
        tier="direct_oa",
        sha256=f"{seq:064x}",
        content_length=100_000,
        content_type="application/pdf",
    )
    return Finished(item.work_id, item.year, "A title", None, outcome, "run", "sha256:0", OWNER)


def measure(name: str, location: Location, works: int, group: int) -> None:
    with Catalog.open(location) as catalog:
        catalog.start_run("run", "benchmark", "sha256:0", {})
        catalog.enqueue([NewItem(f"W{n}", 2024, 0, {"id": f"W{n}"}, "plan") for n in range(works)], "run")
        claimed: list[QueueItem] = []
        while items := catalog.claim(OWNER, 64, lease_s=600).items:
            claimed += items
        spent = 0.0
        for first in range(0, works, group):
            part = list(enumerate(claimed[first : first + group], first))
            batch = Batch([attempt(item, n) for n, item in part], [finished(item, n) for n, item in part])
            began = time.process_time()
            catalog.commit(batch)
            spent += time.process_time() - began
    print(f"{name:<12}{1000 * spent / works:.3f} ms CPU for each work, in groups of {group}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--works", type=int, default=2000)
    parser.add_argument("--group", type=int, default=25)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure("SQLite", Path(folder) / "catalog.sqlite3", options.works, options.group)
    server = Postgres(durable=True)
    try:
        server.start()
        measure("PostgreSQL", SecretStr(server.url), options.works, options.group)
    finally:
        server.remove()


if __name__ == "__main__":
    main()
