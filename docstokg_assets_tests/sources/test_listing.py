"""Bringing works in: how the OpenAlex conversations are driven, what is counted, and what ends up in lake and queue."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import pyarrow.parquet as pq
import pytest

from docstokg_assets.domain.identifiers import Identifier
from docstokg_assets.domain.works import Location, Work
from docstokg_assets.lake.views import open_lake
from docstokg_assets.lake.writer import LakeWriter
from docstokg_assets.resolvers.registry import Resolver, build_resolvers, load_resolvers
from docstokg_assets.runs.planning import plan_works, store_works
from docstokg_assets.sources import SourceError
from docstokg_assets.sources.driver import BlockingDriver
from docstokg_assets.sources.listing import Collected, in_batches, works_of_filter, works_of_ids
from docstokg_assets.sources.openalex_api import OpenAlexApi, date_slices
from resources.catalog.catalog import Catalog
from resources.http.attempts import AttemptLog
from resources.http.client import HttpClient
from resources.http.errors import HttpError, Interrupted
from resources.http.messages import Request, Response
from resources.lake.files import LakeFolder
from resources.rate_limit.settings import RateLimitSettings

NOW = datetime(2026, 1, 2, tzinfo=UTC)
LIMITS = RateLimitSettings()
WHOLE = (None,)  # one list, not cut into slices


class Web:
    """A client that gives the answers it was made with, and remembers what it was asked."""

    def __init__(self, *answers: Response | HttpError) -> None:
        self._answers = list(answers)
        self.asked: list[dict[str, str]] = []

    def request_with_retries(self, request: Request, log: AttemptLog, **_: Any) -> Response:
        parts = urlsplit(request.url)
        self.asked.append({"path": parts.path} | {name: values[0] for name, values in parse_qs(parts.query).items()})
        answer = self._answers.pop(0)
        if isinstance(answer, HttpError):
            raise answer
        return answer

    def driver(self, stop: threading.Event | None = None) -> BlockingDriver:
        return BlockingDriver(cast(HttpClient, self), cast(AttemptLog, None), stop or threading.Event())


def page(*ids: Any, cursor: str | None = None, count: int = 100) -> Response:
    records = [{"id": one} for one in ids]
    body = {"meta": {"count": count, "next_cursor": cursor}, "results": records}
    return Response(200, "", {"content-type": "application/json"}, json.dumps(body).encode())


def refusal(status: int, message: str = "no") -> Response:
    return Response(status, "", {}, json.dumps({"message": message}).encode())


def ids_of(works: Iterator[Work]) -> list[str]:
    return [work.work_id for work in works]


def resolvers(*names: str) -> tuple[Resolver, ...]:
    return build_resolvers(names, {name: cls.Settings() for name, cls in load_resolvers().items()})


# -- lists ------------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("SRC-1")
def test_a_list_is_followed_by_its_cursors_to_its_end() -> None:
    web, collected = Web(page("W1", "W2", cursor="b"), page("W3", None, cursor="c"), page()), Collected()
    assert ids_of(works_of_filter(web.driver(), OpenAlexApi(), "type:article", WHOLE, None, collected)) == [
        "W1",
        "W2",
        "W3",
    ]
    assert [asked["cursor"] for asked in web.asked] == ["*", "b", "c"]
    assert (collected.works, collected.pages, collected.announced, collected.cursor) == (3, 3, 100, None)
    assert [aside.where for aside in collected.set_aside] == ["record 1 of the page"]


@pytest.mark.requirement("SRC-1")
def test_a_year_is_asked_for_month_by_month_and_announces_the_sum() -> None:
    web, collected = Web(*(page(f"W{month}", count=1) for month in range(1, 13))), Collected()
    works = works_of_filter(web.driver(), OpenAlexApi(), "type:article", date_slices(2024), None, collected)
    assert ids_of(works) == [f"W{month}" for month in range(1, 13)]
    assert all(asked["cursor"] == "*" for asked in web.asked)
    assert web.asked[1]["filter"] == "type:article,from_publication_date:2024-02-01,to_publication_date:2024-02-29"
    assert collected.announced == 12


@pytest.mark.requirement("SRC-1", "SRC-3")
def test_a_month_with_very_many_works_is_asked_for_day_by_day_and_tells_how_far_it_came() -> None:
    days = [page(f"W{day}", count=1) for day in (1, 2)]
    web, collected = Web(page("W1", cursor="b", count=20_000), *days, refusal(429, "Insufficient budget")), Collected()
    works = works_of_filter(web.driver(), OpenAlexApi(), "", date_slices(2024), None, collected)
    assert [next(works).work_id, next(works).work_id] == ["W1", "W2"]
    with pytest.raises(SourceError):
        next(works)
    assert web.asked[2]["filter"] == "from_publication_date:2024-01-02,to_publication_date:2024-01-02"
    assert collected.through == date(2024, 1, 2) and collected.announced == 2


def test_no_more_works_are_taken_than_wanted() -> None:
    web, collected = Web(page("W1", "W2", cursor="b"), page("W3", "W4", cursor="c")), Collected()
    assert ids_of(works_of_filter(web.driver(), OpenAlexApi(), "", WHOLE, 3, collected)) == ["W1", "W2", "W3"]
    assert (collected.works, collected.cursor) == (3, None)


@pytest.mark.requirement("SRC-3")
@pytest.mark.parametrize("break_", [refusal(429, "Insufficient budget"), Interrupted("ended")])
def test_a_list_that_breaks_off_tells_where_and_can_be_taken_up_there(break_: Response | HttpError) -> None:
    collected = Collected()
    works = works_of_filter(Web(page("W1", cursor="b"), break_).driver(), OpenAlexApi(), "", WHOLE, None, collected)
    assert next(works).work_id == "W1"
    with pytest.raises((SourceError, Interrupted)):
        next(works)
    assert (collected.works, collected.cursor) == (1, "b")

    web = Web(page("W2"))
    assert ids_of(works_of_filter(web.driver(), OpenAlexApi(), "", WHOLE, None, collected)) == ["W2"]
    assert web.asked[0]["cursor"] == "b" and (collected.works, collected.cursor) == (2, None)


def test_nothing_is_asked_any_more_once_the_run_is_to_end() -> None:
    stop = threading.Event()
    web = Web(page("W1", cursor="b"), page("W2", cursor="c"))
    works = works_of_filter(web.driver(stop), OpenAlexApi(), "", WHOLE, None, Collected())
    assert next(works).work_id == "W1"
    stop.set()
    with pytest.raises(Interrupted):
        next(works)
    assert len(web.asked) == 1


# -- identifiers ------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("SRC-2")
def test_works_behind_ids_come_once_and_unknown_ids_become_works_of_their_own() -> None:
    identifiers = [Identifier("openalex", "W1"), Identifier("openalex", "W2"), Identifier("doi", "10.5555/one")]
    known = Response(200, "", {}, json.dumps({"id": "W1", "doi": "10.5555/one"}).encode())
    web, collected = Web(page("W1", count=1), known), Collected()
    works = works_of_ids(web.driver(), OpenAlexApi(), identifiers, collected)
    assert ids_of(works) == ["W1", "W2"], "W1 was named twice; OpenAlex has no W2"
    assert (collected.works, collected.pages) == (2, 2)


# -- lake and queue ---------------------------------------------------------------------------------------------------


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

    claimed = catalog.claim("me", 10, 60, run_id="R")
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


def test_works_are_taken_in_as_they_come() -> None:
    def endless() -> Iterator[Work]:
        number = 0
        while True:
            number += 1
            yield Work(f"W{number}")

    batches = in_batches(endless())
    assert len(next(batches)) == len(next(batches)) == 2_000
    assert list(in_batches(iter(()))) == []
