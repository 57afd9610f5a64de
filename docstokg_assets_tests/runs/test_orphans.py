"""`gc --delete` and a search that adopts a file at the same time: the file that gets a name stays, on both databases."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from docstokg_assets.runs import orphans
from docstokg_assets.runs.orphans import StoreBusy, delete_unnamed, find_orphans
from resources.artifacts.file_system import FileSystemStore
from resources.catalog.catalog import Catalog
from resources.catalog.database import Location
from resources.catalog.rows import Batch, NewItem
from resources.processes import new_owner

PATH = "PDF/2024__a__W1.pdf"


@pytest.fixture(params=["sqlite", "postgres"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> Location:
    if request.param == "sqlite":
        return tmp_path / "catalog.sqlite3"
    found: Location = request.getfixturevalue("postgres_catalog")
    return found


@pytest.fixture
def gc(location: Location) -> Iterator[Catalog]:
    with Catalog.open(location) as catalog:
        yield catalog


@pytest.fixture
def run(location: Location) -> Iterator[Catalog]:
    """Another process that opened the same catalog."""
    with Catalog.open(location) as catalog:
        catalog.start_run("run-1", "pull", "hash", {})
        catalog.enqueue([NewItem("W1", 2024, 0, {}, "plan")])
        yield catalog


@pytest.fixture
def store(tmp_path: Path) -> FileSystemStore:
    store = FileSystemStore(tmp_path / "store")
    for n in (1, 2, 3):
        part = store.begin("PDF")
        part.write(b"%PDF")
        store.commit(part, f"PDF/2024__a__W{n}.pdf", hashlib.sha256(b"%PDF").hexdigest())
        os.utime(store.root / f"PDF/2024__a__W{n}.pdf", (time.time() - 90_000,) * 2)
    return store


@pytest.mark.requirement("TRU-8")
def test_a_file_that_is_adopted_while_gc_looks_is_left(
    gc: Catalog, run: Catalog, store: FileSystemStore, make_finished: Callable[..., Any]
) -> None:
    mark, owner = gc.names_mark(), new_owner()
    listed = find_orphans(gc, store, 3600).orphans
    assert [found.path for found in listed] == [f"PDF/2024__a__W{n}.pdf" for n in (1, 2, 3)]
    run.claim(owner, 1, 60)  # and its search is about to adopt the file
    with pytest.raises(StoreBusy, match=r"runs are in progress .* Run gc when they have ended"):
        delete_unnamed(gc, store, listed, mark)
    assert len(list(store.iter_files("PDF"))) == 3
    run.commit(Batch(finished=[make_finished("W1", path=PATH, owner=owner)]))
    assert [found.path for found in delete_unnamed(gc, store, listed, mark)] == [found.path for found in listed[1:]]
    assert store.exists(PATH) and find_orphans(gc, store, 3600).orphans == []


@pytest.mark.requirement("TRU-8")
def test_a_run_that_begins_between_two_files_ends_the_removing(
    gc: Catalog, run: Catalog, store: FileSystemStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orphans, "_REMOVED_AT_ONCE", 1)
    listed = find_orphans(gc, store, 3600).orphans

    def begin() -> Iterator[Any]:
        yield listed[1]
        run.claim(new_owner(), 1, 60)
        yield listed[0]

    with pytest.raises(StoreBusy, match="1 files were removed before that"):
        delete_unnamed(gc, store, begin(), gc.names_mark())
    assert store.exists(listed[0].path) and not store.exists(listed[1].path)


@pytest.mark.requirement("TRU-8")
def test_more_orphans_than_are_held_in_memory_are_counted(
    gc: Catalog, store: FileSystemStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orphans, "MOST_LISTED", 2)
    monkeypatch.setattr(orphans, "_BATCH", 2)
    found = find_orphans(gc, store, 3600)
    assert (len(found.orphans), found.more, found.named, found.young) == (2, 1, 0, 0)
