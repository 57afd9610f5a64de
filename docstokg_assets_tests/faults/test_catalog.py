"""Faults of the catalog's database, over whole runs: the clock, a restart in the middle, the same year started twice."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import SecretStr

import docstokg_assets
from docstokg_assets.engine.progress import Progress
from docstokg_assets.engine.recorder import Recorder
from docstokg_assets.runs.run import DownloadRun
from docstokg_assets.runs.services import open_services
from docstokg_assets.sandbox import Sandbox
from docstokg_assets_tests.support.configs import ConfigFor
from docstokg_assets_tests.support.servers import Postgres
from resources.catalog import Catalog, Finished, Location, NewItem
from resources.records import AttemptRecord

PROJECT = Path(docstokg_assets.__file__).parents[1]
EASY = {"bad_status": 0, "robots": 0}  # no host asks for patience
HOUR = 3600.0


@pytest.mark.requirement("CAT-2")
@pytest.mark.parametrize("jump", [HOUR, -HOUR])
@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
def test_fault_38_leases_and_waits_keep_to_the_databases_clock(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str, jump: float
) -> None:
    at: Location = tmp_path / "catalog.sqlite3" if backend == "sqlite" else request.getfixturevalue("postgres_catalog")
    with Catalog.open(at) as catalog:
        catalog.enqueue([NewItem("W1", 2024, 2024, {}, "p")])
        before = catalog.now()
        really = time.time
        monkeypatch.setattr(time, "time", lambda: really() + jump)
        (work,) = catalog.claim("me", 1, 60)
        assert 0 < work.lease_until - before < 120
        assert catalog.claim("you", 1, 60) == []
        assert len(catalog.heartbeat("me", 60)) == 1


@pytest.mark.requirement("CAT-1")
@pytest.mark.requirement("CAT-2")
def test_fault_39_postgres_restarts_in_the_middle_of_a_run_and_nothing_is_lost_or_doubled(
    postgres: Postgres,
    postgres_catalog: SecretStr,
    config_for: ConfigFor,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[Any] = []
    record = Recorder.record
    monkeypatch.setattr(Recorder, "record", lambda self, entry: (told.append(entry), record(self, entry))[1])
    enough = threading.Event()

    def restart() -> None:
        if enough.wait(60):
            postgres.stop()  # as after a crash
            postgres.start()

    def watch(progress: Progress) -> None:
        if progress.finished >= 10:
            enough.set()

    with Sandbox.start(tmp_path / "box", works_per_year=80, years=(2024, 2024), mix=EASY, enforce_limits=False) as box:
        server = {"storage__backend": "postgres", "storage__url": postgres_catalog.get_secret_value()}
        config = config_for(box, robots__enabled=False, **server)
        restarting = threading.Thread(target=restart)
        restarting.start()
        with open_services(config) as services:
            with DownloadRun(services) as run:
                run.store_and_enqueue(run.collect("publication_year:2024"))
                result = run.drain(run.own_works, on_progress=watch)
            restarting.join()
            catalog = services.catalog
            assert result.ended == "drained" and result.finished == len(list(catalog.entries())) == 80
            assert catalog.queue_counts().done == 80
            kept = Counter((a.record.worker_id, a.record.seq) for a in catalog.attempts_after(0, 100_000))
            assert kept == Counter((a.worker_id, a.seq) for a in told if isinstance(a, AttemptRecord))
            ends = Counter(end.work_id for end in told if isinstance(end, Finished))
            assert set(ends.values()) == {1} and len(ends) == 80
            for entry in catalog.entries():
                assert entry.path is None or (config.data_root / entry.path).is_file()
            services.export_lake()
    with Catalog.open(run.folder / "manifest.sqlite3") as alone:  # the run's slice, from PostgreSQL into a file
        assert len(list(alone.entries())) == 80
        assert len(alone.attempts_after(0, 100_000)) == len(kept)


@pytest.mark.requirement("CAT-2")
@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
def test_fault_42_the_same_year_started_twice_does_each_work_once(
    request: pytest.FixtureRequest, config_for: ConfigFor, tmp_path: Path, backend: str
) -> None:
    with Sandbox.start(tmp_path / "box", works_per_year=60, years=(2024, 2024), mix=EASY, enforce_limits=False) as box:
        server: dict[str, Any] = {}
        if backend == "postgres":
            secret: SecretStr = request.getfixturevalue("postgres_catalog")
            server = {"storage__backend": "postgres", "storage__url": secret.get_secret_value()}
        config = config_for(box, robots__enabled=False, **server)
        file = tmp_path / "content.yaml"
        http = {"proxy": box.proxy_url, "ca_bundle": str(box.ca_bundle), "contact_email": "tests@library-of-tests.edu"}
        limits = config.rate_limit.model_dump(mode="json", include={"policies", "concurrency"})
        sections: dict[str, Any] = {"http": http, "robots": {"enabled": False}, "rate_limit": limits}
        if server:
            sections["storage"] = {"backend": "postgres", "url": server["storage__url"]}
        file.write_text(yaml.safe_dump(sections))
        command = [sys.executable, "-m", "docstokg_assets.cli", "pull", "--query", "publication_year:2024"]
        command += ["--config", str(file), "--out", str(config.data_root)]
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        started = [subprocess.Popen(command, cwd=PROJECT, **pipes) for _ in range(2)]
        ended = [(*process.communicate(timeout=120), process.returncode) for process in started]
        assert all(code in (0, 3) and "Traceback" not in err for _, err, code in ended), ended
        with Catalog.open(config.catalog_location) as catalog:
            assert catalog.queue_counts().done == len(list(catalog.entries())) == 60
            asked_by: dict[str, set[str]] = {}
            for _, record in catalog.attempts_after(0, 100_000):
                if record.work_id is not None:
                    asked_by.setdefault(record.work_id, set()).add(record.worker_id)
    assert len(asked_by) == 60
    assert [work for work, processes in asked_by.items() if len(processes) > 1] == []
