"""Several processes on one catalog, and processes that are killed: real files, real processes."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import resources
from resources.catalog.catalog import Catalog
from resources.catalog.database import Location

PROJECT = Path(resources.__file__).parents[1]

COMMON = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from pydantic import SecretStr
from resources.catalog.catalog import Catalog
from resources.catalog.rows import Batch, Finished, NewItem
from resources.records import AttemptRecord, Classification, DownloadOutcome, Reason, Status
place, owner = sys.argv[1:]
location = SecretStr(place) if "://" in place else Path(place)
FAILED = DownloadOutcome(False, None, Classification.ERROR, Reason.HTTP_4XX)
ITEMS = [NewItem(f"W{n:04d}", 2024, 2024, {}, "p") for n in range(300)]

def finished(work_id):
    return Finished(work_id, 2024, None, None, FAILED, "run", "hash", owner)

def attempt(seq):
    now = datetime.now(UTC)
    return AttemptRecord(now, "run", None, "https://a.org", "GET", Status.HTTP_GET, worker_id=owner, seq=seq)

print("ready", flush=True)
sys.stdin.readline()
"""

DRAIN = (
    COMMON
    + """
with Catalog.open(location) as catalog:
    print("new", catalog.enqueue(ITEMS).new)
    while works := catalog.claim(owner, 5, 60).items:
        catalog.heartbeat(owner, 60)
        catalog.commit(Batch(finished=[finished(work.work_id) for work in works]))
        print(*(work.work_id for work in works))
"""
)

COMMIT_FOREVER = (
    COMMON
    + """
catalog, seq = Catalog.open(location), 0
catalog.enqueue(ITEMS)
while True:
    works = catalog.claim(owner, 2, 2).items
    attempts = [attempt(seq + n) for n in range(20)]
    catalog.commit(Batch(attempts=attempts, finished=[finished(work.work_id) for work in works]))
    seq += 20
    print(seq, flush=True)
"""
)


def start(script: str, location: Location, owner: str) -> subprocess.Popen[str]:
    place = str(location) if isinstance(location, Path) else location.get_secret_value()
    process = subprocess.Popen(
        [sys.executable, "-c", script, place, owner],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=PROJECT,
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


@pytest.mark.requirement("CAT-2")
def test_processes_that_start_the_same_works_at_once_do_each_work_once(location: Location) -> None:
    """Nobody has opened the catalog yet."""
    processes = [start(DRAIN, location, f"p{n}") for n in range(3)]
    for process in processes:
        go(process)
    lines = [line for process in processes for line in process.communicate(timeout=60)[0].splitlines()]
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert sum(int(line.split()[1]) for line in lines if line.startswith("new")) == 300
    done = Counter(work_id for line in lines if not line.startswith("new") for work_id in line.split())
    assert set(done.values()) == {1} and len(done) == 300
    with Catalog.open(location) as catalog:
        assert catalog.queue_counts().done == 300


@pytest.mark.requirement("CAT-2")
def test_a_killed_process_leaves_whole_batches_and_its_works_are_taken_over(location: Location) -> None:
    process = start(COMMIT_FOREVER, location, "victim")
    go(process)
    assert process.stdout is not None
    acknowledged = [int(process.stdout.readline()) for _ in range(15)][-1]
    process.send_signal(signal.SIGKILL)
    acknowledged = max([acknowledged, *map(int, process.stdout.read().split())])
    process.wait()
    with Catalog.open(location) as catalog:
        attempts = [stored.record.seq for stored in catalog.attempts_after(0, 100_000)]
        assert attempts == list(range(len(attempts)))  # in order, without gaps
        assert len(attempts) % 20 == 0 and len(attempts) >= acknowledged
        entries = len(list(catalog.entries()))
        assert entries == min(300, len(attempts) // 20 * 2) == catalog.queue_counts().done
        catalog.heartbeat("victim", -1.0)
        rest = catalog.claim("heir", 300, 60).items
        assert len(rest) == 300 - entries


@pytest.mark.requirement("CAT-2")
def test_leases_that_run_out_under_competition_still_let_each_work_end_once(location: Location) -> None:
    """Every claim is over at once, so that the processes take works from each other all the time."""
    processes = [start(DRAIN.replace("owner, 5, 60", "owner, 5, -1"), location, f"p{n}") for n in range(3)]
    for process in processes:
        go(process)
    ended = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], ended
    with Catalog.open(location) as catalog:
        assert catalog.queue_counts().done == 300
        assert len({entry.revision for entry in catalog.entries()}) == 300
