"""Bringing works in: how the OpenAlex conversations are driven, what is counted, and what ends up in lake and queue."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import pytest

from docstokg_assets.domain.identifiers import Identifier
from docstokg_assets.domain.works import Work
from docstokg_assets.sources import SourceError
from docstokg_assets.sources.listing import (
    BlockingDriver,
    ChangedSince,
    Collected,
    Source,
    YearPosition,
    continue_query,
    in_batches,
    list_works,
    read_list,
)
from docstokg_assets.sources.settings import OpenAlexSettings
from resources.catalog.catalog import Catalog
from resources.http.attempts import AttemptLog
from resources.http.client import HttpClient
from resources.http.errors import HttpError, Interrupted
from resources.http.messages import Request, Response
from resources.rate_limit.settings import RateLimitSettings

NOW = datetime(2026, 1, 2, tzinfo=UTC)
LIMITS = RateLimitSettings()
SETTINGS = OpenAlexSettings(filter="type:article")


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


# -- lists ------------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("SRC-1")
def test_a_list_is_followed_by_its_cursors_to_its_end() -> None:
    web, collected = Web(page("W1", "W2", cursor="b"), page("W3", None, cursor="c"), page()), Collected()
    works = list_works(Source("query", "type:article"), SETTINGS, web.driver(), collected)
    assert ids_of(works) == ["W1", "W2", "W3"] and collected.error is None
    assert [asked["cursor"] for asked in web.asked] == ["*", "b", "c"]
    assert (collected.works, collected.pages, collected.announced, collected.cursor) == (3, 3, 100, None)
    assert [aside.where for aside in collected.set_aside] == ["record 1 of the page"]


@pytest.mark.requirement("SRC-1")
def test_a_year_is_asked_for_month_by_month_and_announces_the_sum() -> None:
    web, collected = Web(*(page(f"W{month}", count=1) for month in range(1, 13))), Collected()
    works = list_works(Source("query", "type:article"), SETTINGS, web.driver(), collected, year=2024)
    assert ids_of(works) == [f"W{month}" for month in range(1, 13)]
    assert all(asked["cursor"] == "*" for asked in web.asked)
    assert web.asked[1]["filter"] == "type:article,from_publication_date:2024-02-01,to_publication_date:2024-02-29"
    assert collected.announced == 12


@pytest.mark.requirement("SRC-1", "SRC-3")
def test_a_month_with_very_many_works_is_asked_for_day_by_day_and_tells_how_far_it_came() -> None:
    days = [page(f"W{day}", count=1) for day in (1, 2)]
    web, collected = Web(page("W1", cursor="b", count=20_000), *days, refusal(429, "Insufficient budget")), Collected()
    works = list_works(Source("query", ""), SETTINGS, web.driver(), collected, year=2024)
    assert ids_of(works) == ["W1", "W2"] and isinstance(collected.error, SourceError)
    assert web.asked[2]["filter"] == "from_publication_date:2024-01-02,to_publication_date:2024-01-02"
    assert collected.through == date(2024, 1, 2) and collected.announced == 2


def test_no_more_works_are_taken_than_wanted() -> None:
    web, collected = Web(page("W1", "W2", cursor="b"), page("W3", "W4", cursor="c")), Collected()
    three = SETTINGS.model_copy(update={"max_works": 3})
    assert ids_of(list_works(Source("query", ""), three, web.driver(), collected)) == ["W1", "W2", "W3"]
    assert (collected.works, collected.cursor) == (3, None)


@pytest.mark.requirement("SRC-3")
@pytest.mark.parametrize("break_", [refusal(429, "Insufficient budget"), Interrupted("ended")])
def test_a_list_that_breaks_off_tells_where_and_can_be_taken_up_there(break_: Response | HttpError) -> None:
    collected = Collected()
    source, broken = Source("query", "type:article"), Web(page("W1", cursor="b"), break_)
    assert ids_of(list_works(source, SETTINGS, broken.driver(), collected)) == ["W1"]
    assert isinstance(collected.error, SourceError | Interrupted)
    assert (collected.works, collected.cursor) == (1, "b")

    web = Web(page("W2"))
    assert ids_of(list_works(source, SETTINGS, web.driver(), collected)) == ["W2"]
    assert web.asked[0]["cursor"] == "b" and (collected.works, collected.cursor) == (2, None)


def test_nothing_is_asked_any_more_once_the_run_is_to_end() -> None:
    stop = threading.Event()
    web = Web(page("W1", cursor="b"), page("W2", cursor="c"))
    collected = Collected()
    works = list_works(Source("query", ""), SETTINGS, web.driver(stop), collected)
    assert next(works).work_id == "W1"
    stop.set()
    assert not ids_of(works) and isinstance(collected.error, Interrupted)
    assert len(web.asked) == 1


# -- identifiers ------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("SRC-2")
def test_works_behind_ids_come_once_and_unknown_ids_become_works_of_their_own() -> None:
    identifiers = [Identifier("openalex", "W1"), Identifier("openalex", "W2"), Identifier("doi", "10.5555/one")]
    known = Response(200, "", {}, json.dumps({"id": "W1", "doi": "10.5555/one"}).encode())
    web, collected = Web(page("W1", count=1), known), Collected()
    works = list_works(Source("ids", "ids.txt", identifiers), SETTINGS, web.driver(), collected)
    assert ids_of(works) == ["W1", "W2"], "W1 was named twice; OpenAlex has no W2"
    assert (collected.works, collected.pages) == (2, 2)


# -- one listing for the CLI and Dagster -------------------------------------------------------------------------------


@pytest.mark.requirement("SRC-3")
def test_what_came_before_the_source_failed_is_kept_with_the_error() -> None:
    web, collected = Web(page("W1", cursor="b"), refusal(429, "Insufficient budget")), Collected()
    works = list_works(Source("query", "type:article"), SETTINGS, web.driver(), collected)
    assert ids_of(works) == ["W1"]
    assert isinstance(collected.error, SourceError) and collected.cursor == "b"


@pytest.mark.requirement("SRC-3")
def test_a_cursor_that_has_expired_lists_from_the_start_and_a_refused_filter_does_not() -> None:
    web, collected = Web(refusal(400), page("W1")), Collected(cursor="old")
    assert ids_of(list_works(Source("query", "type:article"), SETTINGS, web.driver(), collected)) == ["W1"]
    assert [asked["cursor"] for asked in web.asked] == ["old", "*"] and collected.error is None
    web, collected = Web(refusal(400)), Collected()
    assert ids_of(list_works(Source("query", "nonsense:1"), SETTINGS, web.driver(), collected)) == []
    assert isinstance(collected.error, SourceError) and len(web.asked) == 1


def test_only_the_months_after_the_last_finished_one_are_listed() -> None:
    web, collected = Web(page("W11", count=1), page("W12", count=1)), Collected(through=date(2024, 10, 31))
    works = list_works(Source.configured(SETTINGS), SETTINGS, web.driver(), collected, year=2024)
    assert ids_of(works) == ["W11", "W12"]


@pytest.mark.requirement("SRC-2")
def test_urls_have_no_year_and_come_with_the_newest_one_alone() -> None:
    source = Source.from_list(
        "urls", "urls.txt", read_list("urls", "urls.txt", b"https://press.example/a.pdf\nftp://no")
    )
    for with_unknown in (True, False):
        collected = Collected()
        works = list_works(source, SETTINGS, Web().driver(), collected, year=2024, with_unknown=with_unknown)
        assert len(ids_of(works)) == with_unknown
        assert [aside.where for aside in collected.set_aside] == ["line 2"]


@pytest.mark.requirement("SRC-3")
def test_the_position_of_a_year_is_kept_until_its_list_is_complete(catalog: Catalog) -> None:
    broken = Collected(through=date(2024, 6, 30), error=SourceError("it broke off.", "Try again."))
    YearPosition(catalog, SETTINGS, 2024).finish(broken)
    assert YearPosition(catalog, SETTINGS, 2024).through == date(2024, 6, 30)
    assert YearPosition(catalog, SETTINGS, 2023).through is None
    other = SETTINGS.model_copy(update={"types": ("preprint",)})
    assert YearPosition(catalog, other, 2024).through == date(2024, 6, 30), "the filter names a type itself"
    assert YearPosition(catalog, OpenAlexSettings(filter="is_oa:true"), 2024).through is None
    assert YearPosition(catalog, SETTINGS, 2024, ChangedSince("updated", date(2024, 1, 1))).through is None
    YearPosition(catalog, SETTINGS, 2024).finish(Collected(through=date(2024, 12, 31)))
    assert YearPosition(catalog, SETTINGS, 2024).through is None


@pytest.mark.requirement("SRC-3")
def test_a_query_whose_list_broke_off_is_continued_by_its_last_run(catalog: Catalog) -> None:
    scope = {"query": "type:article"}
    assert continue_query(catalog, scope) == (None, Collected())
    catalog.start_run("R", "pull", "hash", scope)
    catalog.report_progress("R", {"cursor": "b"})
    catalog.finish_run("R", {})
    assert continue_query(catalog, scope) == ("R", Collected(cursor="b"))
    assert continue_query(catalog, {"query": "is_oa:true"})[0] is None


def test_works_are_taken_in_as_they_come() -> None:
    def endless() -> Iterator[Work]:
        number = 0
        while True:
            number += 1
            yield Work(f"W{number}")

    batches = in_batches(endless())
    assert len(next(batches)) == len(next(batches)) == 2_000
    assert list(in_batches(iter(()))) == []
