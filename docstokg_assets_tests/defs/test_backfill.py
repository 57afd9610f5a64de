"""A backfill as the UI starts it, by a real daemon with its queue and sensors, in processes of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from docstokg_assets.sandbox import Sandbox
from docstokg_assets_tests.support.operating import OneMachine

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
    assert {record.dagster_run.tags["dagster/priority"] for record in ended.values()} == set(YEARS)
    _, *waited = sorted(YEARS, key=lambda year: ended[year].start_time or 0.0)  # the first was alone in the queue
    assert waited == sorted(waited, reverse=True)
    assert "OpenAlex did not accept the API key" in page.read_text(), "the sensor of the daemon left a page"


def _ended(instance: dg.DagsterInstance) -> dict[str, dg.RunRecord]:
    """The run of each year, when all have ended."""
    records = {r.dagster_run.tags.get("dagster/partition", ""): r for r in instance.get_run_records()}
    return records if set(records) == set(YEARS) and all(r.dagster_run.is_finished for r in records.values()) else {}
