"""The upkeep jobs of the UI: verify, retry, compact, gc and export, on a collected year."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow.parquet as pq
import pytest

from docstokg_assets.definitions import defs
from docstokg_assets.defs import maintenance
from resources.catalog.catalog import Catalog
from resources.records import Reason

YEAR = 2024
Run = Callable[..., dg.ExecuteInProcessResult]


@pytest.fixture(scope="module")
def year(write_config: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Run]]:
    """The data folder of a collected year, and what runs a job over it."""
    folder = tmp_path_factory.mktemp("upkeep")
    with pytest.MonkeyPatch.context() as patch, dg.DagsterInstance.ephemeral() as instance:
        patch.setenv("DTKG_CONFIG", str(write_config(folder)))

        def run(job: str, op: str | None = None, partition: str | None = None, **config: Any) -> Any:
            ops = {op: {"config": config}} if op else {}
            return defs.resolve_job_def(job).execute_in_process(
                run_config={"ops": ops}, partition_key=partition, instance=instance, raise_on_error=False
            )

        assert run("collect_year", partition=str(YEAR)).success
        yield folder / "data", run


def metadata(result: dg.ExecuteInProcessResult) -> dict[str, Any]:
    (event,) = [each for each in result.all_events if each.event_type is dg.DagsterEventType.STEP_OUTPUT]
    return {name: value.value for name, value in event.step_output_data.metadata.items()}


def failure(result: dg.ExecuteInProcessResult) -> str:
    (event,) = [each for each in result.all_events if each.is_step_failure]
    data = event.step_failure_data.user_failure_data
    assert data is not None
    return data.description or ""


def due(data: Path) -> int:
    with Catalog.open(data / "catalog.sqlite3") as catalog:
        return catalog.queue_counts(YEAR).queued_due


@pytest.mark.requirement("ORC-2", "CAT-3")
def test_verify_queues_the_work_of_a_damaged_file_and_the_next_pass_brings_it_back(year: tuple[Path, Run]) -> None:
    data, run = year
    with Catalog.open(data / "catalog.sqlite3") as catalog:
        path = next(str(entry.path) for entry in catalog.entries() if entry.reason is Reason.OK)
    whole = (data / path).read_bytes()
    (data / path).write_bytes(b"%PDF-1.4 not what was stored")
    result = run("verify", "verify_stored_files", year=YEAR)
    (row,) = metadata(result)["works queued again"].records
    assert result.success and row.data["file"] == "damaged" and due(data) == 1
    assert run("continue_year", partition=str(YEAR)).success, "and no check blocks"
    with Catalog.open(data / "catalog.sqlite3") as catalog:
        again = catalog.entry(str(row.data["work"]))
    assert again is not None and (data / str(again.path)).read_bytes() == whole


@pytest.mark.requirement("ORC-2", "CAT-5")
def test_retry_queues_works_by_reason_and_refuses_an_unknown_one(year: tuple[Path, Run]) -> None:
    data, run = year
    with Catalog.open(data / "catalog.sqlite3") as catalog:
        reason, count = next(
            (str(each.reason), each.count) for each in catalog.outcome_counts(YEAR) if each.reason is not Reason.OK
        )
    assert metadata(run("retry", "retry_failed_works", reasons=[reason], year=YEAR))["works queued again"] >= count
    assert due(data) >= 1
    refused = run("retry", "retry_failed_works", reasons=["no-such-reason"])
    assert not refused.success and "there is no reason 'no-such-reason'" in failure(refused)
    assert run("continue_year", partition=str(YEAR)).success


@pytest.mark.requirement("ORC-2")
def test_gc_removes_nothing_unless_told_to(year: tuple[Path, Run]) -> None:
    data, run = year
    orphan = data / "PDF" / "of-nobody.pdf"
    orphan.write_bytes(b"%PDF-1.4")
    old = time.time() - 7 * 86_400
    os.utime(orphan, (old, old))
    listed = metadata(run("gc", "collect_garbage"))
    assert (listed["files"], listed["removed"]) == (1, 0) and orphan.exists()
    assert metadata(run("gc", "collect_garbage", delete=True))["removed"] == 1 and not orphan.exists()


@pytest.mark.requirement("ORC-2", "TEL-6")
def test_compact_and_export_do_what_the_command_line_does(year: tuple[Path, Run], tmp_path: Path) -> None:
    data, run = year
    for _ in range(2):
        assert run("continue_year", partition=str(YEAR)).success
    merged = {
        row.data["table"]: row.data for row in metadata(run("compact", "compact_parts", more_than=1))["tables"].records
    }
    assert merged["metrics"]["merged parts"] > merged["metrics"]["new parts"] == 1
    file = tmp_path / "outcomes.parquet"
    rows = metadata(run("export", "write_export", file=str(file), year=YEAR))["rows"]
    with Catalog.open(data / "catalog.sqlite3") as catalog:
        assert rows == pq.read_table(file).num_rows == sum(1 for _ in catalog.entries(year=YEAR))
    wrong = run("export", "write_export", file=str(file), table="papers")
    assert not wrong.success and "There are tables: attempts" in failure(wrong)


@pytest.mark.requirement("ORC-2")
def test_every_field_of_a_launchpad_is_explained() -> None:
    for job in maintenance.JOBS:
        assert job.description
        for node in job.nodes:
            fields = node.definition.config_schema.config_type.fields  # type: ignore[attr-defined]
            assert fields and all(field.description for field in fields.values()), node.name
