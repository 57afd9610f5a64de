"""`content gc`: what it lists, what it removes, and what it leaves alone."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from docstokg_assets.domain.works import Work
from docstokg_assets_tests.support.servers import s3_bucket
from resources.catalog.catalog import Catalog
from resources.catalog.rows import Batch, NewItem, Parked

if TYPE_CHECKING:
    from docstokg_assets.sandbox import Sandbox
    from docstokg_assets_tests.support.program import Ended, Place

WORKS_PER_YEAR = 6
Content = Callable[..., "Ended"]
DAYS = 86_400


def lay(path: Path, size: int, age_s: float = 3 * DAYS) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    os.utime(path, (time.time() - age_s,) * 2)
    return path


@pytest.fixture
def filled(place: Place, content: Content) -> Place:
    """A data root after a run, with leftovers of three kinds and two things that only look like them."""
    assert (
        content("pull", "-c", str(place.config), "--out", str(place.out), "--query", "publication_year:2024").code == 0
    )
    for file in (place.out / "PDF").iterdir():
        os.utime(file, (time.time() - 3 * DAYS,) * 2)
    lay(place.out / "PDF" / "2024__nobodys__W9.pdf", 2_500_000)
    lay(place.out / "cas" / "ab" / "cd" / "abcd.pdf", 700)
    lay(place.out / "PDF" / ".part-killed", 400_000)
    lay(place.out / "PDF" / "2024__of-this-moment__W8.pdf", 10, age_s=60)
    lay(place.out / "PDF" / ".part-of-this-moment", 10, age_s=60)
    return place


def gc(content: Content, place: Place, *more: str) -> Ended:
    return content("gc", "-c", str(place.config), "--out", str(place.out), *more)


LEFT = {"PDF/2024__nobodys__W9.pdf": "orphan", "cas/ab/cd/abcd.pdf": "orphan", "PDF/.part-killed": "stale part"}


@pytest.mark.requirement("CAT-3")
def test_leftovers_are_listed_and_nothing_is_touched(filled: Place, content: Content) -> None:
    before = {path: path.stat().st_mtime for path in filled.out.rglob("*") if path.is_file()}
    shown = gc(content, filled)
    assert shown.code == 0
    for path in LEFT:
        assert path in shown.out
    assert "this-moment" not in shown.out
    assert "2 orphans (2.5 MB) and 1 stale part (400.0 kB): nothing was removed; --delete removes them." in shown.out
    told = json.loads(gc(content, filled, "--format", "json").out)
    assert {file["path"]: file["what"] for file in told["files"]} == LEFT
    assert (told["bytes"], told["store"]) == (2_900_700, str(filled.out))
    assert {path for path in before if not path.exists()} == set()


@pytest.mark.requirement("CAT-3")
def test_what_is_listed_is_removed_when_asked_and_the_rest_stays(filled: Place, content: Content) -> None:
    kept = {row[0] for row in filled.rows("SELECT path FROM artifacts")}
    removed = gc(content, filled, "--delete", "--format", "json")
    assert removed.code == 0 and all(file["removed"] for file in json.loads(removed.out)["files"])
    there = {path.relative_to(filled.out).as_posix() for path in (filled.out / "PDF").iterdir()}
    assert there == {path for path in kept if path.startswith("PDF")} | {
        "PDF/2024__of-this-moment__W8.pdf",
        "PDF/.part-of-this-moment",
    }
    again = gc(content, filled, "--delete")
    assert (
        again.code == 0
        and "No orphans or stale parts in" in again.out
        and "Not listed: 1 file younger than 24 h" in again.out
    )


@pytest.mark.requirement("CAT-3")
def test_a_page_that_is_kept_for_a_work_that_waits_is_no_orphan(filled: Place, content: Content) -> None:
    with Catalog.open(filled.out / "catalog.sqlite3") as catalog:
        record = Work("W77", title="t", year=2024).to_json()
        catalog.enqueue([NewItem("W77", 2024, 1, record, "hash")])
        catalog.claim("me:1:x", 64, 60)
        progress = {"html": {"path": "HTML/2024__t__W77.html"}}
        catalog.commit(Batch(parked=[Parked("W77", progress, None, catalog.now() + 9999, "retry-after", "me:1:x")]))
        catalog.release_owner("me:1:x")
    page = lay(filled.out / "HTML" / "2024__t__W77.html", 10)
    assert gc(content, filled, "--delete").code == 0
    assert page.exists()


@pytest.mark.requirement("CAT-3")
def test_nothing_is_removed_while_a_run_is_under_way(filled: Place, content: Content) -> None:
    with Catalog.open(filled.out / "catalog.sqlite3") as catalog:
        catalog.enqueue([NewItem("W77", 2024, 1, Work("W77").to_json(), "hash")])
        catalog.claim(f"{platform.node()}:{os.getpid()}:x", 64, 60)
    refused = gc(content, filled, "--delete")
    assert refused.code == 2 and f"runs are in progress ({platform.node()}:{os.getpid()})" in refused.err
    assert gc(content, filled).code == 0
    assert (filled.out / "PDF" / "2024__nobodys__W9.pdf").exists()


@pytest.mark.requirement("CAT-3")
def test_the_files_of_another_data_root_are_not_taken_for_orphans(
    filled: Place, content: Content, tmp_path: Path
) -> None:
    """A catalog that names nothing, and a store full of files: somebody gave the wrong folder."""
    Catalog.open(tmp_path / "other" / "catalog.sqlite3").close()
    filled.write(artifacts__root=str(filled.out))
    refused = content(
        "gc", "-c", str(filled.config), "--out", str(tmp_path / "other"), "--delete", "--older-than", "24"
    )
    assert refused.code == 2 and "is this the right data folder? Nothing was removed." in refused.err
    assert (filled.out / "PDF" / "2024__nobodys__W9.pdf").exists()


@pytest.mark.requirement("DL-6")
def test_files_in_quarantine_are_listed_with_their_works_and_removed_only_on_request(
    place: Place, content: Content, box: Sandbox
) -> None:
    spoiled = "%PDF-1.7\n" + "x" * 5000 + "\n%%EOF\n<html><body>pay</body></html>"
    box.add_fault(host="*.example", method="GET", body=spoiled, type="application/pdf")
    ended = content("pull", "-c", str(place.config), "--out", str(place.out), "--query", "publication_year:2024")
    assert ended.code == 0, ended.err
    (file,) = (place.out / "quarantine").iterdir()
    lay(place.out / "quarantine" / ("0" * 64 + ".pdf"), 10)  # of a process that was killed
    usual = gc(content, place, "--delete")
    assert usual.code == 0 and "2 files in quarantine (5.1 kB): see --quarantine." in usual.out and file.exists()

    told = json.loads(gc(content, place, "--quarantine", "--format", "json").out)
    rows = "SELECT work_id, url FROM attempts WHERE reason = 'pdf-corrupt' AND extra LIKE '%quarantined%'"
    known = [one for one in told["files"] if one["work_id"]]
    assert known and {(one["work_id"], one["url"]) for one in known} == set(place.rows(rows))
    for one in known:
        assert (one["path"], one["reason"]) == (f"quarantine/{file.name}", "pdf-corrupt")
        assert (one["fault"], one["bytes"], one["removed"]) == ("ends as an HTML page", len(spoiled), False)
    assert told["bytes"] == len(spoiled) + 10
    shown = gc(content, place, "--quarantine")
    assert known[0]["work_id"] in shown.out and "nothing was removed; --delete removes them" in shown.out
    why = content("why", known[0]["work_id"], "-c", str(place.config), "--out", str(place.out))
    assert f"kept as quarantine/{file.name}" in " ".join(why.out.split())

    removed = gc(content, place, "--quarantine", "--delete")
    assert removed.code == 0 and "2 quarantined files (5.1 kB): 2 removed." in removed.out
    assert not any((place.out / "quarantine").iterdir())
    assert "No files in quarantine in" in gc(content, place, "--quarantine").out


def test_without_a_catalog_there_is_nothing_to_compare_with(content: Content, tmp_path: Path) -> None:
    refused = content("gc", "--out", str(tmp_path / "nowhere"))
    assert refused.code == 2 and "there is no catalog at" in refused.err


@pytest.mark.requirement("DL-10")
def test_a_run_into_a_bucket_by_hash_and_its_leftovers(
    place: Place,
    content: Content,
    moto: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "tester")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary-of-the-store")
    there: dict[str, Any] = {"store": "s3", "layout": "cas", "bucket": "papers", "prefix": "gc", "endpoint_url": moto}
    place.write(artifacts=there | {"region": "us-east-1"})
    ended = content("pull", "-c", str(place.config), "--out", str(place.out), "--query", "publication_year:2024")
    assert ended.code == 0, ended.err
    client = s3_bucket(moto, "tester", "anything")
    keys = {item["Key"] for item in client.list_objects_v2(Bucket="papers", Prefix="gc/")["Contents"]}
    rows = place.rows("SELECT path, sha256 FROM artifacts")
    assert rows and keys == {f"gc/cas/{sha256[:2]}/{sha256[2:4]}/{Path(path).name}" for path, sha256 in rows}
    named = place.rows("SELECT json_extract(meta, '$.name') FROM catalog_entries WHERE path IS NOT NULL")
    assert all(name.startswith(("PDF/2024__", "HTML/2024__", "XML/2024__")) for (name,) in named)
    assert "s3://papers/gc" in ended.out
    assert not any((place.out / folder).exists() for folder in ("PDF", "cas"))
    assert "canary-of-the-store" not in ended.out + ended.err
    listed = gc(content, place)
    assert listed.code == 0 and "No orphans or stale parts in s3://papers/gc/." in listed.out
