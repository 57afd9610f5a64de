"""`kill -9` in the middle of a run, several times: checked with nothing but sqlite3 and hashlib, as an auditor would."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pytest

from docstokg_assets.sandbox import Sandbox

if TYPE_CHECKING:
    from docstokg_assets_tests.cli.conftest import Place

WORKS_PER_YEAR = 120
WORKERS = 8
KILLED_AT = (20, 90, 160)  # finished works
QUERY = ("--query", "publication_year:2023-2024")


def delivered(box: Sandbox) -> Counter[str]:
    """How often each address was asked for with GET and gave what it has."""
    answered = (seen for seen in box.arrivals() if seen["method"] == "GET" and seen["status"] == 200)
    return Counter(unquote(f"{seen['host']}{seen['path']}") for seen in answered)


def address(url: str) -> str:
    parts = urlsplit(url)
    return unquote(f"{parts.netloc}{parts.path}" + (f"?{parts.query}" if parts.query else ""))


def addresses(place: Place) -> dict[str, str]:
    """Where the file of each work with full text came from, after redirects."""
    found = place.rows("SELECT work_id, url, meta FROM catalog_entries WHERE classification = 'success'")
    return {work_id: address(json.loads(meta).get("final_url", url)) for work_id, url, meta in found}


def check_files(place: Place) -> None:
    """Every catalogued file is whole, and every file under a final name is catalogued."""
    catalogued: dict[str, str | None] = {}
    for path, sha256, html in place.rows("SELECT path, sha256, html_paths FROM catalog_entries"):
        catalogued |= dict.fromkeys(json.loads(html or "[]"))
        if path is not None:
            catalogued[path] = sha256
    for path, sha256 in catalogued.items():
        content = (place.out / path).read_bytes()
        assert content and sha256 in (None, hashlib.sha256(content).hexdigest()), path
    for path, sha256 in place.rows("SELECT path, sha256 FROM artifacts"):
        assert hashlib.sha256((place.out / path).read_bytes()).hexdigest() == sha256
    files = [file for kind in ("PDF", "HTML", "XML") for file in (place.out / kind).glob("*")]
    final = {file.relative_to(place.out).as_posix() for file in files if not file.name.startswith(".part-")}
    assert final == set(catalogued)


def check_lines(folder: Path) -> None:
    for file in folder.glob("*/manifest.jsonl"):
        whole, _, torn = file.read_bytes().rpartition(b"\n")
        assert not torn
        assert all(json.loads(line)["schema_version"] == 3 for line in whole.splitlines())


@pytest.mark.requirement("CAT-2", "CAT-3", "DL-4")
def test_a_run_that_is_killed_again_and_again_loses_nothing_and_repeats_almost_nothing(
    box: Sandbox, place: Place
) -> None:
    box.add_fault(host="*.example", delay=0.04)
    earlier: list[tuple[dict[str, str], Counter[str]]] = []
    for count in KILLED_AT:
        process = place.start(*QUERY, "--workers", str(WORKERS))
        place.wait_for(lambda count=count: place.done() >= count, process)
        process.kill()
        process.communicate()
        assert place.done() < 2 * WORKS_PER_YEAR
        earlier.append((addresses(place), delivered(box)))

    last = place.run(*QUERY, "--workers", str(WORKERS))
    assert last.code == 0, last.err
    assert "from a process that has ended" in last.err

    works = {work.id for work in box.universe.works()}
    assert [row[0] for row in place.rows("SELECT work_id FROM catalog_entries ORDER BY work_id")] == sorted(works)
    assert place.rows("SELECT DISTINCT state FROM queue") == [("done",)]
    check_files(place)
    check_lines(place.out)
    with sqlite3.connect(place.out / "catalog.sqlite3") as catalog:
        assert catalog.execute("PRAGMA integrity_check").fetchone() == ("ok",)

    in_the_end = delivered(box)
    for finished, before in earlier:
        again = [work_id for work_id, url in finished.items() if in_the_end[url] > before[url]]
        assert finished and not again, "finished works were fetched again"
    twice = [work_id for work_id, url in addresses(place).items() if in_the_end[url] > 1]
    assert len(twice) <= WORKERS * len(KILLED_AT), twice
