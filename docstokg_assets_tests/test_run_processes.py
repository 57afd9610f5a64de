"""Whether a run of this machine still has its process, asked of the table of processes. That a daemon acts on it is shown in
assets/test_lost_processes.py."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator

import dagster as dg
import pytest
from dagster._core.events import EngineEventData
from dagster._core.launcher import WorkerStatus

from docstokg_assets import run_processes
from docstokg_assets.run_processes import WatchedRunLauncher

pytestmark = pytest.mark.requirement("ORC-2")
Started = Callable[[int], dg.DagsterRun]


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as ephemeral:
        yield ephemeral


@pytest.fixture
def started(instance: dg.DagsterInstance) -> Started:
    """A run that has begun and told its process."""

    def begin(number: int) -> dg.DagsterRun:
        @dg.job
        def year() -> None:
            pass

        run = instance.create_run_for_job(year)
        instance.report_dagster_event(dg.DagsterEvent("PIPELINE_START", "year"), run.run_id)
        instance.report_engine_event("Started process for run.", run, EngineEventData.in_process(number))
        return instance.get_run_by_id(run.run_id) or run

    return begin


def launcher(instance: dg.DagsterInstance, gone_after_seconds: float = 0.0) -> WatchedRunLauncher:
    made = WatchedRunLauncher(gone_after_seconds)
    made.register_instance(instance)
    return made


def ended_process() -> int:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def test_a_run_whose_process_lives_is_left_alone(instance: dg.DagsterInstance, started: Started) -> None:
    assert launcher(instance).check_run_worker_health(started(os.getpid())).status is WorkerStatus.RUNNING


def test_a_run_without_its_process_is_told_with_what_follows(instance: dg.DagsterInstance, started: Started) -> None:
    number = ended_process()
    health = launcher(instance).check_run_worker_health(started(number))
    assert health.status is WorkerStatus.FAILED
    assert f"Process {number} of the run is gone" in (health.msg or "") and "It is started again" in (health.msg or "")


def test_the_code_server_is_given_time_to_come_back(instance: dg.DagsterInstance, started: Started) -> None:
    patient, run = launcher(instance, gone_after_seconds=0.5), started(ended_process())
    assert patient.check_run_worker_health(run).status is WorkerStatus.RUNNING
    time.sleep(0.6)
    assert patient.check_run_worker_health(run).status is WorkerStatus.FAILED


def test_a_run_from_before_the_machine_was_started_is_gone_whoever_has_its_number_now(
    instance: dg.DagsterInstance, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = started(os.getpid())
    monkeypatch.setattr(run_processes, "processes_since", lambda: time.time() + 60)
    health = launcher(instance).check_run_worker_health(run)
    assert health.status is WorkerStatus.FAILED and "was started anew" in (health.msg or "")
