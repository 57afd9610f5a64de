"""Files of URLs, and works of which only an identifier is known."""

from __future__ import annotations

import re

import pytest

from docstokg_assets.domain.identifiers import Identifier
from docstokg_assets.domain.works import Work
from docstokg_assets.sources.files import read_urls, work_from_identifier
from docstokg_assets.sources.listing import Source


def made_from(identifier: Identifier) -> Work:
    made = work_from_identifier(identifier)
    assert made is not None
    return made


@pytest.mark.requirement("SRC-2")
@pytest.mark.parametrize(
    ("identifier", "work_id"),
    [
        (Identifier("openalex", "W1"), r"W1"),
        (Identifier("arxiv", "hep-th/9901001v1"), r"arxiv-hep-th-9901001v1"),
        (Identifier("arxiv", "2401.00001"), r"arxiv-2401\.00001"),
        (Identifier("pmcid", "PMC1"), r"PMC1"),
        (Identifier("doi", "10.5555/A<b>/../c"), r"doi-10\.5555-a-b-\.\.-c-[0-9a-f]{8}"),
        (Identifier("doi", "10.5555/" + "x" * 500), r"doi-10\.5555-x+-[0-9a-f]{8}"),
    ],
)
def test_an_identifier_alone_makes_a_work_with_a_name_that_is_safe_in_paths(
    identifier: Identifier, work_id: str
) -> None:
    made = made_from(identifier).work_id
    assert re.fullmatch(work_id, made)
    assert re.fullmatch(r"[A-Za-z0-9.-]{1,80}", made)


@pytest.mark.requirement("SRC-2")
def test_dois_that_differ_in_case_are_one_work_and_those_that_only_look_alike_are_two() -> None:
    names = [made_from(Identifier("doi", doi)).work_id for doi in ("10.5555/A-b", "10.5555/a-B", "10.5555/a(b")]
    assert names[0] == names[1] != names[2]


@pytest.mark.requirement("SRC-2")
def test_a_file_of_urls_makes_a_work_of_each() -> None:
    read = read_urls(
        [
            "# seen",
            "https://press.example/a/?utm_source=x",
            "https://press.example/a",
            "ftp://x/",
            "https://doi.org/10.5555/1",
        ]
    )
    source = Source.from_list("urls", "urls.txt", read)
    works, aside = source.works, source.set_aside
    assert [work.urls for work in works] == [("https://press.example/a/?utm_source=x",), ("https://doi.org/10.5555/1",)]
    assert all(re.fullmatch(r"url-[0-9a-f]{12}", work.work_id) for work in works)
    assert works[1].doi == "10.5555/1"
    assert [(line.where, line.text) for line in aside] == [("line 4", "ftp://x/")]
