"""The instance: limits of dagster.yaml take effect, and an upgrade of Dagster that moves what we use is told."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from docstokg_assets.defs.instance import dagster_internals, first_start, process_launcher

ROOT = Path(__file__).resolve().parents[2]


class Home:
    """A Dagster home with our dagster.yaml, which a test may change."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.file = folder, folder / "dagster.yaml"
        self.file.write_text((ROOT / "dagster.yaml").read_text())

    def change(self, default: int, openalex: int) -> None:
        settings: dict[str, Any] = yaml.safe_load(self.file.read_text())
        settings["concurrency"]["pools"]["default_limit"] = default
        settings["run_coordinator"]["config"]["pool_limits"] = {"openalex": openalex}
        self.file.write_text(yaml.safe_dump(settings))

    def limits(self) -> dict[str, int]:
        with dg.DagsterInstance.get() as instance:
            return {pool.name: pool.limit for pool in instance.event_log_storage.get_pool_limits()}

    def set_by_hand(self, pool: str, limit: int) -> None:
        with dg.DagsterInstance.get() as instance:
            instance.event_log_storage.set_concurrency_slots(pool, limit)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    yield Home(tmp_path)


@pytest.mark.requirement("ORC-2")
def test_a_limit_that_changes_in_dagster_yaml_takes_effect_and_one_set_by_a_person_stays_until_then(home: Home) -> None:
    first_start.make_ready(home.folder)
    assert home.limits() == {"openalex": 1, "downloads": 3}
    home.change(default=5, openalex=2)
    first_start.make_ready(home.folder)
    assert home.limits() == {"openalex": 2, "downloads": 5}
    home.set_by_hand("downloads", 7)
    first_start.make_ready(home.folder)
    assert home.limits() == {"openalex": 2, "downloads": 7}, "dagster.yaml did not change"
    home.change(default=4, openalex=2)
    first_start.make_ready(home.folder)
    assert home.limits() == {"openalex": 2, "downloads": 4}


@pytest.mark.requirement("ORC-2")
def test_private_parts_of_dagster_are_used_in_one_file_and_are_where_it_expects_them() -> None:
    """The canary of an upgrade: what is missing here is what breaks."""
    users = {
        path.name
        for path in (ROOT / "docstokg_assets").rglob("*.py")
        if "from dagster._" in path.read_text() or "import dagster._" in path.read_text()
    }
    assert users == {"dagster_internals.py"}
    launcher = dagster_internals.DefaultRunLauncher
    for name in ("terminate", "check_run_worker_health", "supports_check_run_worker_health"):
        assert hasattr(launcher, name), f"the launcher of Dagster has no {name} any more"
    assert list(inspect.signature(launcher.__init__).parameters) == ["self", "inst_data", "wait_for_processes"] or (
        "inst_data" in inspect.signature(launcher.__init__).parameters
    )
    assert {"RUNNING", "FAILED"} <= set(dagster_internals.WorkerStatus.__members__)
    assert issubclass(process_launcher.WatchedRunLauncher, launcher)
    coordinator = inspect.signature(dg.QueuedRunCoordinator.__init__).parameters
    assert {"dequeue_interval_seconds", "dequeue_use_threads", "dequeue_num_workers", "inst_data"} <= set(coordinator)


@pytest.mark.requirement("ORC-2")
def test_an_upgrade_that_moves_a_part_of_dagster_ends_with_a_message_that_names_the_repair() -> None:
    moved = (
        "import dagster._core.launcher as launcher; del launcher.DefaultRunLauncher; "
        "import docstokg_assets.defs.instance.process_launcher"
    )
    ended = subprocess.run([sys.executable, "-c", moved], cwd=ROOT, capture_output=True, text=True, timeout=120)
    last = ended.stderr.strip().splitlines()[-1]
    assert ended.returncode == 1 and "DefaultRunLauncher" in last and "make setup" in last
