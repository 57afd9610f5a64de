"""The rows of a run's manifest (schema v3) and of its CSV files, and the functions that write the small files beside it.
`resources.tables` declares the columns; sinks write the lines.

A row has one of three `record_type`s: `attempt` (one network action or one decision not to act), `outcome` (the result of a
work) and `summary` (the run's counters). All files can be rebuilt from the catalog.
"""

from __future__ import annotations

import csv
import logging
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson

from docstokg_assets.reporting.rendering import csv_cell, iso
from resources.catalog.rows import Entry
from resources.records import MANIFEST_SCHEMA_VERSION, AttemptRecord, Classification, Reason, Status
from resources.tables import ATTEMPTS, OUTCOMES, Column, Into, Type
from resources.whole_file import whole_file

log = logging.getLogger(__name__)

_ATTEMPT_COLUMNS, _OUTCOME_COLUMNS = ATTEMPTS.columns_in(Into.MANIFEST), OUTCOMES.columns_in(Into.MANIFEST)
_SKIPS = frozenset({Status.SKIPPED, Status.ROBOTS_DISALLOWED, Status.CONTENT_POLICY_SKIP})
_OPENALEX_ID = re.compile(r"W\d+")
_STAGES = {"metadata": "resolve", "landing": "landing", "artifact": "fetch"}


def doc_id(work_id: str | None) -> str | None:
    """`openalex:W…` for an OpenAlex id; other names already say where they come from."""
    return f"openalex:{work_id}" if work_id and _OPENALEX_ID.fullmatch(work_id) else work_id


def manifest_row(rec: AttemptRecord, *, config_hash: str, end: Entry | None = None) -> dict[str, Any]:
    """The line of one attempt. Given the outcome of its work, the attempt that brought the file names its path and the resolvers
    that were tried before. `config_hash` is that of the run; an attempt under another configuration names its own."""
    sha256 = rec.extra.get("sha256")
    brought = end if end is not None and sha256 is not None and end.sha256 == sha256 else None
    return {
        "record_type": "attempt",
        "schema_version": MANIFEST_SCHEMA_VERSION,
        "doc_id": doc_id(rec.work_id),
        "stage": _stage(rec),
        **_cells(_ATTEMPT_COLUMNS, rec, rec.extra),
        "sha256": sha256,
        "path": brought.path if brought is not None else None,
        "retry_after_s": float(rec.retry_after_s) if rec.retry_after_s else 0,
        "fallback_chain": list(brought.fallback_chain) if brought is not None else [],
        "config_hash": rec.extra.get("config_hash", config_hash),
    }


def _cells(columns: Iterable[Column], record: AttemptRecord | Entry, more: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a record that go into the manifest. One that the record has no field for is in `more`."""
    return {
        column.name_in(Into.MANIFEST): _value(column, getattr(record, column.name, more.get(column.name)))
        for column in columns
    }


def _value(column: Column, value: Any) -> Any:
    match column.type:
        case Type.TIME:
            return iso(value)
        case Type.TEXTS:
            return list(value or ())
        case Type.JSON:
            return dict(value)
        case _:
            return value


def csv_cells(columns: Iterable[Column], record: AttemptRecord | Entry, more: Mapping[str, Any]) -> list[Any]:
    """The columns of a record that go into a CSV file."""
    return [csv_cell(_csv_value(column, getattr(record, column.name, more.get(column.name)))) for column in columns]


def _csv_value(column: Column, value: Any) -> Any:
    match column.type:
        case Type.TIME:
            return iso(value)
        case Type.REAL:
            return None if value is None else float(value)
        case Type.JSON | Type.TEXTS:
            return orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
        case _:
            return value


def _stage(rec: AttemptRecord) -> str:
    if rec.verb == "ROBOTS":
        return "robots"
    return "precheck" if rec.verb == "HEAD" else _STAGES.get(rec.role or "", "fetch")


def outcome_row(entry: Entry) -> dict[str, Any]:
    """The line of one work."""
    return {
        "record_type": "outcome",
        "schema_version": MANIFEST_SCHEMA_VERSION,
        "doc_id": doc_id(entry.work_id),
        **_cells(_OUTCOME_COLUMNS, entry, entry.meta),
    }


def summary_row(summary: Mapping[str, Any]) -> dict[str, Any]:
    return {"record_type": "summary", "schema_version": MANIFEST_SCHEMA_VERSION, **_document(summary)}


def _document(summary: Mapping[str, Any]) -> dict[str, Any]:
    """The counters at the top level and again under `summary`: readers of both forms exist."""
    return {**summary, "summary": dict(summary)}


def metrics_summary(attempts: Iterable[Mapping[str, Any]], outcomes: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The counters of a run. A row may stand for `n` equal ones, so that a database can do the grouping.

    `saved` are works with a PDF or XML full text, `html_only` those with nothing better than HTML, `skipped` all other
    finished ones. An unchanged file (status 304) is counted as skipped by its attempt, because the work keeps its earlier
    outcome. Parked works (`retry_at`) are not processed yet.
    """
    works = Counter[str]()
    counts = {name: Counter[str]() for name in ("attempts", "successes", "html", "skips", "failures")}
    for row in outcomes:
        if row.get("retry_at") is not None or row.get("waits"):
            continue
        n, resolver = row.get("n", 1), row.get("resolver")
        ok = row["classification"] == Classification.SUCCESS
        html = ok and row["reason"] == Reason.HTML_ONLY
        works["processed"] += n
        works["html_only" if html else "saved" if ok else "skipped"] += n
        if ok and resolver:
            counts["html" if html else "successes"][resolver] += n
    for row in attempts:
        n, resolver = row.get("n", 1), row.get("resolver")
        unchanged = row["status"] == Status.HTTP_304 and row.get("role") == "artifact"
        if unchanged:
            works.update(processed=n, skipped=n)
        if not resolver:
            continue
        if unchanged or row["status"] in _SKIPS:
            counts["skips"][f"{resolver}:{row['reason']}"] += n
            continue
        counts["attempts"][resolver] += n
        if attempt_failed(row):
            counts["failures"][resolver] += n
    totals = {name: works[name] for name in ("processed", "saved", "html_only", "skipped")}
    return {**totals, "resolvers": {name: dict(counter) for name, counter in counts.items()}}


def attempt_failed(row: Mapping[str, Any]) -> bool:
    """Whether the attempt ended its request without a good response; an attempt that is retried has not failed yet."""
    status = row["status"]
    if status in (Status.DOWNLOAD_ERROR, Status.SIZE_MISMATCH):
        return True
    return status in (Status.HTTP_GET, Status.HTTP_HEAD) and (row.get("http_status") or 0) >= 400


def write_metrics(path: Path, summary: Mapping[str, Any]) -> bool:
    """Write `manifest.metrics.json`; returns whether it was written. An error is logged and does not fail the run."""
    try:
        with whole_file(path) as temp:
            options = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE
            temp.write_bytes(orjson.dumps(_document(summary), option=options))
    except Exception:
        log.warning("The metrics file %s could not be written; the run goes on without it.", path, exc_info=True)
        return False
    return True


def write_last_csv(path: Path, latest: Iterable[Entry]) -> None:
    """Write `manifest.last.csv`: the latest works with a file, newest first."""
    with whole_file(path) as temp, temp.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(OUTCOMES.names_in(Into.CSV))
        columns = OUTCOMES.columns_in(Into.CSV)
        writer.writerows(csv_cells(columns, entry, entry.meta) for entry in latest)
