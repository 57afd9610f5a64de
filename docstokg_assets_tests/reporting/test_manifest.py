"""Manifest rows carry what the architecture promises, and the files beside the manifest are whole."""

from __future__ import annotations

import csv
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from docstokg_assets.reporting.manifest import (
    manifest_row,
    metrics_summary,
    outcome_row,
    summary_row,
    write_last_csv,
    write_metrics,
)
from resources.catalog.catalog import Catalog
from resources.catalog.rows import values_of
from resources.records import Classification, Reason, Status

Make = Callable[..., Any]
FIELDS_OF_THE_ARCHITECTURE = (
    {"run_id", "doc_id", "stage", "url", "canonical_url", "role", "status", "http_status", "mime", "size_bytes"}
    | {"sha256", "path", "attempt", "duration_ms", "retry_after_s", "cache_hit", "resolver", "tier", "fallback_chain"}
    | {"created_at", "config_hash", "worker_id"}
)


@pytest.mark.requirement("TEL-4")
def test_an_attempt_row_has_every_field_of_schema_v3(make_attempt: Make, make_finished: Make, make_entry: Make) -> None:
    end = make_entry(make_finished("W12345"))
    row = manifest_row(make_attempt(extra={"sha256": "ab" * 32}), config_hash="sha256:1", end=end)
    assert set(row) >= FIELDS_OF_THE_ARCHITECTURE
    assert row["record_type"] == "attempt" and row["schema_version"] == 3
    assert row["doc_id"] == "openalex:W12345" and row["stage"] == "fetch"
    assert row["created_at"] == "2026-03-01T12:00:00.000Z" and row["config_hash"] == "sha256:1"
    brought = (row["fallback_chain"], row["sha256"], row["path"])
    assert brought == (["unpaywall", "arxiv"], "ab" * 32, "PDF/2024__a__W12345.pdf")
    other = manifest_row(make_attempt(extra={"sha256": "cd" * 32}), config_hash="sha256:1", end=end)
    assert (other["fallback_chain"], other["sha256"], other["path"]) == ([], "cd" * 32, None), "not what was kept"


@pytest.mark.requirement("TEL-4")
def test_an_attempt_under_another_configuration_names_its_own(make_attempt: Make) -> None:
    row = manifest_row(make_attempt(extra={"config_hash": "sha256:2"}), config_hash="sha256:1")
    assert row["config_hash"] == "sha256:2"


@pytest.mark.parametrize(
    ("changes", "stage"),
    [
        ({"verb": "ROBOTS", "role": "landing"}, "robots"),
        ({"verb": "HEAD"}, "precheck"),
        ({"role": "metadata"}, "resolve"),
        ({"role": "landing"}, "landing"),
        ({"role": None}, "fetch"),
    ],
)
def test_the_stage_follows_from_verb_and_role(make_attempt: Make, changes: dict[str, Any], stage: str) -> None:
    assert manifest_row(make_attempt(**changes), config_hash="h")["stage"] == stage


def test_a_work_that_is_not_from_openalex_keeps_its_name(make_attempt: Make) -> None:
    assert manifest_row(make_attempt(work_id="doi-10.1-x"), config_hash="h")["doc_id"] == "doi-10.1-x"


@pytest.mark.requirement("TEL-4")
def test_an_outcome_row_says_what_became_of_the_work(make_finished: Make, make_entry: Make) -> None:
    row = outcome_row(make_entry(make_finished("W1", html_paths=("HTML/a.html",), retry_at=0.0), 1_700_000_000.0))
    assert row["record_type"] == "outcome" and row["doc_id"] == "openalex:W1"
    assert (row["classification"], row["reason"], row["kind"]) == ("success", "ok", "pdf")
    assert row["path"] == "PDF/2024__a__W1.pdf" and row["html_paths"] == ["HTML/a.html"]
    assert row["fallback_chain"] == ["unpaywall", "arxiv"] and row["size_bytes"] == 1000
    assert row["run_id"] == "run-1" and row["config_hash"] == "sha256:c0ffee"
    assert row["created_at"] == "2023-11-14T22:13:20.000Z" and row["retry_at"] == "1970-01-01T00:00:00.000Z"


def small_run(make_finished: Make, make_entry: Make) -> dict[str, Any]:
    attempts: list[dict[str, Any]] = [
        {"resolver": "unpaywall", "status": Status.HTTP_GET, "http_status": 200, "reason": Reason.OK, "n": 3},
        {"resolver": "arxiv", "status": Status.HTTP_200, "http_status": 200, "reason": Reason.OK},
        {"resolver": "core", "status": Status.RETRY, "http_status": 503, "reason": Reason.BACKOFF},
        {"resolver": "core", "status": Status.HTTP_GET, "http_status": 503, "reason": Reason.HTTP_5XX},
        {"resolver": "core", "status": Status.DOWNLOAD_ERROR, "http_status": None, "reason": Reason.TIMEOUT},
        {
            "resolver": "crossref",
            "status": Status.SKIPPED,
            "http_status": None,
            "reason": Reason.DUPLICATE_URL_GLOBAL,
            "n": 4,
        },
        {"resolver": None, "status": Status.ROBOTS_FETCH, "http_status": 200, "reason": Reason.OK},
        {"resolver": "arxiv", "role": "artifact", "status": Status.HTTP_304, "reason": Reason.NOT_MODIFIED, "n": 2},
    ]
    works = [
        make_finished("W1"),
        make_finished("W2", Reason.HTML_ONLY, resolver="landing"),
        make_finished("W3", Reason.NO_CANDIDATE),
        make_finished("W4", Reason.ROBOTS, classification=Classification.SKIP),
        make_finished("W5", Reason.TIMEOUT, retry_at=9e9),
    ]
    return metrics_summary(attempts, [values_of(make_entry(work)) for work in works])


@pytest.mark.requirement("TEL-5")
def test_the_summary_counts_works_and_resolvers(make_finished: Make, make_entry: Make) -> None:
    assert small_run(make_finished, make_entry) == {
        "processed": 6,
        "saved": 1,
        "html_only": 1,
        "skipped": 4,
        "resolvers": {
            "attempts": {"unpaywall": 3, "arxiv": 1, "core": 3},
            "successes": {"arxiv": 1},
            "html": {"landing": 1},
            "skips": {"crossref:duplicate-url-global": 4, "arxiv:not-modified": 2},
            "failures": {"core": 2},
        },
    }


@pytest.mark.requirement("TEL-5")
def test_the_sidecar_is_indented_sorted_and_says_the_same_as_the_summary_record(
    tmp_path: Path, make_finished: Make, make_entry: Make
) -> None:
    summary = small_run(make_finished, make_entry)
    assert write_metrics(tmp_path / "manifest.metrics.json", summary)
    text = (tmp_path / "manifest.metrics.json").read_text()
    document = json.loads(text)
    assert text == json.dumps(document, indent=2, sort_keys=True) + "\n"
    assert document == {**summary, "summary": summary}
    record = summary_row(summary)
    assert record.pop("record_type") == "summary" and record.pop("schema_version") == 3
    assert record == document
    assert [path.name for path in tmp_path.iterdir()] == ["manifest.metrics.json"]


@pytest.mark.requirement("TEL-5")
def test_a_sidecar_that_cannot_be_written_is_a_warning_with_its_stack_trace(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "blocked").write_text("a file where a folder should be")
    assert not write_metrics(tmp_path / "blocked" / "manifest.metrics.json", {"processed": 0})
    (warning,) = caplog.records
    assert warning.levelno == logging.WARNING and warning.exc_info


@pytest.mark.requirement("CAT-4")
def test_the_resume_hint_names_the_latest_stored_works(
    tmp_path: Path, catalog: Catalog, make_finished: Make, record_in: Make
) -> None:
    for n in range(5):
        record_in(catalog, attempts=[], works=[make_finished(f"W{n}", url="=cmd()")])
    record_in(catalog, attempts=[], works=[make_finished("W9", Reason.HTTP_4XX), make_finished("W8", run_id="other")])
    write_last_csv(tmp_path / "manifest.last.csv", catalog.latest_files("run-1", 2))
    with (tmp_path / "manifest.last.csv").open(newline="") as file:
        latest, second = csv.DictReader(file)
    assert latest.pop("finished_at") > second["finished_at"] > "2026"
    assert latest == {
        "work_id": "W4",
        "path": "PDF/2024__a__W4.pdf",
        "sha256": "ab" * 32,
        "size": "1000",
        "url": "'=cmd()",
    }
    assert second["work_id"] == "W3"
