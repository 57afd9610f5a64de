"""Lists of works: every work once, in order, and no walk through the universe for a page of a large year."""

from __future__ import annotations

import time

import pytest

from docstokg_assets.sandbox import Universe, Work
from docstokg_assets.sandbox.listing import Listing


def everything(listing: Listing, filters: str, sort: str = "", size: int = 97) -> list[Work]:
    query = listing.parse(filters, "", sort, paid=True)
    found: list[Work] = []
    while True:
        count, works = listing.page(query, len(found), size)
        if not works:
            assert count == len(found)
            return found
        found += works


@pytest.mark.parametrize("works_per_year", [1, 364, 366, 2000])
@pytest.mark.parametrize("sort", ["", "publication_date:asc", "cited_by_count:desc"])
def test_pages_hold_every_work_exactly_once(works_per_year: int, sort: str) -> None:
    universe = Universe(works_per_year=works_per_year, years=(2023, 2024))
    found = everything(Listing(universe), "publication_year:2023-2024", sort)
    assert len(found) == len(set(found)) == 2 * works_per_year == len(universe)
    if sort != "cited_by_count:desc":
        dates = [w.date for w in found]
        assert dates == sorted(dates, reverse=not sort)


def test_date_slices_add_up_to_the_year() -> None:
    listing = Listing(Universe(works_per_year=2000, years=(2023, 2024)))
    halves = [everything(listing, f"from_publication_date:2024-{a},to_publication_date:2024-{b}")
              for a, b in (("01-01", "06-30"), ("07-01", "12-31"))]  # fmt: skip
    assert {w.index for half in halves for w in half} == set(range(2000))
    assert sum(map(len, halves)) == 2000


def test_filters_that_need_a_look_at_each_work_find_what_a_walk_finds() -> None:
    universe = Universe(works_per_year=2000, years=(2024, 2024))
    found = everything(Listing(universe), "publication_year:2024,language:ru")
    assert {w.id for w in found} == {w.id for w in universe.works() if w.language == "ru"} != set()


def test_a_page_of_a_year_with_a_million_works_costs_a_page() -> None:
    listing = Listing(Universe(works_per_year=1_000_000, years=(2024, 2024)))
    started = time.process_time()
    for position in (0, 500_000, 999_950):
        count, works = listing.page(listing.parse("publication_year:2024", "", "", False), position, 100)
        assert count == 1_000_000 and len(works) == min(100, count - position)
    assert time.process_time() - started < 1.0
