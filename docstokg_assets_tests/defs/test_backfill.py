"""A backfill as the UI starts it, by a real daemon with its queue and sensors, in processes of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from docstokg_assets.sandbox import Sandbox
from docstokg_assets_tests.support.operating import LAUNCH, OneMachine, backfill_of

YEARS = ("2022", "2023", "2024")
SANDBOX: dict[str, Any] = {"works_per_year": 12, "years": (2022, 2024), "enforce_limits": False}


@pytest.fixture
def machine(tmp_path: Path, write_config: Callable[..., Path]) -> Iterator[OneMachine]:
    """An instance as ours, but for one run at a time, so that the order shows."""

    def change(settings: dict[str, Any]) -> None:
        settings["concurrency"]["runs"]["max_concurrent_runs"] = 1

    made = OneMachine(tmp_path, write_config(tmp_path, openalex={"filter": "type:article", "first_year": 2022}))
    made.set_up(change)
    try:
        yield made
    finally:
        made.end()


@pytest.mark.timeout(420)
@pytest.mark.requirement("ORC-1", "ORC-2", "ORC-3")
def test_a_backfill_takes_the_newest_year_first_and_a_failed_year_stops_no_other(
    sandbox: Sandbox, machine: OneMachine, tmp_path: Path
) -> None:
    sandbox.add_fault(host="api.openalex.org", path="*2023-01-01*", status=401)
    machine.launch_backfill(machine.name, *YEARS)
    machine.start_daemon()
    with dg.DagsterInstance.from_config(str(machine.home)) as instance:
        ended = machine.wait_for(lambda: _ended(instance), "the end of all years", 360)
    page = tmp_path / "data" / "reports" / "failures" / f"{ended['2023'].dagster_run.run_id}.md"
    machine.wait_for(page.exists, "the page about the failed run", 60)
    status = {year: record.dagster_run.status.value for year, record in ended.items()}
    assert status == {"2022": "SUCCESS", "2023": "FAILURE", "2024": "SUCCESS"}
    priorities = {record.dagster_run.tags["dagster/priority"] for record in ended.values()}
    assert priorities == {str(int(year) - 10_000) for year in YEARS}, "below 0, where the priorities of people begin"
    _, *waited = sorted(YEARS, key=lambda year: ended[year].start_time or 0.0)  # the first was alone in the queue
    assert waited == sorted(waited, reverse=True)
    assert "OpenAlex did not accept the API key" in page.read_text(), "the sensor of the daemon left a page"


def _ended(instance: dg.DagsterInstance) -> dict[str, dg.RunRecord]:
    """The run of each year, when all have ended."""
    records = {r.dagster_run.tags.get("dagster/partition", ""): r for r in instance.get_run_records()}
    return records if set(records) == set(YEARS) and all(r.dagster_run.is_finished for r in records.values()) else {}


@pytest.fixture
def whole_machine(tmp_path: Path, write_config: Callable[..., Path]) -> Iterator[OneMachine]:
    made = OneMachine(tmp_path, write_config(tmp_path, openalex={"filter": "type:article", "first_year": 2022}))
    made.set_up()
    try:
        made.start_all()
        yield made
    finally:
        made.end()


@pytest.mark.timeout(420)
@pytest.mark.requirement("ORC-1", "ORC-2")
def test_three_years_start_at_once_and_a_year_has_one_run_at_a_time(
    sandbox: Sandbox, whole_machine: OneMachine
) -> None:
    machine = whole_machine
    sandbox.clear_faults()
    sandbox.add_fault(host="*.example", delay=8.0)  # so that all three are seen downloading together
    assert machine.ask(LAUNCH, **backfill_of(*YEARS))["launchPartitionBackfill"]["__typename"].endswith("Success")
    with dg.DagsterInstance.from_config(str(machine.home)) as instance:
        three = machine.wait_for(lambda: _started(instance, 3), "three runs at once", 120)
        sandbox.clear_faults()
        machine.launch_run(machine.name, "collect_year", partition="2024", priority="5")
        runs = machine.wait_for(lambda: _all_ended(instance, 4), "the end of all runs", 240)
    spread = max(three) - min(three)
    print(f"three runs started within {spread:.1f} s")
    assert spread < 20, "not one after the other"
    first, second = sorted((r for r in runs if r.dagster_run.tags["dagster/partition"] == "2024"), key=_began)
    assert second.dagster_run.tags["dagster/priority"] == "5", "what a person sets stays"
    assert first.end_time is not None and _began(second) >= first.end_time, "never two runs of one year"


def _began(record: dg.RunRecord) -> float:
    return record.start_time or 0.0


def _started(instance: dg.DagsterInstance, count: int) -> list[float]:
    """When the runs that are in progress began, if there are as many."""
    records = instance.get_run_records(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED]))
    return [_began(record) for record in records] if len(records) >= count else []


def _all_ended(instance: dg.DagsterInstance, count: int) -> list[dg.RunRecord]:
    records = [r for r in instance.get_run_records() if r.dagster_run.job_name != "continue_year"]
    return list(records) if len(records) >= count and all(r.dagster_run.is_finished for r in records) else []
