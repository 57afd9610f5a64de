"""Works that were deleted where they were listed, in the queue of a real catalog."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from docstokg_assets.domain.works import Work
from docstokg_assets.lake.writer import LakeWriter
from docstokg_assets.resolvers.registry import build_resolvers, load_resolvers
from docstokg_assets.runs.planning import plan_works, store_works
from docstokg_assets.sandbox.mix import Mix
from docstokg_assets.sandbox.snapshot import write_snapshot
from docstokg_assets.sandbox.universe import Universe
from docstokg_assets.sources.deletions import DeletionCounts, deleted_of_years, without_deleted
from docstokg_assets.sources.snapshot import Snapshot
from resources.catalog.catalog import Catalog
from resources.catalog.rows import Batch, Finished
from resources.folders import ReadFolder
from resources.lake.files import LakeFolder
from resources.rate_limit.settings import RateLimitSettings
from resources.records import Classification, DownloadOutcome, Reason
from resources.scope import WorkScope

pytestmark = pytest.mark.requirement("SRC-2", "SRC-3")
NOTHING_FOUND = DownloadOutcome(False, None, Classification.SKIP, Reason.NO_CANDIDATE)


def planned(catalog: Catalog, work: Work) -> None:
    plan_works([work], (), RateLimitSettings(), catalog, None, datetime.now(UTC))


def delete(catalog: Catalog, work: Work) -> None:
    assert not list(without_deleted([work], {work.work_id: "2026-08-14"}, catalog, DeletionCounts()))


def test_a_work_for_which_nothing_was_known_is_opened_once_more_to_end_as_deleted(tmp_path: Path) -> None:
    work = Work("W1", year=2024)
    with Catalog.open(tmp_path / "catalog.sqlite3") as catalog:
        planned(catalog, work)
        (item,) = catalog.claim("me", 1, 60).items
        ended = Finished(item.work_id, item.year, None, None, NOTHING_FOUND, "run", "hash", "me")
        catalog.commit(Batch(finished=[ended]))
        assert not catalog.claim("me", 1, 60).items
        delete(catalog, work)
        (again,) = catalog.claim("me", 1, 60).items
        assert again.record["deleted"] == "2026-08-14"


def test_a_deleted_work_that_another_source_lists_is_that_runs_and_stays_deleted(tmp_path: Path) -> None:
    """Also before a pass has accounted for it."""
    work = Work("W1", year=2024, doi="10.5555/1")
    with Catalog.open(tmp_path / "catalog.sqlite3") as catalog:
        planned(catalog, work)
        delete(catalog, work)
        catalog.start_run("R", "pull", "hash", {})
        unpaywall = build_resolvers(["unpaywall"], {"unpaywall": load_resolvers()["unpaywall"].Settings()})
        lake = LakeWriter(LakeFolder(tmp_path / "lake"))
        for run_id in ("R", None):
            now = datetime.now(UTC)
            counts = plan_works([work], unpaywall, RateLimitSettings(), catalog, lake, now, run_id)
            assert (counts.works, counts.steps, counts.reopened, counts.unchanged) == (1, 0, 0, 1)
        (item,) = catalog.claim("me", 1, 60, WorkScope(run_id="R")).items
        assert item.record["deleted"] == "2026-08-14"


def test_the_list_of_a_snapshot_is_read_once_for_all_years(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = LakeFolder(tmp_path / "lake")
    store_works(LakeWriter(lake), [Work("W7"), Work("W9", year=2024), Work("W8", year=2023)], datetime.now(UTC))
    place = tmp_path / "snapshot"
    universe = Universe(7, 5, (2024, 2024), Mix.load("default", None))
    write_snapshot(place, universe, (2024,), deleted=dict.fromkeys(("W7", "W8", "W9"), "2026-08-14"))
    opened, stream = list[str](), ReadFolder.stream

    def noted(self: ReadFolder, name: str) -> Any:
        opened.append(name)
        return stream(self, name)

    monkeypatch.setattr(ReadFolder, "stream", noted)
    with Catalog.open(tmp_path / "catalog.sqlite3") as catalog:
        found = deleted_of_years(Snapshot(ReadFolder(str(place))), lake, catalog, (2024, 0))
    assert found == {"W7": "2026-08-14", "W9": "2026-08-14"}
    assert len(opened) == 1
