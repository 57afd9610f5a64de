"""Runs as the UI starts them, by a real daemon with its queue, monitor and sensors, in processes of their own: a backfill, and a
run whose process is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from docstokg_assets.sandbox import Sandbox
from resources.catalog import Catalog

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
LAUNCH = """mutation ($backfillParams: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $backfillParams) {
    __typename ... on PythonError { message }
  }
}"""
YEARS = ("2022", "2023", "2024")


SANDBOX: dict[str, Any] = {"works_per_year": 12, "years": (2022, 2024), "enforce_limits": False}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An instance as ours, but for one run at a time, so that the order shows."""
    folder = tmp_path / "home"
    folder.mkdir()
    settings = yaml.safe_load((ROOT / "dagster.yaml").read_text())
    settings["concurrency"]["runs"]["max_concurrent_runs"] = 1
    (folder / "dagster.yaml").write_text(yaml.safe_dump(settings))
    return folder


def start(*command: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [BIN / command[0], *command[1:], "-m", "docstokg_assets.definitions"],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def launch_backfill(*years: str, **environment: str) -> None:
    chain = ["openalex_works", "resolver_plans", "downloaded_artifacts", "manifest_parquet", "run_metrics"]
    variables = {"backfillParams": {"assetSelection": [{"path": [name]} for name in chain], "partitionNames": years}}
    launch = start("dagster-graphql", "-t", LAUNCH, "-v", json.dumps(variables), **environment)
    answer = launch.communicate(timeout=120)[0]
    assert "LaunchBackfillSuccess" in answer, answer


@pytest.mark.timeout(420)
@pytest.mark.requirement("ORC-1", "ORC-2", "ORC-3")
def test_a_backfill_takes_the_newest_year_first_and_a_failed_year_stops_no_other(
    sandbox: Sandbox, home: Path, tmp_path: Path, write_config: Callable[..., Path]
) -> None:
    config_file = write_config(tmp_path, openalex={"filter": "type:article", "first_year": 2022})
    sandbox.add_fault(host="api.openalex.org", path="*2023-01-01*", status=401)
    environment = {"DAGSTER_HOME": str(home), "DTKG_CONFIG": str(config_file)}
    subprocess.run([BIN / "dagster", "instance", "migrate"], env={**os.environ, **environment}, check=True)
    launch_backfill(*YEARS, **environment)

    daemon = start("dagster-daemon", "run", **environment)
    try:
        with dg.DagsterInstance.from_config(str(home)) as instance:
            ended = _wait_for_the_end(instance)
            page = tmp_path / "data" / "reports" / "failures" / f"{ended['2023'].dagster_run.run_id}.md"
            for _ in range(600):
                if page.exists():
                    break
                time.sleep(0.1)
    finally:
        os.killpg(daemon.pid, signal.SIGTERM)
        daemon.communicate(timeout=60)
    status = {year: record.dagster_run.status.value for year, record in ended.items()}
    assert status == {"2022": "SUCCESS", "2023": "FAILURE", "2024": "SUCCESS"}
    assert {record.dagster_run.tags["dagster/priority"] for record in ended.values()} == set(YEARS)
    _, *waited = sorted(YEARS, key=lambda year: ended[year].start_time or 0.0)  # the first was alone in the queue
    assert waited == sorted(waited, reverse=True)
    assert "OpenAlex did not accept the API key" in page.read_text(), "the sensor of the daemon left a page"


@pytest.mark.timeout(420)
@pytest.mark.requirement("ORC-2")
def test_fault_43_a_killed_run_is_noticed_started_again_and_holds_nothing(
    sandbox: Sandbox, home: Path, tmp_path: Path, write_config: Callable[..., Path]
) -> None:
    settings = yaml.safe_load((home / "dagster.yaml").read_text())
    settings["concurrency"]["pools"]["default_limit"] = 1  # the run that follows needs the place of the killed one
    settings["run_monitoring"] |= {"poll_interval_seconds": 5, "free_slots_after_run_end_seconds": 1}
    (home / "dagster.yaml").write_text(yaml.safe_dump(settings))
    config_file = write_config(tmp_path, openalex={"filter": "type:article", "first_year": 2022})
    environment = {"DAGSTER_HOME": str(home), "DTKG_CONFIG": str(config_file)}
    subprocess.run([BIN / "dagster", "instance", "migrate"], env={**os.environ, **environment}, check=True)
    sandbox.add_fault(host="*.example", delay=60.0)
    launch_backfill("2024", **environment)

    daemon = start("dagster-daemon", "run", **environment)
    try:
        with dg.DagsterInstance.from_config(str(home)) as instance:
            owner = _wait_for_a_lease(tmp_path / "data" / "catalog.sqlite3")
            (killed,) = instance.get_runs()
            os.kill(int(owner.split(":")[-2]), signal.SIGKILL)
            sandbox.clear_faults()
            retried = _wait_for_a_retry(instance, killed.run_id)
    finally:
        sandbox.clear_faults()
        os.killpg(daemon.pid, signal.SIGTERM)
        daemon.communicate(timeout=60)
    assert (killed.run_id, retried.parent_run_id) == (retried.root_run_id, killed.run_id)
    with Catalog.open(tmp_path / "data" / "catalog.sqlite3") as catalog:
        counts = catalog.queue_counts(2024)
        assert counts.leased == 0 and counts.total and counts.done + counts.retry == counts.total
        assert not catalog.lease_owners()


def _wait_for_a_lease(file: Path) -> str:
    """Who holds works; returns when somebody does."""
    for _ in range(1200):
        if file.exists():
            with Catalog.open(file) as catalog:
                if catalog.queue_counts(2024).leased:
                    return next(iter(catalog.lease_owners()))
        time.sleep(0.1)
    pytest.fail("no work was claimed in two minutes")


def _wait_for_a_retry(instance: dg.DagsterInstance, killed: str) -> dg.DagsterRun:
    """The run that was started for the killed one, when it has succeeded."""
    for _ in range(1200):
        runs = {run.run_id: run for run in instance.get_runs()}
        again = [run for run in runs.values() if run.parent_run_id == killed]
        if again and again[0].is_finished:
            assert runs[killed].status is dg.DagsterRunStatus.FAILURE
            assert again[0].status is dg.DagsterRunStatus.SUCCESS
            return again[0]
        time.sleep(0.2)
    pytest.fail(f"not started again: {[(run.run_id, run.status) for run in runs.values()]}")


def _wait_for_the_end(instance: dg.DagsterInstance) -> dict[str, dg.RunRecord]:
    for _ in range(1800):
        records = {r.dagster_run.tags.get("dagster/partition", ""): r for r in instance.get_run_records()}
        if set(records) == set(YEARS) and all(r.dagster_run.is_finished for r in records.values()):
            return records
        time.sleep(0.2)
    pytest.fail(f"not ended: { {year: r.dagster_run.status for year, r in records.items()} }")
