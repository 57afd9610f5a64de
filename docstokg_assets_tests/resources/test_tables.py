"""A column is declared in one place: one line in a copy of the declaration is seen in every export."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import resources.tables

PROJECT = Path(__file__).resolve().parents[2]
NEW = 'Column("pages", INT, CATALOG | LAKE | MANIFEST | CSV | FILES, "the number of pages"),'
SCRIPT = """
import json, sys, types
from pathlib import Path
declaration, root = types.ModuleType("resources.tables"), Path(sys.argv[1])
sys.modules["resources.tables"] = declaration
exec(compile((root / "tables.py").read_text(), "tables.py", "exec"), declaration.__dict__)

from docstokg_assets.defs.metadata import column_metadata
from docstokg_assets.lake.views import open_lake
from docstokg_assets.lake.writer import SCHEMAS, LakeWriter, export_manifest
from docstokg_assets.reporting.manifest import outcome_row, write_last_csv
from docstokg_assets_tests.support.telemetry import finished, record
from resources.catalog.catalog import Catalog
from resources.catalog.schema import catalog_entries
from resources.lake.files import LakeFolder

lake = LakeFolder(root / "lake")
with Catalog.open(root / "catalog.sqlite3") as catalog:
    catalog.start_run("run-1", "pull", "hash", {})
    record(catalog, attempts=[], works=[finished("W1", meta={"pages": 12}), finished("W2")])
    export_manifest(catalog, LakeWriter(lake))
    write_last_csv(root / "last.csv", catalog.entries())
    stored = catalog.entry_columns_after(0, 10)["pages"]
    lines = [outcome_row(entry).get("pages") for entry in catalog.entries()]
with open_lake(lake) as con:
    views = [con.execute(f"SELECT pages FROM {v} ORDER BY work_id").fetchall() for v in ("outcomes", "artifacts")]
shown = column_metadata("manifest_parquet")["dagster/column_schema"].columns
print(json.dumps({
    "sql": str(catalog_entries.c.pages.type),
    "arrow": str(SCHEMAS["outcomes"].field("pages").type),
    "ui": [c.description for c in shown if c.name == "outcomes.pages"],
    "catalog": stored, "manifest": lines, "views": views,
    "csv": [line.rsplit(",", 1)[1] for line in (root / "last.csv").read_text().splitlines()],
}))
"""


@pytest.mark.requirement("TEL-6")
def test_a_column_of_the_outcomes_is_added_in_one_place(tmp_path: Path) -> None:
    source = Path(resources.tables.__file__).read_text()
    head, last, tail = source.partition('        Column("flags"')
    assert last
    (tmp_path / "tables.py").write_text(f"{head}        {NEW}\n{last}{tail}")
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)], cwd=PROJECT, capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout.splitlines()[-1]) == {
        "sql": "INTEGER",
        "arrow": "int64",
        "ui": ["the number of pages"],
        "catalog": [12, None],
        "manifest": [12, None],
        "views": [[[12], [None]], [[12], [None]]],
        "csv": ["pages", "12", ""],
    }
