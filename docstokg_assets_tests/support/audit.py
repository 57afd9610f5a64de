"""An auditor for a data root that was filled under disturbance. It knows the tables and the layout of the folders, and uses no
code of the project: sqlite3 or psycopg, hashlib, json and os.

    .venv/bin/python -m docstokg_assets_tests.support.audit DATA_ROOT [POSTGRES_URL]

prints every finding, and ends with exit code 1 when there is one. No process may be at work in the data root.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import sys
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

ARTIFACT_FOLDERS = ("PDF", "HTML", "XML")
PART_PREFIX = ".part-"
FINISHED_STATES = ("done", "retry")


@dataclass(frozen=True)
class Finding:
    """`rule` is what should hold, `evidence` the row or file by which it does not."""

    rule: str
    evidence: str


@dataclass
class Audit:
    findings: list[Finding] = field(default_factory=list)
    apart: list[Finding] = field(default_factory=list)  # allowed, but worth telling
    outcomes: Counter[str] = field(default_factory=Counter)  # works by classification and reason

    def find(self, rule: str, evidence: object) -> None:
        self.findings.append(Finding(rule, str(evidence)))

    def set_apart(self, rule: str, evidence: object) -> None:
        self.apart.append(Finding(rule, str(evidence)))


class Database:
    """The catalog as it lies there: SQLite in the data root, or PostgreSQL."""

    def __init__(self, root: str, postgres_url: str | None) -> None:
        self._file, self._url = os.path.join(root, "catalog.sqlite3"), postgres_url

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        if self._url is None:
            with closing(sqlite3.connect(f"file:{self._file}?mode=ro", uri=True, timeout=30)) as connection:
                return connection.execute(sql).fetchall()
        import psycopg

        with psycopg.connect(self._url, options="-c search_path=docstokg") as server:
            return server.execute(sql.encode()).fetchall()

    def is_sound(self) -> bool:
        return self._url is not None or self.rows("PRAGMA integrity_check") == [("ok",)]


def audit(root: str | os.PathLike[str], works: Collection[str] | None, postgres_url: str | None = None) -> Audit:
    """`works` are the ids of all works that must have an outcome; None: those in the queue."""
    root, result = os.fspath(root), Audit()
    database = Database(root, postgres_url)
    if not database.is_sound():
        result.find("the catalog is sound", database.rows("PRAGMA integrity_check")[:3])
    _every_work_has_one_outcome(result, database, works)
    named = _every_file_is_as_recorded(result, database, root)
    _no_other_file(result, root, named)
    _attempts_are_complete(result, database)
    _manifests_are_readable(result, database, root)
    return result


def _every_work_has_one_outcome(result: Audit, database: Database, works: Collection[str] | None) -> None:
    queued = dict(database.rows("SELECT work_id, state FROM queue"))
    expected = set(queued) if works is None else set(works)
    rule = "every work has exactly one outcome"
    seen = Counter(work for (work,) in database.rows("SELECT work_id FROM catalog_entries"))
    for work in sorted(expected - set(seen)):
        state = queued.get(work)
        result.find(rule, f"{work}: no row" + (f", in the queue as {state}" if state else ", not in the queue either"))
    for work in sorted(set(seen) - expected):
        result.find(rule, f"{work}: a row for a work that nobody asked for")
    for work, count in seen.items():
        if count > 1:
            result.find(rule, f"{work}: {count} rows")
    for work, state in sorted(queued.items()):
        if state not in FINISHED_STATES:
            result.find("no work is left unfinished", f"{work}: {state}")
    columns = "work_id, classification, reason, path"
    for work, classification, reason, path in database.rows(f"SELECT {columns} FROM catalog_entries ORDER BY work_id"):
        result.outcomes[f"{classification} {reason}"] += 1
        if reason == "internal-error":
            result.find("no work ends by an error of the program", f"{work}: {classification} {reason}")
        if (classification == "success") != (path is not None):
            result.find("a success has a file, and nothing else has", f"{work}: {classification} {reason}, path {path}")


def _every_file_is_as_recorded(result: Audit, database: Database, root: str) -> set[str]:
    """Returns all paths that a row names. A row of `artifacts` tells of a file that was stored once; where its work has a later
    one, the file must be gone, unless it is named by its hash and may be of other works."""
    named: dict[str, dict[tuple[str, int | None], str]] = {}  # path -> what is said of it -> who says so
    pages: set[str] = set()
    current: dict[str, set[str]] = {}
    for work, path, html in database.rows("SELECT work_id, path, html_paths FROM catalog_entries"):
        pages.update(json.loads(html or "[]"))
        if path is not None:
            current[work] = {path, *json.loads(html or "[]")}
    for table in ("catalog_entries", "artifacts"):
        sql = f"SELECT work_id, path, sha256, bytes FROM {table} WHERE path IS NOT NULL ORDER BY work_id"
        for work, path, sha256, size in database.rows(sql):
            if path in current.get(work, {path}) or path.startswith("cas/"):
                named.setdefault(path, {}).setdefault((sha256, size), f"{table} of {work}")
    recorded = {path for (path,) in database.rows("SELECT path FROM artifacts")}
    for work, path in database.rows("SELECT work_id, path FROM catalog_entries WHERE path IS NOT NULL"):
        if path not in recorded:
            result.find("every stored file is among the artifacts", f"{work}: {path}")
    for path, described in sorted(named.items()):
        _compare(result, root, path, described)
    for path in sorted(pages - set(named)):
        if not os.path.isfile(os.path.join(root, path)):
            result.find("every recorded file is there", f"{path} (html_paths)")
    return set(named) | pages


def _compare(result: Audit, root: str, path: str, described: dict[tuple[str, int | None], str]) -> None:
    try:
        with open(os.path.join(root, path), "rb") as file:
            content = file.read()
    except FileNotFoundError:
        result.find("every recorded file is there", f"{path} ({', '.join(described.values())})")
        return
    digest = hashlib.sha256(content).hexdigest()
    for (sha256, size), who in described.items():
        if sha256 != digest:
            rule = "every file has the SHA-256 of its row"
            result.find(rule, f"{path}: {who} says {sha256[:16]}, the file has {digest[:16]}")
        elif size is not None and size != len(content):
            result.find("every file has the size of its row", f"{path}: {who} says {size}, the file has {len(content)}")
    if path.startswith("PDF/") and not (content.startswith(b"%PDF-") and b"%%EOF" in content[-1024:]):
        result.find("every PDF is whole", f"{path}: begins {content[:8]!r}, ends {content[-16:]!r}")


def _files(root: str) -> Iterator[str]:
    for folder in ARTIFACT_FOLDERS:
        for place, _, names in os.walk(os.path.join(root, folder)):
            for name in names:
                yield os.path.relpath(os.path.join(place, name), root)


def _no_other_file(result: Audit, root: str, named: set[str]) -> None:
    for path in sorted(_files(root)):
        if os.path.basename(path).startswith(PART_PREFIX):
            size = os.path.getsize(os.path.join(root, path))
            result.find("no part of a file is left behind", f"{path}: {size} bytes")
        elif path not in named:
            result.find("no file that no row names", path)


def _attempts_are_complete(result: Audit, database: Database) -> None:
    key = "run_id, worker_id, seq"
    twice = f"SELECT {key}, count(*) FROM attempts GROUP BY {key} HAVING count(*) > 1"
    for row in database.rows(twice):
        result.find("no attempt is recorded twice", row)
    fetched: set[tuple[str | None, str]] = set()  # work and hash; for pages, whose attempts have no hash, work and URL
    sql = "SELECT work_id, url, canonical_url, extra FROM attempts WHERE http_status BETWEEN 200 AND 299"
    for work, url, canonical, extra in database.rows(sql):
        fetched |= {(work, json.loads(extra).get("sha256", "")), (work, url), (work, canonical or url)}
    stored = (
        "SELECT work_id, sha256, path, meta, kind, url FROM catalog_entries WHERE path IS NOT NULL ORDER BY work_id"
    )
    for work, sha256, path, meta, kind, url in database.rows(stored):
        known = json.loads(meta or "{}")
        if (work, known.get("final_url", url) if kind == "html" else sha256) in fetched:  # the page behind redirects
            continue
        if known.get("adopted"):  # its process was killed before it could record anything
            result.set_apart("stored by a killed process, recorded by another without its attempt", f"{work}: {path}")
        else:
            result.find("every stored file has its attempt", f"{work}: {path}, {sha256[:16]}")


def _manifests_are_readable(result: Audit, database: Database, root: str) -> None:
    """The last line of a manifest may be torn where its process was killed or the disk was full; no other one."""
    known = set(database.rows("SELECT run_id, worker_id, seq FROM attempts"))
    for name in sorted(os.listdir(root)):
        path = os.path.join(root, name, "manifest.jsonl")
        if not os.path.isfile(path):
            continue
        with open(path, "rb") as file:
            *lines, last = file.read().split(b"\n")
        if last:
            result.set_apart("the last line of a manifest is torn", f"{name}/manifest.jsonl: {last[:40]!r}")
        for number, line in enumerate(lines, 1):
            try:
                row = json.loads(line)
            except ValueError:
                result.find("every line of a manifest is JSON", f"{name}/manifest.jsonl line {number}: {line[:60]!r}")
                continue
            if row["record_type"] == "attempt" and (row["run_id"], row["worker_id"], row["seq"]) not in known:
                result.find("a manifest has no attempt that the catalog lacks", f"{name}/manifest.jsonl line {number}")


def main() -> int:
    result = audit(sys.argv[1], None, sys.argv[2] if len(sys.argv) > 2 else None)
    for finding in result.findings:
        print(f"{finding.rule}: {finding.evidence}")
    print(f"{len(result.findings)} findings, {sum(result.outcomes.values())} works")
    return 1 if result.findings else 0


if __name__ == "__main__":
    raise SystemExit(main())
