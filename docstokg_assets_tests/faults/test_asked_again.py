"""Faults 56 and 57: hosts that are asked again say something new, and are heard."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from docstokg_assets.runs.resume import Selection, force, revalidate
from resources.catalog.catalog import Catalog
from resources.scope import WorkScope

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


# -- validators that change -------------------------------------------------------------------------------------------


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Configuration of the catalog."""
    if request.param == "sqlite":
        return {}
    url: SecretStr = request.getfixturevalue("postgres_catalog")
    return {"storage.backend": "postgres", "storage.url": url.get_secret_value()}


def reopened(select: Callable[[Catalog], Any], database: dict[str, Any]) -> Callable[[Path], None]:
    def before(root: Path) -> None:
        url = database.get("storage.url")
        with Catalog.open(SecretStr(url) if url else root / "catalog.sqlite3") as catalog:
            assert select(catalog) in (1, (1, 0))

    return before


class Renaming:
    """A host whose bytes stay the same while their ETag, and with it their date, is another one in each era."""

    def __init__(self, answers: Any, pdf: bytes) -> None:
        self.answers, self.pdf, self.era = answers, pdf, 1

    def __call__(self, request: Any) -> bytes:
        validators = {"ETag": f'"{self.era}"', "Last_Modified": f"Mon, 0{self.era} Jan 2024 00:00:00 GMT"}
        if request.headers.get("if-none-match") == validators["ETag"]:
            return bytes(self.answers.ok(b"", "304 Not Modified", ETag=validators["ETag"]))
        return bytes(self.answers.ok(self.pdf, Content_Type="application/pdf", **validators))


@pytest.mark.requirement("TRU-5", "CAT-3")
@pytest.mark.parametrize("how", ["revalidated", "forced"])
def test_fault_57_a_validator_that_changed_while_the_bytes_did_not_is_learnt(
    pull: Callable[..., Any], answers: Any, pdf: bytes, database: dict[str, Any], how: str
) -> None:
    host = Renaming(answers, pdf)
    check = reopened(lambda catalog: revalidate(catalog, WorkScope()), database)
    again = reopened(lambda catalog: force(catalog, WorkScope(), Selection.parse([], ())), database)
    assert pull(host, FILE, **database).reason == "ok"
    host.era = 2
    changed = pull(host, FILE, before=check if how == "revalidated" else again, **database)
    assert [str(a.status) for a in changed.attempts][-1] == "http-200", "sent whole, for its ETag is another"
    for _ in range(2):
        after = pull(host, FILE, before=check, **database)
        assert [str(a.status) for a in after.attempts][-1] == "http-304" and after.reason == "ok"
        assert after.server.requests[0].headers["if-modified-since"].startswith("Mon, 02"), "the date was learnt too"
    assert list(after.files.values()) == [pdf]
