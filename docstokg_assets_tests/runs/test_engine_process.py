"""A pass of several processes: one result, one manifest, limits for all, and no work lost with a process that is killed."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from docstokg_assets.config import ContentDownloadConfig
from docstokg_assets.engine.progress import (
    ANOTHER_PROCESS,
    PassResult,
    Progress,
    Waiting,
    merge_progress,
    merge_results,
)
from docstokg_assets.runs.engine_process import _SharedUrls, shares, wanted_processes
from docstokg_assets.runs.run import DownloadRun
from docstokg_assets.runs.services import open_services
from docstokg_assets.sandbox import Sandbox
from docstokg_assets_tests.support.configs import config_for_sandbox

WORKS = 150
PAST = 60.0


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("sandbox")
    with Sandbox.start(folder, works_per_year=WORKS, years=(2024, 2024), enforce_limits=False) as box:
        yield box


@pytest.fixture
def config(sandbox: Sandbox, tmp_path: Path) -> ContentDownloadConfig:
    more = {"processes": 2, "workers": 6, "rate_limit.policies": {"*": "500/second burst 100"}, "robots.enabled": False}
    breaker = {"http.breaker.enabled": False, "http.retry.base_delay_ms": 20}
    return config_for_sandbox(sandbox, tmp_path / "data", **more, **breaker)


def rows(config: ContentDownloadConfig, sql: str) -> list[tuple[Any, ...]]:
    with sqlite3.connect(config.data_root / "catalog.sqlite3") as connection:
        return connection.execute(sql).fetchall()


def drain(
    config: ContentDownloadConfig, on_progress: Callable[[Progress], None] = lambda now: None, **more: Any
) -> Any:
    with open_services(config) as services, DownloadRun(services) as run:
        run.store_and_enqueue(run.collect("publication_year:2024"))
        return run.drain(run.own_works, on_progress=on_progress, **more), run


def further_processes() -> list[int]:
    """The engines that this process has started."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            command = (entry / "cmdline").read_bytes().split(b"\0")
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
        if b"docstokg_assets.runs.engine_process" in command and parent == os.getpid():
            found.append(int(entry.name))
    return found


def test_two_processes_make_one_pass_with_one_manifest(config: ContentDownloadConfig) -> None:
    result, run = drain(config)
    assert (result.ended, result.finished) == ("drained", WORKS)
    assert rows(config, "SELECT count(*), count(DISTINCT work_id) FROM catalog_entries") == [(WORKS, WORKS)]
    assert len(rows(config, "SELECT DISTINCT worker_id FROM attempts WHERE work_id IS NOT NULL")) == 2
    lines = [json.loads(line) for line in (run.folder / "manifest.jsonl").read_bytes().splitlines()]
    attempts, outcomes = ([line for line in lines if line["record_type"] == kind] for kind in ("attempt", "outcome"))
    assert [len(attempts)] == [count for (count,) in rows(config, "SELECT count(*) FROM attempts")]
    assert {line["work_id"] for line in outcomes} == {work for (work,) in rows(config, "SELECT work_id FROM queue")}
    assert {line["config_hash"] for line in lines} == {run.config_hash}
    assert not further_processes()


def test_the_works_of_a_killed_process_go_to_the_others_at_once(config: ContentDownloadConfig) -> None:
    killed: list[int] = []

    def kill(now: Progress) -> None:
        held = rows(config, "SELECT DISTINCT lease_owner FROM queue WHERE state = 'leased'")
        for number in further_processes():
            if not killed and any(f":{number}:" in owner for (owner,) in held):
                os.kill(number, signal.SIGKILL)
                killed.append(number)

    config = config.model_copy(update={"download": config.download.model_copy(update={"lease_s": 600.0})})
    began = time.monotonic()
    result, _ = drain(config, kill)
    assert killed and result.ended == "drained"
    assert time.monotonic() - began < 300  # nobody waited for a lease
    assert rows(config, "SELECT count(*) FROM catalog_entries") == [(WORKS,)]
    assert rows(config, "SELECT count(*) FROM queue WHERE state = 'leased'") == [(0,)]


def test_the_maximum_of_works_and_a_stop_count_for_all_processes(config: ContentDownloadConfig) -> None:
    result, _ = drain(config, max_works=31)
    assert (result.ended, rows(config, "SELECT count(*) FROM catalog_entries")[0][0] <= 31) == ("budget", True)
    assert rows(config, "SELECT count(DISTINCT work_id) FROM attempts")[0][0] <= 31
    stop = threading.Event()
    with open_services(config) as services, DownloadRun(services, stop=stop) as run:
        run.store_and_enqueue(run.collect("publication_year:2024"))
        result = run.drain(run.own_works, on_progress=lambda now: stop.set() if further_processes() else None)
    assert result.ended == "stopped" and not further_processes()
    assert rows(config, "SELECT count(*) FROM queue WHERE state = 'leased'") == [(0,)]


_PARENT = """
import sys, pickle
from docstokg_assets.config import ContentDownloadConfig
from docstokg_assets.runs.run import DownloadRun
from docstokg_assets.runs.services import open_services
config = ContentDownloadConfig.model_validate(pickle.load(sys.stdin.buffer))
with open_services(config) as services, DownloadRun(services) as run:
    run.store_and_enqueue(run.collect("publication_year:2024"))
    run.drain(run.own_works, on_progress=lambda now: print(now.open, flush=True))
"""


def test_the_further_processes_end_with_a_first_one_that_was_killed(config: ContentDownloadConfig) -> None:
    import pickle

    slow = {"rate_limit": config.rate_limit.model_copy(update={"policies": {}})}
    values = pickle.dumps(config.model_copy(update=slow).model_dump())
    parent = subprocess.Popen([sys.executable, "-c", _PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert parent.stdin is not None and parent.stdout is not None
    parent.stdin.write(values)
    parent.stdin.close()
    children: set[int] = set()
    for _ in parent.stdout:
        owners = rows(config, "SELECT DISTINCT lease_owner FROM queue WHERE state = 'leased'")
        children = {int(owner.split(":")[-2]) for (owner,) in owners} - {parent.pid}
        if children:
            break
    assert children
    parent.kill()
    parent.wait()
    parent.stdout.close()
    end = time.monotonic() + PAST
    while time.monotonic() < end and any(Path(f"/proc/{number}/cmdline").exists() for number in children):
        time.sleep(0.05)
    assert not any(Path(f"/proc/{number}/cmdline").exists() for number in children)
    owners = rows(config, "SELECT DISTINCT lease_owner FROM queue WHERE state = 'leased'")
    assert not [owner for (owner,) in owners if int(owner.split(":")[-2]) in children]  # it gave its works back


def test_a_url_is_taken_by_one_work_of_all_processes() -> None:
    sent: list[Any] = []
    urls = _SharedUrls(sent.append)
    answers: list[str] = []
    asking = threading.Thread(target=lambda: answers.append(urls.setdefault("https://a.example/1", "W2")))
    asking.start()
    end = time.monotonic() + PAST
    while not sent and time.monotonic() < end:
        time.sleep(0.005)
    urls.answered(sent[0].number, "W1")
    asking.join(PAST)
    assert answers == ["W1"]


def test_the_number_of_processes(config: ContentDownloadConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    automatic = config.model_copy(update={"processes": None})
    assert [wanted_processes(automatic, lambda n=n: n) for n in (4_999, 5_000)] == [1, 4]  # type: ignore[misc]
    assert wanted_processes(config.model_copy(update={"processes": 9}), lambda: 1) == config.workers
    memory = config.rate_limit.model_copy(update={"backend": "memory"})
    assert wanted_processes(config.model_copy(update={"rate_limit": memory}), lambda: 9_999) == 1
    assert (shares(16, 3), shares(2, 3)) == ([6, 5, 5], [1, 1, 0])


def test_progress_and_results_are_added_up() -> None:
    one = Progress(
        1, 1, 0, 2, ("a", "b"), (Waiting("arxiv", 2, 3.0, "limit"), Waiting(ANOTHER_PROCESS, 5, None, "holds"))
    )
    two = Progress(2, 1, 1, 3, ("b", "c"), (Waiting("arxiv", 1, 9.0, "limit"),))
    assert merge_progress([one, two]) == Progress(3, 2, 1, 5, ("a", "b", "c"), (Waiting("arxiv", 3, 9.0, "limit"),))
    total = merge_results([PassResult("drained", finished=2, elapsed_s=3.0), PassResult("deadline", finished=1)])
    assert (total.ended, total.finished, total.elapsed_s) == ("deadline", 3, 3.0)
