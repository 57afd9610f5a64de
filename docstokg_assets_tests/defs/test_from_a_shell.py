"""`dagster asset materialize` as a person or CI runs it, and what is left when such a run is ended."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest

from docstokg_assets.sandbox import Sandbox
from resources.catalog.catalog import Catalog

ROOT = Path(__file__).resolve().parents[2]


def start_run(config_file: Path, home: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "dagster", "asset", "materialize", "--select", "*", "--partition", "2024"]
    return subprocess.Popen(
        [*command, "-m", "docstokg_assets.definitions"],
        cwd=ROOT,
        env={**os.environ, "DTKG_CONFIG": str(config_file), "DAGSTER_HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def wait_for_downloads(catalog_file: Path, run: subprocess.Popen[str]) -> None:
    for _ in range(600):
        assert run.poll() is None, run.communicate()[0]
        if catalog_file.exists():
            with Catalog.open(catalog_file) as catalog:
                counts = catalog.queue_counts(2024)
            if counts.leased and counts.done:
                return
        time.sleep(0.1)
    pytest.fail("no work was finished in a minute")


@pytest.fixture
def place(tmp_path: Path, write_config: Callable[..., Path]) -> tuple[Path, Path]:
    """A configuration file with its data root, and a Dagster home."""
    home = tmp_path / "home"
    home.mkdir()
    shutil.copy(ROOT / "dagster.yaml", home)
    return write_config(tmp_path), home


def end_midway(sandbox: Sandbox, place: tuple[Path, Path], catalog_file: Path, ending: signal.Signals) -> None:
    """Starts a run, and ends it when some works are done and others under way."""
    sandbox.add_fault(host="*.example", delay=0.5)
    try:
        run = start_run(*place)
        wait_for_downloads(catalog_file, run)
        run.send_signal(ending)
        output = run.communicate(timeout=60)[0]
    finally:
        sandbox.clear_faults()
    assert run.returncode != 0 and "DagsterExecutionInterruptedError" in output
    with dg.DagsterInstance.from_config(str(place[1])) as instance:
        (ended,) = instance.get_runs()
    # A person's wish, or a machine that goes down: runs that failed are looked into, and may be started again.
    wanted = dg.DagsterRunStatus.CANCELED if ending is signal.SIGINT else dg.DagsterRunStatus.FAILURE
    assert ended.status is wanted


@pytest.mark.requirement("ORC-2")
def test_an_interrupted_run_gives_everything_back_at_once(
    sandbox: Sandbox, tmp_path: Path, place: tuple[Path, Path]
) -> None:
    catalog_file = tmp_path / "data" / "catalog.sqlite3"
    end_midway(sandbox, place, catalog_file, signal.SIGINT)
    with Catalog.open(catalog_file) as catalog:
        counts = catalog.queue_counts(2024)
        assert counts.leased == 0 and counts.done < counts.total and not catalog.lease_owners()


@pytest.mark.requirement("ORC-2", "ORC-4")
def test_the_run_after_a_terminated_one_goes_on_from_there(
    sandbox: Sandbox, tmp_path: Path, place: tuple[Path, Path]
) -> None:
    catalog_file = tmp_path / "data" / "catalog.sqlite3"
    end_midway(sandbox, place, catalog_file, signal.SIGTERM)
    with Catalog.open(catalog_file) as catalog:
        before = {entry.work_id: entry for entry in catalog.entries() if entry.retry_at is None}

    following = start_run(*place)
    output = following.communicate(timeout=120)[0]

    assert following.returncode == 0, output
    with Catalog.open(catalog_file) as catalog:
        counts, after = catalog.queue_counts(2024), {entry.work_id: entry for entry in catalog.entries()}
    assert counts.done + counts.retry == counts.total
    assert before and all(after[work_id] == entry for work_id, entry in before.items())


@pytest.mark.requirement("ORC-2")
def test_fault_42_of_a_year_that_was_started_twice_each_work_is_done_once(
    sandbox: Sandbox, tmp_path: Path, place: tuple[Path, Path]
) -> None:
    subprocess.run(
        [sys.executable, "-m", "dagster", "instance", "migrate"],
        env={**os.environ, "DAGSTER_HOME": str(place[1])},
        check=True,
        capture_output=True,
    )
    sandbox.add_fault(host="*.example", delay=0.1)  # so that one does not finish before the other begins
    try:
        both = [start_run(*place), start_run(*place)]
        outputs = [run.communicate(timeout=150)[0] for run in both]
    finally:
        sandbox.clear_faults()
    assert [run.returncode for run in both] == [0, 0], outputs
    with Catalog.open(tmp_path / "data" / "catalog.sqlite3") as catalog:
        saved = {entry.work_id: entry.url for entry in catalog.entries(year=2024) if entry.path}
        fetched = [attempt.record for attempt in catalog.attempts_after(0, 100_000, year=2024)]
        assert saved and all(len(catalog.artifacts_of(work_id)) == 1 for work_id in saved)
    for work_id, url in saved.items():
        runs = {record.run_id for record in fetched if (record.work_id, record.url) == (work_id, url)}
        assert len(runs) <= 1, f"{work_id} was fetched by both"


def make(config_file: Path, home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`make materialize` with the environment that runs the tests, and an instance of its own."""
    binaries = Path(sys.executable).parent
    command = [
        "make",
        "-s",
        "-o",
        ".venv/.installed",
        "materialize",
        f"BIN={binaries}",
        f"DAGSTER_HOME={home}",
        *arguments,
    ]
    environment = {**os.environ, "DTKG_CONFIG": str(config_file)}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=170)


@pytest.mark.requirement("ORC-4")
def test_make_materialize_collects_a_year_with_a_log_that_a_person_can_read(
    tmp_path: Path, write_config: Callable[..., Path]
) -> None:
    config_file = write_config(tmp_path, openalex={"filter": "type:article", "max_works": 5})
    done = make(config_file, tmp_path / "home", "YEAR=2024")
    assert done.returncode == 0, done.stderr
    log = done.stdout + done.stderr
    assert "The pass ended (drained): 5 works finished" in log and "5 works finished," in log
    with Catalog.open(tmp_path / "data" / "catalog.sqlite3") as catalog:
        assert catalog.queue_counts(2024).total == 5
    home = dg.DagsterInstance.from_config(str(tmp_path / "home"))
    with home as instance:
        assert {pool.name: pool.limit for pool in instance.event_log_storage.get_pool_limits()}["openalex"] == 1


@pytest.mark.requirement("ORC-4")
@pytest.mark.parametrize(
    ("openalex", "arguments", "says"),
    [
        ({"filter": ""}, ("YEAR=2024",), "openalex.filter is not set; say which works"),
        ({"filter": "type:article"}, ("YEAR=24",), "with four digits: make materialize YEAR=2024 (not '24')"),
        ({"filter": "type:article"}, ("YEAR=1066",), "1066"),
        ({"filtre": "type:article"}, ("YEAR=2024",), "did you mean openalex.filter?"),
    ],
)
def test_a_year_that_cannot_be_collected_ends_with_an_exit_code_for_ci_and_the_reason(
    tmp_path: Path, write_config: Callable[..., Path], openalex: dict[str, str], arguments: tuple[str, ...], says: str
) -> None:
    failed = make(write_config(tmp_path, openalex=openalex), tmp_path / "home", *arguments)
    assert failed.returncode != 0 and says in failed.stdout + failed.stderr


@pytest.mark.requirement("ORC-4")
def test_dg_launch_collects_a_year_and_fails_with_the_reason(
    tmp_path: Path, place: tuple[Path, Path], write_config: Callable[..., Path]
) -> None:
    """The two at once: most of the time goes into starting Dagster."""
    (tmp_path / "wrong").mkdir()
    shutil.copytree(place[1], tmp_path / "wrong" / "home")
    good = write_config(tmp_path, openalex={"filter": "type:article", "max_works": 5}), place[1]
    wrong = write_config(tmp_path / "wrong", openalex={"filter": ""}), tmp_path / "wrong" / "home"
    launched = [start_dg(*each) for each in (good, wrong)]
    said = [run.communicate(timeout=170)[0] for run in launched]
    assert launched[0].returncode == 0, said[0]
    assert "The pass ended (drained): 5 works finished" in said[0] and "virtual environment" not in said[0]
    with Catalog.open(tmp_path / "data" / "catalog.sqlite3") as catalog:
        assert catalog.queue_counts(2024).total == 5
    assert launched[1].returncode != 0 and "openalex.filter is not set; say which works" in said[1]


def start_dg(config_file: Path, home: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [Path(sys.executable).with_name("dg"), "launch", "--assets", "*", "--partition", "2024"],
        cwd=ROOT,
        env={**os.environ, "DTKG_CONFIG": str(config_file), "DAGSTER_HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.requirement("ORC-4")
def test_make_ui_serves_what_is_configured_and_the_demo_only_where_nothing_is() -> None:
    bare = {name: value for name, value in os.environ.items() if not name.startswith(("DTKG_", "DOCSTOKG_", "MAKE"))}

    def recipe(target: str = "ui", **variables: str) -> str:
        command = ["make", "-n", "-o", ".venv/.installed", target]
        return subprocess.run(
            command, cwd=ROOT, env={**bare, **variables}, capture_output=True, text=True, check=True
        ).stdout

    assert "content demo" in recipe() and "dagster dev" not in recipe()
    configured = recipe(DTKG_OPENALEX__FILTER="type:article", DAGSTER_HOME="/srv/dagster")
    assert "dagster dev" in configured and "content demo" not in configured and "/srv/dagster" in configured
    assert "/srv/dagster" not in recipe("demo", DTKG_OPENALEX__FILTER="type:article", DAGSTER_HOME="/srv/dagster")
