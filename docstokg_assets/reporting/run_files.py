"""The files of a run's folder, written from the catalog: counters, latest files, the run's part of the catalog, and the lines
that sinks wrote.

The same functions finish a run and rebuild its files later. `manifest` makes the rows, `sinks` writes the lines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docstokg_assets.reporting.manifest import metrics_summary, write_last_csv, write_metrics
from docstokg_assets.reporting.sinks import CsvSink, JsonlSink, replacing
from resources.catalog.catalog import Catalog
from resources.catalog.rows import Run, StoredAttempt
from resources.whole_file import whole_file

MANIFEST, ATTEMPTS = "manifest.jsonl", "attempts.csv"
_PAGE = 10_000


def summary_of_run(catalog: Catalog, run_id: str, dropped: Counter[str]) -> dict[str, Any]:
    """The run's counters; the database does the counting. `dropped`: records that sinks could not write."""
    summary = metrics_summary(catalog.counted_attempts(run_id), catalog.counted_outcomes(run_id))
    return {**summary, "dropped": dict(dropped)} if dropped else summary


def write_account(catalog: Catalog, folder: Path, run_id: str, summary: dict[str, Any], last_rows: int) -> None:
    """`manifest.metrics.json`, `manifest.last.csv` and `manifest.sqlite3`."""
    write_metrics(folder / "manifest.metrics.json", summary)
    write_last_csv(folder / "manifest.last.csv", catalog.latest_files(run_id, last_rows))
    catalog.slice_to(folder / "manifest.sqlite3", run_id)


def lines_are_missing(catalog: Catalog, folder: Path, run_id: str) -> bool:
    """Whether the manifest lacks lines that the catalog has, as after a kill. False if there is no manifest in the folder."""
    try:
        with (folder / MANIFEST).open("rb") as file:
            kinds = Counter(line[:23] for line in file if line.endswith(b"\n"))
    except FileNotFoundError:
        return False
    counted = {b"attempt": catalog.counted_attempts(run_id), b"outcome": catalog.counted_outcomes(run_id)}
    return any(kinds[b'{"record_type":"' + kind] < sum(row["n"] for row in rows) for kind, rows in counted.items())


def rebuild_lines(catalog: Catalog, folder: Path, run: Run) -> int:
    """Rewrite `manifest.jsonl` and `attempts.csv` of a run, in the catalog's order; returns the number of attempts.

    Raises FileHeld if a living process writes to them. An outcome that a later search has replaced is no longer in the catalog,
    and so not in the new file.
    """
    count = 0
    with (
        replacing(folder / MANIFEST),
        replacing(folder / ATTEMPTS),
        whole_file(folder / MANIFEST) as lines,
        whole_file(folder / ATTEMPTS) as sheet,
        JsonlSink(lines, config_hash=run.config_hash) as jsonl,
        CsvSink(sheet) as rows,
    ):
        for page in _pages(catalog, run.run_id):
            brought = {a.record.work_id for a in page if a.record.work_id is not None and "sha256" in a.record.extra}
            ends = {e.work_id: e for e in catalog.entries_of(sorted(brought)) if e.run_id == run.run_id}
            for stored in page:
                jsonl.log_attempt(stored.record, ends.get(stored.record.work_id or ""))
                rows.log_attempt(stored.record)
            count += len(page)
        for entry in catalog.entries(settled_by=run.run_id):
            jsonl.log_outcome(entry)
        if run.summary is not None:
            jsonl.log_summary(run.summary)
    return count


def _pages(catalog: Catalog, run_id: str) -> Iterator[list[StoredAttempt]]:
    position = 0
    while page := catalog.attempts_after(position, _PAGE, run_id=run_id):
        yield page
        position = page[-1].position
