"""The lake as it grows: exporters take turns, small parts are joined, a year is read without the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from docstokg_assets.lake import attempts as lake_attempts
from docstokg_assets.lake import writer as lake_module
from docstokg_assets.lake.views import open_lake
from docstokg_assets.lake.writer import LakeWriter, export_manifest
from docstokg_assets.reporting.metrics import compute_slis, run_summary
from docstokg_assets_tests.support.servers import LossyProxy
from resources.catalog.catalog import Catalog
from resources.catalog.database import Location
from resources.catalog.rows import Batch
from resources.lake.bucket import LakeBucket
from resources.lake.files import LakeError, LakeFiles, LakeFolder
from resources.scope import WorkScope


@pytest.fixture(params=["sqlite", "postgres"])
def location(request: pytest.FixtureRequest, data_root: Path) -> Location:
    if request.param == "sqlite":
        return data_root / "catalog.sqlite3"
    found: Location = request.getfixturevalue("postgres_catalog")
    return found


@pytest.fixture
def filled(location: Location, make_history: Callable[..., Any]) -> Iterator[Catalog]:
    with Catalog.open(location) as catalog:
        make_history(catalog, works=40)
        yield catalog


def raw_rows(lake: LakeFiles, table: str) -> int:
    return sum(len(batch) for part in lake.parts(table) for batch in lake.batches(part))


@pytest.mark.requirement("TRU-8")
def test_those_who_export_at_once_write_each_row_once(filled: Catalog, location: Location, folder: LakeFolder) -> None:
    with Catalog.open(location) as first, Catalog.open(location) as second, ThreadPoolExecutor(2) as pool:
        with filled.export_turn():  # both stand in line
            exports = [pool.submit(export_manifest, each, LakeWriter(folder)) for each in (first, second)]
        done = [export.result(timeout=60) for export in exports]
    counts = sorted((each.attempts, each.outcomes) for each in done)
    total = len(filled.attempts_after(0, 10_000))
    assert counts == [(0, 0), (total, 40)]
    assert (raw_rows(folder, "attempts"), raw_rows(folder, "outcomes")) == (total, 40)


@pytest.mark.requirement("TRU-8")
def test_an_exporter_that_lost_its_turn_takes_its_parts_back(
    filled: Catalog, location: Location, folder: LakeFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection died, another one exported, and then it comes to the end."""
    real, turns = filled.attempt_columns_after, [0]

    def meanwhile(position: int, limit: int) -> Any:
        turns[0] += 1
        if turns[0] == 1:
            with Catalog.open(location) as other:
                positions = [other.export_position(name) for name in ("lake.attempts", "lake.outcomes")]
                lake_module.export_rows(other, LakeWriter(folder), *positions)
        return real(position, limit)

    monkeypatch.setattr(filled, "attempt_columns_after", meanwhile)
    late = lake_module.export_rows(filled, LakeWriter(folder), 0, 0)
    assert (late.attempts, late.parts) == (0, ())
    assert raw_rows(folder, "outcomes") == 40


@pytest.mark.requirement("TRU-8")
def test_small_parts_are_joined_by_themselves_and_go_when_nobody_reads_them(
    lake: LakeFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake_module, "CROWDED", 6)
    monkeypatch.setattr(lake_module, "_LOOK_EVERY", 2)
    writer, keys = LakeWriter(lake), [{"run_id": "r", "worker_id": "w", "seq": n, "year": 2024} for n in range(24)]
    for key in keys[:8]:
        writer.append("attempts", [key])
    parts = lake.parts("attempts", 2024)
    assert len(parts) == 9, "a reader that began before still finds its parts"
    with open_lake(lake) as con:
        assert con.execute("SELECT count(*), sum(seq) FROM attempts").fetchall() == [(8, 28)]
    monkeypatch.setattr(lake_module, "_READING_S", -1.0)
    for key in keys[8:]:
        writer.append("attempts", [key])
    assert len(lake.parts("attempts", 2024)) <= 8 and len(lake.parts("attempts")) <= 8
    with open_lake(lake) as con:
        assert con.execute("SELECT count(*), sum(seq) FROM attempts").fetchall() == [(24, 276)]


@pytest.mark.requirement("TRU-8")
def test_the_metrics_of_a_year_read_nothing_of_another(
    lake: LakeFiles, catalog: Catalog, make_history: Callable[..., Any]
) -> None:
    make_history(catalog, works=60)
    export_manifest(catalog, LakeWriter(lake))
    scope = WorkScope(2024)
    with open_lake(lake) as con:
        whole = compute_slis(con, scope)
    for table in ("attempts", "outcomes"):
        for part in [part for year in (0, 2023) for part in lake.parts(table, year)]:
            with lake.new_part(part) as path:
                path.write_bytes(b"not what it was")
    with open_lake(lake, years=scope.years) as con:
        alone = compute_slis(con, scope)
        assert run_summary(con, scope)["processed"] > 0
    assert alone == whole
    with pytest.raises(LakeError, match="is damaged"), open_lake(lake) as con:
        compute_slis(con, WorkScope(2023))


@pytest.mark.requirement("TRU-8")
@pytest.mark.parametrize("table", ["attempts", "outcomes", "metrics"])
def test_a_filter_on_the_year_skips_the_folders_of_others(
    folder: LakeFolder, catalog: Catalog, make_history: Callable[..., Any], table: str
) -> None:
    make_history(catalog, works=30)
    export_manifest(catalog, LakeWriter(folder))
    rows = [{"year": y, "scope": f"year {y}", "name": "yield", "value": 1.0} for y in (2023, 2024)]
    LakeWriter(folder).append("metrics", rows)
    with open_lake(folder) as con:
        text = str(con.execute(f"EXPLAIN ANALYZE SELECT count(*) FROM {table} WHERE year = 2024").fetchall()[0][1])
    assert "Total Files Read: 1" in text.replace("\n", " "), text


@pytest.mark.requirement("TRU-8")
def test_a_large_part_is_sent_in_pieces(
    bucket: Callable[[str], LakeBucket], moto: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S3 takes no more than 5 GB in one request."""
    proxy = LossyProxy(moto, lambda method, path: None)
    lake = LakeBucket("papers", f"lakes/{tmp_path.name}-large", proxy.url, None, tmp_path / "spool")
    with lake.new_part("works/year=2024/part-large.parquet") as path:
        path.write_bytes(bytes(70 * 1024 * 1024))
    proxy.close()
    assert sum("uploadId=" in asked and asked.startswith("PUT") for asked in proxy.asked) == 2
    assert lake.size("works/year=2024/part-large.parquet") == 70 * 1024 * 1024


@pytest.mark.requirement("TRU-8")
def test_the_attempts_of_a_work_come_from_the_lake_when_its_year_has_many(
    filled: Catalog, folder: LakeFolder, make_attempt: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = make_attempt(seq=5_000, work_id="W1", year=2024, extra={"also_for": ["W77", "W78"]})
    filled.commit(Batch(attempts=[shared, make_attempt(seq=5_001, work_id="W77", year=2024)]))
    export_manifest(filled, LakeWriter(folder))
    filled.commit(Batch(attempts=[make_attempt(seq=5_002, work_id="W77", year=2024)]))
    wanted = filled.attempts_of("W77", 2024)
    assert [attempt.seq for attempt in wanted] == [5_000, 5_001, 5_002]
    monkeypatch.setattr(lake_attempts, "_MANY_ATTEMPTS", 3)
    assert lake_attempts.attempts_of_work(filled, lambda: folder, "W77", 2024) == wanted
