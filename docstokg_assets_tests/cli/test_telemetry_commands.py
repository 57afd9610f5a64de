"""`content telemetry`: what a run wrote comes out as one file, and comes back when it was lost."""

from __future__ import annotations

import csv
import io
import json
import shutil
import sqlite3
import statistics
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow.parquet as pq
import pytest

import docstokg_assets
from docstokg_assets.lake.writer import SCHEMAS
from docstokg_assets.sandbox import Sandbox
from docstokg_assets_tests.support.collector import running
from resources.catalog.catalog import Catalog

if TYPE_CHECKING:
    from docstokg_assets_tests.support.program import Ended, Place

PROJECT = Path(docstokg_assets.__file__).parents[1]
WORKS_PER_YEAR = 15
Content = Callable[..., "Ended"]
FILES = ("manifest.jsonl", "attempts.csv", "manifest.metrics.json", "manifest.last.csv")


@pytest.fixture
def pulled(place: Place, content: Content) -> Place:
    assert content(*place.arguments("--query", "publication_year:2024")).code == 0
    return place


def run_id(place: Place) -> str:
    ((found,),) = place.rows("SELECT run_id FROM runs")
    return str(found)


def lines(path: Path) -> list[bytes]:
    return sorted(path.read_bytes().splitlines())


def lake(place: Place, table: str) -> list[str]:
    parts = (place.out / "lake" / table).rglob("*.parquet")
    return sorted(str(row) for part in parts for row in pq.ParquetFile(part).read().to_pylist())


@pytest.mark.requirement("TEL-4", "TEL-6")
def test_what_was_lost_comes_back_to_the_byte(pulled: Place, content: Content) -> None:
    folder = pulled.out / run_id(pulled)
    before = {name: lines(folder / name) for name in FILES}
    parquet = {table: lake(pulled, table) for table in ("attempts", "outcomes")}
    shutil.rmtree(folder)
    shutil.rmtree(pulled.out / "lake" / "attempts")
    shutil.rmtree(pulled.out / "lake" / "outcomes")
    with Catalog.open(pulled.out / "catalog.sqlite3") as catalog:
        catalog.start_run("nightly", "sensor", "hash", {})
        catalog.finish_run("nightly", {})
    ended = content("telemetry", "rebuild", "--config", str(pulled.config), "--out", str(pulled.out))
    assert not (pulled.out / "nightly").exists(), "a sensor's question has no folder"
    assert ended.code == 0 and f"lake: {len(parquet['attempts'])} attempts" in ended.err
    assert {name: lines(folder / name) for name in FILES} == before
    assert {table: lake(pulled, table) for table in ("attempts", "outcomes")} == parquet
    with duckdb.connect(str(pulled.out / "telemetry.duckdb"), read_only=True) as con:
        assert con.execute("SELECT count(*) FROM outcomes").fetchall() == [(WORKS_PER_YEAR,)]


@pytest.mark.requirement("TEL-4")
def test_one_run_is_made_again_without_touching_the_lake(pulled: Place, content: Content) -> None:
    folder = pulled.out / run_id(pulled)
    manifest, parts = lines(folder / "manifest.jsonl"), sorted((pulled.out / "lake").rglob("*"))
    (folder / "manifest.jsonl").write_text("torn")
    ended = content("telemetry", "rebuild", "--run", str(folder), "--config", str(pulled.config))
    assert ended.code == 0 and "lake" not in ended.err
    assert lines(folder / "manifest.jsonl") == manifest and sorted((pulled.out / "lake").rglob("*")) == parts


@pytest.mark.requirement("TEL-6")
def test_parts_are_joined_and_the_same_is_shown(pulled: Place, content: Content) -> None:
    (part,) = (pulled.out / "lake/outcomes").rglob("*.parquet")
    shutil.copy(part, part.with_name("part-again.parquet"))
    asked = ("query", "--out", str(pulled.out), "SELECT * FROM outcomes ORDER BY work_id", "--format", "csv")
    before = content(*asked).out
    ended = content("telemetry", "compact", "--out", str(pulled.out), "--more-than", "1")
    assert ended.code == 0 and "outcomes: 2 parts became 1" in ended.err and "plans: nothing to merge" in ended.err
    assert len(list((pulled.out / "lake/outcomes").rglob("*.parquet"))) == 1
    assert (
        content(*asked).out == before
        and str(WORKS_PER_YEAR) in content("query", "--out", str(pulled.out), "SELECT count(*) FROM outcomes").out
    )


def test_parts_of_a_root_that_is_none_are_not_joined_in_silence(content: Content, tmp_path: Path) -> None:
    ended = content("telemetry", "compact", "--out", str(tmp_path / "nowhere"))
    assert ended.code == 2 and "there is no catalog at" in ended.err and not (tmp_path / "nowhere").exists()


@pytest.mark.requirement("TEL-6", "CLI-1")
def test_attempts_come_out_as_parquet_csv_and_json_lines(pulled: Place, content: Content, tmp_path: Path) -> None:
    attempts = pulled.rows("SELECT worker_id, seq FROM attempts")
    file = tmp_path / "analysis.parquet"
    run = str(pulled.out / run_id(pulled))
    ended = content("telemetry", "export", "--run", run, "--format", "parquet", "--out", str(file))
    assert ended.code == 0 and f"{len(attempts)} attempts in {file}" in ended.err
    table = pq.read_table(file)
    assert table.schema.names == [*SCHEMAS["attempts"].names, "year"]
    assert {(row["worker_id"], row["seq"]) for row in table.to_pylist()} == set(attempts)
    options = ("--data-root", str(pulled.out), "--table", "outcomes")
    printed = content("telemetry", "export", *options, "--format", "csv").out
    titles = dict(pulled.rows("SELECT work_id, title FROM catalog_entries"))
    rows = list(csv.DictReader(io.StringIO(printed)))
    assert {row["work_id"] for row in rows} == set(titles)
    printed = content("telemetry", "export", *options, "--format", "jsonl").out
    assert {row["work_id"]: row["title"] for row in map(json.loads, printed.splitlines())} == titles


@pytest.mark.requirement("TEL-2")
def test_a_run_speaks_to_a_collector_and_does_as_well_without_it(place: Place, content: Content) -> None:
    pull = place.arguments("--query", "publication_year:2024")
    with running() as collector:
        telemetry = {"sinks": ["jsonl", "otlp"], "otlp_endpoint": collector.endpoint, "otlp_timeout_s": 20}
        place.write(telemetry=telemetry)
        ended = content(*pull)
        names = Counter(record.event_name.partition(".")[2] for record in collector.records())
    assert ended.code == 0 and "dropped" not in ended.err
    assert names["attempt"] == len(place.rows("SELECT 1 FROM attempts"))
    assert (names["outcome"], names["summary"]) == (WORKS_PER_YEAR, 1)

    place.write(telemetry=telemetry | {"otlp_timeout_s": 0.2})  # nobody is at home there any more
    shutil.rmtree(place.out)
    again = content(*pull)
    folder, attempts = place.out / run_id(place), len(place.rows("SELECT 1 FROM attempts"))
    assert again.code == 0 and again.err.count("The sink otlp failed; the run goes on") == 1
    assert f"The sink otlp dropped {attempts + WORKS_PER_YEAR + 1} records; the catalog has them all." in again.err
    metrics = json.loads((folder / "manifest.metrics.json").read_text())
    assert metrics["dropped"] == {"otlp": attempts + WORKS_PER_YEAR}
    assert "Traceback" in (folder / "run.log").read_text()


@pytest.mark.requirement("TEL-5")
def test_a_run_does_not_fail_for_want_of_its_own_account(place: Place, content: Content) -> None:
    place.write(run_id="named")
    in_the_way = place.out / "named" / "manifest.last.csv"
    in_the_way.mkdir(parents=True)
    ended = content(*place.arguments("--query", "publication_year:2024"))
    assert ended.code == 0 and "`content telemetry rebuild` writes them" in ended.err
    assert place.done() == WORKS_PER_YEAR and "Traceback" in (place.out / "named" / "run.log").read_text()
    in_the_way.rmdir()
    assert content("telemetry", "rebuild", "--run", "named", "--out", str(place.out)).code == 0
    assert in_the_way.read_text().count("\n") > 1


@pytest.mark.requirement("TEL-7")
def test_the_indicators_of_the_report_equal_those_counted_in_the_catalog(
    box: Sandbox, place: Place, content: Content
) -> None:
    box.add_fault(path="*.pdf", status=429, times=3)
    content(*place.arguments("--query", "publication_year:2024"))
    reported = json.loads(content("report", "--out", str(place.out), "--format", "json").out)["indicators"]
    ends = place.rows("SELECT reason, kind, retry_at, ttfp_ms, requests, bytes FROM catalog_entries")
    done = [end for end in ends if end[2] is None]
    saved = [end for end in done if end[0] == "ok"]
    answered = place.rows("SELECT http_status FROM attempts WHERE cache_hit = 0 AND http_status IS NOT NULL")
    unanswered = place.rows("SELECT 1 FROM attempts WHERE http_status IS NULL AND status = 'retry'")
    ttfp = sorted(end[3] / 1000 for end in saved)
    expected = {
        "finished": len(done),
        "saved": len(saved),
        "yield": len(saved) / len(done),
        "html_only": sum(end[0] == "html-only" for end in done),
        "to_retry": len(ends) - len(done),
        "ttfp_p50_s": statistics.median(ttfp),
        "ttfp_p95_s": statistics.quantiles(ttfp, n=20, method="inclusive")[18],
        "requests": len(answered) + len(unanswered),
        "ratio_429": answered.count((429,)) / (len(answered) + len(unanswered)),
        "requests_per_success": sum(end[4] for end in ends) / len(saved),
        "bytes": sum(end[5] for end in done if end[5]),
        "corruption": 0,
    }
    assert {name: reported[name] for name in expected} == pytest.approx(expected)
    assert expected["ratio_429"] > 0


@pytest.mark.requirement("TEL-6")
def test_every_ready_query_answers_on_what_a_run_left(box: Sandbox, place: Place, content: Content) -> None:
    box.add_fault(path="*.pdf", status=503, times=6)
    assert content(*place.arguments("--query", "publication_year:2024")).code in (0, 3)
    queries = sorted((PROJECT / "docs" / "queries").glob("*.sql"))
    assert len(queries) >= 10
    may_be_empty = {"slo_history.sql", "retries_due.sql"}  # measured by Dagster; all may have been had elsewhere
    for query in queries:
        ended = content("query", "--out", str(place.out), str(query), "--format", "json")
        assert ended.code == 0, (query.name, ended.err)
        assert json.loads(ended.out) or query.name in may_be_empty, query.name
        assert query.read_text().startswith("-- "), "says which question it answers"


@pytest.mark.requirement("TEL-2")
def test_fault_45_a_title_that_is_a_formula_is_disarmed_in_csv_and_raw_in_json_lines(
    pulled: Place, content: Content
) -> None:
    with sqlite3.connect(pulled.out / "catalog.sqlite3") as database:
        database.execute("UPDATE catalog_entries SET title = '=HYPERLINK(1)', revision = revision + 1000")
    options = ("telemetry", "export", "--data-root", str(pulled.out), "--table", "outcomes", "--format")
    rows = csv.DictReader(io.StringIO(content(*options, "csv").out))
    assert {row["title"] for row in rows} == {"'=HYPERLINK(1)"}
    assert {json.loads(line)["title"] for line in content(*options, "jsonl").out.splitlines()} == {"=HYPERLINK(1)"}


@pytest.mark.requirement("CLI-1")
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("export", "--format", "parquet"), "Parquet needs a file: --to analysis.parquet"),
        (("export", "--format", "csv", "--table", "works", "--run", "x"), "works do not belong to runs"),
        (("export", "--format", "csv", "--run", "01NEVER"), "there is no run 01NEVER in"),
        (("export", "--out", "/proc/no/x.parquet"), "--to /proc/no/x.parquet: there is no folder /proc/no"),
        (("export", "--out", "/proc/x.parquet"), "/proc/x.parquet cannot be written"),
        (("export", "--format", "xlsx"), "'xlsx' is not one of 'parquet', 'csv', 'jsonl'"),
        (("rebuild", "--run", "01NEVER"), "there is no run 01NEVER in"),
    ],
)
def test_what_cannot_be_done_is_said(pulled: Place, content: Content, arguments: tuple[str, ...], told: str) -> None:
    root = "--out" if arguments[0] == "rebuild" else "--data-root"
    ended = content("telemetry", *arguments, root, str(pulled.out))
    assert ended.code == 2 and told in ended.err
