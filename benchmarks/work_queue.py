"""The queue at size: works a second when they are put in, how long a claim of 64 takes in each way of claiming, before and after
some works are finished, and what many writers at once cost.

    .venv/bin/python benchmarks/work_queue.py [--works 1000000] [--finished 100000] [--catalog sqlite|postgres] [--writers 50]
        [--bulk] [--folder FOLDER]

`--bulk` fills the queue by SQL alone, without the times for putting works in. With `--folder` the catalog stays there, and the
next call with the same folder measures it again without filling it. `--works 10000000` takes some 12 GB of disk. `postgres` is a
server of its own from the development wheel, with fsync on. The time of an fsync on the same disk is measured apart: a claim has
one. Only numbers of one machine and one day compare.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from pydantic import SecretStr
from sqlalchemy import text

from docstokg_assets_tests.support.servers import Postgres
from resources.catalog.catalog import Catalog
from resources.catalog.database import Location
from resources.catalog.rows import Batch, Finished, NewItem
from resources.catalog.schema import queue
from resources.records import Classification, DownloadOutcome, Reason
from resources.scope import WorkScope

CLAIMS = 30
COMMITS = 20  # of each writer
RECORD = {"title": "On the growth of ice in a closed vessel", "locations": ["https://example.org/a/paper.pdf"] * 6}
GONE = DownloadOutcome(False, None, Classification.ERROR, Reason.HTTP_4XX)
SPREAD = 999_999_999_989  # a prime: n -> n * 7919 modulo it gives no id twice


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--works", type=int, default=1_000_000)
    parser.add_argument("--finished", type=int, default=100_000)
    parser.add_argument("--catalog", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--writers", type=int, default=50)
    parser.add_argument("--bulk", action="store_true")
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--fill-only", action="store_true")
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        where = place(options.catalog, folder, stack)
        with Catalog.open(where, min(options.writers + 2, 60)) as catalog:
            if not catalog.has_more_works(0):
                (fill_by_sql if options.bulk else fill)(catalog, options.works)
            else:
                catalog.release_owner("benchmark")
            if options.fill_only:
                return
            print(f"an fsync  {median_ms(lambda: sync(folder)):.2f} ms")
            measure_claims(catalog)
            finish(catalog, options.finished)
            print(f"after {options.finished:,} finished works")
            measure_claims(catalog)
            measure_writers(catalog, options.writers)


def place(kind: str, folder: Path, stack: ExitStack) -> Location:
    """An empty place for a catalog; its server, if it has one, is removed with the stack."""
    if kind == "sqlite":
        return folder / "catalog.sqlite3"
    server = Postgres(durable=True, folder=folder / "postgres")
    stack.callback(server.stop)
    server.start()
    return SecretStr(server.url)


def works(first: int, last: int) -> Iterator[NewItem]:
    """Of 25 years, every fiftieth of none."""
    for n in range(first, last):
        year = None if n % 50 == 0 else 2000 + n % 25
        yield NewItem(f"W{n * 7919 % SPREAD}", year, year or 0, RECORD, "plan", f"host{n % 200}.org")


def fill(catalog: Catalog, size: int) -> None:
    """Nine tenths are of one run, the rest of another."""
    for run in ("run", "small"):
        catalog.start_run(run, "benchmark", "", {})
    first, most = min(100_000, size), size - size // 10
    parts = (("enqueue", 0, first, "run"), ("more", first, most, "run"), ("another", most, size, "small"))
    for what, begin, end, run in (*parts, ("again", 0, first, "run")):
        began, cpu = time.monotonic(), time.process_time()
        catalog.enqueue(works(begin, end), run)
        spent = time.monotonic() - began
        print(f"{what:<8} {end - begin:>9,} works  {spent:6.1f} s, CPU {time.process_time() - cpu:5.1f} s", flush=True)
    assert catalog.queue_counts().total == size
    print(f"peak memory  {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB, libraries included")


def fill_by_sql(catalog: Catalog, size: int) -> None:
    """The same rows by one statement, without the time of each transaction. Indexes are made afterwards."""
    began, most = time.monotonic(), size - size // 10
    for run in ("run", "small"):
        catalog.start_run(run, "benchmark", "", {})
    indexes = list(queue.indexes)
    with catalog._write(slow=True) as connection:
        is_sqlite = connection.dialect.name == "sqlite"
        for index in indexes:
            index.drop(connection)
        numbers = (
            "WITH RECURSIVE s(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM s WHERE n + 1 < :size) SELECT {} FROM s"
            if is_sqlite
            else "SELECT {} FROM generate_series(0, CAST(:size AS bigint) - 1) AS s(n)"
        )
        year = "CASE WHEN n % 50 = 0 THEN NULL ELSE 2000 + n % 25 END"
        columns = {
            "work_id": "'W' || CAST(CAST(n AS bigint) * 7919 AS text)",
            "year": year,
            "priority": f"coalesce({year}, 0)",
            "record": ":record",
            "plan_hash": "'plan'",
            "state": "'queued'",
            "not_before": "0.0",
            "next_group": "'host' || CAST(n % 200 AS text) || '.org'",
            "tries": "0",
            "updated_at": "1.7e9",
            "run_id": "CASE WHEN n < :most THEN 'run' ELSE 'small' END",
        }
        into = f"INSERT INTO queue ({', '.join(columns)}) {numbers.format(', '.join(columns.values()))}"
        connection.execute(text(into), {"size": size, "most": most, "record": json.dumps(RECORD)})
        for index in indexes:
            index.create(connection)
    with catalog._read(slow=True) as connection:
        assert connection.scalar(text("SELECT count(*) FROM queue")) == size
    if not is_sqlite:
        with catalog._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("VACUUM ANALYZE docstokg.queue"))
    print(f"filled   {size:>9,} works  {time.monotonic() - began:6.1f} s", flush=True)


def measure_claims(catalog: Catalog) -> None:
    ways: tuple[tuple[str, dict[str, Any]], ...] = (
        ("all", {}),
        ("a year", {"scope": WorkScope(2010)}),
        ("the newest year", {"scope": WorkScope((2024, 0))}),
        ("a large run", {"scope": WorkScope(run_id="run")}),
        ("a small run", {"scope": WorkScope(run_id="small")}),
        ("without 20 groups", {"left_out": frozenset(f"host{n}.org" for n in range(20))}),
        ("without 180 groups", {"left_out": frozenset(f"host{n}.org" for n in range(180))}),
        ("nothing due", {"scope": WorkScope(1900)}),
    )
    for name, filters in ways:
        wanted = 0 if name == "nothing due" else 64

        def claim(filters: dict[str, Any] = filters, wanted: int = wanted) -> None:
            assert len(catalog.claim("benchmark", 64, 3600, **filters).items) == wanted

        print(f"claim of 64, {name:<19} median {median_ms(claim):6.2f} ms", flush=True)


def finish(catalog: Catalog, count: int) -> None:
    while count > 0 and (held := catalog.claim("worker", min(count, 1_000), 3600).items):
        catalog.commit(Batch(finished=[ended(work.work_id, work.year, "worker") for work in held]))
        count -= len(held)


def ended(work_id: str, year: int | None, owner: str) -> Finished:
    return Finished(work_id, year, None, None, GONE, "run", "hash", owner)


def measure_writers(catalog: Catalog, most: int) -> None:
    """Commits of ten works each, by one writer and by many at once, who queue up for the numbers of their outcomes."""
    for count in (1, most):
        owners = [f"writer-{count}-{n}" for n in range(count)]
        held = {owner: catalog.claim(owner, 10 * COMMITS, 3600).items for owner in owners}
        times: list[float] = []

        def write(owner: str, held: dict[str, Any] = held, times: list[float] = times) -> None:
            for n in range(COMMITS):
                portion = [ended(work.work_id, work.year, owner) for work in held[owner][10 * n : 10 * n + 10]]
                began = time.perf_counter()
                assert catalog.commit(Batch(finished=portion)).lost == []
                times.append(1000 * (time.perf_counter() - began))

        threads = [threading.Thread(target=write, args=(owner,)) for owner in owners]
        began = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        rate = count * COMMITS / (time.monotonic() - began)
        print(f"{count} writers: {rate:.0f} commits a second, each {statistics.median(times):.1f} ms in the median")


def sync(folder: Path) -> None:
    with (folder / "synced").open("ab") as file:
        file.write(b"x" * 4096)
        file.flush()
        os.fsync(file.fileno())


def median_ms(act: Callable[[], None]) -> float:
    times = []
    for _ in range(CLAIMS):
        began = time.perf_counter()
        act()
        times.append(1000 * (time.perf_counter() - began))
    return statistics.median(times)


if __name__ == "__main__":
    main()
