"""Where the works of a year come from: a list that breaks off and goes on, only what is new, a snapshot, ids, URLs."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from docstokg_assets.definitions import defs
from docstokg_assets.defs.partitions import newest_year
from docstokg_assets.lake.reader import works_of_year
from docstokg_assets.sandbox import Sandbox
from docstokg_assets.sandbox import records as sandbox_records
from docstokg_assets.sandbox.snapshot import write_snapshot
from resources.catalog.catalog import Catalog
from resources.lake.files import LakeFolder
from resources.records import Reason

YEAR = 2024
HOST = "api.openalex.org"
SPENT = {"error": "Rate limit exceeded", "message": "Insufficient budget. Resets at midnight UTC.", "retryAfter": 40000}
Run = Callable[..., dg.ExecuteInProcessResult]
WriteConfig = Callable[..., Path]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Materialises assets of a year with the configuration of a file, in this process."""

    def execute(
        config_file: Path, *assets: str, year: int = YEAR, run_config: Any = None, **listing: Any
    ) -> dg.ExecuteInProcessResult:
        monkeypatch.setenv("DTKG_CONFIG", str(config_file))
        with dg.DagsterInstance.ephemeral() as instance:
            return defs.resolve_implicit_global_asset_job_def().execute_in_process(
                partition_key=str(year),
                asset_selection=[dg.AssetKey(name) for name in assets or ("openalex_works",)],
                run_config={"ops": {"openalex_works": {"config": listing}}} if listing else run_config,
                instance=instance,
                raise_on_error=False,
            )

    return execute


def shown(result: dg.ExecuteInProcessResult, asset: str = "openalex_works") -> Mapping[str, Any]:
    (event,) = result.asset_materializations_for_node(asset)
    return {name: value.value for name, value in event.metadata.items()}


def why(result: dg.ExecuteInProcessResult) -> str:
    data = result.failure_data_for_node("openalex_works")
    assert not result.success and data is not None and data.user_failure_data is not None
    return data.user_failure_data.description or ""


def in_lake(folder: Path, year: int = YEAR) -> set[str]:
    return {work.work_id for work in works_of_year(LakeFolder(folder / "data/lake"), year)}


@pytest.mark.requirement("SRC-1", "SRC-3")
def test_fault_46_47_a_list_that_breaks_off_is_kept_and_goes_on_from_the_last_finished_month(
    sandbox: Sandbox, tmp_path: Path, write_config: WriteConfig, run: Run
) -> None:
    config_file = write_config(tmp_path)
    sandbox.add_fault(host=HOST, path="*2024-07-01*", status=429, body=json.dumps(SPENT), type="application/json")
    before = len(sandbox.arrivals(HOST))
    try:
        broken = run(config_file)
    finally:
        sandbox.clear_faults()
    assert "The daily OpenAlex budget is spent" in why(broken) and "renewed at midnight UTC" in why(broken)
    assert len(sandbox.arrivals(HOST)) - before == 7, "not asked again"
    came = in_lake(tmp_path)
    assert came

    before = len(sandbox.arrivals(HOST))
    rest = run(config_file)
    assert rest.success and len(sandbox.arrivals(HOST)) - before == 6, "July to December"
    assert shown(rest)["dagster/row_count"] > 0 and came < in_lake(tmp_path)

    before = len(sandbox.arrivals(HOST))
    again = run(config_file)
    assert len(sandbox.arrivals(HOST)) - before == 12, "a whole list is asked for anew: it may have grown"
    assert in_lake(tmp_path) and shown(again)["dagster/row_count"] == len(in_lake(tmp_path))


@pytest.mark.requirement("ORC-3")
def test_only_what_was_updated_since_a_day_is_listed_where_the_plan_allows(
    sandbox: Sandbox, tmp_path: Path, write_config: WriteConfig, run: Run
) -> None:
    paid = write_config(tmp_path, openalex={"filter": "type:article", "api_key": "sandbox-paid-1"})
    since = dt.date(2024, 12, 1)
    result = run(paid, updated_since=str(since))
    articles = [w for w in sandbox.universe.works(YEAR) if sandbox_records.work_type(w) == "article"]
    assert in_lake(tmp_path) == {w.id for w in articles if sandbox_records.updated(w).date() >= since}
    assert shown(result)["pages"] == 1

    free = write_config(tmp_path, openalex={"filter": "type:article", "api_key": "sandbox-free-1"})
    before = len(sandbox.arrivals(HOST))
    refused = run(free, updated_since=str(since))
    assert "another plan" in why(refused) and len(sandbox.arrivals(HOST)) - before == 1


@pytest.mark.requirement("ORC-3")
def test_only_what_was_published_since_a_day_is_listed(tmp_path: Path, write_config: WriteConfig, run: Run) -> None:
    result = run(write_config(tmp_path), published_since="2024-10-15")
    works = list(works_of_year(LakeFolder(tmp_path / "data/lake"), YEAR))
    assert works and all((work.publication_date or "2024-12") >= "2024-10-15" for work in works)
    assert shown(result)["pages"] == 3


@pytest.mark.requirement("SRC-2", "SRC-3")
def test_a_year_from_a_snapshot_is_planned_and_only_new_folders_are_read_next_time(
    sandbox: Sandbox, tmp_path: Path, write_config: WriteConfig, run: Run
) -> None:
    write_snapshot(tmp_path / "snapshot", sandbox.universe, (2023, 2024))
    openalex = {"source": "snapshot", "snapshot": str(tmp_path / "snapshot"), "filter": "type:article"}
    config_file = write_config(tmp_path, openalex=openalex)
    before = len(sandbox.arrivals())
    first = run(config_file, "openalex_works", "resolver_plans")
    articles = {w.id for w in sandbox.universe.works(YEAR) if sandbox_records.work_type(w) == "article"}
    assert in_lake(tmp_path) == articles and shown(first, "resolver_plans")["new"] == len(articles)
    assert len(sandbox.arrivals()) == before, "nobody was asked"
    assert shown(run(config_file))["pages"] == 0
    assert shown(run(config_file, year=2023))["pages"] > 0, "another year has its own position"


@pytest.mark.requirement("SRC-2", "SRC-3")
def test_other_types_of_works_are_looked_for_in_all_folders_of_a_snapshot_again(
    sandbox: Sandbox, tmp_path: Path, write_config: WriteConfig, run: Run
) -> None:
    write_snapshot(tmp_path / "snapshot", sandbox.universe, (YEAR,))
    for kind in ("article", "preprint"):
        openalex = {"source": "snapshot", "snapshot": str(tmp_path / "snapshot"), "filter": "", "types": [kind]}
        config_file = write_config(tmp_path, openalex=openalex)
        assert shown(run(config_file))["pages"] > 0
        assert shown(run(config_file))["pages"] == 0
    wanted = [w for w in sandbox.universe.works(YEAR) if sandbox_records.work_type(w) in ("article", "preprint")]
    assert in_lake(tmp_path) == {w.id for w in wanted}


@pytest.mark.requirement("SRC-2", "SRC-3")
def test_a_work_that_a_later_snapshot_names_as_deleted_is_not_looked_for_and_its_file_stays(
    sandbox: Sandbox, tmp_path: Path, write_config: WriteConfig, run: Run
) -> None:
    def snapshot_without(*works: str) -> Path:
        """A release, and the configuration that reads it."""
        place = tmp_path / f"release-{len(works)}"
        write_snapshot(place, sandbox.universe, (YEAR,), deleted=dict.fromkeys(works, "2026-08-14"))
        openalex = {"source": "snapshot", "snapshot": str(place), "filter": "type:article"}
        return write_config(tmp_path, openalex=openalex)

    def asked_for(works: set[str], after: int) -> list[str]:
        with Catalog.open(catalog_file) as catalog:
            return [a.record.url for a in catalog.attempts_after(after, 100_000) if a.record.work_id in works]

    first, catalog_file = snapshot_without(), tmp_path / "data" / "catalog.sqlite3"
    assert run(first, "openalex_works", "resolver_plans").success
    passed = {"ops": {"downloaded_artifacts": {"config": {"max_works": 12}}}}
    assert run(first, "downloaded_artifacts", run_config=passed).success
    with Catalog.open(catalog_file) as catalog:
        ends = {e.work_id: e for e in catalog.entries()}
        last = max(a.position for a in catalog.attempts_after(0, 100_000))
        waiting = next(i for i in sorted(in_lake(tmp_path)) if i not in ends)
    stored = next(e for e in ends.values() if e.reason is Reason.OK)
    failed = next(e for e in ends.values() if e.retry_at is None and e.path is None)
    gone = {waiting, stored.work_id, failed.work_id}

    later = snapshot_without(*gone)
    planned = shown(run(later, "openalex_works", "resolver_plans"), "resolver_plans")
    assert (planned["deleted at OpenAlex"], planned["deleted there, kept here"]) == (2, 1)
    assert run(later, "downloaded_artifacts").success
    with Catalog.open(catalog_file) as catalog:
        after = {e.work_id: e for e in catalog.entries_of(gone)}
        assert catalog.queue_counts(YEAR).leased == 0
        assert "deleted" not in dict(catalog.records_of([stored.work_id]))[stored.work_id], "it can still be verified"
    assert after[stored.work_id] == stored and (tmp_path / "data" / str(stored.path)).is_file()
    for work_id in (waiting, failed.work_id):
        assert (after[work_id].reason, after[work_id].retry_at) == (Reason.WORK_DELETED, None)
        assert after[work_id].meta["deleted"] == "2026-08-14"
    assert not asked_for(gone, last), "nobody was asked for them"

    # Neither a new plan, nor force, nor another source brings them back.
    api = write_config(tmp_path, openalex={"filter": "type:article"}, resolvers={"order": ["openalex", "doi"]})
    forced = {"ops": {"downloaded_artifacts": {"config": {"force": True}}}}
    assert run(api, "resolver_plans", "downloaded_artifacts", run_config=forced).success
    assert not asked_for(gone, last)
    with Catalog.open(catalog_file) as catalog:
        assert {e.reason for e in catalog.entries_of(gone - {stored.work_id})} == {Reason.WORK_DELETED}


@pytest.mark.requirement("SRC-2", "SRC-3")
def test_ids_and_urls_are_taken_in_by_year_and_those_without_one_are_collected_with_the_newest(
    sandbox: Sandbox, tmp_path: Path, write_config: WriteConfig, run: Run
) -> None:
    known = [next(w for w in sandbox.universe.works(year) if not w.strange) for year in (2023, 2024)]
    (tmp_path / "ids.txt").write_text(f"{known[0].id}\nhttps://openalex.org/{known[1].id}\n10.5555/unknown\nnonsense\n")
    ids = write_config(tmp_path, openalex={"source": "ids", "ids_file": str(tmp_path / "ids.txt")})
    result = run(ids)
    assert in_lake(tmp_path) == {known[1].id} and not in_lake(tmp_path, 0)
    (aside,) = shown(result)["records set aside"].records
    assert aside.data["record"] == "line 4: nonsense"

    newest = {"year": newest_year()}
    assert run(ids, "openalex_works", "resolver_plans", **newest).success
    (tmp_path / "urls.txt").write_text("https://press.example/a.pdf\n")
    urls = write_config(tmp_path, openalex={"source": "urls", "urls_file": str(tmp_path / "urls.txt")})
    assert run(urls, "openalex_works", "resolver_plans", **newest).success
    assert len(in_lake(tmp_path, 0)) == 2
    with Catalog.open(tmp_path / "data" / "catalog.sqlite3") as catalog:
        assert catalog.queue_counts(0).total == 2

    passed = run(urls, "downloaded_artifacts", **newest)
    assert shown(passed, "downloaded_artifacts")["works"] == 2
    with Catalog.open(tmp_path / "data" / "catalog.sqlite3") as catalog:
        counts = catalog.queue_counts(0)
        assert counts.done + counts.retry == 2 and counts.queued_due == 0
