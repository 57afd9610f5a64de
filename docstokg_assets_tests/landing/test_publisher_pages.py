"""Old and new forms of publishers' and repositories' pages, in `pages.jsonl`: each alone, and among links to other documents.

The pages are written for these tests; they have the structure of real ones and nothing of their text.
"""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from docstokg_assets.landing.extract import extract

PAGES = [orjson.loads(line) for line in (Path(__file__).parent / "pages.jsonl").read_text().splitlines()]
BEFORE = (
    '<header><nav><a href="/">Home</a><a href="/about/author-guidelines.pdf">Instructions for authors (PDF)</a>'
    '<a href="/files/media-kit.pdf">Media kit</a><a href="/files/toc.pdf">Table of contents (PDF)</a></nav></header>'
)
AFTER = (
    '<h2>References</h2><ol class="references"><li>Doe J. <a href="https://other.example/papers/9.pdf">PDF</a></li></ol>'
    '<div class="related-articles"><a href="/more/8.pdf">Download PDF</a></div>'
    '<div class="cookie-banner"><a href="/policies/cookie-policy.pdf">Cookie policy</a></div>'
    '<h3>Supplementary material</h3><p><a href="/s/supp1.pdf">PDF</a></p>'
    '<footer><a href="/privacy.pdf">Privacy policy (PDF)</a></footer>'
)


def whole(page: str, before: str = "", after: str = "") -> bytes:
    head, _, body = page.rpartition("</head>")
    body = body if "<frameset" in body else f"{before}{body}{after}"
    return f"<html><head><title>T</title>{head}</head><body>{body}</body></html>".encode()


@pytest.mark.requirement("RES-9", "DL-11")
@pytest.mark.parametrize("row", PAGES, ids=[row["name"] for row in PAGES])
@pytest.mark.parametrize("around", [("", ""), (BEFORE, AFTER)], ids=["alone", "among-others"])
def test_the_article_is_found_and_nothing_else(row: dict[str, str], around: tuple[str, str]) -> None:
    if row["name"].startswith("bounce"):
        around = "", ""  # such pages have nothing else on them
    found = extract(whole(row["page"], *around), "text/html", row["url"])
    assert next((link.url for link in found.pdf), None) == row["pdf"]
    if "next" in row:
        assert found.next_page == row["next"]


@pytest.mark.requirement("RES-9")
def test_names_of_pages_are_their_own() -> None:
    assert len({row["name"] for row in PAGES}) == len(PAGES) >= 150
