"""The files of a run's folder about its input: `inputs.parquet`, one row per entry, and `set-aside.csv`.

`inputs.parquet` joins a user's list with the results: `work_id` is the key of `outcomes` and of the catalog. A line that names
several works has one row for each; an entry that was set aside has its `reason` and no work.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from docstokg_assets.reporting.rendering import csv_cell
from docstokg_assets.sources import SetAside
from docstokg_assets.sources.inputs import Input, key_of
from resources.whole_file import whole_file

INPUTS, SET_ASIDE = "inputs.parquet", "set-aside.csv"
Found = Mapping[tuple[str, str], str]
_BATCH = 100_000


def write_inputs(folder: Path, inputs: Sequence[Input], work_ids: Found, left_out: Found) -> None:
    """Write the table of entries; a query has none. `work_ids`, `left_out`: the work, or the reason, by identifier."""
    if not inputs:
        return
    import pyarrow as pa
    import pyarrow.parquet as pq

    texts = ("file", "text", "key", "kind", "identifier", "work_id", "reason", "title")
    schema = pa.schema([*((name, pa.string()) for name in texts), ("line", pa.int64()), ("year", pa.int64())])
    folder.mkdir(parents=True, exist_ok=True)
    with whole_file(folder / INPUTS) as temp, pq.ParquetWriter(temp, schema, compression="zstd") as writer:
        for start in range(0, len(inputs), _BATCH):
            rows = [_row(one, work_ids, left_out) for one in inputs[start : start + _BATCH]]
            writer.write_table(pa.Table.from_pylist(rows, schema))


def _row(one: Input, work_ids: Found, left_out: Found) -> dict[str, str | int | None]:
    row: dict[str, str | int | None] = {
        name: getattr(one, name) for name in ("file", "line", "text", "key", "title", "year", "reason")
    }
    if one.identifier is not None:
        key = key_of(one.identifier)
        row |= {"kind": one.identifier.kind, "identifier": one.identifier.value, "work_id": work_ids.get(key)}
        row["reason"] = left_out.get(key)
    elif one.work is not None:
        row |= {"kind": "url", "identifier": one.work.urls[0], "work_id": one.work.work_id}
    return row


def write_set_aside(folder: Path, set_aside: Iterable[SetAside]) -> None:
    """Write the entries that cannot become works: line, text, reason. No file where there are none."""
    rows = list(set_aside)
    if not rows:
        return
    folder.mkdir(parents=True, exist_ok=True)
    with whole_file(folder / SET_ASIDE) as temp, temp.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("line", "text", "reason"))
        writer.writerows((one.line or one.where, csv_cell(one.text), csv_cell(one.reason)) for one in rows)
