"""A backfill over two machines, of which one is lost in the middle: deploy/ as it stands, with real servers behind it."""

from __future__ import annotations

import hashlib
import json
import os
import signal
from collections import defaultdict
from collections.abc import Mapping

import psycopg
import pytest

from docstokg_assets.sandbox.records import work_type
from docstokg_assets_tests.support.operating import CODE, Cluster
from docstokg_assets_tests.support.servers import s3_bucket

YEARS = ("2022", "2023", "2024")
SHARED, WINDOW_S = "doi.org", 5  # asked once a second by all machines together, counted over so many seconds
LEASE_S = 10
SETTINGS = {
    "DTKG_OPENALEX__FILTER": "type:article|preprint",
    "DTKG_OPENALEX__FIRST_YEAR": 2022,
    "DTKG_DOWNLOAD__LEASE_S": LEASE_S,
    "DTKG_WORKERS": 4,
    "DTKG_RESOLVERS__ORDER": ["openalex", "doi", "landing"],
    "DTKG_ROBOTS__ENABLED": False,  # else the crawl delays of some hosts decide how long it takes
    "DTKG_HTTP__RETRY": {"max_attempts": 2, "base_delay_ms": 10, "jitter_ms": 0},
    "DTKG_HTTP__BREAKER": {"open_s": 0.2, "max_open_s": 1.0},
    "DTKG_RATE_LIMIT__POLICIES": {"*": "50/second", SHARED: "1/second"},
}


@pytest.mark.timeout(660)
@pytest.mark.requirement("ORC-6")
def test_fault_43_when_one_of_two_machines_is_lost_the_others_do_its_works_and_nothing_twice(cluster: Cluster) -> None:
    cluster.settings = SETTINGS
    for machine in ("control", "north", "south", "east"):
        cluster.set_up(machine, poll_interval_seconds=2)
    cluster.run("control", "python", "-m", "docstokg_assets.defs.instance.first_start")
    cluster.box.add_fault(host="*.example", delay=5.0)  # so that there is a middle, however slow the machine
    cluster.start_worker("north")
    south = cluster.start_worker("south")
    cluster.start("control", "dagster-daemon", "run", *CODE)
    cluster.launch_backfill("control", *YEARS)

    cluster.wait_for(lambda: held(cluster, "north") and has_begun(cluster, "south"), "both machines at work", 240)
    os.killpg(south.pid, signal.SIGKILL)
    south.wait(10)
    orphans, done = held(cluster, "south"), outcomes(cluster)
    cluster.box.clear_faults()
    cluster.start("east", "dagster", "job", "execute", "-j", "drain", *CODE)  # a third one helps, without Celery
    runs = cluster.wait_for(lambda: all_ended(cluster), "the end of all years", 300)

    assert orphans and done, "it was killed in the middle"
    lost = [year for year in YEARS if ("FAILURE", year) in runs]
    assert len(lost) == 1 and all(("SUCCESS", year) in runs for year in YEARS), "its run is noticed and done again"

    after = outcomes(cluster)
    wanted = {w.id for year in YEARS for w in cluster.box.universe.works(int(year)) if is_wanted(work_type(w))}
    states = cluster.rows("SELECT work_id, state FROM queue")
    assert {work for work, _ in states} == wanted and {state for _, state in states} <= {"done", "retry"}
    assert {work: after[work] for work in done} == done, "what was done is not done again"
    asked_by = machines(cluster)
    assert all(len(asked_by[work]) <= 1 for work in done), "by no other machine either"
    taken_over = [(work, first) for work in orphans for machine, first in asked_by[work].items() if machine != "south"]
    assert taken_over and all(first >= orphans[work] - 1 for work, first in taken_over), (
        "not before its lease had ended"
    )

    assert cluster.box.violations() == []
    times = [arrival["time"] for arrival in cluster.box.arrivals(SHARED)]
    assert max(sum(start <= time < start + WINDOW_S for time in times) for start in times) <= WINDOW_S + 1

    bucket = s3_bucket(cluster.s3.url, cluster.s3.user, cluster.s3.password)
    files = cluster.rows("SELECT path, sha256 FROM catalog_entries WHERE path IS NOT NULL")
    assert len(files) > len(wanted) / 2
    for path, sha256 in files:
        assert hashlib.sha256(bucket.get_object(Bucket="papers", Key=path)["Body"].read()).hexdigest() == sha256
    told = cluster.run("control", "content", "query", "--format", "json", "SELECT work_id FROM outcomes")
    of_lake = [row["work_id"] for row in json.loads(told)]  # read from where no run was
    assert set(of_lake) >= set(done) and len(of_lake) == len(set(of_lake))


def is_wanted(kind: str) -> bool:
    return kind in ("article", "preprint")


def held(cluster: Cluster, machine: str) -> dict[str, float]:
    """The works that a machine has claimed, and until when."""
    try:
        return dict(cluster.rows("SELECT work_id, lease_until FROM queue WHERE lease_owner LIKE %s", f"{machine}.%"))
    except psycopg.errors.UndefinedTable:
        return {}


def has_begun(cluster: Cluster, machine: str) -> bool:
    """Some works are done, and it has others at hand."""
    asked = "SELECT count(*) FROM attempts WHERE worker_id LIKE %s AND work_id IS NOT NULL"
    return bool(held(cluster, machine) and outcomes(cluster)) and cluster.rows(asked, f"{machine}.%")[0][0] > 5


def outcomes(cluster: Cluster) -> dict[str, int]:
    """The works that are done for good, each with the number under which that was recorded."""
    sql = "SELECT work_id, revision FROM catalog_entries JOIN queue USING (work_id) WHERE state = 'done'"
    return dict(cluster.rows(sql))


def machines(cluster: Cluster) -> Mapping[str, Mapping[str, float]]:
    """Work → machine → when it asked for that work first. Some works are done without a request."""
    since = "SELECT work_id, split_part(worker_id, '.', 1), min(ts) FROM attempts GROUP BY 1, 2"
    found: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for work, machine, first in cluster.rows(since):
        found[work][machine] = first
    return found


def all_ended(cluster: Cluster) -> set[tuple[str, str]]:
    """Status and year of each run, once none is left and every year has one that succeeded."""
    runs = cluster.runs()
    over = all(status in ("SUCCESS", "FAILURE", "CANCELED") for status, _ in runs)
    return set(runs) if over and {year for status, year in runs if status == "SUCCESS"} >= set(YEARS) else set()
