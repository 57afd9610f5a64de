"""The checks of a year tell what is: they keep their verdict by year, remember bad files, and show outages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from docstokg_assets.definitions import defs
from docstokg_assets.defs.partitions import newest_year
from docstokg_assets.defs.schedules import rolling_audit
from docstokg_assets.sandbox import Sandbox
from docstokg_assets_tests.defs.conftest import DEMO
from resources.catalog.catalog import Catalog
from resources.catalog.rows import Entry
from resources.records import Reason

FAILED, PASSED = "FAILED", "SUCCEEDED"


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as made:
        yield made


@pytest.fixture
def job(instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dg.ExecuteInProcessResult]:
    """Runs a job of the code location for a year, as the UI would launch it."""

    def run(name: str, config_file: Path, year: int, **config: Any) -> dg.ExecuteInProcessResult:
        monkeypatch.setenv("DTKG_CONFIG", str(config_file))
        ops = {asset: {"config": values} for asset, values in config.items()}
        return defs.resolve_job_def(name).execute_in_process(
            partition_key=str(year), instance=instance, raise_on_error=False, run_config={"ops": ops}
        )

    return run


def verdict(instance: dg.DagsterInstance, asset: str, check: str, year: int) -> tuple[str, str, Any]:
    """Status, severity and evaluation of a year's check, as the UI shows them."""
    key = dg.AssetCheckKey(dg.AssetKey(asset), check)
    records = instance.event_log_storage.get_asset_check_execution_history(key, limit=50)
    record = next(record for record in records if record.partition == str(year))
    assert record.event is not None
    evaluation = record.event.get_dagster_event().asset_check_evaluation_data
    return record.status.value, evaluation.severity.value, evaluation


def stored(data_root: Path, year: int) -> list[Entry]:
    with Catalog.open(data_root / "catalog.sqlite3") as catalog:
        return [entry for entry in catalog.entries(year=year) if entry.reason is Reason.OK and entry.path]


@pytest.mark.requirement("ORC-5")
def test_a_bad_file_stays_red_for_its_year_until_that_year_is_repaired(
    tmp_path: Path, write_config: Callable[..., Path], job: Callable[..., Any], instance: dg.DagsterInstance
) -> None:
    config_file, data = write_config(tmp_path), tmp_path / "data"
    for year in (2023, 2024):
        assert job("collect_year", config_file, year).success
    third = sum(entry.bytes or 0 for entry in stored(data, 2023)) // 3
    config_file = write_config(tmp_path, checks={"audit_bytes": third})
    bad = stored(data, 2023)[-1]
    whole = (data / str(bad.path)).read_bytes()
    (data / str(bad.path)).write_bytes(b"%PDF-1.4 not what was stored")

    for _ in range(4):  # over time every file is read
        job("check_year", config_file, 2023)
    status, severity, found = verdict(instance, "downloaded_artifacts", "no_corruption", 2023)
    assert (status, severity) == (FAILED, "ERROR")
    assert str(bad.path) in found.description and "content resume --verify" in found.description
    assert found.metadata["audit coverage"].value == 1.0 and found.metadata["longest without a look"].value

    assert not job("check_year", config_file, 2023).success, "read again first, and it blocks"
    assert job("check_year", config_file, 2024).success
    assert verdict(instance, "downloaded_artifacts", "no_corruption", 2024)[0] == PASSED
    assert verdict(instance, "downloaded_artifacts", "no_corruption", 2023)[0] == FAILED, "2024 says nothing of 2023"

    (data / str(bad.path)).write_bytes(whole)
    assert job("check_year", config_file, 2023).success
    assert verdict(instance, "downloaded_artifacts", "no_corruption", 2023)[0] == PASSED


@pytest.mark.requirement("ORC-5", "TEL-7")
def test_works_without_a_year_are_checked_and_measured_with_the_newest_year(
    sandbox: Sandbox,
    tmp_path: Path,
    write_config: Callable[..., Path],
    job: Callable[..., Any],
    instance: dg.DagsterInstance,
) -> None:
    config_file = write_config(tmp_path)
    assert job("collect_year", config_file, 2024).success
    urls = [str(entry.url) for entry in stored(tmp_path / "data", 2024)][:2]
    (tmp_path / "urls.txt").write_text("\n".join(urls))
    other = tmp_path / "other"
    other.mkdir()
    config_file = write_config(other, openalex={"source": "urls", "urls_file": str(tmp_path / "urls.txt")})
    result = job("collect_year", config_file, newest_year())
    assert result.success
    (measured,) = result.asset_materializations_for_node("run_metrics")
    assert measured.metadata["saved"].value == len(urls) == 2
    files = stored(other / "data", 0)
    assert len(files) == 2
    found = verdict(instance, "downloaded_artifacts", "no_corruption", newest_year())[2]
    assert found.metadata["read in this check"].value == 2
    assert verdict(instance, "manifest_parquet", "manifest_agrees", newest_year())[0] == PASSED
    (other / "data" / str(files[1].path)).write_bytes(b"%PDF-1.4 not what was stored")
    assert not job("check_year", config_file, newest_year()).success
    assert verdict(instance, "downloaded_artifacts", "no_corruption", newest_year())[0] == FAILED
    context = dg.build_schedule_context(instance=instance)
    request = rolling_audit(context, catalog=defs.resources["catalog"])  # type: ignore[index]
    assert isinstance(request, dg.RunRequest) and request.partition_key == str(newest_year())


@pytest.mark.requirement("ORC-5")
def test_with_the_proxy_gone_during_downloads_the_run_and_the_coverage_are_red(
    tmp_path: Path, write_config: Callable[..., Path], job: Callable[..., Any], instance: dg.DagsterInstance
) -> None:
    (tmp_path / "web").mkdir()
    with Sandbox.start(tmp_path / "web", **DEMO) as web:
        http = {
            "proxy": web.proxy_url,
            "ca_bundle": str(web.ca_bundle),
            "contact_email": "crawler@library.example",
            "retry": {"max_attempts": 2, "base_delay_ms": 10, "max_delay_ms": 50, "jitter_ms": 0},
        }
        config_file = write_config(tmp_path, http=http)
        assert job("collect_year", config_file, 2024, downloaded_artifacts={"max_works": 5}).success
        assert verdict(instance, "downloaded_artifacts", "connectivity", 2024)[0] == PASSED
    outage = job("continue_year", config_file, 2024, downloaded_artifacts={"deadline_s": 20.0})
    assert not outage.success, "the pass ends early, and the run is red"
    assert "proxy" in str(outage.failure_data_for_node("downloaded_artifacts").user_failure_data.description)
    job("check_year", config_file, 2024)
    status, severity, found = verdict(instance, "downloaded_artifacts", "coverage", 2024)
    assert (status, severity) == (FAILED, "ERROR"), found.description


@pytest.mark.requirement("ORC-5")
def test_a_listing_that_is_empty_or_far_smaller_is_told_with_the_changed_filter(
    tmp_path: Path, write_config: Callable[..., Path], job: Callable[..., Any], instance: dg.DagsterInstance
) -> None:
    first = write_config(tmp_path)
    listing = {"downloaded_artifacts": {"max_works": 1}}
    assert job("collect_year", first, 2024, **listing).success
    assert verdict(instance, "openalex_works", "listing_size", 2024)[0] == PASSED
    narrowed = write_config(tmp_path, openalex={"filter": "type:article", "max_works": 5})
    assert job("collect_year", narrowed, 2024, **listing).success
    status, severity, found = verdict(instance, "openalex_works", "listing_size", 2024)
    assert (status, severity) == (FAILED, "ERROR") and "`type:article" in found.description
    loose = write_config(
        tmp_path,
        openalex={"filter": "type:article", "max_works": 4},
        checks={"listing_warn_below": 0.9, "listing_fail_below": 0.1},
    )
    assert job("collect_year", loose, 2024, **listing).success
    assert verdict(instance, "openalex_works", "listing_size", 2024)[:2] == (FAILED, "WARN"), "5 before, 4 now"
    nothing = write_config(tmp_path, openalex={"filter": "type:article", "first_year": 2015})
    assert job("collect_year", nothing, 2016).success
    assert verdict(instance, "openalex_works", "listing_size", 2016)[:2] == (FAILED, "WARN"), "no works at all"


@pytest.mark.requirement("ORC-3", "ORC-5")
def test_a_nightly_run_does_not_make_a_year_that_was_never_listed_look_complete(
    tmp_path: Path, write_config: Callable[..., Path], job: Callable[..., Any], instance: dg.DagsterInstance
) -> None:
    config_file = write_config(tmp_path)
    changed = {"openalex_works": {"published_since": "2024-11-01"}}
    assert job("collect_year", config_file, 2024, **changed).success
    status, severity, found = verdict(instance, "downloaded_artifacts", "coverage", 2024)
    assert (status, severity) == (FAILED, "WARN") and "only changes were listed" in found.description
    assert job("collect_year", config_file, 2024).success
    found = verdict(instance, "downloaded_artifacts", "coverage", 2024)[2]
    assert "only changes" not in found.description
