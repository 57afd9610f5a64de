"""OpenAlex as a source: pages, slices, lookups, and every way in which it says no."""

from __future__ import annotations

import datetime as dt
from collections.abc import Generator, Iterable
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstokg_assets.domain.identifiers import Identifier
from docstokg_assets.resolvers import answer
from docstokg_assets.sources import SourceError
from docstokg_assets.sources.openalex_api import DateSlice, OpenAlexApi, date_slices, id_batches, is_final
from resources.http.messages import Request, Response

T = TypeVar("T")
MARCH = DateSlice(dt.date(2024, 3, 1), dt.date(2024, 3, 31))
BUDGET = {
    "error": "Rate limit exceeded",
    "message": "Insufficient budget. Resets at midnight UTC.",
    "retryAfter": 43188,
}
PLAN = {"error": "Plan upgrade required", "message": 'The "from_updated_date" filter requires a Premium plan.'}
PER_SECOND = {"error": "Rate limit exceeded", "message": "30 requests per second. Please slow down.", "retryAfter": 1}


def drive(steps: Generator[Request, Response, T], *answers: Response) -> tuple[T, list[Request]]:
    """Feed the answers in order; what was returned, and what was asked."""
    pending = list(answers)
    asked = [next(steps)]
    try:
        while True:
            asked.append(steps.send(pending.pop(0)))
    except StopIteration as done:
        assert not pending
        return done.value, asked


def works(*records: Any, cursor: str | None = None, count: int | None = None) -> Response:
    return answer(
        {"meta": {"count": len(records) if count is None else count, "next_cursor": cursor}, "results": records}
    )


def parameters(request: Request) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(request.url).query).items()}


@pytest.mark.requirement("SRC-1")
def test_a_page_is_asked_for_with_filter_slice_and_cursor() -> None:
    api = OpenAlexApi(api_key="KEY")
    page, (request,) = drive(
        api.page("topics.id:T1|T2,has_doi:true", MARCH, "abc=="), works({"id": "W1"}, cursor="next", count=41)
    )
    assert parameters(request)["filter"] == (
        "topics.id:T1|T2,has_doi:true,from_publication_date:2024-03-01,to_publication_date:2024-03-31"
    )
    assert (parameters(request)["cursor"], parameters(request)["per_page"]) == ("abc==", "100")
    assert ([work.work_id for work in page.works], page.next_cursor, page.count, page.raw_count) == (
        ["W1"],
        "next",
        41,
        1,
    )


@pytest.mark.requirement("HTTP-14")
def test_the_key_travels_apart_from_the_url() -> None:
    _, (request,) = drive(OpenAlexApi(api_key="KEY").page(""), works())
    assert "KEY" not in request.url and request.secret_params == {"api_key": "KEY"}
    assert not drive(OpenAlexApi().page(""), works())[1][0].secret_params


@pytest.mark.requirement("SRC-3")
def test_a_bad_record_is_set_aside_with_its_reason_and_never_the_page() -> None:
    page, _ = drive(OpenAlexApi().page(""), works({"id": "W1", "title": None}, None, {"id": 7}, {"id": "W2"}))
    assert [work.work_id for work in page.works] == ["W1", "W2"]
    assert [aside.where for aside in page.set_aside] == ["record 1 of the page", "record 2 of the page"]
    assert all("no OpenAlex work id" in aside.reason for aside in page.set_aside)
    assert page.raw_count == 4


@pytest.mark.requirement("SRC-3")
def test_an_empty_page_is_the_last_even_if_it_names_another() -> None:
    assert drive(OpenAlexApi().page(""), works(cursor="again"))[0].next_cursor is None


@pytest.mark.requirement("SRC-1")
def test_a_slice_that_fits_on_one_page_costs_one_request() -> None:
    assert drive(OpenAlexApi().page(""), works({"id": "W1"}, cursor="more", count=1))[0].next_cursor is None
    assert drive(OpenAlexApi().page(""), works({"id": "W1"}, cursor="more", count=2))[0].next_cursor == "more"
    assert drive(OpenAlexApi().page("", None, "c2"), works({"id": "W1"}, cursor="c3", count=1))[0].next_cursor == "c3"


@pytest.mark.requirement("SRC-1")
def test_the_slices_of_a_year_cover_each_of_its_days_once() -> None:
    slices = date_slices(2024)
    days = [part.first + dt.timedelta(n) for part in slices for n in range((part.last - part.first).days + 1)]
    assert days == [dt.date(2024, 1, 1) + dt.timedelta(n) for n in range(366)]


@pytest.mark.requirement("SRC-1")
def test_slices_are_cut_to_the_dates_that_are_wanted() -> None:
    slices = date_slices(2024, since=dt.date(2024, 3, 10), until=dt.date(2024, 4, 5))
    assert [(str(part.first), str(part.last)) for part in slices] == [
        ("2024-03-10", "2024-03-31"),
        ("2024-04-01", "2024-04-05"),
    ]
    assert date_slices(2024, since=dt.date(2025, 1, 1)) == ()


@pytest.mark.requirement("SRC-1")
@pytest.mark.parametrize(
    ("response", "message", "remedy", "retry_at"),
    [
        (answer({"message": "API key not found"}, 401), "API key", "DOCSTOKG_CONTENT_API_KEY_OPENALEX", None),
        (answer({"error": "Invalid", "message": "no such filter"}, 400), "no such filter", "openalex.filter", None),
        (answer(PLAN, 429), "from_updated_date", "plan", None),
        (answer(BUDGET, 429, {"retry-after": "43188"}), "daily OpenAlex budget", "midnight UTC", 1000 + 43188),
        (answer(BUDGET, 429), "daily OpenAlex budget", "midnight UTC", 1000 + 43188),
        (answer(PER_SECOND, 429), "slow down", "again later", 1001),
        (answer(b"<html>bad gateway", 502), "HTTP 502", "again later", None),
        (answer(b"<html>maintenance"), "not JSON", "again later", None),
        (answer([1, 2]), "not a page of works", "again later", None),
        (answer({"meta": {"count": 1}, "results": None}), "not a page of works", "again later", None),
    ],
)
def test_every_refusal_names_what_happened_and_what_helps(
    response: Response, message: str, remedy: str, retry_at: float | None
) -> None:
    with pytest.raises(SourceError) as raised:
        drive(OpenAlexApi(clock=lambda: 1000.0).page("x:y"), response)
    assert message in raised.value.message and remedy in str(raised.value)
    assert raised.value.retry_at == retry_at


@pytest.mark.requirement("HTTP-2")
@pytest.mark.parametrize(
    ("response", "final"),
    [
        (answer(PLAN, 429), True),
        (answer(BUDGET, 429), True),
        (answer(PER_SECOND, 429), False),
        (answer(b"<html>", 429), False),
        (answer(BUDGET, 503), False),
    ],
)
def test_a_spent_budget_and_a_missing_plan_are_never_retried(response: Response, final: bool) -> None:
    assert is_final(response.status, response.headers, response.body) is final
    _, (request,) = drive(OpenAlexApi().page(""), works())
    assert request.final is is_final


@pytest.mark.requirement("SRC-2")
def test_identifiers_are_looked_up_together_and_the_unknown_ones_are_kept() -> None:
    batch = (Identifier("doi", "10.5555/B"), Identifier("doi", "10.5555/none"), Identifier("arxiv", "2401.00001v2"))
    found, (request,) = drive(
        OpenAlexApi().by_ids(batch),
        works({"id": "W2", "doi": "https://doi.org/10.48550/arxiv.2401.00001"}, {"id": "W1", "doi": "10.5555/b"}),
    )
    assert parameters(request)["filter"] == "doi:10.5555/B|10.5555/none|10.48550/arxiv.2401.00001"
    assert [work.work_id for work in found][::2] == ["W1", "W2"]
    assert found[1].work_id.startswith("doi-10.5555-none-") and found[1].doi == "10.5555/none"
    assert found[2].arxiv_id == "2401.00001v2"  # the version that was asked for


@pytest.mark.requirement("SRC-2")
@pytest.mark.parametrize(
    ("identifiers", "field"),
    [
        ((Identifier("openalex", "W1"), Identifier("openalex", "W2")), "openalex:W1|W2"),
        ((Identifier("pmcid", "PMC1"), Identifier("pmcid", "PMC2")), "ids.pmcid:PMC1|PMC2"),
    ],
)
def test_each_kind_has_its_filter(identifiers: tuple[Identifier, ...], field: str) -> None:
    found, (request,) = drive(OpenAlexApi().by_ids(identifiers), works())
    assert parameters(request)["filter"] == field
    assert [work.work_id for work in found] == [identifier.value for identifier in identifiers]


@pytest.mark.requirement("SRC-2")
def test_records_that_share_identifiers_may_need_a_second_page() -> None:
    batch = tuple(Identifier("doi", f"10.5555/{n}") for n in range(2))
    many = [{"id": f"W{n + 1}", "doi": "10.5555/0"} for n in range(100)]
    found, asked = drive(OpenAlexApi().by_ids(batch), works(*many), works({"id": "W999", "doi": "10.5555/1"}))
    assert [work.work_id for work in found] == ["W1", "W999"]
    assert [parameters(request)["page"] for request in asked] == ["1", "2"]


@pytest.mark.requirement("SRC-2")
@pytest.mark.parametrize(
    ("identifier", "path"),
    [
        (Identifier("openalex", "W1"), "/works/W1"),
        (Identifier("doi", "10.5555/a,b"), "/works/doi:10.5555/a%2Cb"),
        (Identifier("arxiv", "2401.00001"), "/works/doi:10.48550/arxiv.2401.00001"),
        (Identifier("pmcid", "PMC1"), "/works/pmcid:PMC1"),
    ],
)
def test_a_single_work_is_asked_for_by_the_free_route(identifier: Identifier, path: str) -> None:
    found, (request,) = drive(OpenAlexApi().by_ids((identifier,)), answer({"id": "W1"}))
    assert urlsplit(request.url).path == path and found[0].work_id == "W1"
    unknown, _ = drive(OpenAlexApi().by_ids((identifier,)), answer({"error": "not found"}, 404))
    assert len(unknown) == 1


def identifiers() -> st.SearchStrategy[Iterable[Identifier]]:
    doi = st.text("abc,|é/", min_size=1, max_size=300).map(lambda suffix: Identifier("doi", f"10.5555/{suffix}"))
    work = st.integers(1, 10**12).map(lambda number: Identifier("openalex", f"W{number}"))
    return st.lists(doi | work, max_size=130)


@pytest.mark.requirement("SRC-2")
@given(identifiers())
def test_batches_hold_every_identifier_once_and_fit_a_request_line(given_ids: list[Identifier]) -> None:
    batches = list(id_batches(given_ids))
    assert sorted((i.kind, i.value) for batch in batches for i in batch) == sorted((i.kind, i.value) for i in given_ids)
    for batch in batches:
        assert 1 <= len(batch) <= 100 and len({identifier.kind for identifier in batch}) == 1
        request = next(OpenAlexApi().by_ids(batch))
        assert len(f"GET {request.url} HTTP/1.1") + 100 < 8190


@pytest.mark.requirement("SRC-2")
def test_a_hundred_short_identifiers_share_a_request() -> None:
    sizes = [len(batch) for batch in id_batches(Identifier("openalex", f"W{n}") for n in range(1, 251))]
    assert sizes == [100, 100, 50]
