"""A file that was stored and never recorded, because its process was killed or the catalog is an older one: the next search of
its work takes it as it is, and asks nobody. What is recorded, damaged or not wanted any more is fetched."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from resources.processes import new_owner

URL = "http://a.example/1.pdf"
NAME = "PDF/2024__a-title__W1.pdf"
NEXT = "PDF/2024__a-title__W1~2.pdf"


def answer_of(answers: Any, pdf: bytes) -> bytes:
    return answers.ok(pdf, Content_Type="application/pdf", ETag='"one"')  # type: ignore[no-any-return]


def forget(root: Path) -> None:
    """The catalog as it was before anything was recorded; whoever stored the file has ended since."""
    for file in root.glob("catalog.sqlite3*"):
        file.unlink()
    if (root / NAME).is_file():
        os.setxattr(root / NAME, "user.docstokg.by", f"{new_owner().split(':')[0]}:{ended_process()}:0".encode())


def ended_process() -> int:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    return process.pid


@pytest.mark.requirement("CAT-3")
def test_a_whole_file_that_nobody_recorded_is_taken_without_a_request(
    pull: Callable[..., Any], answers: Any, pdf: bytes
) -> None:
    first = pull(answer_of(answers, pdf), URL)
    again = pull(answer_of(answers, pdf), URL, before=forget)
    assert (again.reason, again.server.requests, again.files) == ("ok", [], {NAME: pdf})
    assert again.entry.meta["adopted"] is True and again.entry.requests == 0
    told = (
        "url",
        "resolver",
        "tier",
        "kind",
        "sha256",
        "bytes",
        "content_type",
        "http_status",
        "path",
        "fallback_chain",
    )
    assert [getattr(again.entry, name) for name in told] == [getattr(first.entry, name) for name in told]
    with closing(sqlite3.connect(again.root / "catalog.sqlite3")) as catalog:
        rows = catalog.execute("SELECT work_id, url, path, etag FROM artifacts").fetchall()
    assert rows == [("W1", URL, NAME, '"one"')]


def flip_a_bit(root: Path) -> None:
    forget(root)
    with open(root / NAME, "r+b") as file:  # the note stays with the file
        file.seek(100)
        file.write(b"y")


def lose_the_note(root: Path) -> None:
    forget(root)
    os.removexattr(root / NAME, "user.docstokg")


def spoil_the_note(root: Path) -> None:
    forget(root)
    os.setxattr(root / NAME, "user.docstokg", b'{"ok": true, "reason": "because"}')


def lose_the_url(root: Path) -> None:
    forget(root)
    note = json.loads(os.getxattr(root / NAME, "user.docstokg"))
    os.setxattr(root / NAME, "user.docstokg", json.dumps(note | {"url": None}).encode())


def put_a_link_there(root: Path) -> None:
    forget(root)
    os.rename(root / NAME, root / "elsewhere.pdf")
    os.symlink(root / "elsewhere.pdf", root / NAME)


@pytest.mark.requirement("CAT-3")
@pytest.mark.parametrize("happened", [flip_a_bit, lose_the_note, spoil_the_note, lose_the_url, put_a_link_there])
def test_what_is_not_plainly_the_same_file_is_fetched(
    pull: Callable[..., Any], answers: Any, pdf: bytes, happened: Callable[[Path], None]
) -> None:
    pull(answer_of(answers, pdf), URL)
    again = pull(answer_of(answers, pdf), URL, before=happened)
    assert (again.reason, len(again.server.requests), again.entry.path) == ("ok", 1, NEXT)
    assert again.files[NEXT] == pdf and "adopted" not in again.entry.meta
    assert (again.root / NAME).is_symlink() or set(again.files) == {NEXT}  # what an ended process left goes


@pytest.mark.requirement("TRU-1")
def test_what_a_living_process_stored_is_left_to_it(pull: Callable[..., Any], answers: Any, pdf: bytes) -> None:
    def forget_only_the_catalog(root: Path) -> None:
        for file in root.glob("catalog.sqlite3*"):
            file.unlink()

    pull(answer_of(answers, pdf), URL)
    again = pull(answer_of(answers, pdf), URL, before=forget_only_the_catalog)
    assert (again.reason, len(again.server.requests), again.entry.path) == ("ok", 1, NEXT)
    assert again.files == {NAME: pdf, NEXT: pdf}  # stored by this very process, which has not ended


@pytest.mark.requirement("CAT-3")
def test_a_file_that_is_recorded_is_what_a_search_by_force_finds_anew(
    pull: Callable[..., Any], answers: Any, pdf: bytes
) -> None:
    def reopen(root: Path) -> None:
        with closing(sqlite3.connect(root / "catalog.sqlite3")) as catalog, catalog:
            catalog.execute("UPDATE queue SET state = 'queued', not_before = 0")

    pull(answer_of(answers, pdf), URL)
    newer = pdf.replace(b"%PDF-1.7", b"%PDF-1.6")
    again = pull(answer_of(answers, newer), URL, before=reopen)
    assert (len(again.server.requests), again.files[again.entry.path]) == (1, newer)


@pytest.mark.requirement("CAT-3")
def test_a_copy_that_is_not_wanted_any_more_is_not_adopted(pull: Callable[..., Any], answers: Any, pdf: bytes) -> None:
    pull(answer_of(answers, pdf), URL)
    again = pull(answer_of(answers, pdf), URL, before=forget, download__licenses=["cc-by*"])
    assert (again.reason, again.server.requests) == ("policy-license", [])


@pytest.mark.requirement("CAT-3")
def test_by_hash_the_file_of_a_work_is_not_known_before_it_is_fetched(
    pull: Callable[..., Any], answers: Any, pdf: bytes
) -> None:
    pull(answer_of(answers, pdf), URL, artifacts__layout="cas")
    again = pull(answer_of(answers, pdf), URL, before=forget, artifacts__layout="cas")
    assert (again.reason, len(again.server.requests)) == ("ok", 1)
    assert len([path for path in (again.root / "cas").rglob("*") if path.is_file()]) == 1
