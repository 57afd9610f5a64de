"""Attempts that leave the catalog after `storage.keep_attempts_days`, and the parts that are then their only copy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from docstokg_assets.lake.attempts import attempts_of_work
from docstokg_assets.lake.retention import rebuild_manifest, remove_old_attempts, removed_until
from docstokg_assets.lake.views import open_lake
from docstokg_assets.lake.writer import LakeWriter, export_manifest
from resources.catalog.catalog import Catalog
from resources.catalog.database import Location
from resources.lake.files import LakeFolder

DAYS = 30


@pytest.fixture(params=["sqlite", "postgres"])
def location(request: pytest.FixtureRequest, data_root: Path) -> Location:
    if request.param == "sqlite":
        return data_root / "catalog.sqlite3"
    found: Location = request.getfixturevalue("postgres_catalog")
    return found


@pytest.fixture
def old(location: Location, make_history: Callable[..., Any]) -> Iterator[Catalog]:
    """A catalog whose first 60 attempts are 40 days old, and the others one."""
    with Catalog.open(location) as catalog:
        make_history(catalog, works=40)
        with catalog._write() as connection:
            days = "CASE WHEN id <= 60 THEN 40 ELSE 1 END"
            connection.execute(text(f"UPDATE attempts SET ts = :now + seq - 86400 * {days}"), {"now": catalog.now()})
        yield catalog


def keys(catalog: Catalog) -> set[tuple[str | None, str | None, int]]:
    return {(a.record.run_id, a.record.worker_id, a.record.seq) for a in catalog.attempts_after(0, 10_000)}


def in_lake(lake: LakeFolder) -> list[tuple[Any, ...]]:
    with open_lake(lake) as con:
        return sorted(con.execute("SELECT * FROM attempts").fetchall(), key=str)


@pytest.mark.requirement("TRU-8")
def test_attempts_leave_the_catalog_when_the_lake_has_them(old: Catalog, folder: LakeFolder) -> None:
    before = keys(old)
    assert remove_old_attempts(old, folder, DAYS) == 0  # nothing is exported yet
    export_manifest(old, LakeWriter(folder))
    rows = in_lake(folder)
    assert len(rows) == len(before) > 60
    assert remove_old_attempts(old, folder, DAYS) == 60
    assert len(keys(old)) == len(before) - 60 and keys(old) < before
    assert in_lake(folder) == rows and remove_old_attempts(old, folder, DAYS) == 0
    assert export_manifest(old, LakeWriter(folder)).parts == ()


@pytest.mark.requirement("TRU-8")
@pytest.mark.parametrize("fault", ["gone", "cut", "another row"])
def test_nothing_leaves_that_the_lake_does_not_give_back(old: Catalog, folder: LakeFolder, fault: str) -> None:
    export_manifest(old, LakeWriter(folder))
    before, part = keys(old), folder.folder / folder.parts("attempts")[0]
    if fault == "gone":
        part.unlink()
    elif fault == "cut":
        part.write_bytes(part.read_bytes()[:-500])
    else:
        with old._write() as connection:
            connection.execute(text("UPDATE attempts SET url = 'https://other.example/' WHERE id = 7"))
    try:
        assert remove_old_attempts(old, folder, DAYS) == 0
    except Exception as error:
        assert fault == "cut" and "is damaged" in str(error)
    assert keys(old) == before


@pytest.mark.requirement("TRU-8", "TEL-6")
def test_a_rebuilt_lake_keeps_what_the_catalog_no_longer_has(old: Catalog, folder: LakeFolder) -> None:
    export_manifest(old, LakeWriter(folder))
    rows = in_lake(folder)
    remove_old_attempts(old, folder, DAYS)
    for _ in range(2):
        rebuilt = rebuild_manifest(old, LakeWriter(folder))
        assert (rebuilt.only_here, rebuilt.attempts, rebuilt.lost) == (60, len(rows) - 60, ())
        assert in_lake(folder) == rows
    raw = sum(len(batch) for part in folder.parts("attempts") for batch in folder.batches(part))
    assert raw == len(rows)


@pytest.mark.requirement("TRU-8", "TEL-6")
def test_a_damaged_part_that_was_the_only_copy_is_told_as_lost_and_kept_aside(old: Catalog, folder: LakeFolder) -> None:
    export_manifest(old, LakeWriter(folder))
    remove_old_attempts(old, folder, DAYS)
    part = folder.folder / folder.parts("attempts")[0]
    damaged = part.read_bytes()[:-500]
    part.write_bytes(damaged)
    rebuilt = rebuild_manifest(old, LakeWriter(folder))
    (aside,) = rebuilt.lost
    assert Path(aside).read_bytes() == damaged and Path(aside).parent == part.parent
    assert {row[:3] for row in in_lake(folder)} and len(in_lake(folder)) >= len(keys(old))


@pytest.mark.requirement("TRU-8")
def test_the_history_of_a_work_is_read_from_the_lake_then(old: Catalog, folder: LakeFolder) -> None:
    export_manifest(old, LakeWriter(folder))
    first = old.attempts_after(0, 1)[0].record
    assert first.work_id is not None
    before = attempts_of_work(old, lambda: folder, first.work_id, first.year)
    remove_old_attempts(old, folder, DAYS)
    assert removed_until(old) > first.ts.timestamp()
    assert attempts_of_work(old, lambda: folder, first.work_id, first.year) == before
