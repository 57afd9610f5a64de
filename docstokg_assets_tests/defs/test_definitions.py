"""The code location as Dagster sees it: what is in it, which years it has, and the instance it is run by."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from dagster._core.definitions.freshness import TimeWindowFreshnessPolicy

from docstokg_assets.definitions import defs
from docstokg_assets.defs.partitions import year_partitions
from docstokg_assets.lake.writer import SCHEMAS
from docstokg_assets.reporting.metrics import SLOS

ROOT = Path(__file__).resolve().parents[2]
ASSETS = ["openalex_works", "resolver_plans", "downloaded_artifacts", "manifest_parquet", "run_metrics"]


@pytest.mark.requirement("ORC-1")
def test_the_definitions_load() -> None:
    dg.Definitions.validate_loadable(defs)


@pytest.mark.requirement("ORC-1")
def test_the_five_assets_form_one_chain_by_year() -> None:
    graph = defs.resolve_asset_graph()
    for before, name in zip([None, *ASSETS], ASSETS, strict=False):
        node = graph.get(dg.AssetKey(name))
        assert node.parent_keys == ({dg.AssetKey(before)} if before else set())
        assert isinstance(node.partitions_def, dg.TimeWindowPartitionsDefinition)
        assert node.description and node.owners and node.kinds and node.code_version


@pytest.mark.requirement("ORC-2")
def test_listing_and_downloading_count_against_their_pools() -> None:
    """How many may go at once is in the instance: test_instance and test_backfill."""
    pools = {node.name: node.definition.pools for node in defs.resolve_job_def("collect_year").nodes}
    drained = {node.name: node.definition.pools for node in defs.resolve_job_def("drain").nodes}
    assert {name: set(of) for name, of in (pools | drained).items() if of} == {
        "openalex_works": {"openalex"},
        "downloaded_artifacts": {"downloads"},
        "drain_queue": {"downloads"},
    }


@pytest.mark.requirement("ORC-5", "TEL-7")
def test_every_objective_is_a_check_corruption_blocks_and_a_night_without_news_is_seen() -> None:
    graph = defs.resolve_asset_graph()
    checks = {key.name: graph.get_check_spec(key) for key in graph.asset_check_keys}
    names = {"corruption": "no_corruption"}  # which reads the files themselves
    assert {names.get(slo.name, slo.name) for slo in SLOS} <= checks.keys()
    assert [name for name, spec in checks.items() if spec.blocking] == ["no_corruption"]
    assert all(spec.description for spec in checks.values())
    policy = graph.get(dg.AssetKey("run_metrics")).freshness_policy
    assert isinstance(policy, TimeWindowFreshnessPolicy), "the window of the UI"
    windows = [window.to_timedelta() for window in (policy.warn_window, policy.fail_window) if window]
    assert windows == [dt.timedelta(hours=36), dt.timedelta(hours=72)]


@pytest.mark.requirement("ORC-1")
def test_each_asset_names_the_file_and_line_where_it_is_defined() -> None:
    for name in ASSETS:
        (place,) = _metadata(name)["dagster/code_references"].code_references
        lines = Path(place.file_path).read_text().splitlines()[place.line_number - 1 :]
        assert any(line.startswith(f"def {name}(") for line in lines[:15]), place


@pytest.mark.requirement("ORC-1", "TEL-6")
def test_the_columns_of_the_lake_are_shown_with_their_meaning_and_where_they_come_from() -> None:
    shown = {name: _metadata(name).get("dagster/column_schema") for name in ASSETS}
    assert shown.pop("downloaded_artifacts") is None, "it has files and no table"
    names = {name: [column.name for column in schema.columns] for name, schema in shown.items() if schema}
    assert names["openalex_works"] == ["year", *SCHEMAS["works"].names]
    assert names["resolver_plans"] == ["year", *SCHEMAS["plans"].names]
    assert names["run_metrics"] == ["year", *SCHEMAS["metrics"].names]
    both = [f"{table}.{name}" for table in ("attempts", "outcomes") for name in ("year", *SCHEMAS[table].names)]
    assert names["manifest_parquet"] == both, "two tables in one asset"
    assert all(column.description for schema in shown.values() if schema for column in schema.columns)

    for name in ("resolver_plans", "manifest_parquet", "run_metrics"):
        lineage = _metadata(name)["dagster/column_lineage"].deps_by_column
        assert lineage and lineage.keys() <= set(names[name])
        for dep in (dep for deps in lineage.values() for dep in deps):
            upstream = dep.asset_key.to_user_string()
            assert dep.column_name in names[upstream] and ASSETS.index(upstream) < ASSETS.index(name)


def _metadata(asset: str) -> Mapping[str, Any]:
    return defs.resolve_asset_graph().get(dg.AssetKey(asset)).metadata


@pytest.mark.requirement("ORC-1")
def test_the_years_go_from_the_first_one_to_the_current_one_and_grow_by_themselves() -> None:
    years = year_partitions(2022)
    today = years.get_partition_keys(dt.datetime(2024, 6, 1, tzinfo=dt.UTC))
    next_year = years.get_partition_keys(dt.datetime(2025, 1, 1, 0, 0, 1, tzinfo=dt.UTC))
    assert today == ["2022", "2023", "2024"]
    assert next_year == [*today, "2025"]


@pytest.mark.requirement("ORC-1")
def test_loading_needs_no_configuration_and_the_configured_first_year_counts(tmp_path: Path) -> None:
    show = (
        "import docstokg_assets.definitions; from docstokg_assets.defs.partitions import years; "
        "print(years.get_first_partition_key())"
    )
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("DTKG_", "DOCSTOKG_"))}

    def first_year(**more: str) -> str:
        command = [
            sys.executable,
            "-W",
            "error::DeprecationWarning",
            "-c",
            show,
        ]
        return subprocess.run(
            command,
            cwd=tmp_path,
            env={**clean, **more, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()

    assert first_year() == "2015"
    assert first_year(DTKG_OPENALEX__FIRST_YEAR="2021") == "2021"
    assert not list(tmp_path.iterdir())


@pytest.mark.requirement("ORC-2")
def test_the_instance_file_is_accepted_by_dagster(tmp_path: Path) -> None:
    shutil.copy(ROOT / "dagster.yaml", tmp_path)
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        assert not instance.telemetry_enabled
        assert instance.get_concurrency_config().run_queue_config.max_concurrent_runs == 3  # type: ignore[union-attr]
        assert instance.run_monitoring_enabled
        assert instance.run_retries_enabled
        assert instance.get_settings("freshness") == {"enabled": True}, "else nobody notices a night without news"
        assert instance.run_monitoring_settings["max_runtime_seconds"] == 86_400
        assert set(instance.get_settings("retention")) == {"schedule", "sensor"}


@pytest.mark.requirement("ORC-2")
def test_the_workspace_names_the_code_location() -> None:
    (location,) = yaml.safe_load((ROOT / "workspace.yaml").read_text())["load_from"]
    assert location["python_module"]["module_name"] == "docstokg_assets.definitions"


@pytest.mark.requirement("ORC-2")
def test_the_code_location_has_one_name_however_it_is_started() -> None:
    """`dagster -m` names it after the module; another name elsewhere would turn sensors off that are on."""
    (location,) = yaml.safe_load((ROOT / "workspace.yaml").read_text())["load_from"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    names = {
        location["python_module"]["location_name"],
        project["dagster"]["code_location_name"],
        project["dg"]["project"]["code_location_name"],
    }
    assert names == {"docstokg_assets.definitions"}


@pytest.mark.requirement("ORC-3")
def test_what_runs_by_itself_is_described_and_works_that_come_due_are_tried_without_a_person() -> None:
    repository = defs.get_repository_def()
    sensors = {sensor.name: sensor for sensor in repository.sensor_defs}
    schedules = {schedule.name: schedule for schedule in repository.schedule_defs}
    assert all(each.description for each in [*sensors.values(), *schedules.values()])
    assert {name for name, each in sensors.items() if each.default_status is dg.DefaultSensorStatus.RUNNING} == {
        "works_due",
        "failure_summary",
    }
    assert schedules["rolling_audit"].default_status is dg.DefaultScheduleStatus.RUNNING
