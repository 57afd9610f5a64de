"""What `verify` looks at, and what it puts back into the queue."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path
from typing import Any

import pytest

from docstokg_assets.runs.resume import verify
from resources.artifacts.file_system import FileSystemStore
from resources.catalog.catalog import Catalog
from resources.catalog.rows import Batch, Finished, NewItem
from resources.records import Classification, DownloadOutcome, Kind, Reason
from resources.scope import WorkScope


def stored(store: FileSystemStore, path: str, body: bytes, kind: Kind, **more: Any) -> DownloadOutcome:
    part = store.begin(path.partition("/")[0])
    part.write(body)
    sha256 = hashlib.sha256(body).hexdigest()
    place, url = store.commit(part, path, sha256).path, f"https://a.example/{path}"
    return DownloadOutcome(True, place, Classification.SUCCESS, Reason.OK, kind=kind, url=url, sha256=sha256, **more)


@pytest.mark.requirement("CAT-3", "CAT-5")
def test_the_page_that_is_kept_beside_a_pdf_is_checked_too(tmp_path: Path) -> None:
    store = FileSystemStore(tmp_path / "store")
    page = stored(store, "HTML/1.html", b"<html>", Kind.HTML)
    pdf = stored(store, "PDF/1.pdf", b"%PDF", Kind.PDF, html_paths=("HTML/1.html",), beside=(page,))
    with Catalog.open(tmp_path / "catalog.sqlite3") as catalog:
        catalog.enqueue([NewItem("W1", 2024, 2024, {"work_id": "W1"}, "p")])
        catalog.claim("me", 1, 60)
        catalog.commit(Batch(finished=[Finished("W1", 2024, None, None, pdf, "run", "hash", "me")]))
        whole = verify(catalog, store, WorkScope(), 2, threading.Event(), lambda checked: None, 10**6)
        assert (whole.checked, whole.lost, catalog.queue_counts().done) == (2, [], 1)
        assert catalog.audit_state(2024)[2:4] == (1, 0), "read, and not bad: the audit need not read it soon"
        (tmp_path / "store" / "HTML" / "1.html").write_bytes(b"<HTML>")
        found = verify(catalog, store, WorkScope(), 2, threading.Event(), lambda checked: None, 10**6)
        assert (found.checked, found.damaged) == (2, ["W1"])
        assert [path for _, path in catalog.remembered_bad(2024)] == ["HTML/1.html"]
        (again,) = catalog.claim("me", 1, 60).items
    assert again.progress is not None and again.progress["replaces"]["path"] == "HTML/1.html"
    assert not store.exists("HTML/1.html") and store.exists("PDF/1.pdf")
