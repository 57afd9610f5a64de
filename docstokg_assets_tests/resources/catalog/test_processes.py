"""Several processes on one catalog, and processes that are killed: real files, real processes."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import resources
from resources.catalog import Catalog

PROJECT = Path(resources.__file__).parents[1]

COMMON = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from resources.catalog import Batch, Catalog, Finished, NewItem
from resources.records import AttemptRecord, Classification, DownloadOutcome, Reason, Status
path, owner = Path(sys.argv[1]), sys.argv[2]
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
with Catalog.open(path) as catalog:
    print("new", catalog.enqueue(ITEMS).new)
    while works := catalog.claim(owner, 5, 60):
        lost = catalog.commit(Batch(finished=[finished(work.work_id) for work in works]))
        assert not lost, lost
        print(*(work.work_id for work in works))
"""
)

COMMIT_FOREVER = (
    COMMON
    + """
catalog, seq = Catalog.open(path), 0
catalog.enqueue(ITEMS)
while True:
    works = catalog.claim(owner, 2, 2)
    attempts = [attempt(seq + n) for n in range(20)]
    catalog.commit(Batch(attempts=attempts, finished=[finished(work.work_id) for work in works]))
    seq += 20
    print(seq, flush=True)
"""
)


def start(script: str, path: Path, owner: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(path), owner],
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
def test_processes_that_start_the_same_works_at_once_do_each_work_once(tmp_path: Path) -> None:
    path = tmp_path / "new" / "catalog.sqlite3"  # nobody has opened it yet
    processes = [start(DRAIN, path, f"p{n}") for n in range(3)]
    for process in processes:
        go(process)
    lines = [line for process in processes for line in process.communicate(timeout=60)[0].splitlines()]
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert sum(int(line.split()[1]) for line in lines if line.startswith("new")) == 300
    done = Counter(work_id for line in lines if not line.startswith("new") for work_id in line.split())
    assert set(done.values()) == {1} and len(done) == 300
    with Catalog.open(path) as catalog:
        assert catalog.queue_counts().done == 300


@pytest.mark.requirement("CAT-2")
def test_a_killed_process_leaves_whole_batches_and_its_works_are_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite3"
    process = start(COMMIT_FOREVER, path, "victim")
    go(process)
    assert process.stdout is not None
    acknowledged = [int(process.stdout.readline()) for _ in range(15)][-1]
    process.send_signal(signal.SIGKILL)
    acknowledged = max([acknowledged, *map(int, process.stdout.read().split())])
    process.wait()
    with Catalog.open(path) as catalog:
        attempts = [stored.record.seq for stored in catalog.attempts_after(0, 100_000)]
        assert attempts == list(range(len(attempts)))  # in order, without gaps
        assert len(attempts) % 20 == 0 and len(attempts) >= acknowledged
        entries = len(list(catalog.entries()))
        assert entries == min(300, len(attempts) // 20 * 2) == catalog.queue_counts().done
        catalog.heartbeat("victim", -1.0)
        rest = catalog.claim("heir", 300, 60)
        assert len(rest) == 300 - entries
