"""Where attempts and outcomes are written while a run goes on: JSONL, CSV, console, each for many threads.

A sink writes one record a line and hands it to the operating system at once. Sinks observe: one that fails is reported
once, what it dropped is counted, and the run goes on (`SinkSet`). A file belongs to one process.
"""

from __future__ import annotations

import csv
import io
import logging
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Protocol, Self, TextIO

import orjson

from docstokg_assets.telemetry.files import csv_cell, iso, printable
from docstokg_assets.telemetry.manifest import manifest_row, outcome_row, summary_row
from resources.records import AttemptRecord

log = logging.getLogger(__name__)

CSV_COLUMNS = tuple(field.name for field in fields(AttemptRecord))


class AttemptSink(Protocol):
    def log_attempt(self, rec: AttemptRecord) -> None: ...

    def log_outcome(self, row: Mapping[str, Any]) -> None:
        """`row` is the work's row of the catalog (`manifest.as_row(entry)`)."""

    def log_summary(self, summary: Mapping[str, Any]) -> None: ...

    def close(self) -> None: ...


class _Closing:
    """Makes a sink a context manager: leaving it closes it, also after an error."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _LineFile(_Closing):
    """Appends whole lines. A torn last line, left by a crash, is dropped on open; what does not fit is taken back."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._file = path.open("ab+", buffering=0)
        self._file.truncate(self._end_of_whole_lines())

    def _end_of_whole_lines(self) -> int:
        end = self._file.seek(0, os.SEEK_END)
        while end > 0:
            start = max(0, end - 65536)
            self._file.seek(start)
            newline = self._file.read(end - start).rfind(b"\n")
            if newline >= 0:
                return start + newline + 1
            end = start
        return 0

    def append(self, line: bytes) -> None:
        with self._lock:
            start = self._file.seek(0, os.SEEK_END)
            try:
                if self._file.write(line) != len(line):
                    raise OSError(f"{self._file.name}: only a part of a line could be written")
            except OSError:
                self._file.truncate(start)
                raise

    def close(self) -> None:
        with self._lock:
            self._file.close()


class JsonlSink(_LineFile):
    """`manifest.jsonl`: attempts, outcomes and the summary as manifest rows."""

    def __init__(self, path: Path, *, config_hash: str) -> None:
        super().__init__(path)
        self._config_hash = config_hash

    def log_attempt(self, rec: AttemptRecord) -> None:
        self._log(manifest_row(rec, config_hash=self._config_hash))

    def log_outcome(self, row: Mapping[str, Any]) -> None:
        self._log(outcome_row(row))

    def log_summary(self, summary: Mapping[str, Any]) -> None:
        self._log({**summary_row(summary), "config_hash": self._config_hash})

    def _log(self, row: Mapping[str, Any]) -> None:
        self.append(orjson.dumps(row, default=str, option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS))


class CsvSink(_LineFile):
    """`attempts.csv`: the fields of AttemptRecord, one attempt a row; outcomes and the summary are in the JSONL."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        if path.stat().st_size == 0:
            self.append(_csv_line(CSV_COLUMNS))

    def log_attempt(self, rec: AttemptRecord) -> None:
        cells = {name: getattr(rec, name) for name in CSV_COLUMNS}
        cells["ts"] = iso(rec.ts)
        cells["extra"] = orjson.dumps(rec.extra, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
        self.append(_csv_line(tuple(cells.values())))

    def log_outcome(self, row: Mapping[str, Any]) -> None:
        return

    def log_summary(self, summary: Mapping[str, Any]) -> None:
        return


def _csv_line(cells: Sequence[Any]) -> bytes:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow([csv_cell(cell) for cell in cells])
    return line.getvalue().encode()


class ConsoleSink(_Closing):
    """One readable line an attempt, for people who watch."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._lock = threading.Lock()

    def log_attempt(self, rec: AttemptRecord) -> None:
        why = f"{rec.http_status or '':>3} {rec.reason or ''}"
        took = "" if rec.elapsed_ms is None else f"{rec.elapsed_ms} ms"
        whose = f"{rec.work_id or '-'} {rec.resolver or '-'}"
        self._say(f"{rec.ts:%H:%M:%S} {rec.status:<20} {why:<22} {took:>9}  {whose} {rec.url}")

    def log_outcome(self, row: Mapping[str, Any]) -> None:
        where = row.get("path") or row.get("url") or ""
        self._say(f"{row['work_id']} → {row['classification']} ({row['reason']}) {where}")

    def log_summary(self, summary: Mapping[str, Any]) -> None:
        totals = ", ".join(f"{name} {value}" for name, value in summary.items() if isinstance(value, int))
        self._say(f"summary: {totals}")

    def _say(self, text: str) -> None:
        line = printable(text) + "\n"
        with self._lock:
            self._stream.write(line)
            self._stream.flush()

    def close(self) -> None:
        """The stream is not ours to close."""


class SinkSet(_Closing):
    """All sinks of a run as one. A failing one never stops the run: it warns once, and `dropped` counts its losses."""

    def __init__(self, sinks: Sequence[AttemptSink]) -> None:
        self._sinks = tuple(sinks)
        self._lock = threading.Lock()
        self.dropped: Counter[str] = Counter()

    def log_attempt(self, rec: AttemptRecord) -> None:
        self._each(lambda sink: sink.log_attempt(rec))

    def log_outcome(self, row: Mapping[str, Any]) -> None:
        self._each(lambda sink: sink.log_outcome(row))

    def log_summary(self, summary: Mapping[str, Any]) -> None:
        self._each(lambda sink: sink.log_summary(summary))

    def close(self) -> None:
        self._each(lambda sink: sink.close())
        for name, count in self.dropped.items():
            log.warning("%s dropped %d records; the catalog has them all.", name, count)

    def _each(self, act: Callable[[AttemptSink], None]) -> None:
        for sink in self._sinks:
            try:
                act(sink)
            except Exception:
                self._count(type(sink).__name__)

    def _count(self, name: str) -> None:
        with self._lock:
            self.dropped[name] += 1
            first = self.dropped[name] == 1
        if first:
            log.warning("%s failed; the run goes on, further failures are only counted.", name, exc_info=True)
