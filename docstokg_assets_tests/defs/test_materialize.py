"""The five assets of a year, run in this process against the scholarly web in a box."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow.parquet as pq
import pytest
import yaml

from docstokg_assets.definitions import defs
from docstokg_assets.defs import checks
from docstokg_assets.defs.assets.downloaded_artifacts import downloaded_artifacts
from docstokg_assets.defs.assets.manifest_parquet import manifest_parquet
from docstokg_assets.defs.assets.openalex_works import openalex_works
from docstokg_assets.defs.assets.resolver_plans import resolver_plans
from docstokg_assets.defs.assets.run_metrics import run_metrics
from docstokg_assets.defs.sensors import works_due
from docstokg_assets.lake.reader import works_of_year
from docstokg_assets.lake.views import open_lake
from docstokg_assets.sandbox import Sandbox
from docstokg_assets_tests.support.servers import free_port
from resources.artifacts.file_system import FileSystemStore
from resources.catalog.catalog import Catalog
from resources.dagster_resources import (
    ArtifactStoreResource,
    CatalogResource,
    HttpClientResource,
    RateLimiterResource,
)
from resources.lake.files import LakeFolder
from resources.records import Reason

YEAR = 2024
CHAIN = [openalex_works, resolver_plans, downloaded_artifacts, manifest_parquet, run_metrics]
CHECKS = [
    checks.no_corruption,
    checks.files_are_there,
    checks.manifest_agrees,
    checks.schema_is_stable,
    checks.objectives,
    checks.coverage,
    checks.connectivity,
    checks.listing_size,
]


def materialize(config_file: Path, selection: list[Any] | None = None, **pass_config: Any) -> dg.ExecuteInProcessResult:
    resources = {
        name: resource(config_file=str(config_file))
        for name, resource in {
            "catalog": CatalogResource,
            "artifact_store": ArtifactStoreResource,
            "rate_limiter": RateLimiterResource,
            "http_client": HttpClientResource,
        }.items()
    }
    with dg.DagsterInstance.ephemeral() as instance:
        return dg.materialize(
            [*CHAIN, *CHECKS],
            partition_key=str(YEAR),
            resources=resources,
            instance=instance,
            selection=selection,
            raise_on_error=False,
            run_config={"ops": {"downloaded_artifacts": {"config": pass_config}}} if pass_config else None,
        )


def metadata_of(result: dg.ExecuteInProcessResult, asset: str) -> Mapping[str, Any]:
    (event,) = result.asset_materializations_for_node(asset)
    return {name: value.value for name, value in event.metadata.items()}


def checks_of(result: dg.ExecuteInProcessResult) -> dict[str, Any]:
    return {check.check_name: check for check in result.get_asset_check_evaluations()}


def failure_of(result: dg.ExecuteInProcessResult, asset: str) -> str:
    (event,) = [e for e in result.get_failed_step_keys() if e == asset]
    data = result.failure_data_for_node(event)
    assert data is not None and data.user_failure_data is not None
    return data.user_failure_data.description or ""


@dataclass(frozen=True)
class TwoRuns:
    first: dg.ExecuteInProcessResult
    second: dg.ExecuteInProcessResult
    arrivals_of_second: list[dict[str, Any]]
    data_root: Path

    @property
    def catalog(self) -> Catalog:
        return Catalog.open(self.data_root / "catalog.sqlite3")


@pytest.fixture(scope="module")
def runs(
    sandbox: Sandbox, write_config: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TwoRuns]:
    folder = tmp_path_factory.mktemp("two-runs")
    config_file = write_config(folder)
    first = materialize(config_file, deadline_s=30.0)
    before = len(sandbox.arrivals())
    second = materialize(config_file)
    yield TwoRuns(first, second, sandbox.arrivals()[before:], folder / "data")


@pytest.mark.requirement("ORC-1")
def test_a_year_is_materialised_from_end_to_end(runs: TwoRuns) -> None:
    assert runs.first.success
    listed = metadata_of(runs.first, "openalex_works")
    planned = metadata_of(runs.first, "resolver_plans")
    downloaded = metadata_of(runs.first, "downloaded_artifacts")
    works = listed["dagster/row_count"]
    assert works > 20 and listed["announced by the source"] == works and listed["sample"].records
    assert planned["works"] == planned["new"] == works and planned["asked first"].records
    assert downloaded["works"] == works and downloaded["ended"] == "drained"
    assert downloaded["finished"] + downloaded["waiting"] == works
    assert downloaded["coverage"] > 0.8
    assert metadata_of(runs.first, "manifest_parquet")["outcomes"] == works
    measured = metadata_of(runs.first, "run_metrics")
    assert measured["saved"] == downloaded["with full text in this pass"] > 0.5 * works
    files = [path for kind in ("PDF", "XML") for path in (runs.data_root / kind).glob("*")]
    assert len(files) == measured["saved"]


@pytest.mark.requirement("ORC-1")
def test_metadata_tells_a_person_how_works_ended_and_what_helps(runs: TwoRuns) -> None:
    ended = metadata_of(runs.first, "downloaded_artifacts")["how works ended"].records
    assert ended[0].data["reason"] == "ok"
    assert all(record.data["in words"] and record.data["what to do"] for record in ended)
    report = metadata_of(runs.first, "run_metrics")
    assert Path(report["report file"]) == runs.data_root / "reports" / f"{YEAR}.md"
    assert (runs.data_root / "reports" / f"{YEAR}.md").read_text().startswith("# ")


@pytest.mark.requirement("ORC-2")
def test_a_second_run_downloads_nothing_again_and_doubles_nothing(runs: TwoRuns) -> None:
    assert runs.second.success
    assert {arrival["host"] for arrival in runs.arrivals_of_second} == {"api.openalex.org"}
    assert metadata_of(runs.second, "resolver_plans")["new"] == 0
    assert metadata_of(runs.second, "downloaded_artifacts")["finished in this pass"] == 0
    for name in ("saved", "finished", "bytes"):
        assert metadata_of(runs.second, "run_metrics")[name] == metadata_of(runs.first, "run_metrics")[name]
    works = list(works_of_year(LakeFolder(runs.data_root / "lake"), YEAR))
    assert len(works) == len({work.work_id for work in works}) == metadata_of(runs.first, "resolver_plans")["works"]
    assert any(work.locations and work.locations[0].pdf_url for work in works)


@pytest.mark.requirement("ORC-1", "TEL-6")
def test_outcomes_and_attempts_hold_what_plans_and_works_said(runs: TwoRuns) -> None:
    """What the UI shows as lineage of the columns of `manifest_parquet`."""
    with open_lake(LakeFolder(runs.data_root / "lake")) as lake:
        said = lake.execute(
            """SELECT count(*), count(*) FILTER (o.title IS DISTINCT FROM w.title OR o.doi IS DISTINCT FROM w.doi),
                      (SELECT count(*) FROM outcomes SEMI JOIN plans USING (work_id, url, resolver, tier))
               FROM outcomes o LEFT JOIN works w USING (work_id)"""
        ).fetchone()
        asked = lake.execute(
            "SELECT count(*) FROM attempts a SEMI JOIN plans p USING (work_id, url, host, resolver, tier)"
        )
        planned_and_asked = asked.fetchone()
    assert said is not None and said[0] > 20 and said[1] == 0 and said[2] > 0
    assert planned_and_asked is not None and planned_and_asked[0] > 0


@pytest.mark.requirement("ORC-1")
def test_what_dagster_plots_and_links_is_there(runs: TwoRuns) -> None:
    passed, measured = metadata_of(runs.first, "downloaded_artifacts"), metadata_of(runs.first, "run_metrics")
    numbers = {"works", "finished", "coverage", "bytes", "requests", "works per second"}
    assert numbers <= {name for name, value in passed.items() if isinstance(value, int | float)}
    indicators = {"yield", "saved", "bytes", "ttfp_p50_s", "ttfp_p95_s", "ratio_429"}
    assert indicators <= {name for name, value in measured.items() if isinstance(value, int | float)}
    for shown in (passed, measured):
        assert Path(shown["run folder"]) == runs.data_root / runs.first.run_id and Path(shown["run folder"]).is_dir()
    latest = metadata_of(runs.second, "run_metrics")
    assert Path(latest["report file"]).read_text() == latest["report"]


@pytest.mark.requirement("ORC-5", "TEL-7")
def test_objectives_are_checks_and_a_missed_one_only_warns(runs: TwoRuns) -> None:
    found = checks_of(runs.first)
    assert set(found) == {
        "no_corruption", "files_are_there", "manifest_agrees", "schema_is_stable",
        "coverage", "connectivity", "listing_size",
        "yield", "ttfp_p50_s", "ttfp_p95_s", "cache_hit_ratio", "ratio_429",
    }  # fmt: skip
    measured = metadata_of(runs.first, "run_metrics")["yield"]
    assert measured < 0.85 and not found["yield"].passed and "misses the goal" in found["yield"].description
    assert found["yield"].severity is dg.AssetCheckSeverity.WARN
    assert found["no_corruption"].passed and found["no_corruption"].severity is dg.AssetCheckSeverity.ERROR


@pytest.mark.requirement("ORC-2")
def test_the_run_is_the_same_one_in_dagster_the_catalog_and_the_run_folder(runs: TwoRuns) -> None:
    with runs.catalog as catalog:
        run = catalog.run(runs.first.run_id)
        assert run is not None and run.finished_at is not None and run.scope == {"year": YEAR}
        assert run.summary is not None and run.summary["saved"] == metadata_of(runs.first, "run_metrics")["saved"]
        assert run.progress is not None and run.progress["phase"] == "measuring"
    assert {"manifest.jsonl", "manifest.sqlite3"} <= {
        path.name for path in (runs.data_root / runs.first.run_id).iterdir()
    }


@pytest.mark.requirement("ORC-5")
def test_a_corrupt_file_is_an_error_that_blocks_what_is_downstream(
    tmp_path: Path, write_config: Callable[..., Path]
) -> None:
    config_file = write_config(tmp_path)
    assert materialize(config_file, CHAIN[:2]).success
    downloaded = materialize(config_file, [CHAIN[2]], max_works=5)
    assert downloaded.success and metadata_of(downloaded, "downloaded_artifacts")["finished in this pass"] == 5
    with Catalog.open(tmp_path / "data" / "catalog.sqlite3") as catalog:
        stored = next(entry.path for entry in catalog.entries() if entry.reason is Reason.OK and entry.path)
    (tmp_path / "data" / stored).write_bytes(b"%PDF-1.4 not what was stored")

    result = materialize(config_file, [*CHAIN[2:], *CHECKS], max_works=1)

    assert not result.success
    check = checks_of(result)["no_corruption"]
    assert not check.passed and [record.data["file"] for record in check.metadata["bad files"].value.records] == [
        stored
    ]
    assert not result.asset_materializations_for_node("manifest_parquet")
    assert not result.asset_materializations_for_node("run_metrics")


@pytest.mark.requirement("ORC-5")
def test_a_missing_file_is_noticed_and_a_slow_store_is_asked_for_many_at_once(
    tmp_path: Path, write_config: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    config_file = write_config(tmp_path)
    assert materialize(config_file, CHAIN[:3], max_works=5).success
    lost = next((tmp_path / "data" / "PDF").iterdir())
    lost.unlink()
    asked, at_once, exists = list[str](), list[int](), FileSystemStore.exists

    def slowly(self: FileSystemStore, path: str) -> bool:
        asked.append(path)
        time.sleep(0.2)
        at_once.append(len(asked))
        asked.remove(path)
        return exists(self, path)

    monkeypatch.setattr(FileSystemStore, "exists", slowly)
    result = materialize(config_file, [CHAIN[2], *CHECKS[:2]], max_works=1)
    check = checks_of(result)["files_are_there"]
    assert result.success and not check.passed and check.metadata["missing"].value == 1
    assert max(at_once) > 1


@pytest.mark.requirement("ORC-5")
def test_a_part_that_is_lost_or_of_another_version_is_noticed(
    runs: TwoRuns, tmp_path: Path, write_config: Callable[..., Path]
) -> None:
    assert checks_of(runs.first)["manifest_agrees"].passed and checks_of(runs.first)["schema_is_stable"].passed
    shutil.copytree(runs.data_root, tmp_path / "data")
    parts = sorted((tmp_path / "data/lake/attempts" / f"year={YEAR}").glob("part-*.parquet"))
    parts[0].unlink()
    (old,) = (tmp_path / "data/lake/outcomes" / f"year={YEAR}").glob("part-*.parquet")
    pq.write_table(pq.read_table(old).drop_columns(["tier"]), old)
    found = checks_of(materialize(write_config(tmp_path), [CHAIN[3], *CHECKS[2:4]]))
    assert not found["manifest_agrees"].passed and "attempts in Parquet" in (found["manifest_agrees"].description or "")
    shutil.copy(runs.data_root / parts[0].relative_to(tmp_path / "data"), parts[0])
    assert checks_of(materialize(write_config(tmp_path), [CHAIN[3], CHECKS[2]]))["manifest_agrees"].passed
    rows = pq.read_table(parts[0])  # of a catalog that was newer, before this one was restored
    unknown = rows.set_column(rows.schema.get_field_index("worker_id"), "worker_id", [["a stranger"] * rows.num_rows])
    pq.write_table(unknown, parts[0].with_name("part-unknown.parquet"))
    more = checks_of(materialize(write_config(tmp_path), [CHAIN[3], CHECKS[2]]))["manifest_agrees"]
    assert not more.passed and "attempts in Parquet" in (more.description or "")
    drift = found["schema_is_stable"]
    assert not drift.passed
    (row,) = drift.metadata["parts with other columns"].value.records
    assert row.data["columns"] == "tier"


@pytest.mark.requirement("ORC-6", "TEL-6")
def test_a_year_is_materialised_with_the_lake_in_a_bucket(
    moto: str, aws_credentials: None, tmp_path: Path, write_config: Callable[..., Path]
) -> None:
    place = f"s3://papers/{tmp_path.name}"
    result = materialize(write_config(tmp_path, telemetry={"lake": place, "lake_endpoint_url": moto}), deadline_s=30.0)
    works = metadata_of(result, "openalex_works")
    assert result.success and not (tmp_path / "data/lake").exists()
    assert works["folder"] == f"{place}/works/year={YEAR}"
    assert metadata_of(result, "resolver_plans")["works"] == works["dagster/row_count"]
    assert metadata_of(result, "manifest_parquet")["lake"] == place
    assert metadata_of(result, "run_metrics")["saved"] > 0
    assert all(checks_of(result)[name].passed for name in ("manifest_agrees", "schema_is_stable"))


@pytest.mark.requirement("ORC-1", "ORC-2", "ORC-3")
def test_a_year_that_waits_for_slow_hosts_ends_at_its_deadline_with_its_coverage_and_the_sensor_continues_it(
    sandbox: Sandbox, tmp_path: Path, write_config: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    config_file = write_config(tmp_path)
    sandbox.add_fault(host="*.example", delay=60.0)
    try:
        first = materialize(config_file, deadline_s=4.0)
    finally:
        sandbox.clear_faults()
    passed = metadata_of(first, "downloaded_artifacts")
    assert first.success and passed["ended"] == "deadline"
    assert passed["coverage"] < 1.0 and passed["still to do"] > 0 and metadata_of(first, "run_metrics")["report"]

    monkeypatch.setenv("DTKG_CONFIG", str(config_file))
    with (
        dg.DagsterInstance.ephemeral() as instance,
        dg.build_sensor_context(instance, definitions=defs, resources=defs.resources) as context,
    ):
        (request,) = works_due.evaluate_tick(context).run_requests or ()
        assert (request.job_name, request.partition_key) == ("continue_year", str(YEAR))
        rest = defs.resolve_job_def("continue_year").execute_in_process(
            partition_key=request.partition_key, run_config=request.run_config, instance=instance
        )
    finished = metadata_of(rest, "downloaded_artifacts")
    assert finished["still to do"] == 0 and finished["coverage"] > passed["coverage"]
    assert finished["finished"] + finished["waiting"] == finished["works"] == passed["works"]
    assert not rest.asset_materializations_for_node("openalex_works"), "the list is not asked for again"


@pytest.mark.requirement("ORC-1")
def test_force_tries_works_without_full_text_again_and_no_others(
    runs: TwoRuns, tmp_path: Path, write_config: Callable[..., Path]
) -> None:
    shutil.copytree(runs.data_root, tmp_path / "data")
    with runs.catalog as catalog:
        counts = catalog.outcome_counts(YEAR)
    without = sum(count.count for count in counts if count.reason is not Reason.OK)
    again = metadata_of(materialize(write_config(tmp_path), [CHAIN[2]], force=True), "downloaded_artifacts")
    assert again["finished in this pass"] + again["waiting after this pass"] == without > 0


@pytest.mark.requirement("ORC-1", "CFG-1")
@pytest.mark.parametrize(
    ("sections", "remedy"),
    [
        ({"openalex": {"filter": ""}}, "DTKG_OPENALEX__FILTER"),
        ({"openalex": {"source": "ids", "ids_file": "no-such-file"}}, "Correct openalex.ids_file"),
        ({"openalex": {"source": "snapshot"}}, "source snapshot needs snapshot"),
        ({"openalex": {"source": "snapshot", "snapshot": "no-such-folder"}}, "correct openalex.snapshot"),
        ({"http": {}, "openalex": {"filter": "type:article"}}, "contact_email"),
        ({"colour": "blue"}, "unknown key colour"),
    ],
)
def test_what_is_wrong_with_the_configuration_is_told_in_one_sentence(
    tmp_path: Path, write_config: Callable[..., Path], sections: dict[str, Any], remedy: str
) -> None:
    result = materialize(write_config(tmp_path, **sections), [CHAIN[0]])
    assert not result.success and remedy in failure_of(result, "openalex_works")


@pytest.mark.requirement("DL-4", "ORC-2")
def test_fault_60_a_proxy_that_is_gone_fails_the_step_and_launching_again_completes_the_year(
    tmp_path: Path, write_config: Callable[..., Path]
) -> None:
    config_file = write_config(tmp_path)
    assert materialize(config_file, CHAIN[:2]).success
    good = config_file.read_text()
    sections = yaml.safe_load(good)
    sections["http"]["proxy"] = f"http://127.0.0.1:{free_port()}"
    config_file.write_text(yaml.safe_dump(sections))
    broken = materialize(config_file, CHAIN[2:3])
    assert "cannot be reached" in failure_of(broken, "downloaded_artifacts")
    with Catalog.open(tmp_path / "data" / "catalog.sqlite3") as catalog:
        counts = catalog.queue_counts(YEAR)
        assert counts.queued_due == counts.total - counts.done > 20
        assert {row.reason for row in catalog.outcome_counts(YEAR)} <= {Reason.NO_CANDIDATE}  # nobody was asked for it
    config_file.write_text(good)
    assert materialize(config_file, CHAIN[2:]).success


@pytest.mark.requirement("DL-4", "ORC-2")
@pytest.mark.parametrize("full", ["artifacts", "all of the data root"])
def test_fault_36_a_full_disk_fails_the_step_with_the_remedy_and_launching_again_completes_the_year(
    tmp_path: Path, write_config: Callable[..., Path], small_disk: Callable[[str], Path], full: str
) -> None:
    soon = {"lease_s": 10}  # a full catalog cannot give works back, and here the process that holds them lives on
    if full == "artifacts":
        config_file = write_config(tmp_path, download=soon, artifacts={"root": str(small_disk("200k"))})
    else:
        (tmp_path / "data").symlink_to(small_disk("1m"))
        config_file = write_config(tmp_path, download=soon)
    broken = materialize(config_file)
    (step,) = broken.get_failed_step_keys()
    assert "Free some space, then" in failure_of(broken, step)
    small_disk("64m")
    whole = materialize(config_file)
    assert whole.success and metadata_of(whole, "downloaded_artifacts")["ended"] == "drained"
    with Catalog.open(tmp_path / "data" / "catalog.sqlite3") as catalog:
        counts, entries = catalog.queue_counts(YEAR), list(catalog.entries(year=YEAR))
        assert counts.total == counts.done + counts.retry > 20
        saved = [entry.work_id for entry in entries if entry.path]
        assert saved and all(len(catalog.artifacts_of(work_id)) == 1 for work_id in saved)
    assert checks_of(whole)["no_corruption"].passed and checks_of(whole)["files_are_there"].passed
