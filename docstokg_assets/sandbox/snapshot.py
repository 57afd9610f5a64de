"""Write the universe as an OpenAlex snapshot: `updated_date` folders of JSON lines or Parquet, the manifest last."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

from . import records
from .universe import Universe, Work

Format = Literal["jsonl", "parquet"]


def write_snapshot(
    root: Path,
    universe: Universe,
    years: Iterable[int],
    format: Format = "jsonl",
    per_part: int = 50_000,
    deleted: Mapping[str, str] | None = None,
) -> Path:
    """Write `<root>/data/<format>/works` and return it. `deleted` maps works to the day of their deletion: they are listed as
    deleted instead."""
    folder, gone = root / "data" / format / "works", deleted or {}
    dated = (
        (f"{records.updated(work):%Y-%m-%d}", year, work.index)
        for year in years
        for work in universe.works(year)
        if (format == "jsonl" or work.strange != "non_string")  # Parquet has types
        and work.id not in gone
    )
    files: list[dict[str, Any]] = []
    for day, of_day in groupby(sorted(dated), key=lambda row: row[0]):
        works = (universe.work(year, index) for _, year, index in of_day)
        for number, part in enumerate(_portions(works, per_part)):
            name = f"updated_date={day}/part_{number:04d}.{'gz' if format == 'jsonl' else 'parquet'}"
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(path, [records.openalex(work, universe.scenario(work)) for work in part], format)
            size = {"content_length": path.stat().st_size, "record_count": len(part)}
            files.append({"url": f"s3://openalex/data/{format}/works/{name}", "meta": size})
    manifest = {
        "date": max(file["url"].split("updated_date=")[1][:10] for file in files),
        "format": format, "entity": "works", "record_count": sum(file["meta"]["record_count"] for file in files),
        "content_length": sum(file["meta"]["content_length"] for file in files), "files": files,
    }  # fmt: skip
    lines = "".join(f"https://openalex.org/{work},{day}\n" for work, day in gone.items())
    (folder / "deleted_ids.csv").write_text(f"work_id,deleted_date\n{lines}")
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def _portions(works: Iterator[Work], size: int) -> Iterator[list[Work]]:
    portion: list[Work] = []
    for work in works:
        portion.append(work)
        if len(portion) == size:
            yield portion
            portion = []
    if portion:
        yield portion


def _write(path: Path, rows: list[dict[str, Any]], format: Format) -> None:
    if format == "jsonl":
        lines = "".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in rows)
        path.write_bytes(gzip.compress(lines.encode(errors="replace"), 1))
        return
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.Table.from_pylist([{k: v for k, v in row.items() if k in _COLUMNS} for row in rows]), path)


_COLUMNS = frozenset({
    "id", "doi", "ids", "title", "display_name", "publication_year", "publication_date", "type", "language", "open_access",
    "best_oa_location", "primary_location", "locations", "updated_date", "topics", "indexed_in", "authorships",
    "has_content",
})  # fmt: skip
