"""Two machines in small: Dagster as deploy/ configures it over real servers, and Celery workers that share no folder.

Machines are told apart by their names; here both are this one, so each worker is given a name of its own.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml

from docstokg_assets.sandbox import Sandbox
from docstokg_assets_tests.servers import Postgres, SeaweedFs, Valkey

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
BIN = Path(sys.executable).parent


@dataclass
class Cluster:
    """What all machines share, and the processes that were started on them."""

    folder: Path
    box: Sandbox
    postgres: Postgres
    valkey: Valkey
    s3: SeaweedFs
    settings: Mapping[str, Any] = field(default_factory=dict)
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def environment(self, machine: str) -> dict[str, str]:
        """The variables of deploy/.env.example, and what makes a folder of this test a machine."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("DTKG_", "DOCSTOKG_"))}
        redis = f"redis://127.0.0.1:{self.valkey.port}"
        home = self.folder / machine
        settings = {
            name: value if isinstance(value, str) else json.dumps(value) for name, value in self.settings.items()
        }
        return {
            **clean,
            "DAGSTER_HOME": str(home),
            "PYTHONPATH": f"{home}{os.pathsep}{DEPLOY}",
            "DTKG_CONFIG": str(DEPLOY / "content.yaml"),
            "DTKG_DATA_ROOT": str(home / "data"),
            "DTKG_HTTP__CONTACT_EMAIL": "crawler@library-of-tests.edu",
            "DTKG_HTTP__PROXY": self.box.proxy_url,
            "DTKG_HTTP__CA_BUNDLE": str(self.box.ca_bundle),
            "DAGSTER_POSTGRES_URL": self.postgres.url,
            "DTKG_STORAGE__URL": self.postgres.url,
            "CELERY_BROKER_URL": f"{redis}/0",
            "CELERY_RESULT_BACKEND": f"{redis}/1",
            "DTKG_RATE_LIMIT__REDIS_URL": f"{redis}/2",
            "DTKG_HTTP__CACHE_URL": f"{redis}/3",
            "DTKG_ARTIFACTS__BUCKET": "papers",
            "DTKG_ARTIFACTS__ENDPOINT_URL": self.s3.url,
            "DTKG_TELEMETRY__LAKE": "s3://papers/lake",
            "DTKG_TELEMETRY__LAKE_ENDPOINT_URL": self.s3.url,
            "AWS_ACCESS_KEY_ID": self.s3.user,
            "AWS_SECRET_ACCESS_KEY": self.s3.password,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            **settings,
        }

    def set_up(self, machine: str, **monitoring: Any) -> None:
        """A Dagster home with deploy/dagster.yaml, whose run monitoring may be quicker than in life."""
        home = self.folder / machine
        home.mkdir()
        instance = yaml.safe_load((DEPLOY / "dagster.yaml").read_text())
        instance["run_monitoring"] |= monitoring
        instance["concurrency"]["runs"]["max_concurrent_runs"] = 2
        (home / "dagster.yaml").write_text(yaml.safe_dump(instance))
        (home / "sitecustomize.py").write_text(f"import platform\nplatform.node = lambda: {machine!r}\n")

    def run(self, machine: str, *command: str) -> str:
        done = subprocess.run(
            [BIN / command[0], *command[1:]],
            cwd=ROOT,
            env=self.environment(machine),
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def start(self, machine: str, *command: str) -> subprocess.Popen[bytes]:
        with (self.folder / machine / "log").open("ab") as log:
            process = subprocess.Popen(
                [BIN / command[0], *command[1:]],
                cwd=ROOT,
                env=self.environment(machine),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def log(self, machine: str) -> str:
        return (self.folder / machine / "log").read_text(errors="replace")

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Of the catalog, asked without our own code."""
        with psycopg.connect(self.postgres.url, options="-c search_path=docstokg") as connection:
            return connection.execute(sql, values).fetchall()

    def wait_for(self, condition: Callable[[], Any], what: str, seconds: float) -> Any:
        end = time.monotonic() + seconds
        while not (found := condition()):
            assert time.monotonic() < end, f"{what} did not happen"
            time.sleep(0.2)
        return found

    def end(self) -> None:
        for process in self.processes:
            _end(process, signal.SIGTERM)
        for process in self.processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(15)
            _end(process, signal.SIGKILL)
            process.wait(15)


def _end(process: subprocess.Popen[bytes], how: signal.Signals) -> None:
    """Whatever is left of its group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, how)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    postgres, valkey, s3 = Postgres(), Valkey(), SeaweedFs()
    postgres.start()
    valkey.start()
    with Sandbox.start(tmp_path / "box", works_per_year=30, years=(2022, 2024)) as box:
        made = Cluster(tmp_path, box, postgres, valkey, s3)
        try:
            yield made
        finally:
            made.end()
            s3.remove()
            valkey.stop()
            postgres.remove()
