"""The lake holds each row of the catalog, shows it once, and can be asked by strangers without harm."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from docstokg_assets.domain.plans import Candidate, Plan, PlanStep, Tier, plan_columns
from docstokg_assets.domain.works import Location, Work
from docstokg_assets.lake import writer as lake_module
from docstokg_assets.lake.reader import works_of_year
from docstokg_assets.lake.views import (
    QueryError,
    every_row,
    open_lake,
    open_lake_read_only,
    query_lake,
    write_telemetry_duckdb,
)
from docstokg_assets.lake.writer import SCHEMAS, LakeWriter, export_manifest, work_columns
from docstokg_assets_tests.support.servers import LossyProxy
from resources.catalog.catalog import Catalog
from resources.lake.bucket import LakeBucket
from resources.lake.files import LakeFiles, LakeFolder
from resources.processes import new_owner
from resources.records import Reason

Make = Callable[..., Any]
TEN_YEARS = [{"run_id": "r", "worker_id": "w", "seq": year, "year": year} for year in (0, *range(2016, 2025))]
MONDAY, TUESDAY = datetime(2026, 3, 2, tzinfo=UTC), datetime(2026, 3, 3, tzinfo=UTC)

T, N, R, F, TIME, TEXTS = "string", "int64", "double", "bool", "timestamp[us, tz=UTC]", "list<element: string>"
COLUMNS = {
    "works": f"work_id {T}|title {T}|authors {TEXTS}"
    f"|publication_date {T}|doi {T}|arxiv_id {T}|pmid {T}|pmcid {T}|type {T}|language {T}"
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


def rows_of(lake: LakeFiles, sql: str) -> list[tuple[Any, ...]]:
    with open_lake(lake) as con:
        return con.execute(sql).fetchall()


@pytest.mark.requirement("TEL-6")
@pytest.mark.parametrize("table", sorted(SCHEMAS))
def test_names_and_types_of_the_columns_are_a_contract(table: str) -> None:
    found = "|".join(f"{field.name} {field.type}" for field in SCHEMAS[table])
    assert re.sub(r"list<\w+:", "list<element:", found) == COLUMNS[table]


@pytest.mark.requirement("TEL-6")
def test_an_export_writes_parts_by_year_and_the_next_one_only_what_is_new(
    lake: LakeFiles, catalog: Catalog, make_attempt: Make, make_finished: Make, record_in: Make
) -> None:
    writer = LakeWriter(lake)
    record_in(
        catalog,
        attempts=[make_attempt(seq=1), make_attempt(seq=2, year=None, extra={"sleep_ms": 3})],
        works=[make_finished("W1"), make_finished("W2", Reason.HTTP_4XX, year=None)],
    )
    first = export_manifest(catalog, writer)
    assert (first.attempts, first.outcomes) == (2, 2)
    assert sorted(part.rpartition("/")[0] for part in first.parts) == [
        "attempts/year=0",
        "attempts/year=2024",
        "outcomes/year=0",
        "outcomes/year=2024",
    ]
    assert all(re.fullmatch(r".*/part-[0-9A-Z]{26}\.parquet", part) for part in first.parts)
    assert sorted(lake.parts("attempts") + lake.parts("outcomes")) == sorted(first.parts)
    assert lake.parts("outcomes", 0) == [part for part in first.parts if part.startswith("outcomes/year=0/")]

    nothing = export_manifest(catalog, writer)
    assert (nothing.attempts, nothing.outcomes, nothing.parts) == (0, 0, ())

    catalog.reopen([("W2", None)])
    record_in(catalog, attempts=[make_attempt(seq=3)], works=[make_finished("W2", Reason.HTML_ONLY, year=None)])
    assert (third := export_manifest(catalog, writer)).attempts == third.outcomes == 1
    outcomes = "SELECT work_id, year, reason, fallback_chain FROM outcomes ORDER BY work_id"
    chain = ["unpaywall", "arxiv"]
    assert rows_of(lake, outcomes) == [("W1", 2024, "ok", chain), ("W2", None, "html-only", chain)]
    assert rows_of(lake, "SELECT seq, year, extra FROM attempts ORDER BY seq") == [
        (1, 2024, "{}"),
        (2, None, '{"sleep_ms":3}'),
        (3, 2024, "{}"),
    ]


@pytest.mark.requirement("TEL-6")
def test_a_crash_before_the_position_is_noted_doubles_rows_on_disk_but_not_in_the_views(
    lake: LakeFiles, catalog: Catalog, make_history: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts, works = make_history(catalog, works=40)

    def die(self: Catalog, moves: Any) -> bool:
        raise RuntimeError("power loss")

    with monkeypatch.context() as patch, pytest.raises(RuntimeError):
        patch.setattr(Catalog, "move_exports", die)
        export_manifest(catalog, LakeWriter(lake))
    export_manifest(catalog, LakeWriter(lake))

    with duckdb.connect() as con:
        everything = lake.rows(con, "attempts", SCHEMAS["attempts"])
        assert con.execute(f"SELECT count(*) FROM ({everything})").fetchall() == [(2 * len(attempts),)]
    assert rows_of(lake, "SELECT count(*) FROM attempts") == [(len(attempts),)]
    assert rows_of(lake, "SELECT count(*) FROM outcomes") == [(len(works),)]


def test_rows_pass_in_batches_and_make_one_part(folder: LakeFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake_module, "BATCH_ROWS", 10)
    works = (Work(f"W{n}", year=2024) for n in range(35))
    (part,) = LakeWriter(folder).append_columns("works", work_columns(works, MONDAY))
    written = pq.ParquetFile(folder.folder / part).metadata
    assert written.num_row_groups == 4 and written.row_group(0).column(0).compression == "ZSTD"
    assert rows_of(folder, "SELECT count(*) FROM works") == [(35,)]


def test_a_write_that_fails_leaves_no_part(lake: LakeFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake_module, "BATCH_ROWS", 1)  # so that the part was begun

    def rows() -> Any:
        yield Work("W1", year=2024)
        raise RuntimeError("source broke")

    with pytest.raises(RuntimeError):
        LakeWriter(lake).append_columns("works", work_columns(rows(), MONDAY))
    assert lake.parts("works") == [] and [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_the_latest_version_of_a_work_and_of_its_plan_are_shown(lake: LakeFiles) -> None:
    writer = LakeWriter(lake)
    location = Location(pdf_url="https://a.example/1.pdf", is_oa=True)
    old, new = Work("W1", title="Old", year=2023), Work("W1", title="New", year=2024, locations=(location,))
    for work, at, urls in (
        (old, MONDAY, ("https://a.example/1", "https://a.example/2")),
        (new, TUESDAY, ("https://b.example/",)),
    ):
        candidates = [Candidate(url, "openalex", Tier.DIRECT_OA) for url in urls]
        plan = Plan("W1", tuple(PlanStep(Tier.DIRECT_OA, "openalex", 1, candidate=c) for c in candidates), "hash")
        writer.append_columns("works", work_columns([work], at))
        writer.append_columns("plans", [plan_columns([(work, plan)], at)])
    (shown,) = rows_of(lake, "SELECT title, year, locations[1].pdf_url, fetched_at FROM works")
    assert shown == ("New", 2024, "https://a.example/1.pdf", TUESDAY)
    assert rows_of(lake, "SELECT url, host FROM plans") == [("https://b.example/", "b.example")]


@pytest.mark.requirement("TEL-6")
def test_an_absent_table_is_an_empty_view_with_its_columns(lake: LakeFiles) -> None:
    with open_lake(lake) as con:
        for table, schema in SCHEMAS.items():
            result = con.execute(f"SELECT * FROM {table}")
            assert [column[0] for column in result.description] == [*schema.names, "year"]
            assert result.fetchall() == []
        assert con.execute("SELECT * FROM artifacts").fetchall() == []


def test_views_have_the_same_types_with_and_without_parts(lake: LakeFiles) -> None:
    def types() -> list[tuple[Any, ...]]:
        return rows_of(lake, "SELECT column_name, column_type FROM (DESCRIBE works)")

    empty = types()
    LakeWriter(lake).append_columns(
        "works", work_columns([Work("W1", year=2024, urls=("https://a.example/",))], MONDAY)
    )
    assert types() == empty


def test_a_filter_on_the_year_scans_only_that_folder(folder: LakeFolder) -> None:
    LakeWriter(folder).append("attempts", TEN_YEARS)
    assert rows_of(folder, "SELECT seq FROM attempts WHERE year = 2020") == [(2020,)]
    plan = rows_of(folder, "EXPLAIN ANALYZE SELECT seq FROM attempts WHERE year = 2020")[0][1]
    assert re.search(r"Scanning Files: 1/10\b", plan), plan


@pytest.mark.parametrize(("condition", "year"), [("year = 2020", 2020), ("year IS NULL", 0)])
def test_a_filter_on_the_year_asks_a_bucket_for_that_year_alone(
    moto: str, aws_credentials: None, tmp_path: Path, condition: str, year: int
) -> None:
    proxy = LossyProxy(moto, lambda verb, path: None)
    lake = LakeBucket("papers", tmp_path.name, proxy.url, None, tmp_path)
    LakeWriter(lake).append("attempts", TEN_YEARS)
    proxy.asked.clear()
    assert rows_of(lake, f"SELECT seq FROM attempts WHERE {condition}") == [(year,)]
    proxy.close()
    read = {re.sub(r".*year(?:=|%3D)(\d+).*", r"\1", asked) for asked in proxy.asked if ".parquet" in asked}
    assert read == {str(year)}


@pytest.mark.requirement("TEL-6")
def test_fault_41_a_bucket_that_answers_503_now_and_then_loses_no_part(
    moto: str, aws_credentials: None, tmp_path: Path
) -> None:
    numbers = itertools.count()
    proxy = LossyProxy(moto, lambda verb, path: 503 if next(numbers) % 2 else None)
    lake = LakeBucket("papers", tmp_path.name, proxy.url, None, tmp_path)
    LakeWriter(lake).append("attempts", TEN_YEARS[:3])
    assert rows_of(lake, "SELECT count(*) FROM attempts") == [(3,)]
    proxy.close()
    assert any(asked.startswith("PUT") and asked.endswith("503") for asked in proxy.asked)


@pytest.mark.requirement("TEL-6")
def test_a_part_of_another_version_is_named_and_read_all_the_same(lake: LakeFiles) -> None:
    older = SCHEMAS["works"].remove(SCHEMAS["works"].get_field_index("agency"))
    with lake.new_part("works/year=2024/part-OLDER.parquet") as path:
        pq.write_table(pa.Table.from_pylist([{"work_id": "W1", "title": "Ice"}], older), path)
    LakeWriter(lake).append_columns("works", work_columns([Work("W2", year=2023, agency="Crossref")], MONDAY))
    assert LakeWriter(lake).drifted() == [("works/year=2024/part-OLDER.parquet", "agency")]
    assert LakeWriter(lake).drifted(2023) == []
    shown = rows_of(lake, "SELECT work_id, title, agency, year FROM works ORDER BY work_id")
    assert shown == [("W1", "Ice", None, 2024), ("W2", None, "Crossref", 2023)]


@pytest.mark.requirement("ORC-6", "TEL-6")
def test_machines_with_data_roots_of_their_own_share_the_lake_in_a_bucket(bucket: Make, tmp_path: Path) -> None:
    one, two = bucket("one"), bucket("two")
    assert one.is_empty() and one.place == two.place == f"s3://papers/lakes/{tmp_path.name}"
    LakeWriter(one).append_columns("works", work_columns([Work("W1", title="Old", year=2024)], MONDAY))
    LakeWriter(two).append_columns("works", work_columns([Work("W1", title="New", year=2024), Work("W2")], TUESDAY))
    reader = bucket("three")
    assert not reader.is_empty() and len(reader.parts("works")) == 3
    assert rows_of(reader, "SELECT work_id, title FROM works ORDER BY 1") == [("W1", "New"), ("W2", None)]
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [], "nothing is left on the way"


@pytest.mark.parametrize("name", ["with space", "it's", "data[1]", "wild*card"])
def test_any_folder_name_can_be_a_data_root(tmp_path: Path, name: str) -> None:
    root = tmp_path / name
    lake = LakeFolder(root / "lake")
    LakeWriter(lake).append_columns("works", work_columns([Work("W1", year=2024)], MONDAY))
    write_telemetry_duckdb(lake)
    assert query_lake(lake, "SELECT work_id FROM works", limit=5).rows == (("W1",),)


@pytest.mark.requirement("TEL-6")
def test_any_duckdb_client_opens_the_views_file(
    data_root: Path, folder: LakeFolder, catalog: Catalog, make_history: Make
) -> None:
    _, works = make_history(catalog, works=20)
    export_manifest(catalog, LakeWriter(folder))
    for _ in range(2):  # written anew with each export
        write_telemetry_duckdb(folder)
    with duckdb.connect(str(data_root / "telemetry.duckdb"), read_only=True) as con:
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
    "SELECT * FROM read_parquet('s3://papers/of-others.parquet')",
    "SELECT * FROM read_csv('{lake}/../../secret.txt')",
    "SELEC 1",
    "",
]


@pytest.mark.requirement("TEL-6")
@pytest.mark.parametrize("sql", FORBIDDEN)
def test_a_query_can_only_read_the_lake(lake: LakeFiles, tmp_path: Path, sql: str) -> None:
    LakeWriter(lake).append_columns("works", work_columns([Work("W1", year=2024)], MONDAY))
    (tmp_path / "secret.txt").write_text("secret")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(QueryError):
        query_lake(lake, sql.format(lake=tmp_path / "data/lake", outside=tmp_path), limit=5)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("sql", ["COPY (SELECT 1) TO '{outside}/out.csv'", "ATTACH '{outside}/new.db'"])
def test_the_read_only_connection_itself_refuses_files_outside(lake: LakeFiles, tmp_path: Path, sql: str) -> None:
    with open_lake_read_only(lake) as con, pytest.raises(duckdb.PermissionException):
        con.execute(sql.format(outside=tmp_path))


def test_an_endless_query_is_stopped(lake: LakeFiles) -> None:
    endless = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t"
    with pytest.raises(QueryError, match="stopped after"):
        query_lake(lake, endless, limit=1, timeout_s=0.3)


def test_an_answer_says_when_there_is_more(lake: LakeFiles) -> None:
    assert query_lake(lake, "FROM range(5)", limit=5).more is False
    answer = query_lake(lake, "SELECT range AS n FROM range(6)", limit=5)
    assert (answer.columns, len(answer.rows), answer.more) == (("n",), 5, True)


def test_the_works_of_a_year_are_those_that_the_view_shows(lake: LakeFiles) -> None:
    location = Location(pdf_url="https://a.example/1.pdf", is_oa=True, license="cc-by")
    monday = [
        Work("W1", title="Once", year=2024, locations=(location, Location(landing_url="https://a.example/"))),
        Work("W2", title="Old", year=2024, is_oa=False),
        Work("W3", title="Moves away", year=2024),
        Work("W4", title="Comes", year=2023),
        Work("W5", title="Twice in one page", year=2024),
        Work("W5", title="Twice in one page", year=2024),
        Work("W6", title="Gets its year"),
        Work("W7", title="Without a year", urls=("https://b.example/7",), has_content=True),
    ]
    tuesday = [
        Work("W2", title="New", year=2024, is_oa=True),
        Work("W3", title="Moved", year=2023),
        Work("W4", title="Came", year=2024),
        Work("W6", title="Has its year", year=2024),
    ]
    for works, at in ((monday, MONDAY), (tuesday, TUESDAY)):
        LakeWriter(lake).append_columns("works", work_columns(works, at))
    for year, wanted in (
        (2024, [monday[0], tuesday[0], tuesday[2], monday[4], tuesday[3]]),
        (2023, [tuesday[1]]),
        (0, [monday[7]]),
    ):
        read = sorted(works_of_year(lake, year), key=lambda work: work.work_id)
        assert read == wanted
        shown = rows_of(lake, f"SELECT title FROM works WHERE coalesce(year, 0) = {year} ORDER BY work_id")
        assert [work.title for work in read] == [title for (title,) in shown]


def test_many_small_parts_become_one_with_the_same_rows(lake: LakeFiles) -> None:
    writer = LakeWriter(lake)
    for n in range(4):
        works = [Work(f"W{n}", title=f"Title {n}", year=2024), Work("W9", title=f"Of {n}", year=2024)]
        writer.append_columns("works", work_columns(works, MONDAY + timedelta(hours=n)))
    writer.append_columns("works", work_columns([Work("W8", year=2023)], MONDAY))
    shown = rows_of(lake, "SELECT * FROM works ORDER BY work_id")
    with open_lake(lake) as con:
        every = sorted(con.execute(f"SELECT work_id, title FROM ({every_row(con, lake, 'works')})").fetchall())
    assert writer.compact("works", more_than=4) == (0, 0), "few enough"
    assert writer.compact("works", more_than=3) == (4, 1)
    assert len(lake.parts("works", 2024)) == len(lake.parts("works", 2023)) == 1
    assert rows_of(lake, "SELECT * FROM works ORDER BY work_id") == shown
    with open_lake(lake) as con:
        rows = con.execute(f"SELECT work_id, title FROM ({every_row(con, lake, 'works')})").fetchall()
    assert sorted(rows) == every, "earlier versions are kept too"


def test_parts_of_an_older_version_are_joined_with_its_absent_columns_empty(folder: LakeFolder) -> None:
    place = folder.folder / "works/year=2024"
    place.mkdir(parents=True)
    pq.write_table(pa.table({"work_id": ["W1"], "title": ["Old"]}), place / "part-0.parquet")
    LakeWriter(folder).append_columns("works", work_columns([Work("W2", year=2024, agency="crossref")], MONDAY))
    assert LakeWriter(folder).compact("works", more_than=1) == (2, 1)
    found = rows_of(folder, "SELECT work_id, title, agency, year FROM works ORDER BY work_id")
    assert found == [("W1", "Old", None, 2024), ("W2", None, "crossref", 2024)]
    assert LakeWriter(folder).drifted() == []


def test_a_join_that_breaks_off_leaves_all_parts(lake: LakeFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(2):
        LakeWriter(lake).append_columns("works", work_columns([Work(f"W{n}", year=2024)], MONDAY))
    before = lake.parts("works")
    monkeypatch.setattr(lake_module, "_as", lambda batch, schema: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        LakeWriter(lake).compact("works", more_than=1)
    assert lake.parts("works") == before and rows_of(lake, "SELECT count(*) FROM works") == [(2,)]


_MUCH = "SELECT max(r) FROM (SELECT row_number() OVER (ORDER BY md5(range::VARCHAR)) AS r FROM range(1500000))"


@pytest.mark.requirement("TRU-8")
def test_a_query_that_needs_much_spills_to_a_folder_that_is_bounded_and_cleaned(
    folder: LakeFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temp"))
    ended = re.sub(r":\d+:", ":999999999:", new_owner())
    left = tmp_path / "temp" / f"docstokg-spill-{ended}-abc"
    of_others = tmp_path / "temp" / "docstokg-spill-another-machine:1:00-abc"
    for each in (left, of_others):
        each.mkdir(parents=True)
    assert query_lake(folder, _MUCH, limit=1, memory="60MB").rows == ((1_500_000,),)
    with pytest.raises(QueryError, match=r"needs more than 60MB of memory and 1MB of disk; narrow it"):
        query_lake(folder, _MUCH, limit=1, memory="60MB", spill="1MB")
    assert list((tmp_path / "temp").iterdir()) == [of_others]
