"""Sinks: where attempts and outcomes are written during a run. JSONL, CSV, console and OTLP; all are thread-safe.

A file sink writes one record per line and hands it to the operating system at once. The OTLP sink sends from its own thread,
behind a bounded queue. A sink that fails is reported once, the records it dropped are counted, and the run continues (`SinkSet`).
The processes of a run append to the same files, whole lines at a time.
"""

from __future__ import annotations

import csv
import fcntl
import io
import logging
import os
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self, TextIO

import orjson

from docstokg_assets.reporting.manifest import attempt_failed, csv_cells, manifest_row, outcome_row, summary_row
from docstokg_assets.reporting.rendering import printable
from resources.catalog.rows import Entry
from resources.otlp import Event, OtlpError, OtlpLogs
from resources.records import AttemptRecord, Classification
from resources.tables import ATTEMPTS, Into

log = logging.getLogger(__name__)

_OTLP_WAITING = 10_000
_OTLP_BATCH = 500
_CSV_COLUMNS = ATTEMPTS.columns_in(Into.CSV)


class RecordsDropped(Exception):
    """Raised by the next call of a sink that sends in the background, with the number of records it could not send."""

    def __init__(self, count: int) -> None:
        super().__init__(f"{count} records could not be written")
        self.count = count


class AttemptSink:
    """Receives the records of a run. Methods that a sink does not override do nothing. A context manager that closes itself."""

    name = ""

    def log_attempt(self, rec: AttemptRecord, end: Entry | None = None) -> None:
        """`end` is the outcome of the attempt's work, if it is already known."""

    def log_outcome(self, entry: Entry) -> None: ...

    def log_summary(self, summary: Mapping[str, Any]) -> None: ...

    def hold(self) -> None:
        """From now on records may be written together, at `release`."""

    def release(self) -> None: ...

    def flush(self) -> None:
        """Return when every record is written or has failed."""

    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_held(path: Path) -> io.FileIO:
    """Open a file for appending, with a lock that keeps `replacing` from replacing it until it is closed."""
    while True:
        file = path.open("ab+", buffering=0)
        with suppress(OSError):  # not every file system has locks
            fcntl.flock(file, fcntl.LOCK_SH)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return file
        file.close()  # the file was replaced while this call waited for the lock


@contextmanager
def _locked(file: io.FileIO) -> Iterator[None]:
    """Keep other processes from writing to the file; not every file system has locks."""
    with suppress(OSError):
        fcntl.lockf(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        with suppress(OSError):
            fcntl.lockf(file, fcntl.LOCK_UN)


class FileHeld(Exception):
    """A living process writes to the file."""


@contextmanager
def replacing(path: Path) -> Iterator[None]:
    """Lock a file so that it can be replaced: `open_held` waits. Raises FileHeld if a process has it open for writing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FileHeld(str(path)) from None
        except OSError:
            pass
        yield


class _LineFile(AttemptSink):
    """Appends whole lines. Opening drops an incomplete last line, left by a crash; a line that does not fit is removed again."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._together: list[bytes] | None = None
        self._file = open_held(path)
        with _locked(self._file):
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
            if self._together is not None:
                self._together.append(line)
            else:
                self._write(line)

    def hold(self) -> None:
        """Keep the lines that are appended from now on, to be written at once by `release`."""
        with self._lock:
            self._together = self._together or []

    def release(self) -> None:
        with self._lock:
            lines, self._together = self._together, None
            try:
                if lines:
                    self._write(b"".join(lines))
            except OSError as error:
                raise RecordsDropped(len(lines or ())) from error

    def _write(self, line: bytes) -> None:
        """Write whole lines or nothing, also beside other processes of the run that append to the same file."""
        with _locked(self._file):
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

    name = "jsonl"

    def __init__(self, path: Path, *, config_hash: str) -> None:
        super().__init__(path)
        self._config_hash = config_hash

    def log_attempt(self, rec: AttemptRecord, end: Entry | None = None) -> None:
        self._log(manifest_row(rec, config_hash=self._config_hash, end=end))

    def log_outcome(self, entry: Entry) -> None:
        self._log(outcome_row(entry))

    def log_summary(self, summary: Mapping[str, Any]) -> None:
        self._log({**summary_row(summary), "config_hash": self._config_hash})

    def _log(self, row: Mapping[str, Any]) -> None:
        self.append(orjson.dumps(row, default=str, option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS))


class CsvSink(_LineFile):
    """`attempts.csv`: the fields of AttemptRecord, one row per attempt; outcomes and the summary are in the JSONL."""

    name = "csv"

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        if path.stat().st_size == 0:
            self.append(_csv_line(ATTEMPTS.names_in(Into.CSV)))

    def log_attempt(self, rec: AttemptRecord, end: Entry | None = None) -> None:
        self.append(_csv_line(csv_cells(_CSV_COLUMNS, rec, rec.extra)))


def _csv_line(cells: Sequence[Any]) -> bytes:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(cells)
    return line.getvalue().encode()


class ConsoleSink(AttemptSink):
    """One readable line per attempt, on standard error by default."""

    name = "console"

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._lock = threading.Lock()

    def log_attempt(self, rec: AttemptRecord, end: Entry | None = None) -> None:
        why = f"{rec.http_status or '':>3} {rec.reason or ''}"
        took = "" if rec.elapsed_ms is None else f"{rec.elapsed_ms} ms"
        whose = f"{rec.work_id or '-'} {rec.resolver or '-'}"
        self._say(f"{rec.ts:%H:%M:%S} {rec.status:<20} {why:<22} {took:>9}  {whose} {rec.url}")

    def log_outcome(self, entry: Entry) -> None:
        where = entry.path or entry.url or ""
        self._say(f"{entry.work_id} → {entry.classification} ({entry.reason}) {where}")

    def log_summary(self, summary: Mapping[str, Any]) -> None:
        totals = ", ".join(f"{name} {value}" for name, value in summary.items() if isinstance(value, int))
        self._say(f"summary: {totals}")

    def _say(self, text: str) -> None:
        line = printable(text) + "\n"
        with self._lock:
            self._stream.write(line)
            self._stream.flush()


class OtlpSink(AttemptSink):
    """Sends manifest rows to an OTLP collector as log records. Never delays a run: records are dropped if the queue is full;
    on closing, the collector gets one timeout for the remaining ones."""

    name = "otlp"

    def __init__(self, logs: OtlpLogs, *, config_hash: str) -> None:
        self._logs, self._config_hash = logs, config_hash
        self._waiting: deque[Event] = deque()
        self._changed = threading.Condition()
        self._unsent = 0  # waiting, or being sent
        self._lost = 0
        self._why: Exception | None = None
        self._closed = False
        threading.Thread(target=self._send, name="otlp", daemon=True).start()

    def log_attempt(self, rec: AttemptRecord, end: Entry | None = None) -> None:
        row = manifest_row(rec, config_hash=self._config_hash, end=end)
        said = f"{rec.verb} {rec.url}: {rec.status}" + (f" ({rec.reason})" if rec.reason else "")
        self._put(_event(row, rec.ts.timestamp(), said, warns=attempt_failed(row)))

    def log_outcome(self, entry: Entry) -> None:
        said = f"{entry.work_id}: {entry.classification} ({entry.reason})"
        warns = entry.classification is Classification.ERROR
        self._put(_event(outcome_row(entry), entry.finished_at, said, warns=warns))

    def log_summary(self, summary: Mapping[str, Any]) -> None:
        row = {**summary_row(summary), "config_hash": self._config_hash}
        self._put(_event(row, time.time(), "summary of the run", warns=False))

    def flush(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._unsent == 0, self._logs.timeout_s)
        self._report()

    def close(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._unsent == 0, self._logs.timeout_s)
            self._closed = True
            if self._unsent:
                self._lose(self._unsent, OtlpError("the collector was too slow for the last records"))
                self._unsent = 0
            self._changed.notify_all()
        self._logs.close()
        self._report()

    def _put(self, event: Event) -> None:
        with self._changed:
            if len(self._waiting) < _OTLP_WAITING:
                self._waiting.append(event)
                self._unsent += 1
                self._changed.notify_all()
            else:
                self._lose(1, OtlpError("the collector takes records more slowly than they are made"))
        self._report()

    def _send(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if self._closed:
                    return
                batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), _OTLP_BATCH))]
            error: Exception | None = None
            try:
                self._logs.send(batch)
            except Exception as failure:
                error = failure
            with self._changed:
                if self._closed:  # the batch was counted as lost
                    return
                if error is not None:
                    self._lose(len(batch), error)
                self._unsent -= len(batch)
                self._changed.notify_all()

    def _lose(self, count: int, why: Exception) -> None:
        self._lost, self._why = self._lost + count, why

    def _report(self) -> None:
        with self._changed:
            lost, why, self._lost = self._lost, self._why, 0
        if lost:
            raise RecordsDropped(lost) from why


def _event(row: Mapping[str, Any], at: float, said: str, *, warns: bool) -> Event:
    attributes = {name: _attribute(value) for name, value in row.items() if value is not None}
    return Event(f"contentdownload.{row['record_type']}", round(at * 1e9), said, attributes, warns)


def _attribute(value: Any) -> str | int | float | list[str]:
    if isinstance(value, list):
        return [str(item) for item in value]
    if isinstance(value, Mapping):
        return orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
    return value if isinstance(value, bool | int | float) else str(value)


class SinkSet(AttemptSink):
    """All sinks of a run as one. A failing sink never stops the run: it warns once, and `dropped` counts its lost records."""

    def __init__(self, sinks: Sequence[AttemptSink]) -> None:
        self._sinks = tuple(sinks)
        self._lock = threading.Lock()
        self.dropped: Counter[str] = Counter()

    def log_attempt(self, rec: AttemptRecord, end: Entry | None = None) -> None:
        self._each(lambda sink: sink.log_attempt(rec, end))

    def log_outcome(self, entry: Entry) -> None:
        self._each(lambda sink: sink.log_outcome(entry))

    def log_summary(self, summary: Mapping[str, Any]) -> None:
        self._each(lambda sink: sink.log_summary(summary))

    @contextmanager
    def together(self) -> Iterator[None]:
        """Write what is logged inside with one call of the system for each file."""
        self._each(lambda sink: sink.hold())
        try:
            yield
        finally:
            self._each(lambda sink: sink.release())

    def flush(self) -> None:
        self._each(lambda sink: sink.flush())

    def close(self) -> None:
        self._each(lambda sink: sink.close())
        for name, count in self.dropped.items():
            log.warning("The sink %s dropped %d records; the catalog has them all.", name, count)

    def _each(self, act: Callable[[AttemptSink], None]) -> None:
        for sink in self._sinks:
            try:
                act(sink)
            except RecordsDropped as dropped:
                self._count(sink.name, dropped.count)
            except Exception:
                self._count(sink.name, 1)

    def _count(self, name: str, lost: int) -> None:
        with self._lock:
            first = name not in self.dropped
            self.dropped[name] += lost
        if first:
            log.warning("The sink %s failed; the run goes on, further failures are only counted.", name, exc_info=True)
