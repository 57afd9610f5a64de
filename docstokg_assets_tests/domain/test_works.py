"""An OpenAlex record becomes a work, however strange it is."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstokg_assets.domain.works import (
    MAX_LOCATIONS,
    MAX_TITLE_LENGTH,
    UnreadableRecord,
    Work,
    plain_title,
    work_from_openalex,
)
from docstokg_assets.sources.openalex_api import SELECT

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
FIELDS = st.sampled_from(SELECT.split(",")[1:])


def record(**fields: Any) -> dict[str, Any]:
    return {"id": "https://openalex.org/W1", **fields}


def location(**fields: Any) -> dict[str, Any]:
    return {"is_oa": True, "landing_page_url": "https://repo.example/1", "pdf_url": None, "source": None, **fields}


@pytest.mark.requirement("SRC-1")
def test_an_ordinary_record_is_read_whole() -> None:
    best = location(
        landing_page_url="https://doi.org/10.5555/Peerj.1",
        pdf_url="https://peerj.com/articles/1.pdf",
        source={"display_name": "PeerJ", "type": "journal"},
        license="cc-by",
        version="publishedVersion",
    )
    pmc = location(
        id="pmh:oai:pubmedcentral.nih.gov:77", landing_page_url="https://pmc.ncbi.nlm.nih.gov/articles/PMC77"
    )
    work = work_from_openalex(
        record(
            doi="https://doi.org/10.5555/Peerj.1",
            title="A sample open work",
            publication_year=2026,
            publication_date="2026-03-14",
            ids={"pmid": "https://pubmed.ncbi.nlm.nih.gov/41990001"},
            language="en",
            type="article",
            open_access={"is_oa": True, "oa_status": "gold"},
            best_oa_location=best,
            primary_location=best,
            locations=[pmc, best],
            updated_date="2026-10-30T04:11:09.123456",
        )
    )
    assert (work.work_id, work.doi, work.pmid, work.pmcid) == ("W1", "10.5555/Peerj.1", "41990001", "PMC77")
    assert (work.year, work.publication_date, work.is_oa, work.oa_status) == (2026, "2026-03-14", True, "gold")
    assert [place.pdf_url for place in work.locations] == ["https://peerj.com/articles/1.pdf", None]
    assert work.locations[0].source == "PeerJ"
    assert Work.from_json(orjson.loads(orjson.dumps(work.to_json()))) == work


@pytest.mark.requirement("SRC-3")
@pytest.mark.parametrize("bad", [None, [], "text", 7, {}, {"id": None}, {"id": 17}, {"id": "https://openalex.org/A5"}])
def test_only_a_record_without_a_work_id_is_unreadable(bad: Any) -> None:
    with pytest.raises(UnreadableRecord, match="no OpenAlex work id"):
        work_from_openalex(bad)


@pytest.mark.requirement("SRC-3")
@given(st.dictionaries(FIELDS, JSON) | JSON)
def test_arbitrary_json_is_a_work_or_unreadable_and_nothing_else(raw: Any) -> None:
    try:
        work_from_openalex(raw)
    except UnreadableRecord:
        assert not (isinstance(raw, dict) and raw.get("id") == "W1")
    if isinstance(raw, dict):
        orjson.dumps(work_from_openalex({**raw, "id": "W1"}).to_json())


@pytest.mark.requirement("SRC-3")
@pytest.mark.parametrize(
    ("fields", "year"),
    [
        ({"publication_year": 2024}, 2024),
        ({"publication_year": "2024"}, 2024),
        ({"publication_year": 2024.0}, 2024),
        ({"publication_year": None, "publication_date": "2023-05-01"}, 2023),
        ({"publication_year": True}, None),
        ({"publication_year": "soon", "publication_date": "someday"}, None),
        ({"publication_year": 99999}, None),
        ({}, None),
    ],
)
def test_the_year_is_the_publication_year_or_that_of_the_date(fields: dict[str, Any], year: int | None) -> None:
    assert work_from_openalex(record(**fields)).year == year


@pytest.mark.requirement("SRC-3")
def test_ten_thousand_locations_become_two_hundred_with_the_open_ones_first() -> None:
    closed = [location(is_oa=False, landing_page_url=f"https://closed.example/{n}") for n in range(5000)]
    opened = [location(pdf_url=f"https://open.example/{n % 150}.pdf") for n in range(5000)]
    work = work_from_openalex(record(locations=closed + opened))
    assert len(work.locations) == MAX_LOCATIONS
    assert [place.is_oa for place in work.locations] == [True] * 150 + [False] * 50


@pytest.mark.requirement("SRC-3")
@pytest.mark.parametrize(
    ("title", "plain"),
    [
        (None, None),
        (12345, None),
        ("   ", None),
        ("A <i>small</i>\n title<sub>2</sub>", "A small title2"),
        ("&lt;b&gt;Bold&lt;/b&gt; &amp; plain", "Bold & plain"),
        ('<mml:math xmlns:mml="http://x"><mml:mi>x</mml:mi></mml:math> rays', "x rays"),
        ("p < 0.05 and a<b and c>d", "p < 0.05 and a<b and c>d"),
        ("🧬 Genes", "🧬 Genes"),
        ("دراسة في العلوم", "دراسة في العلوم"),
        ("nul\x00 and \ud800 half", "nul and half"),
    ],
)
def test_titles_are_one_line_of_plain_text(title: Any, plain: str | None) -> None:
    assert plain_title(title) == plain


@pytest.mark.requirement("SRC-3")
def test_a_title_of_five_thousand_characters_is_cut() -> None:
    assert len(plain_title("word " * 1000) or "") <= MAX_TITLE_LENGTH


@pytest.mark.requirement("SRC-3")
def test_the_display_name_stands_in_for_a_missing_title() -> None:
    assert work_from_openalex(record(title=None, display_name="Shown")).title == "Shown"


@pytest.mark.requirement("RES-5")
@pytest.mark.parametrize(
    "doi", ["https://doi.org/", "doi:n/a", "https://doi.org/10.55550 /a b", "10..//", 17, ["10.1000/x"]]
)
def test_a_malformed_doi_counts_as_absent(doi: Any) -> None:
    assert work_from_openalex(record(doi=doi, ids=None)).doi is None


@pytest.mark.requirement("SRC-1")
@pytest.mark.parametrize(
    "fields",
    [
        {"doi": "https://doi.org/10.48550/arXiv.2401.00001"},
        {"locations": [location(landing_page_url="http://arxiv.org/abs/2401.00001v3")]},
        {"locations": [location(pdf_url="https://arxiv.org/pdf/2401.00001.pdf")]},
        {"locations": [location(id="pmh:oai:arXiv.org:2401.00001")]},
    ],
)
def test_the_arxiv_id_is_found_wherever_the_record_has_it(fields: dict[str, Any]) -> None:
    assert work_from_openalex(record(**fields)).arxiv_id == "2401.00001"


@pytest.mark.requirement("SRC-3")
def test_addresses_that_must_not_be_requested_are_left_out() -> None:
    bad = location(landing_page_url=17, pdf_url="javascript:alert(1)")
    assert work_from_openalex(record(locations=[bad, None, "text"])).locations == ()
