"""Whether a run of this machine still has its process, asked of the table of processes. That a daemon acts on it is shown in
assets/test_lost_processes.py."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import dagster as dg
import pytest
from dagster._core.errors import DagsterUserCodeUnreachableError
from dagster._core.events import EngineEventData
from dagster._core.launcher import DefaultRunLauncher, WorkerStatus

from docstokg_assets.defs.instance.process_launcher import WatchedRunLauncher
from resources import processes
from resources.processes import pid_unused, processes_since

pytestmark = pytest.mark.requirement("ORC-2")
Started = Callable[..., dg.DagsterRun]


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as ephemeral:
        yield ephemeral


@pytest.fixture
def started(instance: dg.DagsterInstance) -> Started:
    """A run that has begun, some seconds ago, and told its process."""

    def begin(number: int, ago_s: float = 0.0) -> dg.DagsterRun:
        @dg.job
        def year() -> None:
            pass

        run = instance.create_run_for_job(year)
        told = EngineEventData.in_process(number)
        for event in (
            dg.DagsterEvent("PIPELINE_START", "year"),
            dg.DagsterEvent("ENGINE_EVENT", "year", event_specific_data=told),
        ):
            instance.report_dagster_event(event, run.run_id, timestamp=time.time() - ago_s)
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
    instance: dg.DagsterInstance, started: Started
) -> None:
    before = time.time() - processes_since() + 60
    health = launcher(instance).check_run_worker_health(started(os.getpid(), before))
    assert health.status is WorkerStatus.FAILED and "was started anew" in (health.msg or "")


@pytest.fixture
def child() -> Iterator[int]:
    """Looks like the process of a run: the code server starts those with `multiprocessing`."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", "multiprocessing"]) as process:
        yield process.pid
        process.kill()


def test_a_run_whose_number_was_given_to_another_process_is_gone_and_that_one_is_not_ended(
    instance: dg.DagsterInstance, started: Started, child: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_code_server(self: DefaultRunLauncher, run_id: str) -> bool:
        raise DagsterUserCodeUnreachableError("no code server")

    monkeypatch.setattr(DefaultRunLauncher, "terminate", no_code_server)
    earlier, of_child = started(child, ago_s=30.0), started(child)
    health = launcher(instance).check_run_worker_health(earlier)
    assert health.status is WorkerStatus.FAILED and f"Process {child} of the run is gone" in (health.msg or "")
    with pytest.raises(DagsterUserCodeUnreachableError):
        launcher(instance).terminate(earlier.run_id)
    assert not pid_unused(child)
    assert launcher(instance).terminate(of_child.run_id)


def test_a_run_that_lives_is_left_alone_when_the_clock_is_set(
    instance: dg.DagsterInstance, started: Started, child: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or the machine was paused, and its clock set afterwards: for the kernel all is as old as before."""
    run, patient = started(child), launcher(instance)
    assert patient.check_run_worker_health(run).status is WorkerStatus.RUNNING
    ahead = SimpleNamespace(
        time=lambda: time.time() + 1e9, clock_gettime=time.clock_gettime, CLOCK_BOOTTIME=time.CLOCK_BOOTTIME
    )
    monkeypatch.setattr(processes, "time", ahead)
    assert processes_since() > time.time()
    assert patient.check_run_worker_health(run).status is WorkerStatus.RUNNING
