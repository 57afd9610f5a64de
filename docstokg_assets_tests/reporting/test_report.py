"""The report says in every format what came out, why not the rest, and who waits; its commands are clear."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
from typer.testing import CliRunner

from docstokg_assets.cli.main import build_app
from docstokg_assets.domain.pdf_match import Flag
from docstokg_assets.lake.views import query_lake
from docstokg_assets.lake.writer import LakeWriter, export_manifest
from docstokg_assets.reporting.reasons import FLAG_TEXT, REASON_TEXT, STATUS_TEXT, reasons_page
from docstokg_assets.reporting.report import (
    QUERIES,
    Report,
    build_report,
    headline,
    to_json,
    to_markdown,
    to_terminal,
)
from docstokg_assets_tests.support.telemetry import finished, record
from resources.catalog.catalog import Catalog
from resources.catalog.rows import Batch, NewItem, Parked
from resources.lake.files import LakeFolder
from resources.records import Reason, Status
from resources.scope import WorkScope

Make = Callable[..., Any]
DOCS = Path(__file__).parents[2] / "docs"
NOW = datetime(2026, 3, 1, 18, 0, tzinfo=UTC)


def lines_about(text: str, token: str) -> list[str]:
    return [
        line for line in text.splitlines() if line.startswith((f"| `{token}` |", f'| <a id="{token}"></a>`{token}` |'))
    ]


@pytest.mark.requirement("TEL-1")
def test_every_token_is_explained_once_in_the_reasons_page() -> None:
    page = (DOCS / "reasons.md").read_text()
    assert page == reasons_page(), "run: python -m docstokg_assets.reporting.reasons > docs/reasons.md"
    assert set(REASON_TEXT) == set(Reason) and set(STATUS_TEXT) == set(Status)
    assert set(FLAG_TEXT) == set(Flag)
    for reason in Reason:
        line = next(line for line in lines_about(page, reason) if line.count("|") == 5)
        assert f"| {reason.ending} |" in line and REASON_TEXT[reason].remedy in line


@pytest.fixture
def history_root(data_root: Path, catalog: Catalog, make_history: Make) -> Path:
    make_history(catalog, works=60)
    catalog.enqueue([NewItem("W999", 2024, 0, {}, "plan", "arxiv.org")])
    catalog.claim("w", 1, 60)
    catalog.commit(Batch(parked=[Parked("W999", {}, "arxiv.org", 4_000_000_000.0, "retry-after", "w")]))
    return data_root


@pytest.fixture
def report(history_root: Path, catalog: Catalog) -> Report:
    export_manifest(catalog, LakeWriter(LakeFolder(history_root / "lake")))
    return build_report(LakeFolder(history_root / "lake"), history_root, WorkScope(), catalog, NOW)


@pytest.mark.requirement("CLI-1")
def test_the_markdown_report_has_everything_a_person_asks_for(report: Report, history_root: Path) -> None:
    text = to_markdown(report)
    sections = re.findall("^## (.+)$", text, re.MULTILINE)
    assert sections == [
        "At a glance",
        "Objectives",
        "How works ended",
        "Waiting",
        "By tier",
        "By resolver",
        "By host",
        "Attempts per request",
        "Files and folders",
        "Example queries",
    ]
    assert REASON_TEXT[Reason.NO_CANDIDATE].meaning in text
    assert "| arxiv.org | 1 | 2096-10-02 07:06 | 2096-10-02 07:06 | retry-after |" in text
    assert str(history_root / "catalog.sqlite3") in text
    tables = [line.count("|") for line in text.splitlines() if line.startswith("|--")]
    assert len(tables) == 9


def test_works_that_wait_for_a_retry_stand_beside_the_parked_ones(report: Report) -> None:
    assert {wait.reason for wait in report.waiting} == {"timeout", "retry-after"}
    assert sum(wait.count for wait in report.waiting) == report.slis.to_retry + 1


def test_a_catalog_on_a_server_is_named_as_well(history_root: Path, catalog: Catalog) -> None:
    class OnAServer:
        name = "works on db.example"
        queue_counts, parked = catalog.queue_counts, catalog.parked
        entries_of, outcome_counts = catalog.entries_of, catalog.outcome_counts

    built = build_report(LakeFolder(history_root / "lake"), history_root, WorkScope(), cast(Catalog, OnAServer()), NOW)
    assert "works on db.example" in to_markdown(built)


def test_a_work_waits_for_the_host_that_may_answer_otherwise_not_for_the_one_that_said_no(
    data_root: Path, folder: LakeFolder, catalog: Catalog
) -> None:
    others = [{"resolver": "doi", "reason": "breaker-open", "url": "https://busy.example/1", "http_status": None}]
    again = finished("W1", Reason.HTTP_4XX, retry_at=NOW.timestamp() + 3600, meta={"others": others})
    record(catalog, attempts=[], works=[again])
    export_manifest(catalog, LakeWriter(folder))
    (wait,) = build_report(folder, data_root, WorkScope(), catalog, NOW).waiting
    assert (wait.group, wait.count, wait.reason) == ("busy.example", 1, "breaker-open")


def test_a_run_that_goes_on_says_how_all_its_works_stand(data_root: Path, folder: LakeFolder, catalog: Catalog) -> None:
    before = [finished("W1"), finished("W2", Reason.NO_CANDIDATE), finished("W3", Reason.HTML_ONLY)]
    record(catalog, attempts=[], works=before)
    catalog.start_run("run-2", "pull", "sha256:c0ffee", {})
    catalog.enqueue([NewItem(work, 2024, 0, {}, "plan") for work in ("W1", "W2", "W3", "W4")], "run-2")
    record(catalog, attempts=[], works=[finished("W4", run_id="run-2")])
    export_manifest(catalog, LakeWriter(folder))
    first, second = headline(build_report(folder, data_root, WorkScope(None, "run-2"), catalog, NOW)).splitlines()
    assert first.startswith("1 work finished, 1 with full text (100.0 %)")
    assert second == "All 4 works: 2 with full text (50.0 %)."
    assert "All" not in headline(build_report(folder, data_root, WorkScope(), catalog, NOW))


def test_the_json_report_holds_the_same_numbers(report: Report) -> None:
    document = json.loads(to_json(report))
    assert document["indicators"] == report.slis.values()
    assert [o["name"] for o in document["objectives"]] == [v.name for v in report.verdicts]
    assert sum(row["works"] for row in document["reasons"]) == report.slis.finished
    assert document["summary"]["processed"] == report.slis.finished


@pytest.mark.parametrize("width", [80, 160])
def test_the_terminal_report_renders_at_any_width(report: Report, width: int) -> None:
    from rich.console import Console

    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(to_terminal(report))
    text = console.export_text()
    assert "Content download report" in text and "no-candidate" in text and "✗" in text
    assert "retry-after" in text


def test_a_report_before_the_first_finished_work_is_no_error(data_root: Path, catalog: Catalog) -> None:
    text = to_markdown(build_report(LakeFolder(data_root / "lake"), data_root, WorkScope(), catalog, NOW))
    assert "No works finished yet; 0 are in the queue." in text


@pytest.mark.requirement("TEL-6")
@pytest.mark.parametrize("sql", [sql for _, sql in QUERIES])
def test_every_query_of_the_report_answers(report: Report, history_root: Path, sql: str) -> None:
    answer = query_lake(LakeFolder(history_root / "lake"), sql, limit=100)
    assert answer.columns and answer.rows


# -- the commands ------------------------------------------------------------------------------------------------------


@pytest.fixture
def content() -> Callable[..., Any]:
    return lambda *words: CliRunner().invoke(build_app(), [str(word) for word in words])


@pytest.mark.requirement("CLI-1")
def test_report_brings_the_lake_up_to_date_and_reports_a_run_by_its_folder(history_root: Path, content: Make) -> None:
    (history_root / "run-1").mkdir()
    result = content("report", "--run", history_root / "run-1", "--format", "json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["scope"] == {"year": None, "run_id": "run-1"} and document["indicators"]["finished"] > 0
    assert (history_root / "telemetry.duckdb").is_file()
    by_id = content("report", "--run", "run-1", "--out", history_root, "--format", "json")
    assert json.loads(by_id.stdout)["indicators"] == document["indicators"]


@pytest.mark.parametrize("format", ["md", "table"])
def test_report_shows_a_year(history_root: Path, content: Make, format: str) -> None:
    result = content("report", "--out", history_root, "--year", 2024, "--format", format)
    assert result.exit_code == 0 and "year 2024" in result.stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["report", "--out", "{root}/nowhere"], "there is no catalog at"),
        (["report", "--out", "{root}", "--run", "run-7"], "The latest runs are: run-"),
        (["query", "SELECT 1", "--out", "{root}/nowhere"], "there is no telemetry in"),
        (["query", "{root}/none.sql", "--out", "{root}"], "none.sql cannot be read"),
        (["query", "SELECT nope FROM works", "--out", "{root}"], "nope"),
        (["query", "COPY works TO 'x.csv'", "--out", "{root}"], "only one statement that reads"),
    ],
)
def test_errors_name_the_place_and_the_remedy_and_end_with_2(
    report: Report, history_root: Path, content: Make, words: list[str], says: str
) -> None:
    result = content(*(word.format(root=history_root) for word in words))
    assert result.exit_code == 2
    assert says in result.stderr and "Traceback" not in result.output


@pytest.mark.requirement("CLI-1")
def test_query_answers_as_table_json_and_csv(report: Report, history_root: Path, content: Make) -> None:
    sql = "SELECT 'W1' AS work_id, '=1' AS cell, TIMESTAMPTZ '2026-03-01 00:00:00Z' AS at, NULL AS none"
    table = content("query", sql, "--out", history_root)
    assert "work_id" in table.stdout and "1 row\n" in table.stdout
    (row,) = json.loads(content("query", sql, "--out", history_root, "--format", "json").stdout)
    assert row == {"work_id": "W1", "cell": "=1", "at": "2026-03-01T00:00:00+00:00", "none": None}
    lines = content("query", sql, "--out", history_root, "--format", "csv").stdout.splitlines()
    assert lines == ["work_id,cell,at,none", "W1,'=1,2026-03-01 00:00:00+00:00,"]


def test_a_table_shows_the_first_hundred_rows_and_the_other_formats_all(
    report: Report, history_root: Path, content: Make
) -> None:
    sql = "FROM range(150)"
    assert "the first 100 rows" in content("query", sql, "--out", history_root).stdout
    assert len(json.loads(content("query", sql, "--out", history_root, "--format", "json").stdout)) == 150
