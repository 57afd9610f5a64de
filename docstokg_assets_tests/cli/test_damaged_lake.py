"""A damaged part of the lake is told with its file and the remedy, and `telemetry rebuild` brings back what it held."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pyarrow.parquet as pq
import pytest

from docstokg_assets.config import ContentDownloadConfig, resolvers_of
from docstokg_assets.defs.steps import translate_step_errors
from docstokg_assets.domain.plans import plan_columns
from docstokg_assets.domain.works import Location, Work
from docstokg_assets.lake.views import export_new_rows, open_lake
from docstokg_assets.lake.writer import LakeWriter, work_columns
from docstokg_assets.reporting.metrics import compute_slis, metric_rows
from docstokg_assets.reporting.run_files import MANIFEST
from docstokg_assets.reporting.sinks import JsonlSink
from docstokg_assets.resolvers.registry import make_plan
from docstokg_assets.runs.repair import repair_lake
from docstokg_assets_tests.support.telemetry import START
from resources.catalog.catalog import Catalog
from resources.catalog.rows import NewItem
from resources.lake.bucket import LakeBucket
from resources.lake.files import LakeError, LakeFiles, LakeFolder
from resources.scope import WorkScope

if TYPE_CHECKING:
    from docstokg_assets_tests.support.program import Ended

Content = Callable[..., "Ended"]
TABLES = ("works", "plans", "attempts", "outcomes", "metrics")
WORKS = [
    Work(f"W{n}", title=f"Work {n}", year=2024, locations=(Location(f"https://a.org/{n}", f"https://a.org/{n}.pdf"),))
    for n in range(200, 230)
]
RESOLVERS = resolvers_of(ContentDownloadConfig())


def fill(catalog: Catalog, lake: LakeFiles, make_history: Callable[..., Any]) -> None:
    """Every table has a part of 2024."""
    make_history(catalog, works=12)
    plans = [(work, make_plan(work, RESOLVERS)) for work in WORKS]
    catalog.enqueue([NewItem(w.work_id, w.year, 0, w.to_json(), plan.hash) for w, plan in plans])
    writer = LakeWriter(lake)
    writer.append_columns("works", work_columns(WORKS, START))
    writer.append_columns("plans", [plan_columns(plans, START)])
    export_new_rows(catalog, lake)
    with open_lake(lake) as con:
        writer.append("metrics", metric_rows(compute_slis(con, WorkScope(2024)), START))


@pytest.fixture
def root(tmp_path: Path, make_history: Callable[..., Any]) -> Iterator[Path]:
    with Catalog.open(tmp_path / "data/catalog.sqlite3") as catalog:
        fill(catalog, LakeFolder(tmp_path / "data/lake"), make_history)
    yield tmp_path / "data"


def part_of(root: Path, table: str) -> Path:
    (part,) = (root / "lake" / table / "year=2024").glob("part-*.parquet")
    return part


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut in half": lambda whole: whole[: len(whole) // 2],
    "empty": lambda whole: b"",
    "rubbish": lambda whole: os.urandom(len(whole)),
    "rubbish before its end": lambda whole: whole[:-200] + os.urandom(192) + whole[-8:],
}


def shown(root: Path, table: str) -> list[str]:
    with open_lake(LakeFolder(root / "lake")) as con:
        names = [name for name in con.table(table).columns if name not in ("fetched_at", "planned_at")]
        return sorted(map(str, con.execute(f"SELECT {', '.join(names)} FROM {table}").fetchall()))


@pytest.mark.requirement("TRU-8")
@pytest.mark.parametrize("damage", sorted(DAMAGES))
def test_fault_65_a_damaged_part_is_named_with_the_remedy_and_rebuild_repairs_it(
    root: Path, content: Content, damage: str
) -> None:
    before = {table: shown(root, table) for table in TABLES}
    parts = [part_of(root, table) for table in TABLES]
    for part in parts:
        part.write_bytes(DAMAGES[damage](part.read_bytes()))
    for command in (("report",), ("query", "SELECT count(work_id) FROM works")):
        ended = content(*command, "--out", str(root))
        assert ended.code == 2 and "`content telemetry rebuild` repairs the lake" in ended.err, ended
        told = ended.err.replace("\n", "").replace(" ", "")
        assert [part for part in parts if f"{part}isdamaged" not in told] == []
    ended = content("telemetry", "rebuild", "--out", str(root))
    assert ended.code == 0 and "metrics of 2024: measurements are lost" in ended.err
    assert {table: shown(root, table) for table in TABLES} == before | {"metrics": []}
    assert len(list((root / "lake").rglob("*.damaged"))) == 3  # of attempts and outcomes the catalog has all
    assert content("report", "--out", str(root)).code == 0


@pytest.mark.requirement("TRU-8")
def test_fault_65_bytes_that_changed_in_the_middle_are_found_by_their_checksum(root: Path, content: Content) -> None:
    part = part_of(root, "works")
    start = pq.read_metadata(part).row_group(0).column(0).data_page_offset
    whole = bytearray(part.read_bytes())
    whole[start + 30] ^= 1
    part.write_bytes(whole)
    ended = content("telemetry", "rebuild", "--out", str(root))
    assert ended.code == 0 and "was damaged (" in ended.err and "came back from the catalog" in ended.err
    assert part.with_name(part.name + ".damaged").exists() and len(shown(root, "works")) == len(WORKS)


@pytest.mark.requirement("TRU-8")
def test_fault_65_a_step_fails_with_the_file_and_no_stack_trace(root: Path) -> None:
    part = part_of(root, "attempts")
    part.write_bytes(b"")
    with pytest.raises(dg.Failure) as failed, translate_step_errors(), open_lake(LakeFolder(root / "lake")) as con:
        compute_slis(con, WorkScope(2024))
    assert str(part) in str(failed.value.description) and "telemetry rebuild" in str(failed.value.description)


@pytest.mark.requirement("TRU-8")
def test_fault_65_a_damaged_object_of_a_bucket_is_repaired_too(
    bucket: Callable[[str], LakeBucket], catalog: Catalog, make_history: Callable[..., Any]
) -> None:
    lake = bucket("here")
    fill(catalog, lake, make_history)
    (part,) = lake.parts("works", 2024)
    with lake.new_part(part) as path:
        path.write_bytes(b"PAR1 and no more")
    with pytest.raises(LakeError, match=rf"{part} is damaged"), open_lake(lake) as con:
        con.execute("SELECT * FROM works").fetchall()
    told = list(repair_lake(catalog, LakeWriter(lake), RESOLVERS, START))
    assert len(told) == 2 and f"{part}.damaged" in told[0]
    with open_lake(lake) as con:
        assert con.execute("SELECT count(*) FROM works").fetchall() == [(len(WORKS),)]


@pytest.mark.requirement("TRU-8")
def test_fault_65_a_damaged_catalog_is_told_and_left_as_it_is(root: Path, content: Content) -> None:
    path = root / "catalog.sqlite3"
    whole = path.read_bytes()
    for spoilt in (whole[: len(whole) // 2], os.urandom(len(whole))):
        path.write_bytes(spoilt)
        for file in root.glob("catalog.sqlite3-*"):
            file.unlink()
        for command in (("report",), ("telemetry", "rebuild")):
            ended = content(*command, "--out", str(root))
            assert ended.code == 2 and str(path) in ended.err.replace("\n", ""), ended.err
            assert "Restore it from a backup" in ended.err or "move the file away" in ended.err


@pytest.mark.requirement("TRU-8")
def test_the_manifest_of_a_living_run_is_not_replaced(root: Path, content: Content) -> None:
    folder = root / "run-1"
    with JsonlSink(folder / MANIFEST, config_hash="c") as sink:  # a run that lists works, and holds none
        sink.append(b"a line of the living\n")
        ended = content("telemetry", "rebuild", "--out", str(root), "--run", "run-1")
        assert ended.code == 0 and "run-1: may still be running, so its files are left unchanged" in ended.err
        sink.append(b"another\n")
        assert (folder / MANIFEST).read_bytes() == b"a line of the living\nanother\n"
    ended = content("telemetry", "rebuild", "--out", str(root), "--run", "run-1")
    assert ended.code == 0 and b"living" not in (folder / MANIFEST).read_bytes()
