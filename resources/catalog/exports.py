"""What leaves the catalog: how far exports have come, a lock for one exporter at a time, and the slice of one run as a catalog
file of its own (`manifest.sqlite3`)."""

from __future__ import annotations

import fcntl
import math
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from sqlalchemy import Connection, delete, select, text, tuple_

from resources.catalog.database import (
    Database,
    create_tables,
    insert_missing,
    now_of,
    read_transaction,
    upsert,
    write_transaction,
)
from resources.catalog.engines import sqlite_engine
from resources.catalog.errors import CatalogError, translate_catalog_errors
from resources.catalog.schema import artifacts, attempts, catalog_entries, exports, run_works, runs
from resources.scope import INGEST_YEAR

TURN_S = 600.0
REMOVED, REMOVED_UNTIL = (
    "lake.attempts_removed",
    "lake.attempts_removed_until",
)  # exported and removed: number, epoch seconds
OF_WORKS = attempts.c.year.is_(None) | (attempts.c.year != INGEST_YEAR)  # others are exported with their results
_TURN = 0x6578706F  # the advisory lock for exporting
_SLICED = (runs, run_works, attempts, artifacts, catalog_entries)  # the tables of a slice, besides meta
_PAGE = 1_000


class Exports(Database):
    @read_transaction
    def export_position(self, connection: Connection, name: str) -> int:
        """Up to where the export of that name has come; 0 when it has not begun."""
        return connection.scalar(select(exports.c.position).where(exports.c.name == name)) or 0

    @write_transaction
    def set_export_position(self, connection: Connection, name: str, position: int) -> None:
        moving = upsert(exports, ["position", "updated_at"])
        connection.execute(moving, {"name": name, "position": position, "updated_at": now_of(connection)})

    @write_transaction
    def move_exports(self, connection: Connection, moves: Mapping[str, tuple[int, int]]) -> bool:
        """Move each from one position to another, all or none: none when another exporter has moved one meanwhile."""
        now = now_of(connection)
        new = [{"name": name, "position": 0, "updated_at": now} for name in sorted(moves)]
        connection.execute(insert_missing(exports), new)
        held = connection.execute(select(exports).where(exports.c.name.in_(moves)).with_for_update())
        if any(row.position != moves[row.name][0] for row in held):
            return False
        rows = [{"name": name, "position": after, "updated_at": now} for name, (_, after) in sorted(moves.items())]
        connection.execute(upsert(exports, ["position", "updated_at"]), rows)
        return True

    @write_transaction
    def remove_attempts(self, connection: Connection, up_to: int, until: float) -> int:
        """Remove exported attempts up to a number, the last of which was made at `until`; returns how many."""
        gone = connection.execute(delete(attempts).where(attempts.c.id <= up_to, OF_WORKS)).rowcount
        before = connection.scalar(select(exports.c.position).where(exports.c.name == REMOVED_UNTIL)) or 0
        notes = {REMOVED: up_to, REMOVED_UNTIL: max(before, math.ceil(until))}
        rows = [{"name": name, "position": at, "updated_at": now_of(connection)} for name, at in notes.items()]
        connection.execute(upsert(exports, ["position", "updated_at"]), rows)
        return gone

    def known_attempts(self, keys: Iterable[tuple[str, str, int]]) -> set[tuple[str, str, int]]:
        """Those of these attempts (run, worker, number) that are in the catalog."""
        key = tuple_(attempts.c.run_id, attempts.c.worker_id, attempts.c.seq)
        found = self._rows_by_portions(select(attempts.c.run_id, attempts.c.worker_id, attempts.c.seq), key, keys)
        return {(row["run_id"], row["worker_id"], row["seq"]) for row in found}

    @contextmanager
    def export_turn(self) -> Iterator[None]:
        """Let one exporter run at a time, on all machines; the others wait. The lock ends with the process that has it."""
        if self._in_file:
            with open(f"{self.name}.export", "ab") as file:
                self._lock_file(file.fileno())
                yield
            return
        with self._read() as connection:
            connection.execute(text("SET LOCAL idle_in_transaction_session_timeout = 0"))
            connection.execute(text(f"SET LOCAL lock_timeout = '{TURN_S:.0f}s'"))
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _TURN})
            yield

    def _lock_file(self, descriptor: int) -> None:
        end = time.monotonic() + TURN_S
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > end:
                    busy = f"another process has been exporting {self.name} for {TURN_S:.0f} s."
                    raise CatalogError(f"{busy} End it, then run the same command again.") from None
                time.sleep(0.05)


def write_slice(source: Connection, path: Path, run_id: str) -> None:
    """Copy the rows of one run into a new file, which appears only when it is whole."""
    part = path.with_name(f".part-{path.name}-{os.getpid()}")
    with translate_catalog_errors(str(path)):
        path.parent.mkdir(parents=True, exist_ok=True)
        part.unlink(missing_ok=True)
        target = sqlite_engine(part, shared=False)
        file = source.engine.url.database if source.dialect.name == "sqlite" else None
        try:
            with target.begin() as copy:
                create_tables(copy)
                if file is None:
                    _copy_rows(source, copy, run_id)
            target.dispose()
            if file is not None:
                _copy_inside_sqlite(file, part, run_id)
            with part.open("rb") as written:
                os.fsync(written.fileno())
            part.replace(path)
        finally:
            target.dispose()
            part.unlink(missing_ok=True)


def _copy_rows(source: Connection, target: Connection, run_id: str) -> None:
    for table in _SLICED:
        marks = ", ".join("?" * len(table.columns))
        rows = source.execute(select(table).where(table.c.run_id == run_id), execution_options={"yield_per": _PAGE})
        for page in rows.partitions():
            target.exec_driver_sql(f"INSERT INTO {table.name} VALUES ({marks})", [tuple(row) for row in page])


def _copy_inside_sqlite(source: str, target: Path, run_id: str) -> None:
    """The same without reading every row in Python, which is about ten times faster for a large run."""
    with closing(sqlite3.connect(target, isolation_level=None)) as copy:
        copy.execute("PRAGMA synchronous = OFF")
        copy.execute("ATTACH DATABASE ? AS whole", (source,))
        copy.execute("BEGIN")
        for table in _SLICED:
            columns = ", ".join(column.name for column in table.columns)
            rows = f"SELECT {columns} FROM whole.{table.name} WHERE run_id = ?"
            copy.execute(f"INSERT INTO main.{table.name} ({columns}) {rows}", (run_id,))
        copy.execute("COMMIT")
