"""One view of the lake as one file for other tools: Parquet, CSV or JSON lines. Reads the views; the lake stays as it is."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from enum import StrEnum
from typing import Any, BinaryIO

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from docstokg_assets.lake.views import open_lake
from docstokg_assets.lake.writer import BATCH_ROWS
from docstokg_assets.reporting.rendering import csv_cell, iso
from resources.lake.files import LakeFiles
from resources.scope import WorkScope


class ExportFormat(StrEnum):
    PARQUET = "parquet"
    CSV = "csv"
    JSONL = "jsonl"


class ExportTable(StrEnum):
    ATTEMPTS = "attempts"
    OUTCOMES = "outcomes"
    ARTIFACTS = "artifacts"
    WORKS = "works"
    PLANS = "plans"
    METRICS = "metrics"

    @property
    def of_runs(self) -> bool:
        return self in (ExportTable.ATTEMPTS, ExportTable.OUTCOMES, ExportTable.ARTIFACTS)


def export_table(lake: LakeFiles, table: ExportTable, scope: WorkScope, format: ExportFormat, file: BinaryIO) -> int:
    """How many rows were written. A batch at a time is held in memory."""
    rows = 0
    with _batches(lake, table, scope) as batches:
        if format is ExportFormat.PARQUET:
            with pq.ParquetWriter(file, batches.schema, compression="zstd") as writer:
                for batch in batches:
                    writer.write_batch(batch)
                    rows += batch.num_rows
            return rows
        if format is ExportFormat.CSV:
            file.write(_csv([batches.schema.names]))
        for batch in batches:
            records = batch.to_pylist()
            if format is ExportFormat.CSV:
                file.write(_csv([[csv_cell(_cell(value)) for value in record.values()] for record in records]))
            else:
                file.writelines(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE) for record in records)
            rows += len(records)
    return rows


@contextmanager
def _batches(lake: LakeFiles, table: ExportTable, scope: WorkScope) -> Iterator[pa.RecordBatchReader]:
    with open_lake(lake) as con:
        sql = f"SELECT * FROM {table} WHERE {scope.condition}"
        yield con.sql(sql, params=scope.parameters).to_arrow_reader(BATCH_ROWS)


def _csv(rows: list[list[Any]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def _cell(value: Any) -> Any:
    if isinstance(value, datetime):
        return iso(value)
    return orjson.dumps(value).decode() if isinstance(value, list | dict) else value
