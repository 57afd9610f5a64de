"""Faults 56 and 57: hosts that are asked again say something new, and are heard."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from docstokg_assets.domain.scope import WorkScope
from docstokg_assets.runs.resume import Selection, force
from resources.catalog import Catalog

PAGE, FILE = "http://a.example/paper", "http://a.example/paper.pdf"
WALL = b"<html><head><title>Just a moment...</title></head><body>Checking your browser</body></html>"
BARE = b"<html><head><title>An article</title></head><body>nothing to see</body></html>"
LINKED = f'<html><head><meta name="citation_pdf_url" content="{FILE}"></head><body>an article</body></html>'.encode()


def in_cache(root: Path) -> int:
    file = root / "http-cache.sqlite3"
    if not file.exists():
        return 0
    with sqlite3.connect(file) as connection:
        return int(connection.execute("SELECT count(*) FROM entries").fetchone()[0])


def force_all(root: Path) -> None:
    with Catalog.open(root / "catalog.sqlite3") as catalog:
        assert force(catalog, WorkScope(), Selection.parse([], ())) == 1


@pytest.mark.requirement("TRU-5")
@pytest.mark.parametrize(
    ("status", "page", "reason"),
    [
        ("200 OK", WALL, "blocked-waf"),
        ("200 OK", BARE, "no-pdf-link"),
        ("404 Not Found", BARE, "http-4xx"),
        ("410 Gone", BARE, "http-4xx"),
    ],
    ids=["wall", "no link", "404", "410"],
)
def test_fault_56_a_wall_an_error_or_a_dead_end_is_not_kept_and_the_work_is_found_when_it_is_gone(
    pull: Callable[..., Any], answers: Any, pdf: bytes, status: str, page: bytes, reason: str
) -> None:
    html = {"Content_Type": "text/html", "Cache_Control": "max-age=86400"}
    first = pull(answers.ok(page, status, **html), landing=PAGE)
    assert first.reason == reason and in_cache(first.root) == 0
    there = {PAGE: answers.ok(LINKED, **html), FILE: answers.ok(pdf, Content_Type="application/pdf")}
    again = pull(lambda request: there[request.path], landing=PAGE, before=force_all)
    assert again.reason == "ok" and list(again.files.values()) == [pdf]
    assert [request.path for request in again.server.requests] == [PAGE, FILE] and in_cache(again.root) == 1


@pytest.mark.requirement("TRU-5")
def test_fault_56_a_forced_search_asks_again_what_the_cache_knows(
    pull: Callable[..., Any], answers: Any, pdf: bytes
) -> None:
    moved = LINKED.replace(b"paper.pdf", b"moved.pdf")
    html = {"Content_Type": "text/html", "Cache_Control": "max-age=86400"}
    first = pull(lambda r: answers.ok(LINKED, **html) if r.path == PAGE else answers.ok(b"", "404 No"), landing=PAGE)
    assert first.reason == "http-4xx" and in_cache(first.root) == 1
    there = {PAGE: answers.ok(moved, **html), FILE.replace("paper.pdf", "moved.pdf"): answers.ok(pdf)}
    again = pull(lambda r: there.get(r.path, answers.ok(b"", "404 No")), landing=PAGE, before=force_all)
    assert again.reason == "ok" and again.server.requests[0].path == PAGE
