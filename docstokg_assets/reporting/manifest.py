"""The rows of a run's manifest (schema v3) and the small files beside it. Pure but for two writers; sinks write lines.

A row is one of three `record_type`s: `attempt` (one network action or one decision not to act), `outcome` (how a work
ended) and `summary` (the run's counters). The catalog is the truth; all of this can be made again from it.
"""

from __future__ import annotations

import csv
import logging
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import orjson

from docstokg_assets.reporting.rendering import csv_cell, iso
from resources.catalog import Entry
from resources.records import MANIFEST_SCHEMA_VERSION, AttemptRecord, Classification, Reason, Status
from resources.whole_file import whole_file

log = logging.getLogger(__name__)

LAST_COLUMNS = ("work_id", "path", "sha256", "size", "url", "finished_at")
_SKIPS = frozenset({Status.SKIPPED, Status.ROBOTS_DISALLOWED, Status.CONTENT_POLICY_SKIP})
_OPENALEX_ID = re.compile(r"W\d+")
_STAGES = {"metadata": "resolve", "landing": "landing", "artifact": "fetch"}


def as_row(record: AttemptRecord | Entry) -> dict[str, Any]:
    """A record as a row; its values are shared, not copied."""
    return {field.name: getattr(record, field.name) for field in fields(record)}


def doc_id(work_id: str | None) -> str | None:
    """`openalex:W…` for an OpenAlex id; other names already say where they come from."""
    return f"openalex:{work_id}" if work_id and _OPENALEX_ID.fullmatch(work_id) else work_id


def manifest_row(rec: AttemptRecord, *, config_hash: str, end: Entry | None = None) -> dict[str, Any]:
    """The line of one attempt. With the outcome of its work, the attempt that brought the file says where it is and who was
    tried before. `config_hash` is that of the run; an attempt under another configuration names its own."""
    sha256 = rec.extra.get("sha256")
    brought = end if end is not None and sha256 is not None and end.sha256 == sha256 else None
    return {
        "record_type": "attempt",
        "schema_version": MANIFEST_SCHEMA_VERSION,
        "run_id": rec.run_id,
        "doc_id": doc_id(rec.work_id),
        "stage": _stage(rec),
        "url": rec.url,
        "canonical_url": rec.canonical_url,
        "host": rec.host,
        "verb": rec.verb,
        "role": rec.role,
        "status": rec.status,
        "reason": rec.reason,
        "http_status": rec.http_status,
        "mime": rec.content_type,
        "size_bytes": rec.bytes_written,
        "sha256": sha256,
        "path": brought.path if brought is not None else None,
        "attempt": rec.attempt,
        "duration_ms": rec.elapsed_ms,
        "retry_after_s": float(rec.retry_after_s) if rec.retry_after_s else 0,
        "cache_hit": rec.cache_hit,
        "resolver": rec.resolver,
        "tier": rec.tier,
        "fallback_chain": list(brought.fallback_chain) if brought is not None else [],
        "created_at": iso(rec.ts),
        "config_hash": rec.extra.get("config_hash", config_hash),
        "worker_id": rec.worker_id,
        "seq": rec.seq,
        "extra": dict(rec.extra),
    }


def _stage(rec: AttemptRecord) -> str:
    if rec.verb == "ROBOTS":
        return "robots"
    return "precheck" if rec.verb == "HEAD" else _STAGES.get(rec.role or "", "fetch")


def outcome_row(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The line of one work, from its row of the catalog (`as_row(entry)`)."""
    return {
        "record_type": "outcome",
        "schema_version": MANIFEST_SCHEMA_VERSION,
        "run_id": entry.get("run_id"),
        "doc_id": doc_id(entry["work_id"]),
        "work_id": entry["work_id"],
        "title": entry.get("title"),
        "year": entry.get("year"),
        "classification": entry["classification"],
        "reason": entry["reason"],
        "kind": entry.get("kind"),
        "url": entry.get("url"),
        "http_status": entry.get("http_status"),
        "path": entry.get("path"),
        "content_type": entry.get("content_type"),
        "html_paths": list(entry.get("html_paths") or ()),
        "sha256": entry.get("sha256"),
        "size_bytes": entry.get("bytes"),
        "license": entry.get("license"),
        "version": entry.get("version"),
        "resolver": entry.get("resolver"),
        "tier": entry.get("tier"),
        "fallback_chain": list(entry.get("fallback_chain") or ()),
        "flags": list((entry.get("meta") or {}).get("flags", ())),
        "retry_at": iso(entry.get("retry_at")),
        "created_at": iso(entry.get("finished_at")),
        "config_hash": entry.get("config_hash"),
    }


def summary_row(summary: Mapping[str, Any]) -> dict[str, Any]:
    return {"record_type": "summary", "schema_version": MANIFEST_SCHEMA_VERSION, **_document(summary)}


def _document(summary: Mapping[str, Any]) -> dict[str, Any]:
    """The counters at the top level and again under `summary`: readers of both forms exist."""
    return {**summary, "summary": dict(summary)}


def metrics_summary(attempts: Iterable[Mapping[str, Any]], outcomes: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The counters of a run. A row may stand for `n` equal ones, so that a database can do the grouping.

    `saved` are works with a PDF or XML full text, `html_only` those with nothing better than HTML, `skipped` all other
    finished ones, among them those whose copy was asked for and is still the current one: they keep the outcome that they
    had, so the answer itself is counted. Parked works (`retry_at`) are not processed yet.
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
    """Whether an attempt was the end of its request without a good answer; one that is repeated has not failed yet."""
    status = row["status"]
    if status in (Status.DOWNLOAD_ERROR, Status.SIZE_MISMATCH):
        return True
    return status in (Status.HTTP_GET, Status.HTTP_HEAD) and (row.get("http_status") or 0) >= 400


def write_metrics(path: Path, summary: Mapping[str, Any]) -> bool:
    """The sidecar `manifest.metrics.json`. A run never fails for want of it: whether it was written is returned."""
    try:
        with whole_file(path) as temp:
            options = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE
            temp.write_bytes(orjson.dumps(_document(summary), option=options))
    except Exception:
        log.warning("The metrics file %s could not be written; the run goes on without it.", path, exc_info=True)
        return False
    return True


def write_last_csv(path: Path, latest: Iterable[Entry]) -> None:
    """`manifest.last.csv`: the latest works with a file, newest first, as a quick hint of what is there."""
    with whole_file(path) as temp, temp.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(LAST_COLUMNS)
        for end in latest:
            cells = (end.work_id, end.path, end.sha256, end.bytes, end.url, iso(end.finished_at))
            writer.writerow([csv_cell(cell) for cell in cells])
