"""What is a request, what is refused with which words, and what is derived."""

from __future__ import annotations

from typing import Any

import pytest

from docstokg_assets.ingest.records import InvalidRequest, parse_json, parse_request, request_for

URL = "https://journal.example.org/a.pdf"


@pytest.mark.requirement("ING-1")
def test_all_fields_are_kept_and_come_back_also_unknown_ones() -> None:
    given: dict[str, Any] = {
        "ingest_type": "xml",
        "base_url": URL,
        "link_source": "unpaywall",
        "link_source_id": "10.5555/1",
        "ingest_request_source": "fatcat-changelog",
        "release_stage": "accepted",
        "rel": "repository",
        "oa_status": "green",
        "force_recrawl": True,
        "max_age_days": 30,
        "edit_extra": {"n": 1, "evidence": ["x"]},
        "fatcat": {"release_ident": "abc", "work_ident": "def", "else": 1},
        "ext_ids": {"doi": "10.5555/1", "pmh_id": "oai:x"},
        "of_the_future": {"a": [1, 2]},
    }
    assert parse_request(given).to_json() == given


@pytest.mark.requirement("ING-1")
def test_file_means_pdf_and_unknown_types_are_accepted() -> None:
    assert parse_request({"base_url": URL, "ingest_type": "file"}).ingest_type == "pdf"
    assert parse_request({"base_url": URL}).ingest_type == "pdf"
    assert parse_request({"base_url": URL, "ingest_type": "dataset"}).ingest_type == "dataset"


@pytest.mark.requirement("ING-2")
@pytest.mark.parametrize(
    ("given", "source"),
    [
        ({"base_url": "https://doi.org/10.5555/ABC"}, ("doi", "10.5555/abc")),
        ({"base_url": "https://arxiv.org/pdf/2401.00001v2.pdf"}, ("arxiv", "2401.00001v2")),
        ({"base_url": "https://europepmc.org/articles/PMC123?pdf=render"}, ("pmc", "PMC123")),
        ({"base_url": "https://hdl.handle.net/2027/XY"}, ("hdl", "2027/xy")),
        (
            {"base_url": URL, "ingest_request_source": "savepapernow-web", "fatcat": {"release_ident": "abc"}},
            ("spn", "abc"),
        ),
        ({"base_url": URL, "link_source": "unpaywall", "ext_ids": {"doi": "10.5555/X"}}, ("unpaywall", "10.5555/x")),
        ({"base_url": URL}, ("url", "a2ce2d9e6ee1ef1ca0ea03d8d3bb9e6ff1d69b9d")),
        ({"base_url": URL, "link_source": "mag", "link_source_id": "7"}, ("mag", "7")),
    ],
)
def test_a_missing_link_source_is_derived(given: dict[str, Any], source: tuple[str, str]) -> None:
    request = parse_request(given)
    found = request.link_source, request.link_source_id
    assert found == source or (source[0] == "url" and found[0] == "url" and len(found[1] or "") == 40)


@pytest.mark.requirement("ING-8")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not JSON"),
        ("[]", "a request is a JSON object"),
        ("{}", "base_url: field required"),
        ('{"base_url": 5}', "base_url: input should be a valid string"),
        ('{"base_url": "https://a.org/", "force_recrawl": "perhaps"}', "force_recrawl: "),
        ('{"base_url": "https://a.org/", "max_age_days": -1}', "max_age_days: "),
        ('{"base_url": "https://a.org/", "ext_ids": "10.5555/1"}', "ext_ids: "),
        ('{"base_url": "https://a.org/\\u0000"}', "base_url: contains a NUL character"),
        ('{"base_url": "https://a.org/", "link_source": "a\\u0000b"}', "link_source: contains a NUL character"),
        ('{"base_url": "https://a.org/' + "x" * 1_500 + '"}', "base_url: string should have at most 1500"),
        ('{"base_url": "https://a.org/' + "ü" * 1_200 + '"}', "base_url: longer than 2,000 bytes"),
        ('{"base_url": "ftp://a.org/x.pdf"}', "base_url: only https URLs are fetched, this one is ftp"),
        ('{"base_url": "x.pdf"}', "base_url: only https URLs are fetched, this one is relative"),
        ('{"base_url": "http://127.0.0.1/x.pdf"}', "base_url: "),
        ('{"base_url": "http://169.254.169.254/latest"}', "base_url: "),
        ('{"base_url": "http://localhost:8080/x"}', "base_url: "),
        ('{"base_url": "https://a.org/", "edit_extra": {"x": "' + "y" * 1_000_000 + '"}}', "1,000,000 bytes"),
    ],
)
def test_a_bad_request_is_refused_with_the_field_and_the_problem(text: str, said: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_json(text)
    assert said in str(refused.value)


@pytest.mark.requirement("ING-8")
def test_a_person_may_give_a_url_a_doi_an_arxiv_id_or_a_pmcid() -> None:
    assert request_for(URL) == {"base_url": URL}
    doi = parse_request(request_for("doi:10.5555/ABC"))
    assert (doi.base_url, doi.link_source, doi.link_source_id) == ("https://doi.org/10.5555/abc", "doi", "10.5555/abc")
    assert request_for("arXiv:2401.00001")["base_url"] == "https://arxiv.org/pdf/2401.00001"
    assert request_for("PMC123")["link_source"] == "pmc"
    with pytest.raises(InvalidRequest, match="neither a URL, a DOI"):
        request_for("a nice paper about corals")
