"""Identifiers have one spelling, whoever wrote them down."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstokg_assets.domain.identifiers import (
    Identifier,
    arxiv_without_version,
    normalize_arxiv,
    normalize_doi,
    normalize_openalex_id,
    normalize_pmcid,
    normalize_pmid,
    normalize_url,
    parse_identifier,
)

NORMALIZERS = (normalize_doi, normalize_arxiv, normalize_pmcid, normalize_pmid, normalize_openalex_id, normalize_url)
DOI_PREFIXES = (
    *("https://doi.org/", "http://doi.org/", "https://dx.doi.org/", "http://dx.doi.org/", "https://www.doi.org/"),
    *("HTTPS://DOI.ORG/", "doi.org/", "doi:", "DOI:", "info:doi/", "INFO:DOI/", "doi:https://doi.org/"),
)
SUFFIXES = st.text("abcXYZ0123456789-_.();:/", min_size=1, max_size=40)


@pytest.mark.requirement("RES-5")
@pytest.mark.parametrize("prefix", ["", *DOI_PREFIXES, "doi: "])
def test_every_prefix_is_taken_off_a_doi_and_the_rest_keeps_its_case(prefix: str) -> None:
    assert normalize_doi(f" {prefix}10.1000/AbC.Def ") == "10.1000/AbC.Def"


@pytest.mark.requirement("RES-5")
@given(suffix=SUFFIXES, prefix=st.sampled_from(DOI_PREFIXES))
def test_prefix_variants_of_a_doi_are_equal(suffix: str, prefix: str) -> None:
    assert normalize_doi(f"{prefix}10.1000/{suffix}") == normalize_doi(f"10.1000/{suffix}")


@pytest.mark.requirement("RES-5")
@pytest.mark.parametrize(
    ("written", "doi"),
    [
        ("https://doi.org/10.1000%2Fxyz", "10.1000/xyz"),
        ("10.1000%2Fxyz", "10.1000/xyz"),
        ("10.1000/a%20b", "10.1000/a%20b"),  # bare and whole: the escape is the DOI's own
        ("10.1000/xyz.", "10.1000/xyz"),
        ("10.1000/xyz),", "10.1000/xyz"),
        ("10.1000/s1(2)", "10.1000/s1(2)"),
        ("https://doi.org/10.1000/xyz?utm_source=mail#abstract", "10.1000/xyz"),
        (
            "https://doi.org/10.1002/(sici)1521(1999)216:1<135::aid-pssb>3.0.co;2-#",
            "10.1002/(sici)1521(1999)216:1<135::aid-pssb>3.0.co;2-#",
        ),
        ("10.1000.10/123", "10.1000.10/123"),
        ("https%3A%2F%2Fdoi.org%2F10.1000%2Fxyz", "10.1000/xyz"),
        ("https://www.biorxiv.org/content/10.1101/2020.01.02.123456v2.full.pdf", "10.1101/2020.01.02.123456"),
        ("https://www.medrxiv.org/content/10.64898/2026.01.02.26000001v1", "10.64898/2026.01.02.26000001"),
        ("10.1101/123456v3", "10.1101/123456"),
        ("10.1101/gr.123456.118", "10.1101/gr.123456.118"),
    ],
)
def test_escapes_and_punctuation_of_a_doi(written: str, doi: str) -> None:
    assert normalize_doi(written) == doi


@pytest.mark.requirement("RES-5")
@pytest.mark.parametrize(
    "written",
    ["https://doi.org/", "doi:n/a", "https://doi.org/10.55550 /a b", "10..//", "10.1000/", "", None, 10.1, "10.1/x"],
)
def test_what_is_no_doi_is_none(written: Any) -> None:
    assert normalize_doi(written) is None


@pytest.mark.requirement("SRC-2")
@pytest.mark.parametrize(
    ("written", "arxiv_id"),
    [
        ("2401.00001", "2401.00001"),
        ("2401.00001v2", "2401.00001v2"),
        ("arXiv:2401.00001V2", "2401.00001v2"),
        ("hep-th/9901001v1", "hep-th/9901001v1"),
        ("ARXIV:HEP-TH/9901001", "hep-th/9901001"),
        ("math.gt/0309136", "math.GT/0309136"),
        ("https://arxiv.org/abs/2401.00001", "2401.00001"),
        ("http://www.arxiv.org/pdf/2401.00001v3.pdf", "2401.00001v3"),
        ("https://export.arxiv.org/pdf/hep-th/9901001", "hep-th/9901001"),
        ("10.48550/arXiv.2401.00001", "2401.00001"),
        ("https://doi.org/10.48550/arxiv.2401.00001", "2401.00001"),
        ("oai:arXiv.org:2401.00001", "2401.00001"),
        ("10.1000/2401.00001", None),
        ("2401.001", None),
        ("https://example.org/abs/2401.00001", None),
    ],
)
def test_arxiv_ids_old_and_new(written: str, arxiv_id: str | None) -> None:
    assert normalize_arxiv(written) == arxiv_id


@pytest.mark.requirement("SRC-2")
@pytest.mark.parametrize(
    ("normalize", "written", "value"),
    [
        (normalize_pmcid, "PMC123", "PMC123"),
        (normalize_pmcid, "pmc123.1", "PMC123"),
        (normalize_pmcid, "PMCID: PMC123", "PMC123"),
        (normalize_pmcid, "https://www.ncbi.nlm.nih.gov/pmc/articles/9900001", "PMC9900001"),
        (normalize_pmcid, "https://pmc.ncbi.nlm.nih.gov/articles/PMC123/pdf/a.pdf", "PMC123"),
        (normalize_pmcid, "pmh:oai:pubmedcentral.nih.gov:123", "PMC123"),
        (normalize_pmcid, "123", None),
        (normalize_pmid, "https://pubmed.ncbi.nlm.nih.gov/41990001", "41990001"),
        (normalize_pmid, "PMID: 123", "123"),
        (normalize_pmid, "PMC123", None),
        (normalize_openalex_id, "https://openalex.org/W123", "W123"),
        (normalize_openalex_id, "https://api.openalex.org/works/w123", "W123"),
        (normalize_openalex_id, "w123", "W123"),
        (normalize_openalex_id, "https://openalex.org/A123", None),
    ],
)
def test_other_identifiers(normalize: Callable[[Any], str | None], written: str, value: str | None) -> None:
    assert normalize(written) == value


@pytest.mark.requirement("SRC-2")
@pytest.mark.parametrize(
    ("written", "identifier"),
    [
        ("https://openalex.org/W1", Identifier("openalex", "W1")),
        ("10.48550/arXiv.2401.00001", Identifier("arxiv", "2401.00001")),
        ("doi:10.1000/x", Identifier("doi", "10.1000/x")),
        ("PMC5", Identifier("pmcid", "PMC5")),
        ("12345", None),
        ("hello", None),
    ],
)
def test_the_kind_of_a_written_identifier_is_recognised(written: str, identifier: Identifier | None) -> None:
    assert parse_identifier(written) == identifier


@given(
    st.text(max_size=80) | st.sampled_from(DOI_PREFIXES).flatmap(lambda p: SUFFIXES.map(lambda s: f"{p}10.1000/{s}"))
)
def test_normalising_twice_changes_nothing(written: str) -> None:
    for normalize in NORMALIZERS:
        once = normalize(written)
        assert once is None or normalize(once) == once


@pytest.mark.requirement("RES-5")
@given(suffix=SUFFIXES, prefix=st.sampled_from(DOI_PREFIXES[:7]), end=st.sampled_from(["", ".", ",", ";", " ", "”"]))
def test_a_doi_comes_back_from_an_escaped_address_in_a_sentence(suffix: str, prefix: str, end: str) -> None:
    doi = normalize_doi(f"10.1000/{suffix}")
    if doi is not None:
        assert normalize_doi(f"{prefix}{quote(doi, safe='')}{end}") == doi
        assert normalize_doi(f"{prefix}{quote(doi, safe='/')}{end}") == doi


ARXIV_IDS = st.from_regex(
    r"([0-9]{4}\.[0-9]{4,5}|(hep-th|cond-mat|math\.GT)/[0-9]{7})(v[1-9])?",
    fullmatch=True,
    alphabet=st.characters(codec="ascii"),
)


@pytest.mark.requirement("SRC-2")
@given(ident=ARXIV_IDS)
def test_an_arxiv_id_comes_back_from_every_address_of_the_paper(ident: str) -> None:
    for address in (
        "https://arxiv.org/abs/{}",
        "https://arxiv.org/pdf/{}.pdf",
        "export.arxiv.org/pdf/{}",
        "arXiv:{}",
        "{}",
    ):
        assert normalize_arxiv(address.format(ident)) == ident
    bare = arxiv_without_version(ident)
    assert normalize_arxiv(f"10.48550/arxiv.{bare}") == normalize_arxiv(bare) == bare


@pytest.mark.requirement("SRC-2")
@given(number=st.integers(1, 10**9), version=st.sampled_from(["", ".1", ".12"]))
def test_numbers_come_back_from_every_address(number: int, version: str) -> None:
    for written in (f"PMC{number}{version}", f"pmcid: pmc{number}{version}"):
        assert normalize_pmcid(written) == f"PMC{number}"
    assert normalize_pmcid(f"https://pmc.ncbi.nlm.nih.gov/articles/PMC{number}{version}/") == f"PMC{number}"
    for written in (f"W{number}", f"https://openalex.org/W{number}", f"https://api.openalex.org/works/w{number}"):
        assert normalize_openalex_id(written) == f"W{number}"


@pytest.mark.requirement("HTTP-6")
@pytest.mark.parametrize(
    "written",
    [
        "ftp://example.org/a.pdf",
        "javascript:alert(1)",
        "file:///etc/passwd",
        "//example.org/a.pdf",
        "/a.pdf",
        "https://",
        "https://exa mple.org/",
        "https://example.org/a\r\nHost: evil",
        "https://example.org/\x00",
        "https://example.org:port/",
        "http://[::1",
        "https://good.org\\@evil.org/",
        "https://example.org/" + "a" * 5000,
        None,
        17,
        {"href": True},
    ],
)
def test_what_must_not_be_requested_is_no_url(written: Any) -> None:
    assert normalize_url(written) is None


def test_a_url_is_kept_as_it_is_but_for_white_space() -> None:
    assert normalize_url(" http://Example.org/A b.pdf?x=1#p \n") == "http://Example.org/A%20b.pdf?x=1#p"


@pytest.mark.parametrize("hostile", ["(" * 2048, "10.1000/" + ")" * 2000, "doi:" * 500, "%41" * 600, "a" * 1_000_000])
def test_hostile_text_takes_no_time(hostile: str) -> None:
    started = time.process_time()
    for normalize in NORMALIZERS:
        normalize(hostile)
    assert time.process_time() - started < 1
