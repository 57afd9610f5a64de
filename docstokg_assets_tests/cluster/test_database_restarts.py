"""PostgreSQL goes away and comes back while it is both Dagster's storage and the catalog: deploy/ as it stands, real servers."""

from __future__ import annotations

import time

import psycopg
import pytest

from docstokg_assets.sandbox.records import work_type
from docstokg_assets_tests.support.operating import CODE, Cluster

SETTINGS = {
    "DTKG_OPENALEX__FILTER": "type:article",
    "DTKG_OPENALEX__FIRST_YEAR": 2023,
    "DTKG_WORKERS": 4,
    "DTKG_RESOLVERS__ORDER": ["openalex", "doi", "landing"],
    "DTKG_ROBOTS__ENABLED": False,  # else the crawl delays of some hosts decide how long it takes
    "DTKG_HTTP__RETRY": {"max_attempts": 2, "base_delay_ms": 10, "jitter_ms": 0},
    "DTKG_HTTP__BREAKER": {"open_s": 0.2, "max_open_s": 1.0},
    "DTKG_RATE_LIMIT__POLICIES": {"*": "50/second"},
}
AWAY_S = 40.0  # longer than Dagster itself waits, and less than our own 60 s


@pytest.mark.timeout(600)
@pytest.mark.requirement("ORC-6")
def test_fault_39_when_the_database_of_dagster_and_catalog_restarts_the_run_ends_well(cluster: Cluster) -> None:
    cluster.settings = SETTINGS
    for machine in ("control", "north"):
        cluster.set_up(machine, poll_interval_seconds=2)
    cluster.run("control", "python", "-m", "docstokg_assets.defs.instance.first_start")
    cluster.box.add_fault(host="*.example", delay=10.0)  # so that there is a middle
    cluster.start_worker("north")
    daemon = cluster.start("control", "dagster-daemon", "run", *CODE)
    cluster.launch_run("control", "collect_year", partition="2024")

    cluster.wait_for(lambda: count(cluster, "done"), "the first work", 240)
    held = count(cluster, "leased")
    cluster.postgres.stop()  # at once, as after a crash
    time.sleep(AWAY_S)
    cluster.postgres.start()
    cluster.box.clear_faults()

    runs = cluster.wait_for(lambda: succeeded(cluster, "2024"), "the end of the year", 300)
    assert runs[-1] == "SUCCESS", "by itself: nobody launched it again"
    wanted = {w.id for w in cluster.box.universe.works(2024) if work_type(w) == "article"}
    states = cluster.rows("SELECT work_id, state FROM queue")
    assert held, "it was in the middle"
    assert {work for work, _ in states} == wanted and {state for _, state in states} <= {"done", "retry"}
    assert cluster.rows("SELECT work_id FROM artifacts GROUP BY work_id HAVING count(*) > 1") == [], "nothing twice"

    assert daemon.poll() is None
    cluster.launch_run("control", "drain")
    cluster.wait_for(lambda: succeeded(cluster, None), "a run that was launched afterwards", 120)


def count(cluster: Cluster, state: str) -> int:
    try:
        return int(cluster.rows("SELECT count(*) FROM queue WHERE state = %s", state)[0][0])
    except psycopg.errors.UndefinedTable:
        return 0


def succeeded(cluster: Cluster, year: str | None) -> list[str]:
    """How the runs of a year ended, when one has succeeded and none is under way."""
    states = [status for status, partition in cluster.runs() if partition == year]
    over = all(state in ("SUCCESS", "FAILURE", "CANCELED") for state in states)
    return states if over and "SUCCESS" in states else []
