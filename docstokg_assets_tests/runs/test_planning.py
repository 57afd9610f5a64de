"""Works are stored in the lake, planned and queued."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from docstokg_assets.domain.works import Location, Work
from docstokg_assets.lake.reader import WorksToPlan
from docstokg_assets.lake.views import open_lake
from docstokg_assets.lake.writer import LakeWriter
from docstokg_assets.resolvers.registry import Resolver, build_resolvers, load_resolvers, rules_hash
from docstokg_assets.runs.planning import Planned, plan_works, plan_year, store_works
from resources.catalog.catalog import Catalog
from resources.lake.files import LakeFolder
from resources.rate_limit.settings import RateLimitSettings
from resources.scope import WorkScope

NOW = datetime(2026, 1, 2, tzinfo=UTC)
LIMITS = RateLimitSettings()


def resolvers(*names: str) -> tuple[Resolver, ...]:
    return build_resolvers(names, {name: cls.Settings() for name, cls in load_resolvers().items()})


@pytest.mark.requirement("SRC-2", "RES-2")
def test_works_are_planned_kept_and_queued_recent_years_first(catalog: Catalog, tmp_path: Path) -> None:
    file = Location(pdf_url="https://press.example/1.pdf", is_oa=True)
    works = [
        Work("W1", year=2020, locations=(file,)),
        Work("W2", year=2024, doi="10.5555/2"),
        Work("W3"),
    ]
    lake = LakeWriter(LakeFolder(tmp_path / "lake"))
    assert store_works(lake, works, NOW) == 3
    catalog.start_run("R", "pull", "hash", {})
    planned = plan_works(works, resolvers("openalex", "unpaywall"), LIMITS, catalog, lake, NOW, "R")
    assert (planned.works, planned.steps, planned.deferred, planned.new) == (3, 2, 1, 3)
    assert planned.without_candidate == 2, "one has to be asked for, of one nothing is known"

    claimed = catalog.claim("me", 10, 60, WorkScope(run_id="R")).items
    assert [(item.work_id, item.year) for item in claimed] == [("W2", 2024), ("W1", 2020), ("W3", None)]
    assert [Work.from_json(item.record) for item in claimed] == [works[1], works[0], works[2]]
    assert claimed[0].next_group == "api.unpaywall.org" and claimed[2].next_group is None
    with open_lake(lake.files) as lake_view:
        assert lake_view.execute("SELECT work_id, year FROM works ORDER BY 1").fetchall() == [
            ("W1", 2020),
            ("W2", 2024),
            ("W3", None),
        ]
        assert lake_view.execute("SELECT work_id, resolver, url FROM plans ORDER BY 1").fetchall() == [
            ("W1", "openalex", "https://press.example/1.pdf"),
            ("W2", "unpaywall", None),
        ]


def test_works_that_are_known_with_the_same_plan_are_left_alone(catalog: Catalog) -> None:
    works = [Work("W1", doi="10.5555/1")]
    for expected in ((1, 0), (0, 1)):
        planned = plan_works(works, resolvers("unpaywall"), LIMITS, catalog, None, NOW)
        assert (planned.new, planned.unchanged) == expected
    assert catalog.queue_counts().total == 1


@pytest.mark.requirement("ORC-3")
def test_only_plans_that_are_not_as_before_are_kept_anew(catalog: Catalog, tmp_path: Path) -> None:
    def plan(*names: str) -> int:
        works = [Work("W1", doi="10.5555/1"), Work("W2", arxiv_id="2401.00001")]
        planned = plan_works(works, resolvers(*names), LIMITS, catalog, LakeWriter(LakeFolder(tmp_path / "lake")), NOW)
        assert planned.works == 2 and planned.steps == 2
        return sum(pq.read_metadata(part).num_rows for part in (tmp_path / "lake" / "plans").rglob("*.parquet"))

    assert plan("unpaywall", "arxiv") == 2
    assert plan("unpaywall", "arxiv") == 2, "a second night brings nothing"
    assert plan("crossref", "arxiv") == 3, "W1 is looked for in another way now"


def test_counts_of_batches_are_added_up() -> None:
    assert Planned(works=2, steps=3, new=1) + Planned(works=1, unchanged=1) == Planned(3, 3, 0, 0, 1, 0, 1)


def _plan_year(
    catalog: Catalog, lake: LakeWriter, chosen: tuple[Resolver, ...], always: tuple[str, ...] = ()
) -> tuple[list[str], Planned]:
    """The works that were planned, and the counts of all."""
    to_plan = WorksToPlan(lake.files, rules_hash(chosen), catalog.planned_from, always)
    works = list(to_plan.works(2024))
    planned = plan_year(to_plan, works, chosen, LIMITS, catalog, lake, NOW)
    return sorted(work.work_id for work in works), planned


def _year(tmp_path: Path) -> LakeWriter:
    lake = LakeWriter(LakeFolder(tmp_path / "lake"))
    file = Location(pdf_url="https://press.example/1.pdf", is_oa=True)
    works = [
        Work("W1", "One", 2024, locations=(file,)),
        Work("W2", "Two", 2024, doi="10.5555/2"),
        Work("W3", None, 2024),
    ]
    store_works(lake, works, NOW)
    return lake


@pytest.mark.requirement("SRC-2", "RES-2")
def test_a_year_without_changes_is_not_planned_again_and_counts_the_same(catalog: Catalog, tmp_path: Path) -> None:
    lake, chosen = _year(tmp_path), resolvers("openalex", "unpaywall")
    planned, first = _plan_year(catalog, lake, chosen)
    assert planned == ["W1", "W2", "W3"] and first.new == 3
    store_works(lake, [Work("W2", "Two", 2024, doi="10.5555/2")], NOW + timedelta(days=1))  # listed again, and the same
    planned, again = _plan_year(catalog, lake, chosen)
    assert planned == []
    assert again == replace(first, new=0, unchanged=3)


def test_only_changed_works_are_planned_again(catalog: Catalog, tmp_path: Path) -> None:
    lake, chosen = _year(tmp_path), resolvers("openalex", "unpaywall")
    _plan_year(catalog, lake, chosen)
    store_works(lake, [Work("W2", "Another title", 2024, doi="10.5555/2")], NOW + timedelta(days=1))
    store_works(lake, [Work("W3", None, 2024, doi="10.5555/3")], NOW + timedelta(days=1))
    planned, counts = _plan_year(catalog, lake, chosen)
    assert planned == ["W2", "W3"] and (counts.works, counts.unchanged) == (3, 3)
    assert catalog.queued("W3")[0].record["doi"] == "10.5555/3"
    assert _plan_year(catalog, lake, chosen)[0] == [], "a new title with the same plan is learnt, too"


def test_works_are_planned_again_under_other_rules_or_when_they_are_named(catalog: Catalog, tmp_path: Path) -> None:
    lake, chosen = _year(tmp_path), resolvers("openalex", "unpaywall")
    _plan_year(catalog, lake, chosen)
    assert _plan_year(catalog, lake, chosen, ("W2",))[0] == ["W2"]
    assert _plan_year(catalog, lake, resolvers("openalex", "doi"))[0] == ["W1", "W2", "W3"]
    other = build_resolvers(("openalex",), {"openalex": load_resolvers()["openalex"].Settings(priority=7)})
    assert rules_hash(other) != rules_hash(resolvers("openalex"))


def test_a_plan_with_a_failed_resolver_is_made_again(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, chosen = _year(tmp_path), resolvers("openalex", "unpaywall")
    with monkeypatch.context() as broken:
        broken.setattr(type(chosen[0]), "applies", lambda *_: 1 / 0)
        _plan_year(catalog, lake, chosen)
    assert _plan_year(catalog, lake, chosen)[0] == ["W1", "W2", "W3"]
    assert _plan_year(catalog, lake, chosen)[0] == []


def test_a_work_that_was_queued_from_elsewhere_is_planned_with_its_year(catalog: Catalog, tmp_path: Path) -> None:
    lake, chosen = _year(tmp_path), resolvers("openalex", "unpaywall")
    plan_works([Work("W1", "Given", 2024)], chosen, LIMITS, catalog, None, NOW)
    assert _plan_year(catalog, lake, chosen)[0] == ["W1", "W2", "W3"]
    plan_works(
        [Work("W2", "Given", 2024)], chosen, LIMITS, catalog, None, NOW
    )  # with another plan than that of the lake
    assert _plan_year(catalog, lake, chosen)[0] == ["W2"]
