"""What a run wrote can be made again from the catalog, to the byte."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from docstokg_assets.engine.recorder import Recorder
from docstokg_assets.lake.retention import rebuild_manifest
from docstokg_assets.lake.views import open_lake
from docstokg_assets.lake.writer import SCHEMAS, LakeWriter, export_manifest
from docstokg_assets.reporting.run_files import rebuild_lines, summary_of_run, write_account
from docstokg_assets.reporting.sinks import CsvSink, JsonlSink, SinkSet
from resources.catalog.catalog import Catalog
from resources.catalog.rows import NewItem, Parked, Run
from resources.lake.files import LakeFiles
from resources.records import Reason, Status

Make = Callable[..., Any]
FILES = ("manifest.jsonl", "attempts.csv", "manifest.metrics.json", "manifest.last.csv")


@pytest.fixture
def run(catalog: Catalog, tmp_path: Path, make_attempt: Make, make_finished: Make) -> Iterator[tuple[Run, Path]]:
    """A run of some works that went through the recorder into the sinks, as every run does."""
    folder = tmp_path / "run-1"
    catalog.start_run("run-1", "pull", "sha256:first", {})
    catalog.enqueue([NewItem(f"W{n}", 2024, 0, {}, "plan") for n in range(30)], "run-1")
    catalog.claim("w", 100, 60)
    lines, sheet = JsonlSink(folder / "manifest.jsonl", config_hash="sha256:first"), CsvSink(folder / "attempts.csv")
    sinks = SinkSet([lines, sheet])
    with Recorder(catalog, sinks) as recorder:
        for n in range(30):
            if n == 20:
                recorder.config_hash = "sha256:second"
            work = {"work_id": f"W{n}", "worker_id": "w"}
            failed: dict[str, Any] = {
                "status": Status.RETRY,
                "retry_after_s": 5,
                "extra": {"sleep_ms": 7, "error": "=1"},
            }
            recorder.record(make_attempt(seq=3 * n, **work, **failed))
            recorder.record(make_attempt(seq=3 * n + 1, extra={"sha256": f"{n:064x}"}, **work))
            if n % 5 == 4:
                recorder.record(Parked(f"W{n}", {}, None, 0.0, "its turn", "w"))
            elif n % 5 == 3:
                recorder.record(make_finished(f"W{n}", Reason.TIMEOUT, retry_at=4e9))
            else:
                recorder.record(make_finished(f"W{n}", sha256=f"{n:064x}", title="=HYPERLINK()"))
            recorder.record(make_attempt(seq=3 * n + 2, work_id=None, worker_id="w", cache_hit=True))
    summary = summary_of_run(catalog, "run-1", Counter())
    sinks.log_summary(summary)
    sinks.close()
    catalog.finish_run("run-1", summary)
    write_account(catalog, folder, "run-1", summary, 10)
    known = catalog.run("run-1")
    assert known is not None
    yield known, folder


def lines_of(path: Path) -> list[bytes]:
    return sorted(path.read_bytes().splitlines())


@pytest.mark.requirement("TEL-4")
def test_rebuilt_files_equal_what_the_run_wrote_up_to_order(
    catalog: Catalog, tmp_path: Path, run: tuple[Run, Path]
) -> None:
    known, folder = run
    assert rebuild_lines(catalog, tmp_path / "again", known) == 90
    write_account(catalog, tmp_path / "again", "run-1", known.summary or {}, 10)
    for name in FILES:
        assert lines_of(tmp_path / "again" / name) == lines_of(folder / name), name
    text = (folder / "manifest.jsonl").read_text()
    assert text.count('"path":"PDF/') == 2 * 18 and text.count("sha256:second") == 2 * 30
    assert '"title":"=HYPERLINK()"' in text


@pytest.mark.requirement("TEL-2")
def test_fault_35_a_torn_last_line_is_made_again_from_the_catalog(catalog: Catalog, run: tuple[Run, Path]) -> None:
    known, folder = run
    path = folder / "manifest.jsonl"
    whole = lines_of(path)
    path.write_bytes(path.read_bytes()[:-400])
    rebuild_lines(catalog, folder, known)
    assert lines_of(path) == whole


@pytest.mark.requirement("TEL-6")
def test_a_rebuilt_lake_holds_the_same_rows_once(lake: LakeFiles, catalog: Catalog, make_history: Make) -> None:
    make_history(catalog, works=60)
    writer = LakeWriter(lake)

    def rows(table: str) -> list[str]:
        with duckdb.connect() as con:
            return sorted(map(str, con.execute(lake.rows(con, table, SCHEMAS[table]) or "").fetchall()))

    export_manifest(catalog, writer)
    before = {table: rows(table) for table in ("attempts", "outcomes")}
    old = set(lake.parts("attempts"))
    rebuilt = rebuild_manifest(catalog, writer)
    assert {table: rows(table) for table in ("attempts", "outcomes")} == before
    assert rebuilt.outcomes == 60 and not old & set(lake.parts("attempts"))
    assert export_manifest(catalog, writer).parts == ()


@pytest.mark.requirement("TEL-6", "ORC-6")
def test_an_export_of_another_process_that_ends_during_a_rebuild_costs_no_row(
    lake: LakeFiles, catalog: Catalog, make_history: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts, works = make_history(catalog, works=20)
    export_manifest(catalog, LakeWriter(lake))
    moved = {name: catalog.export_position(name) for name in ("lake.attempts", "lake.outcomes")}
    note, first = Catalog.set_export_position, lake.parts("attempts")[0]

    def note_and_be_overtaken(self: Catalog, name: str, position: int) -> None:
        note(self, name, position)
        note(self, name, moved[name])

    monkeypatch.setattr(Catalog, "set_export_position", note_and_be_overtaken)
    lake.remove(first)  # as a second rebuild would
    rebuild_manifest(catalog, LakeWriter(lake))
    with open_lake(lake) as con:
        told = [con.execute(f"SELECT count(*) FROM {table}").fetchall() for table in ("attempts", "outcomes")]
    assert told == [[(len(attempts),)], [(len(works),)]]


def test_parts_that_another_process_removes_meanwhile_are_no_fault(
    lake: LakeFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = "works/year=2024/part-GONE.parquet"
    monkeypatch.setattr(type(lake), "parts", lambda *_: [gone])
    assert LakeWriter(lake).drifted() == []
    lake.remove(gone)
