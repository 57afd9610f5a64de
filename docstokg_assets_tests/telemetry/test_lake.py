"""The lake holds each row of the catalog, shows it once, and can be asked by strangers without harm."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

from docstokg_assets.plans import Candidate, Plan, PlanStep, Tier, plan_rows
from docstokg_assets.telemetry import lake as lake_module
from docstokg_assets.telemetry.lake import (
    SCHEMAS,
    LakeWriter,
    export_manifest,
    rebuild_manifest,
    stamped,
    work_rows,
)
from docstokg_assets.telemetry.views import (
    QueryError,
    bring_up_to_date,
    open_lake,
    open_lake_read_only,
    query_lake,
    write_telemetry_duckdb,
)
from docstokg_assets.works import Location, Work
from resources.artifacts.file_system import FileSystemStore
from resources.catalog import Catalog
from resources.records import Reason

Make = Callable[..., Any]
MONDAY, TUESDAY = datetime(2026, 3, 2, tzinfo=UTC), datetime(2026, 3, 3, tzinfo=UTC)

T, N, R, F, TIME, TEXTS = "string", "int64", "double", "bool", "timestamp[us, tz=UTC]", "list<element: string>"
COLUMNS = {
    "works": f"work_id {T}|title {T}|publication_date {T}|doi {T}|arxiv_id {T}|pmid {T}|pmcid {T}|type {T}|language {T}"
    f"|is_oa {F}|oa_status {T}|locations list<element: struct<landing_url: string, pdf_url: string, is_oa: bool,"
    f" version: string, license: string, source: string, source_type: string>>|urls {TEXTS}|updated_date {T}"
    f"|fetched_at {TIME}|agency {T}|has_content {F}",
    "plans": f"work_id {T}|position {N}|tier {T}|resolver {T}|deferred {F}|url {T}|host {T}|target {T}|version {T}"
    f"|license {T}|plan_hash {T}|planned_at {TIME}",
    "attempts": f"run_id {T}|worker_id {T}|seq {N}|ts {TIME}|work_id {T}|resolver {T}|tier {T}|role {T}|host {T}"
    f"|url {T}|canonical_url {T}|verb {T}|status {T}|reason {T}|http_status {N}|content_type {T}|elapsed_ms {N}"
    f"|bytes_written {N}|content_length_hdr {N}|attempt {N}|retry_after_s {R}|cache_hit {F}|extra {T}",
    "outcomes": f"work_id {T}|title {T}|doi {T}|classification {T}|reason {T}|kind {T}|url {T}|resolver {T}|tier {T}"
    f"|http_status {N}|path {T}|sha256 {T}|bytes {N}|content_type {T}|license {T}|version {T}|html_paths {TEXTS}"
    f"|fallback_chain {TEXTS}|retry_at {TIME}|run_id {T}|config_hash {T}|ttfp_ms {N}|requests {N}"
    f"|finished_at {TIME}|revision {N}|flags {TEXTS}",
    "metrics": f"scope {T}|name {T}|value {R}|target {R}|ok {F}|computed_at {TIME}",
}


def rows_of(data_root: Path, sql: str) -> list[tuple[Any, ...]]:
    with open_lake(data_root) as con:
        return con.execute(sql).fetchall()


@pytest.mark.requirement("TEL-6")
@pytest.mark.parametrize("table", sorted(SCHEMAS))
def test_names_and_types_of_the_columns_are_a_contract(table: str) -> None:
    found = "|".join(f"{field.name} {field.type}" for field in SCHEMAS[table])
    assert re.sub(r"list<\w+:", "list<element:", found) == COLUMNS[table]


@pytest.mark.requirement("TEL-6")
def test_an_export_writes_parts_by_year_and_the_next_one_only_what_is_new(
    data_root: Path, catalog: Catalog, make_attempt: Make, make_finished: Make, record_in: Make
) -> None:
    lake = LakeWriter(data_root)
    record_in(
        catalog,
        attempts=[make_attempt(seq=1), make_attempt(seq=2, year=None, extra={"sleep_ms": 3})],
        works=[make_finished("W1"), make_finished("W2", year=None)],
    )
    first = export_manifest(catalog, lake)
    assert (first.attempts, first.outcomes) == (2, 2)
    assert sorted(str(part.parent.relative_to(data_root)) for part in first.parts) == [
        "lake/attempts/year=0",
        "lake/attempts/year=2024",
        "lake/outcomes/year=0",
        "lake/outcomes/year=2024",
    ]
    assert all(re.fullmatch(r"part-[0-9A-Z]{26}\.parquet", part.name) for part in first.parts)
    assert pq.ParquetFile(first.parts[0]).metadata.row_group(0).column(0).compression == "ZSTD"

    nothing = export_manifest(catalog, lake)
    assert (nothing.attempts, nothing.outcomes, nothing.parts) == (0, 0, ())

    catalog.reopen(["W2"])
    record_in(catalog, attempts=[make_attempt(seq=3)], works=[make_finished("W2", Reason.HTML_ONLY, year=None)])
    assert (third := export_manifest(catalog, lake)).attempts == third.outcomes == 1
    outcomes = "SELECT work_id, year, reason, fallback_chain FROM outcomes ORDER BY work_id"
    chain = ["unpaywall", "arxiv"]
    assert rows_of(data_root, outcomes) == [("W1", 2024, "ok", chain), ("W2", None, "html-only", chain)]
    assert rows_of(data_root, "SELECT seq, year, extra FROM attempts ORDER BY seq") == [
        (1, 2024, "{}"),
        (2, None, '{"sleep_ms":3}'),
        (3, 2024, "{}"),
    ]


@pytest.mark.requirement("ORC-6", "TEL-6")
def test_machines_with_folders_of_their_own_have_one_lake_in_the_store_that_they_share(
    tmp_path: Path, catalog: Catalog, make_history: Make
) -> None:
    north, south = (LakeWriter(tmp_path / name, FileSystemStore(tmp_path / "bucket")) for name in ("north", "south"))
    north.append("works", work_rows([Work("W1", year=2024)], MONDAY))
    attempts, works = make_history(catalog, works=10)
    assert bring_up_to_date(catalog, south).outcomes == len(works)
    assert rows_of(south.data_root, "SELECT work_id FROM works") == [("W1",)], "written by the other one"

    assert bring_up_to_date(catalog, north).attempts == 0, "the other one has exported it"
    assert rows_of(north.data_root, "SELECT count(*) FROM attempts") == [(len(attempts),)]
    same = (tmp_path / "north" / "lake").rglob("*.parquet")
    assert all(
        part.read_bytes() == (tmp_path / "bucket" / part.relative_to(north.data_root)).read_bytes() for part in same
    )

    rebuild_manifest(catalog, south)
    late = LakeWriter(tmp_path / "late", FileSystemStore(tmp_path / "bucket"))
    late.fetch()
    on_disk = [pq.ParquetFile(part).metadata.num_rows for part in late.parts("attempts")]
    assert sum(on_disk) == len(attempts), "what was made anew has replaced the old"


@pytest.mark.requirement("TEL-6")
def test_a_crash_before_the_position_is_noted_doubles_rows_on_disk_but_not_in_the_views(
    data_root: Path, catalog: Catalog, make_history: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts, works = make_history(catalog, works=40)

    def die(self: Catalog, name: str, position: int) -> None:
        raise RuntimeError("power loss")

    with monkeypatch.context() as patch, pytest.raises(RuntimeError):
        patch.setattr(Catalog, "set_export_position", die)
        export_manifest(catalog, LakeWriter(data_root))
    export_manifest(catalog, LakeWriter(data_root))

    on_disk = sum(
        pq.ParquetFile(part).metadata.num_rows for part in (data_root / "lake" / "attempts").rglob("*.parquet")
    )
    assert on_disk == 2 * len(attempts)
    assert rows_of(data_root, "SELECT count(*) FROM attempts") == [(len(attempts),)]
    assert rows_of(data_root, "SELECT count(*) FROM outcomes") == [(len(works),)]


def test_rows_pass_in_batches_and_make_one_part(data_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake_module, "BATCH_ROWS", 10)
    works = (Work(f"W{n}", year=2024) for n in range(35))
    (part,) = LakeWriter(data_root).append("works", work_rows(works, MONDAY))
    assert pq.ParquetFile(part).metadata.num_row_groups == 4
    assert rows_of(data_root, "SELECT count(*) FROM works") == [(35,)]


def test_a_write_that_fails_leaves_no_part(data_root: Path) -> None:
    def rows() -> Any:
        yield {"work_id": "W1", "year": 2024}
        raise RuntimeError("source broke")

    with pytest.raises(RuntimeError):
        LakeWriter(data_root).append("works", rows())
    assert [path for path in data_root.rglob("*") if path.is_file()] == []


def test_the_latest_version_of_a_work_and_of_its_plan_are_shown(data_root: Path) -> None:
    lake = LakeWriter(data_root)
    location = Location(pdf_url="https://a.example/1.pdf", is_oa=True)
    old, new = Work("W1", title="Old", year=2023), Work("W1", title="New", year=2024, locations=(location,))
    for work, at, urls in (
        (old, MONDAY, ("https://a.example/1", "https://a.example/2")),
        (new, TUESDAY, ("https://b.example/",)),
    ):
        candidates = [Candidate(url, "openalex", Tier.DIRECT_OA) for url in urls]
        plan = Plan("W1", tuple(PlanStep(Tier.DIRECT_OA, "openalex", 1, candidate=c) for c in candidates))
        lake.append("works", work_rows([work], at))
        lake.append("plans", stamped(plan_rows(work, plan), at))
    (shown,) = rows_of(data_root, "SELECT title, year, locations[1].pdf_url, fetched_at FROM works")
    assert shown == ("New", 2024, "https://a.example/1.pdf", TUESDAY)
    assert rows_of(data_root, "SELECT url, host FROM plans") == [("https://b.example/", "b.example")]


@pytest.mark.requirement("TEL-6")
def test_an_absent_table_is_an_empty_view_with_its_columns(data_root: Path) -> None:
    with open_lake(data_root) as con:
        for table, schema in SCHEMAS.items():
            result = con.execute(f"SELECT * FROM {table}")
            assert [column[0] for column in result.description] == [*schema.names, "year"]
            assert result.fetchall() == []
        assert con.execute("SELECT * FROM artifacts").fetchall() == []


def test_views_have_the_same_types_with_and_without_parts(data_root: Path) -> None:
    def types() -> list[tuple[Any, ...]]:
        return rows_of(data_root, "SELECT column_name, column_type FROM (DESCRIBE works)")

    empty = types()
    LakeWriter(data_root).append("works", work_rows([Work("W1", year=2024, urls=("https://a.example/",))], MONDAY))
    assert types() == empty


def test_a_filter_on_the_year_scans_only_that_folder(data_root: Path) -> None:
    rows = [{"run_id": "r", "worker_id": "w", "seq": year, "year": year} for year in range(2015, 2025)]
    LakeWriter(data_root).append("attempts", rows)
    assert rows_of(data_root, "SELECT seq FROM attempts WHERE year = 2020") == [(2020,)]
    plan = rows_of(data_root, "EXPLAIN ANALYZE SELECT seq FROM attempts WHERE year = 2020")[0][1]
    assert re.search(r"Scanning Files: 1/10\b", plan), plan


@pytest.mark.parametrize("name", ["with space", "it's", "data[1]", "wild*card"])
def test_any_folder_name_can_be_a_data_root(tmp_path: Path, name: str) -> None:
    root = tmp_path / name
    LakeWriter(root).append("works", work_rows([Work("W1", year=2024)], MONDAY))
    write_telemetry_duckdb(root)
    assert query_lake(root, "SELECT work_id FROM works", limit=5).rows == (("W1",),)


@pytest.mark.requirement("TEL-6")
def test_any_duckdb_client_opens_the_views_file(data_root: Path, catalog: Catalog, make_history: Make) -> None:
    _, works = make_history(catalog, works=20)
    export_manifest(catalog, LakeWriter(data_root))
    for _ in range(2):  # written anew with each export
        path = write_telemetry_duckdb(data_root)
    with duckdb.connect(str(path), read_only=True) as con:
        assert con.execute("SELECT count(*) FROM outcomes").fetchall() == [(len(works),)]
        stored = con.execute("SELECT count(*) FROM artifacts").fetchall()[0][0]
    assert stored == sum(work.outcome.path is not None for work in works)
    assert not [path for path in data_root.iterdir() if path.name.startswith(".tmp-")]


FORBIDDEN = [
    "COPY works TO '{lake}/out.csv'",
    "COPY works TO '{outside}/out.csv'",
    "ATTACH '{lake}/new.db'",
    "ATTACH '{outside}/new.db'",
    "EXPORT DATABASE '{lake}/all'",
    "EXPLAIN ANALYZE COPY works TO '{lake}/out.csv'",
    "CREATE TABLE t AS SELECT 1",
    "DROP VIEW works",
    "SET enable_external_access = true",
    "INSTALL httpfs",
    "SELECT 1; COPY works TO '{lake}/out.csv'",
    "SELECT * FROM read_text('{outside}/secret.txt')",
    "SELECT * FROM read_csv('{lake}/../../secret.txt')",
    "SELEC 1",
    "",
]


@pytest.mark.requirement("TEL-6")
@pytest.mark.parametrize("sql", FORBIDDEN)
def test_a_query_can_only_read_the_lake(data_root: Path, tmp_path: Path, sql: str) -> None:
    LakeWriter(data_root).append("works", work_rows([Work("W1", year=2024)], MONDAY))
    (tmp_path / "secret.txt").write_text("secret")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(QueryError):
        query_lake(data_root, sql.format(lake=data_root / "lake", outside=tmp_path), limit=5)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("sql", ["COPY (SELECT 1) TO '{outside}/out.csv'", "ATTACH '{outside}/new.db'"])
def test_the_read_only_connection_itself_refuses_files_outside(data_root: Path, tmp_path: Path, sql: str) -> None:
    with open_lake_read_only(data_root) as con, pytest.raises(duckdb.PermissionException):
        con.execute(sql.format(outside=tmp_path))


def test_an_endless_query_is_stopped(data_root: Path) -> None:
    endless = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t"
    with pytest.raises(QueryError, match="stopped after"):
        query_lake(data_root, endless, limit=1, timeout_s=0.3)


def test_an_answer_says_when_there_is_more(data_root: Path) -> None:
    assert query_lake(data_root, "FROM range(5)", limit=5).more is False
    answer = query_lake(data_root, "SELECT range AS n FROM range(6)", limit=5)
    assert (answer.columns, len(answer.rows), answer.more) == (("n",), 5, True)
