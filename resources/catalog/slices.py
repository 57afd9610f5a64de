"""The slice of one run as a catalog file of its own (`manifest.sqlite3`)."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from sqlalchemy import Connection, select

from resources.catalog.database import create_tables
from resources.catalog.engines import sqlite_engine
from resources.catalog.errors import translate_catalog_errors
from resources.catalog.schema import artifacts, attempts, catalog_entries, run_works, runs

_TABLES = (runs, run_works, attempts, artifacts, catalog_entries)  # besides meta
_PAGE = 1_000


def write_slice(source: Connection, path: Path, run_id: str) -> None:
    """Copy what belongs to one run into a new file, which appears only when it is whole."""
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
    for table in _TABLES:
        marks = ", ".join("?" * len(table.columns))
        rows = source.execute(select(table).where(table.c.run_id == run_id), execution_options={"yield_per": _PAGE})
        for page in rows.partitions():
            target.exec_driver_sql(f"INSERT INTO {table.name} VALUES ({marks})", [tuple(row) for row in page])


def _copy_inside_sqlite(source: str, target: Path, run_id: str) -> None:
    """The same without taking every row through Python, which makes the end of a large run some ten times quicker."""
    with closing(sqlite3.connect(target, isolation_level=None)) as copy:
        copy.execute("PRAGMA synchronous = OFF")
        copy.execute("ATTACH DATABASE ? AS whole", (source,))
        copy.execute("BEGIN")
        for table in _TABLES:
            columns = ", ".join(column.name for column in table.columns)
            rows = f"SELECT {columns} FROM whole.{table.name} WHERE run_id = ?"
            copy.execute(f"INSERT INTO main.{table.name} ({columns}) {rows}", (run_id,))
        copy.execute("COMMIT")
