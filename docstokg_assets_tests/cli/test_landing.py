"""`content landing`: what a rule writer sees of a page, from a file or over the wire."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from docstokg_assets.sandbox import Sandbox

if TYPE_CHECKING:
    from docstokg_assets_tests.support.program import Ended, Place

WORKS_PER_YEAR = 12
URL = "https://www.example.org/article/1"
PAGE = """<meta name="citation_pdf_url" content="1.pdf"><meta name="citation_xml_url" content="/1.xml">
<h3>Supplementary materials</h3><a href="/s1/bitstream/x.pdf">PDF</a>"""

Content = Callable[..., "Ended"]


def saved(tmp_path: Path, page: str | bytes) -> str:
    file = tmp_path / "page.html"
    file.write_bytes(page.encode() if isinstance(page, str) else page)
    return str(file)


@pytest.mark.requirement("RES-9")
def test_a_saved_page_is_explained_without_configuration_or_network(content: Content, tmp_path: Path) -> None:
    ended = content("landing", "--url", URL, "--file", saved(tmp_path, PAGE), "--json")
    answer = json.loads(ended.out)
    assert ended.code == 0
    assert list(answer) == ["pdf_url", "xml_url", "html_url", "rule", "wall", "next_url", "candidates", "rejected"]
    assert answer["pdf_url"] == "https://www.example.org/article/1.pdf"
    assert (answer["xml_url"], answer["html_url"], answer["next_url"]) == ("https://www.example.org/1.xml", None, None)
    assert (answer["rule"], answer["wall"]) == ("citation_pdf_url", None)
    assert answer["candidates"][0] == {"kind": "pdf", "url": answer["pdf_url"], "rule": "citation_pdf_url"}
    assert [(one["url"], one["why"]) for one in answer["rejected"]] == [
        ("https://www.example.org/s1/bitstream/x.pdf", "supplement")
    ]


@pytest.mark.requirement("RES-9")
def test_people_see_the_links_the_rules_and_what_was_turned_down(content: Content, tmp_path: Path) -> None:
    ended = content("landing", "--url", URL, "--file", saved(tmp_path, PAGE))
    assert ended.code == 0
    for shown in ("https://www.example.org/article/1.pdf", "citation_pdf_url", "supplement", "citation_xml_url"):
        assert shown in ended.out


@pytest.mark.requirement("RES-9")
@pytest.mark.parametrize(
    ("page", "wall"),
    [
        ("<title>An empty page</title>", None),
        ('<title>Just a moment...</title><a href="/1.pdf">PDF</a>', "blocked-waf"),
        ("", None),
    ],
)
def test_a_page_with_nothing_on_it_ends_with_three(
    content: Content, tmp_path: Path, page: str, wall: str | None
) -> None:
    ended = content("landing", "--url", URL, "--file", saved(tmp_path, page), "--json")
    answer = json.loads(ended.out)
    assert (ended.code, answer["pdf_url"], answer["wall"]) == (3, None, wall)


@pytest.mark.requirement("RES-9")
def test_a_file_that_is_no_page_but_the_pdf_is_said_to_be_it(content: Content, tmp_path: Path) -> None:
    ended = content("landing", "--url", URL, "--file", saved(tmp_path, b"%PDF-1.7\n"), "--json")
    assert (ended.code, json.loads(ended.out)["pdf_url"]) == (0, URL)


@pytest.mark.requirement("RES-9")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--url", "example.org/1", "--file", "x"), "begins with http"),
        (("--url", URL, "--file", "/nowhere/page.html"), "/nowhere/page.html: No such file"),
        (("--url", URL, "--file", "."), "directory"),
    ],
)
def test_bad_input_is_said_and_ends_with_two(content: Content, arguments: tuple[str, ...], said: str) -> None:
    ended = content("landing", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err and "Traceback" not in ended.err


@pytest.mark.requirement("RES-9", "HTTP-5")
def test_a_page_is_fetched_politely_when_there_is_no_file(content: Content, place: Place, box: Sandbox) -> None:
    stories = [box.universe.scenario(work) for work in box.universe.works(2024)]
    pages = [
        (f"https://{where}", page.to)
        for story in stories
        for where, page in story.pages.items()
        if page.kind == "landing"
    ]
    url, file = next((url, file) for url, file in pages if file.startswith("https://"))
    ended = content("landing", "--url", url, "--config", str(place.config), "--json")
    assert (ended.code, json.loads(ended.out)["pdf_url"]) == (0, file), ended.err
    asked = [(one["host"], one["path"]) for one in box.arrivals() if one["path"] != "/robots.txt"]
    assert asked and all(host in url for host, _ in asked)
    assert not place.out.exists()


@pytest.mark.requirement("RES-9")
def test_a_page_that_cannot_be_had_ends_with_two(content: Content, place: Place) -> None:
    ended = content("landing", "--url", "https://nobody.invalid/1", "--config", str(place.config))
    assert ended.code == 2
    assert "--file" in ended.err and "Traceback" not in ended.err


@pytest.mark.requirement("RES-9")
def test_the_web_is_not_asked_by_somebody_without_a_name(content: Content) -> None:
    ended = content("landing", "--url", URL)
    assert ended.code == 2
    assert "contact" in ended.err
