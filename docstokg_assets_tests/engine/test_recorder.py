"""The recorder: names before rows, rows before lines, and one of each for many works."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from docstokg_assets.engine.recorder import Recorder
from docstokg_assets.reporting.sinks import JsonlSink, SinkSet
from docstokg_assets_tests.support.telemetry import finished
from resources.artifacts.file_system import FileSystemStore
from resources.catalog.catalog import Catalog
from resources.catalog.rows import Batch, Committed, NewItem

WORKS = [f"W{n}" for n in range(40)]


class WatchedStore(FileSystemStore):
    def __init__(self, root: Path, steps: list[str]) -> None:
        super().__init__(root)
        self.steps = steps

    def sync(self, paths: Iterable[str]) -> None:
        super().sync(paths)
        self.steps.append("names")


@pytest.fixture
def catalog(tmp_path: Path) -> Any:
    with Catalog.open(tmp_path / "catalog.sqlite3") as opened:
        opened.start_run("run-1", "pull", "sha256:x", {})
        opened.enqueue([NewItem(work, 2024, 0, {}, "plan") for work in WORKS], "run-1")
        yield opened


def test_names_are_durable_before_rows_and_rows_before_lines(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    folders: list[int] = []
    manifest, commit, fsync = tmp_path / "manifest.jsonl", catalog.commit, os.fsync

    def watched(batch: Batch) -> Committed:
        assert not manifest.exists() or manifest.read_bytes().count(b"\n") == steps.count("done")
        steps.append("rows")
        return commit(batch)

    monkeypatch.setattr(catalog, "commit", watched)
    monkeypatch.setattr(os, "fsync", lambda fd: (folders.append(fd), fsync(fd))[1])
    store = WatchedStore(tmp_path / "files", steps)
    claimed = catalog.claim("owner:1:a", 64, lease_s=60).items
    assert len(claimed) == len(WORKS)
    made = []
    for work in WORKS:
        part = store.begin("PDF")
        part.write(b"%PDF")
        made.append(store.commit(part, f"PDF/{work}.pdf", "0" * 64, durable=False).path)
    folders.clear()
    with Recorder(catalog, SinkSet([JsonlSink(manifest, config_hash="x")]), store) as recorder:
        recorder.done = lambda entries: steps.extend("done" for _ in entries)
        for work, path in zip(WORKS, made, strict=True):
            recorder.record(finished(work, path=path, owner="owner:1:a", run_id="run-1", made=(path,)))
        recorder.flush()
    assert steps.count("done") == len(WORKS)
    commits = steps.count("rows")
    assert steps.count("names") == commits < len(WORKS) / 4
    assert all(before == "names" for before, step in itertools.pairwise(steps) if step == "rows")
    assert len(folders) == commits  # one folder, however many files
    assert manifest.read_bytes().count(b"\n") == len(WORKS)


def test_nothing_is_recorded_of_a_file_whose_name_cannot_be_made_durable(catalog: Catalog, tmp_path: Path) -> None:
    class Broken(FileSystemStore):
        def sync(self, paths: Iterable[str]) -> None:
            raise OSError("the disk is gone")

    catalog.claim("owner:1:a", 64, lease_s=60)
    with Recorder(catalog, SinkSet([]), Broken(tmp_path / "files")) as recorder:
        recorder.record(finished("W1", path="PDF/W1.pdf", owner="owner:1:a", run_id="run-1", made=("PDF/W1.pdf",)))
        recorder.flush()
        assert recorder.failure is not None
    assert not list(catalog.entries())
