"""What Dagster costs, and a backfill: a finished year materialised again; years of sandbox works on one machine, with the queue
of dagster.yaml; the same on two Celery workers over PostgreSQL, Valkey and SeaweedFS, as deploy/ has them.

    .venv/bin/python benchmarks/materialisation.py [--years 10] [--works 200] [--only again|one|two]

Limits and crawl-delays are out of the way, so that the machine is measured and not the patience. All processes are real, and all
of them, the sandbox too, share this machine: two workers here are two processes, not twice the cores. PostgreSQL has fsync on.
Only numbers of one machine and one day compare. It ends with an error when a work is missing, unfinished or done twice.
"""

from __future__ import annotations

import argparse
import resource
import sqlite3
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import yaml

from docstokg_assets.sandbox import Sandbox
from docstokg_assets_tests.support.operating import CODE, OneMachine, cluster_over
from resources.rate_limit.policies import DEFAULT_POLICIES

FAST = "5000/second burst 1000"
LAST_YEAR = 2024
PATIENCE_S = 3600
ROUNDS = 3
STATES = "SELECT q.work_id, q.state FROM queue q"
TWICE = "SELECT count(*) FROM (SELECT work_id FROM artifacts GROUP BY work_id HAVING count(*) > 1) AS twice"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--years", type=int, default=10)
    parser.add_argument("--works", type=int, default=200, help="works of each year")
    parser.add_argument("--only", choices=("again", "one", "two"))
    options = parser.parse_args()
    years = [str(year) for year in range(LAST_YEAR - options.years + 1, LAST_YEAR + 1)]
    measured = {"one": on_one_machine, "again": again, "two": on_two_workers}
    for name, measure in measured.items():
        if options.only in (None, name):
            with (
                tempfile.TemporaryDirectory() as folder,
                Sandbox.start(
                    Path(folder) / "box",
                    works_per_year=options.works,
                    years=(int(years[0]), LAST_YEAR),
                    enforce_limits=False,
                ) as box,
            ):
                measure(Path(folder), box, years)


def again(folder: Path, box: Sandbox, years: list[str]) -> None:
    """The newest year, twice: what the second one costs is what Dagster and our steps cost without work."""
    machine = one_machine(folder, box, years)
    materialise(machine, LAST_YEAR)
    check(machine, box, [str(LAST_YEAR)])
    before = len(box.arrivals())
    spent = [materialise(machine, LAST_YEAR) for _ in range(ROUNDS)]
    hosts = Counter(arrival["host"] for arrival in box.arrivals()[before:])
    wall, cpu = min(spent)
    print(f"a finished year again   {wall:.1f} s, CPU {cpu:.1f} s: the best of {ROUNDS}, process and imports included")
    with closing(sqlite3.connect(machine.home / "history" / "runs.db")) as runs:
        inside = runs.execute("SELECT end_time - start_time FROM runs ORDER BY id DESC LIMIT ?", (ROUNDS,)).fetchall()
    print(f"  of it in the run      {min(seconds for (seconds,) in inside):.1f} s, all five assets and nine checks")
    print(
        f"  asked                 {', '.join(f'{host} {count // ROUNDS}' for host, count in hosts.items())}, each time"
    )


def materialise(machine: OneMachine, year: int) -> tuple[float, float]:
    """Seconds by the clock and of CPU, its children included."""
    began, used = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    machine.run(machine.name, "dagster", "asset", "materialize", "--select", "*", "--partition", str(year), *CODE)
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.monotonic() - began, now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime


def on_one_machine(folder: Path, box: Sandbox, years: list[str]) -> None:
    machine = one_machine(folder, box, years)
    try:
        machine.start_daemon()
        machine.launch_backfill(machine.name, *years)
        launched = time.time()
        file = machine.home / "history" / "runs.db"

        def ended() -> list[tuple[str, float, float]]:
            with closing(sqlite3.connect(file, timeout=60)) as runs:
                return over(runs.execute("SELECT status, start_time, end_time FROM runs").fetchall(), years)

        runs = machine.wait_for(ended, "the backfill", PATIENCE_S)
        tell("on one machine", launched, runs, check(machine, box, years))
    finally:
        machine.end()


def on_two_workers(folder: Path, box: Sandbox, years: list[str]) -> None:
    with cluster_over(folder, box, durable=True) as cluster:
        cluster.settings = {f"DTKG_{name.upper()}": value for name, value in in_the_way(years).items()}
        for machine in ("control", "north", "south"):
            cluster.set_up(machine)
        cluster.run("control", "python", "-m", "docstokg_assets.defs.instance.first_start")
        for worker in ("north", "south"):
            cluster.start_worker(worker)
        cluster.start("control", "dagster-daemon", "run", *CODE)
        cluster.launch_backfill("control", *years)
        launched = time.time()

        def ended() -> list[tuple[str, float, float]]:
            return over(cluster.rows("SELECT status, start_time, end_time FROM public.runs"), years)

        runs = cluster.wait_for(ended, "the backfill", PATIENCE_S)
        works = check_works(cluster.rows(STATES), cluster.rows(TWICE), box, years)
        tell("on two workers", launched, runs, works)
        shares = cluster.rows("SELECT split_part(worker_id, '.', 1), count(DISTINCT work_id) FROM attempts GROUP BY 1")
        print(f"  works of each         {', '.join(f'{machine} {count}' for machine, count in sorted(shares))}")


def one_machine(folder: Path, box: Sandbox, years: list[str]) -> OneMachine:
    http = {"proxy": box.proxy_url, "ca_bundle": str(box.ca_bundle), "contact_email": "benchmark@library-of-tests.edu"}
    config: dict[str, Any] = {"data_root": str(folder / "data"), "http": http}
    for name, value in in_the_way(years).items():
        section, _, key = name.partition("__")
        config.setdefault(section, {})[key] = value
    (folder / "content.yaml").write_text(yaml.safe_dump(config))
    machine = OneMachine(folder, folder / "content.yaml")
    machine.set_up()
    return machine


def in_the_way(years: list[str]) -> dict[str, Any]:
    """What makes a sandbox as quick as the machine is, for all ways alike."""
    return {
        "openalex__filter": "has_doi:true|false",
        "openalex__first_year": int(years[0]),
        "http__retry": {"base_delay_ms": 50},
        "http__breaker": {"open_s": 0.2, "max_open_s": 1.0},
        "robots__enabled": False,
        "rate_limit__policies": dict.fromkeys(DEFAULT_POLICIES, FAST)
        | {"web.archive.org": {"metadata": FAST, "*": FAST}},
        "rate_limit__concurrency": {"*": None, "arxiv.org": None, "api.crossref.org": None},
    }


def over(runs: Iterable[tuple[Any, ...]], years: list[str]) -> list[tuple[str, float, float]]:
    """All runs, once there are enough and none is under way."""
    known = list(runs)
    ended = all(status in ("SUCCESS", "FAILURE", "CANCELED") for status, _, _ in known)
    return known if ended and len(known) >= len(years) else []


def check(machine: OneMachine, box: Sandbox, years: list[str]) -> int:
    with closing(sqlite3.connect(machine.folder / "data" / "catalog.sqlite3")) as catalog:
        states, twice = (catalog.execute(sql).fetchall() for sql in (STATES, TWICE))
    return check_works(states, twice, box, years)


def check_works(states: list[tuple[Any, ...]], twice: list[tuple[Any, ...]], box: Sandbox, years: list[str]) -> int:
    """Every work of the years is there, has ended, and has one file at most. A record without a date is in no list by dates."""
    wanted = {work.id: work.strange for year in years for work in box.universe.works(int(year))}
    known, undated = {work for work, _ in states}, ("null_year", "no_publication_date")
    missing = [work for work, strange in wanted.items() if work not in known and strange not in undated]
    assert not missing and known <= wanted.keys(), f"{len(states)} works queued of {len(wanted)}, without {missing}"
    assert {state for _, state in states} <= {"done", "retry"}, Counter(state for _, state in states)
    assert twice == [(0,)], f"{twice} works have two files"
    return len(known)


def tell(where: str, launched: float, runs: list[tuple[str, float, float]], works: int) -> None:
    states = Counter(status for status, _, _ in runs)
    first, last = min(start for _, start, _ in runs), max(end for _, _, end in runs)
    seconds, each = last - first, sum(end - start for _, start, end in runs) / len(runs)
    print(f"backfill {where:<15}{seconds:.1f} s for {works} works in {len(runs)} runs: {works / seconds:.1f} works/s")
    print(
        f"  runs                  {dict(states)}, {each:.1f} s each; the first began {first - launched:.1f} s after the launch"
    )
    assert set(states) == {"SUCCESS"}


if __name__ == "__main__":
    main()
