"""Sinks keep every record whole, whoever writes at the same time and whatever fails."""

from __future__ import annotations

import csv
import io
import json
import logging
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from docstokg_assets.reporting.sinks import AttemptSink, ConsoleSink, CsvSink, JsonlSink, SinkSet
from resources.catalog.rows import Entry
from resources.records import AttemptRecord
from resources.tables import ATTEMPTS, Into

Make = Callable[..., Any]


def write_from_threads(sink: AttemptSink, make_attempt: Make, threads: int = 16, each: int = 1000) -> None:
    def write(thread: int) -> None:
        for n in range(each):
            sink.log_attempt(make_attempt(worker_id=f"w{thread}", seq=n))

    writers = [threading.Thread(target=write, args=(thread,)) for thread in range(threads)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()


@pytest.mark.requirement("TEL-3")
def test_sixteen_threads_write_sixteen_thousand_whole_json_lines(tmp_path: Path, make_attempt: Make) -> None:
    with JsonlSink(tmp_path / "manifest.jsonl", config_hash="h") as sink:
        write_from_threads(sink, make_attempt)
    rows = [json.loads(line) for line in (tmp_path / "manifest.jsonl").read_text().splitlines()]
    assert len(rows) == 16_000
    assert len({(row["worker_id"], row["seq"]) for row in rows}) == 16_000


@pytest.mark.requirement("TEL-3")
def test_sixteen_threads_write_sixteen_thousand_whole_csv_rows(tmp_path: Path, make_attempt: Make) -> None:
    with CsvSink(tmp_path / "attempts.csv") as sink:
        write_from_threads(sink, make_attempt)
    with (tmp_path / "attempts.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    assert tuple(header) == ATTEMPTS.names_in(Into.CSV)
    assert len(rows) == 16_000 and {len(row) for row in rows} == {len(ATTEMPTS.names_in(Into.CSV))}


@pytest.mark.requirement("TEL-2")
@pytest.mark.parametrize("torn", [b'{"run_id": "run-1", "sta', b"x" * 200_000])
def test_a_torn_last_line_is_dropped_on_open(tmp_path: Path, make_attempt: Make, torn: bytes) -> None:
    path = tmp_path / "manifest.jsonl"
    for left_behind in (torn, b""):
        with JsonlSink(path, config_hash="h") as sink:
            sink.log_attempt(make_attempt())
        path.write_bytes(path.read_bytes() + left_behind)
    assert [json.loads(line)["doc_id"] for line in path.read_text().splitlines()] == ["openalex:W12345"] * 2


def test_a_file_that_is_only_a_torn_line_begins_anew(tmp_path: Path, make_attempt: Make) -> None:
    path = tmp_path / "attempts.csv"
    path.write_bytes(b"ts,run_id,res")
    with CsvSink(path) as sink:
        sink.log_attempt(make_attempt())
    assert len(path.read_text().splitlines()) == 2


@pytest.mark.requirement("TEL-2")
@pytest.mark.parametrize("cell", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_a_formula_is_disarmed_in_csv_and_raw_in_jsonl(tmp_path: Path, make_attempt: Make, cell: str) -> None:
    rec = make_attempt(content_type=cell)
    with CsvSink(tmp_path / "a.csv") as sheet, JsonlSink(tmp_path / "a.jsonl", config_hash="h") as lines:
        sheet.log_attempt(rec)
        lines.log_attempt(rec)
    with (tmp_path / "a.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert row["content_type"] == "'" + cell.replace("\r", " ")
    assert json.loads((tmp_path / "a.jsonl").read_text())["mime"] == cell


def test_a_line_break_in_a_cell_does_not_break_the_row(tmp_path: Path, make_attempt: Make) -> None:
    with CsvSink(tmp_path / "a.csv") as sink:
        sink.log_attempt(make_attempt(content_type="a\r\nb"))
    assert len((tmp_path / "a.csv").read_text().splitlines()) == 2


def test_every_line_is_in_the_file_as_soon_as_it_was_logged(tmp_path: Path, make_attempt: Make) -> None:
    path = tmp_path / "manifest.jsonl"
    with JsonlSink(path, config_hash="h") as sink:
        sink.log_attempt(make_attempt())
        assert path.read_text().endswith("}\n")


def test_leaving_a_sink_through_an_error_closes_it(tmp_path: Path, make_attempt: Make) -> None:
    with pytest.raises(KeyError), JsonlSink(tmp_path / "m.jsonl", config_hash="h") as sink:
        raise KeyError
    with pytest.raises(ValueError, match="closed"):
        sink.log_attempt(make_attempt())


def test_the_console_shows_one_line_without_control_characters(
    make_attempt: Make, make_finished: Make, make_entry: Make
) -> None:
    stream = io.StringIO()
    with ConsoleSink(stream) as sink:
        sink.log_attempt(make_attempt(url="https://a.example/\x1b[31m\n"))
        sink.log_outcome(make_entry(make_finished("W1")))
        sink.log_summary({"processed": 3, "saved": 2, "resolvers": {}})
    attempt, outcome, summary = stream.getvalue().splitlines()
    assert "http-200" in attempt and "W12345 arxiv" in attempt and "\x1b" not in attempt
    assert outcome == "W1 → success (ok) PDF/2024__a__W1.pdf"
    assert summary == "summary: processed 3, saved 2"


class Broken:
    name = "broken"

    def log_attempt(self, rec: AttemptRecord, end: Entry | None = None) -> None:
        raise OSError("disk full")

    def log_outcome(self, entry: Entry) -> None:
        raise OSError("disk full")

    def log_summary(self, summary: Mapping[str, Any]) -> None:
        raise OSError("disk full")

    def flush(self) -> None:
        raise OSError("disk full")

    def close(self) -> None:
        raise OSError("disk full")


@pytest.mark.requirement("TEL-2")
def test_a_failing_sink_warns_once_counts_and_stops_nobody(
    tmp_path: Path, make_attempt: Make, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "manifest.jsonl"
    with SinkSet([Broken(), JsonlSink(path, config_hash="h")]) as sinks:
        for n in range(5):
            sinks.log_attempt(make_attempt(seq=n))
        warnings = [r for r in caplog.records if r.levelno == logging.WARNING]
        assert len(warnings) == 1 and warnings[0].exc_info
        assert sinks.dropped == {"broken": 5}
    assert len(path.read_text().splitlines()) == 5
