"""Processes of Dagster that are killed while a year is under way: the run's own, the code server that started it, and both. UI,
daemon and code server are real, as `make ui` starts them; what became of the runs is asked of the UI."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from docstokg_assets.sandbox import Sandbox
from docstokg_assets_tests.support.operating import LAUNCH, OneMachine, backfill_of
from resources.catalog.catalog import Catalog

TERMINATE = "mutation ($id: String!) { terminateRun(runId: $id, terminatePolicy: SAFE_TERMINATE) { __typename } }"
TOLD = "query ($id: ID!) { logsForRun(runId: $id) { ... on EventConnection { events { ... on MessageEvent { message } } } } }"
NO_ANSWER = (TypeError, HTTPError)  # nothing, or status 500: the UI has not found its code server again
SANDBOX: dict[str, Any] = {"works_per_year": 12, "years": (2024, 2024), "enforce_limits": False}


@pytest.fixture
def machine(tmp_path: Path, write_config: Callable[..., Path]) -> Iterator[OneMachine]:
    """All of Dagster, with one place in each pool, and quicker to notice than in life."""

    def change(settings: dict[str, Any]) -> None:
        settings["concurrency"]["pools"]["default_limit"] = 1  # a run that follows needs the place of the killed one
        settings["run_monitoring"] |= {"poll_interval_seconds": 2, "free_slots_after_run_end_seconds": 1}
        settings["run_launcher"]["config"]["gone_after_seconds"] = 40.0  # time for the code server to be back

    made = OneMachine(tmp_path, write_config(tmp_path, openalex={"filter": "type:article", "first_year": 2024}))
    made.set_up(change)
    try:
        made.start_all()
        yield made
    finally:
        made.end()


@pytest.mark.timeout(600)
@pytest.mark.requirement("ORC-2")
def test_fault_43_whichever_process_is_killed_the_run_is_noticed_done_again_and_holds_nothing(
    sandbox: Sandbox, machine: OneMachine, tmp_path: Path
) -> None:
    catalog_file = tmp_path / "data" / "catalog.sqlite3"
    sandbox.add_fault(host="*.example", delay=120.0)
    try:
        assert machine.ask(LAUNCH, **backfill_of("2024"))["launchPartitionBackfill"]["__typename"].endswith("Success")

        # The run alone: its code server tells.
        first = _under_way(machine, catalog_file)
        os.kill(_holder(catalog_file), signal.SIGKILL)
        second = _retry_of(machine, first)
        assert "terminated by signal 9" in _told(machine, first)

        # The run and its code server: nobody is left who could tell, and the daemon finds that its process is gone.
        _under_way(machine, catalog_file)
        killed = _holder(catalog_file)
        for number in (*_code_servers(machine), killed):
            os.kill(number, signal.SIGKILL)
        third = _retry_of(machine, second)
        assert f"Process {killed} of the run is gone" in _told(machine, second)
        assert "What it has done is kept" in _told(machine, second)

        # The code server alone: the run goes on, and can still be ended.
        _under_way(machine, catalog_file)
        for number in _code_servers(machine):
            os.kill(number, signal.SIGKILL)
        time.sleep(3)  # nobody is told, so there is nothing to wait for
        assert _runs(machine)[third]["status"] == "STARTED"
        ended = machine.wait_for(lambda: _terminates(machine, third), "an answer to terminate", 60)
        assert ended == "TerminateRunSuccess"
        machine.wait_for(lambda: _runs(machine)[third]["status"] == "CANCELED", "the end of the run", 60)
    finally:
        sandbox.clear_faults()
    with Catalog.open(catalog_file) as catalog:
        assert catalog.queue_counts(2024).leased == 0 and not catalog.lease_owners()

    machine.wait_for(lambda: _code_servers(machine), "another code server", 90)
    machine.wait_for(lambda: _launches(machine), "a launch on it", 90)
    last = machine.wait_for(lambda: set(_runs(machine)) - {first, second, third}, "the next run", 90).pop()
    machine.wait_for(lambda: _runs(machine)[last]["status"] in ("SUCCESS", "FAILURE"), "its end", 120)
    assert _runs(machine)[last]["status"] == "SUCCESS"
    with Catalog.open(catalog_file) as catalog:
        counts = catalog.queue_counts(2024)
        assert counts.total and counts.done + counts.retry == counts.total and not catalog.lease_owners()
        saved = [entry.work_id for entry in catalog.entries(year=2024) if entry.path]
        assert saved and all(len(catalog.artifacts_of(work_id)) == 1 for work_id in saved)


def _runs(machine: OneMachine) -> dict[str, dict[str, Any]]:
    found = machine.ask("{ runsOrError { ... on Runs { results { runId status parentRunId } } } }")
    return {run["runId"]: run for run in found["runsOrError"]["results"]}


def _told(machine: OneMachine, run_id: str) -> str:
    """What the UI shows of a run."""
    events = machine.ask(TOLD, id=run_id)["logsForRun"]["events"]
    return "\n".join(event.get("message", "") for event in events)


def _terminates(machine: OneMachine, run_id: str) -> str | None:
    with suppress(*NO_ANSWER):
        return machine.ask(TERMINATE, id=run_id)["terminateRun"]["__typename"]
    return None


def _launches(machine: OneMachine) -> bool:
    with suppress(*NO_ANSWER):
        return machine.ask(LAUNCH, **backfill_of("2024"))["launchPartitionBackfill"]["__typename"].endswith("Success")
    return False


def _under_way(machine: OneMachine, catalog_file: Path) -> str:
    """Waits until a living run has claimed works; returns that run."""

    def claimed() -> str | None:
        started = [run["runId"] for run in _runs(machine).values() if run["status"] == "STARTED"]
        if not started or not catalog_file.exists():
            return None
        with Catalog.open(catalog_file) as catalog:
            leased = catalog.queue_counts(2024).leased
        return started[0] if leased and _holder(catalog_file) in _living(machine) else None

    return machine.wait_for(claimed, "a claim of works", 120)


def _holder(catalog_file: Path) -> int:
    """The process that holds works."""
    with Catalog.open(catalog_file) as catalog:
        owners = list(catalog.lease_owners())
    return int(owners[0].split(":")[-2]) if owners else 0


def _retry_of(machine: OneMachine, killed: str) -> str:
    """The run that was started for the killed one."""
    again = machine.wait_for(
        lambda: [run["runId"] for run in _runs(machine).values() if run["parentRunId"] == killed], "a retry", 120
    )
    assert _runs(machine)[killed]["status"] == "FAILURE"
    return str(again[0])


def _living(machine: OneMachine) -> dict[int, str]:
    """Number and command of all processes that were started with Dagster."""
    (dev,) = machine.processes
    found = dict[int, str]()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            state, _, _, session = entry.joinpath("stat").read_text().rpartition(")")[2].split()[:4]
            if int(session) == dev.pid and state != "Z":
                found[int(entry.name)] = entry.joinpath("cmdline").read_text().replace("\0", " ")
    return found


def _code_servers(machine: OneMachine) -> list[int]:
    return [n for n, command in _living(machine).items() if " api grpc " in command or " code-server start" in command]
