"""Faults of the catalog's database, over whole runs: the clock, a restart in the middle, the same year started twice."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml
from pydantic import SecretStr

import docstokg_assets
from docstokg_assets.config import ContentDownloadConfig
from docstokg_assets.engine.progress import Progress
from docstokg_assets.engine.recorder import Recorder
from docstokg_assets.runs.run import DownloadRun
from docstokg_assets.runs.services import open_services
from docstokg_assets.sandbox import Sandbox
from docstokg_assets_tests.support.configs import ConfigFor
from docstokg_assets_tests.support.servers import Postgres
from resources.catalog.catalog import Catalog
from resources.catalog.database import Location
from resources.catalog.rows import Finished, NewItem
from resources.records import AttemptRecord, Reason

PROJECT = Path(docstokg_assets.__file__).parents[1]
EASY = {"bad_status": 0, "robots": 0}  # no host asks for patience
HOUR = 3600.0
SLOW_MACHINE_S = 15.0  # for a machine that does much else


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
        assert len(catalog.claim("me", 1, 60).items) == 1
        assert 0 < (catalog.next_due() or 0) - before < 120
        assert catalog.claim("you", 1, 60).items == []
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


@pytest.mark.requirement("TRU-3")
def test_fault_52_a_run_whose_database_hangs_ends_when_it_is_told_to(
    postgres: Postgres, postgres_catalog: SecretStr, config_for: ConfigFor, tmp_path: Path
) -> None:
    with Sandbox.start(tmp_path / "box", works_per_year=100, years=(2024, 2024), mix=EASY, enforce_limits=False) as box:
        box.add_fault(host="*.example", delay=0.5)  # so that there is a middle
        config = config_for(box, robots__enabled=False)
        sections = sections_of(box, config)
        sections["storage"] = {"backend": "postgres", "url": postgres_catalog.get_secret_value(), "pool_size": 2}
        sections["workers"] = 32
        process = start_pull(sections, tmp_path, config.data_root)
        try:
            held = "SELECT count(*) FROM docstokg.queue WHERE state = 'leased'"
            with psycopg.connect(postgres.url, autocommit=True) as looking:
                end = time.monotonic() + 60
                while not has_rows(looking, held):
                    assert process.poll() is None and time.monotonic() < end
                    time.sleep(0.05)
            postgres.freeze(True)
            time.sleep(1)  # the fault itself: threads run into the server that hangs
            began = time.monotonic()
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=60)
            took = time.monotonic() - began
        finally:
            process.kill()
            postgres.freeze(False)
        assert process.returncode in (2, 130) and "Traceback" not in err, err
        assert took < 15 + SLOW_MACHINE_S
        with Catalog.open(postgres_catalog) as catalog:
            assert not [entry for entry in catalog.entries() if entry.reason is Reason.INTERNAL_ERROR]
            counts = catalog.queue_counts()
            assert counts.total == 100 and counts.done < 100


def has_rows(looking: psycopg.Connection[Any], sql: str) -> bool:
    try:
        found = looking.execute(sql).fetchone()
    except psycopg.errors.UndefinedTable:
        return False
    return found is not None and found[0] > 0


def sections_of(box: Sandbox, config: ContentDownloadConfig) -> dict[str, Any]:
    http = {"proxy": box.proxy_url, "ca_bundle": str(box.ca_bundle), "contact_email": "tests@library-of-tests.edu"}
    limits = config.rate_limit.model_dump(mode="json", include={"policies", "concurrency"})
    return {"http": http, "robots": {"enabled": False}, "rate_limit": limits}


def start_pull(sections: dict[str, Any], folder: Path, out: Path) -> subprocess.Popen[str]:
    file = folder / "content.yaml"
    file.write_text(yaml.safe_dump(sections))
    command = [sys.executable, "-m", "docstokg_assets.cli", "pull", "--query", "publication_year:2024"]
    command += ["--config", str(file), "--out", str(out)]
    return subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


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
        sections = sections_of(box, config)
        if server:
            sections["storage"] = {"backend": "postgres", "url": server["storage__url"]}
        started = [start_pull(sections, tmp_path, config.data_root) for _ in range(2)]
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
