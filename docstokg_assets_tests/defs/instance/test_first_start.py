"""A fresh Dagster instance that several processes want at the same moment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.requirement("ORC-1")
def test_processes_that_start_a_fresh_instance_at_once_find_it_ready(tmp_path: Path) -> None:
    home = tmp_path / "home"
    where = [f"BIN={Path(sys.executable).parent}", f"DAGSTER_HOME={home}"]
    command = ["make", "-s", "-o", ".venv/.installed", "instance", *where]
    quiet = {"cwd": ROOT, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    several = [subprocess.Popen(command, **quiet) for _ in range(3)]
    said = [process.communicate(timeout=120)[0] for process in several]
    assert [process.returncode for process in several] == [0, 0, 0], said
    with dg.DagsterInstance.from_config(str(home)) as instance:
        assert instance.get_runs_count() == 0
        assert {pool.name: pool.limit for pool in instance.event_log_storage.get_pool_limits()} == {
            "openalex": 1,
            "downloads": 3,
        }
        instance.event_log_storage.set_concurrency_slots("downloads", 5)

    environment = {**os.environ, "DAGSTER_HOME": str(home)}
    subprocess.run(
        [sys.executable, "-m", "docstokg_assets.defs.instance.first_start"], cwd=ROOT, env=environment, check=True
    )
    with dg.DagsterInstance.from_config(str(home)) as instance:
        kept = {pool.name: pool.limit for pool in instance.event_log_storage.get_pool_limits()}
    assert kept["downloads"] == 5, "what somebody has set is left as it is"


def test_an_instance_without_its_settings_is_refused_with_the_remedy(tmp_path: Path) -> None:
    environment = {**os.environ, "DAGSTER_HOME": str(tmp_path)}
    command = [sys.executable, "-m", "docstokg_assets.defs.instance.first_start"]
    refused = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert refused.returncode != 0 and "make instance" in refused.stderr and "Traceback" not in refused.stderr
