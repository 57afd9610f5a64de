"""Dagster as operators run it, for tests and benchmarks: daemon, webserver and runs as processes of their own, on one machine
(`OneMachine`, with dagster.yaml) or on several (`Cluster`, with deploy/ and real servers). What is shown with it is the callers'.

Machines are told apart by their names; here all are this one, so each of a cluster is given a name of its own.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import yaml

from docstokg_assets.sandbox import Sandbox
from docstokg_assets_tests.support.servers import Postgres, SeaweedFs, Valkey, free_port

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
BIN = Path(sys.executable).parent
CODE = ("-m", "docstokg_assets.definitions")
CHAIN = ("openalex_works", "resolver_plans", "downloaded_artifacts", "manifest_parquet", "run_metrics")
WORKER = ("celery", "-A", "dagster_celery.app", "worker", "--concurrency=1", "--loglevel=WARNING", "-Q", "dagster")
LAUNCH = """mutation ($backfillParams: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $backfillParams) { __typename ... on PythonError { message } }
}"""

LAUNCH_RUN = """mutation ($executionParams: ExecutionParams!) {
  launchRun(executionParams: $executionParams) { __typename ... on PythonError { message } }
}"""


def backfill_of(*years: str) -> dict[str, Any]:
    """What the UI sends when all assets of some years are to be materialised."""
    return {"backfillParams": {"assetSelection": [{"path": [name]} for name in CHAIN], "partitionNames": list(years)}}


@dataclass
class Machines:
    """Processes that were started on machines, each with a folder that is its Dagster home."""

    folder: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list, init=False)

    def environment(self, machine: str) -> dict[str, str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("DTKG_", "DOCSTOKG_"))}
        patient = {"DAGSTER_BACKFILL_RETRY_DEFINITION_CHANGED_ERROR": "1"}  # as Makefile and image have it
        return {**clean, **patient, "DAGSTER_HOME": str(self.folder / machine), "PYTHONWARNINGS": "ignore"}

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

    def launch_backfill(self, machine: str, *years: str) -> None:
        launched = json.dumps(backfill_of(*years))
        told = self.run(machine, "dagster-graphql", "-t", LAUNCH, "-v", launched, *CODE)
        assert "LaunchBackfillSuccess" in told, told

    def launch_run(self, machine: str, job: str, **tags: str) -> None:
        """One run of a job; `partition` says of which year."""
        selector = {"repositoryLocationName": CODE[1], "repositoryName": "__repository__", "jobName": job}
        shown = [{"key": f"dagster/{name}", "value": value} for name, value in tags.items()]
        wanted = {"selector": selector, "runConfigData": {}, "executionMetadata": {"tags": shown}}
        launched = json.dumps({"executionParams": wanted})
        told = self.run(machine, "dagster-graphql", "-t", LAUNCH_RUN, "-v", launched, *CODE)
        assert "LaunchRunSuccess" in told, told

    def log(self, machine: str) -> str:
        return (self.folder / machine / "log").read_text(errors="replace")

    def wait_for(self, condition: Callable[[], Any], what: str, seconds: float = 90.0) -> Any:
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


@dataclass
class OneMachine(Machines):
    """One machine with the instance of dagster.yaml and the configuration in `config_file`."""

    config_file: Path
    name: str = "home"
    port: int = field(default_factory=free_port)

    @property
    def home(self) -> Path:
        return self.folder / self.name

    def environment(self, machine: str) -> dict[str, str]:
        return {**super().environment(machine), "DTKG_CONFIG": str(self.config_file)}

    def set_up(self, change: Callable[[dict[str, Any]], None] = lambda settings: None) -> None:
        """Makes the instance ready, with changed settings where a test cannot wait or wants to see an order."""
        self.home.mkdir(parents=True)
        settings = yaml.safe_load((ROOT / "dagster.yaml").read_text())
        change(settings)
        (self.home / "dagster.yaml").write_text(yaml.safe_dump(settings))
        self.run(self.name, "python", "-m", "docstokg_assets.defs.instance.first_start")

    def start_daemon(self) -> subprocess.Popen[bytes]:
        return self.start(self.name, "dagster-daemon", "run", *CODE)

    def start_all(self) -> subprocess.Popen[bytes]:
        """UI, daemon and code server, as `make ui` starts them; returns when the UI answers."""
        dev = self.start(self.name, "dagster", "dev", *CODE, "-h", "127.0.0.1", "-p", str(self.port))
        self.wait_for(self._answers, "an answer of the UI", 120)
        return dev

    def ask(self, query: str, **variables: Any) -> Any:
        """What the UI knows, by the same API that its pages use."""
        body = json.dumps({"query": query, "variables": variables}).encode()
        url = f"http://127.0.0.1:{self.port}/graphql"
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["data"]

    def _answers(self) -> bool:
        assert self.processes[-1].poll() is None, self.log(self.name)
        with suppress(urllib.error.URLError, ConnectionError, TimeoutError):
            return bool(self.ask("{ version }"))
        return False


@dataclass
class Cluster(Machines):
    """What all machines share: real servers, and the sandbox."""

    box: Sandbox
    postgres: Postgres
    valkey: Valkey
    s3: SeaweedFs
    settings: Mapping[str, Any] = field(default_factory=dict)

    def environment(self, machine: str) -> dict[str, str]:
        """The variables of deploy/.env.example, and what makes a folder of this test a machine."""
        redis = f"redis://127.0.0.1:{self.valkey.port}"
        home = self.folder / machine
        settings = {
            name: value if isinstance(value, str) else json.dumps(value) for name, value in self.settings.items()
        }
        return {
            **super().environment(machine),
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

    def start_worker(self, machine: str) -> subprocess.Popen[bytes]:
        return self.start(machine, *WORKER, "-n", f"{machine}@%h")

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Of the catalog, asked without our own code."""
        with psycopg.connect(self.postgres.url, options="-c search_path=docstokg") as connection:
            return connection.execute(sql, values).fetchall()

    def runs(self) -> list[tuple[str, str | None]]:
        """Status and year of each run that Dagster knows, the oldest first."""
        with psycopg.connect(self.postgres.url) as connection:
            return connection.execute("SELECT status, partition FROM public.runs ORDER BY id").fetchall()


@contextmanager
def cluster_over(folder: Path, box: Sandbox, *, durable: bool = False) -> Iterator[Cluster]:
    """A cluster with servers of its own, which are gone afterwards."""
    postgres, valkey, s3 = Postgres(durable=durable), Valkey(), SeaweedFs()
    postgres.start()
    valkey.start()
    made = Cluster(folder, box, postgres, valkey, s3)
    try:
        yield made
    finally:
        made.end()
        s3.remove()
        valkey.stop()
        postgres.remove()
