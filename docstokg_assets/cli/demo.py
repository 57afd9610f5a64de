"""`content demo`: a complete collection on a laptop. Starts the sandbox, lets Dagster materialise three years, prints the report.

Dagster runs in separate processes, as an operator would start it; progress is read from the catalog that they share.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from rich.console import Console

from docstokg_assets.cli.data_folder import DEMO
from docstokg_assets.cli.exits import DONE, INTERRUPTED, fail
from docstokg_assets.cli.output import print_message
from docstokg_assets.cli.progress import Display, State, hosts_text
from docstokg_assets.cli.report_commands import print_report
from docstokg_assets.cli.run_session import print_remaining
from docstokg_assets.cli.signals import INTERRUPTED_MESSAGE, STOPPING, StopSignals
from docstokg_assets.engine.progress import Waiting, waiting_text
from docstokg_assets.reporting import report as reports
from docstokg_assets.reporting.rendering import plural
from docstokg_assets.sandbox.handle import Sandbox, SandboxError
from resources.catalog.catalog import Catalog
from resources.lake.files import LakeFolder
from resources.records import Reason
from resources.scope import WorkScope

app = typer.Typer()

YEARS = (2023, 2024, 2025)
WORKS_PER_YEAR = 80
PASS_S = 55.0
_PORT = 8899
_MODULE = "docstokg_assets.definitions"
_DAGSTER = str(Path(sys.executable).with_name("dagster"))
_Process = subprocess.Popen[bytes]


@app.command()
def demo(
    out: Annotated[Path, typer.Option("--out", help="Data folder of the demo.")] = DEMO,
    ui: Annotated[bool, typer.Option("--ui", help="Open the Dagster UI on the collected data instead.")] = False,
    port: Annotated[int, typer.Option("--port", help="Port of the Dagster UI.")] = 3000,
) -> None:
    """Collect three years of papers from the simulated scholarly web (the sandbox): no network, keys or services."""
    console = Console()
    root = out.resolve()
    try:
        with _sandbox(console, root) as sandbox:
            environment = _environment(root, sandbox)
            code = _serve_ui(console, environment, port) if ui else _collect(console, root, environment)
    except SandboxError as error:
        fail(str(error))
    raise typer.Exit(code)


def _sandbox(console: Console, root: Path) -> Sandbox:
    # The port is part of the configuration, and so of the configuration's hash: keep it where possible.
    port, years = 0 if _is_taken(_PORT) else _PORT, (YEARS[0], YEARS[-1])
    sandbox = Sandbox.start(root / "sandbox", works_per_year=WORKS_PER_YEAR, years=years, profile="demo", port=port)
    if port != _PORT:
        console.print(f"Port {_PORT} is taken; the sandbox uses {sandbox.port}.", highlight=False)
    return sandbox


def _is_taken(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


def _environment(root: Path, sandbox: Sandbox) -> dict[str, str]:
    """The environment of the Dagster processes, after writing the configuration that it names."""
    config = {
        "data_root": str(root),
        "workers": 8,
        "http": {
            "proxy": sandbox.proxy_url,
            "ca_bundle": str(sandbox.ca_bundle),
            "contact_email": "librarian@demo-library.example",
            # One host of the sandbox is always broken; do not let people wait for its retries.
            "breaker": {"open_s": 1.0, "max_open_s": 4.0},
        },
        "openalex": {"filter": "type:article|preprint", "first_year": YEARS[0]},
        "download": {"deadline_s": PASS_S},
    }
    root.mkdir(parents=True, exist_ok=True)
    file = root / "demo.yaml"
    file.write_text("# Written by `content demo`.\n" + yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    home = Path(os.environ.get("DAGSTER_HOME") or root / "dagster")
    home.mkdir(parents=True, exist_ok=True)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("DTKG_", "DOCSTOKG_CONTENT_"))}
    return clean | {"DTKG_CONFIG": str(file), "DAGSTER_HOME": str(home), "DAGSTER_DISABLE_TELEMETRY": "1"}


def _collect(console: Console, root: Path, environment: Mapping[str, str]) -> int:
    console.print(
        f"[bold]Collecting the papers of {', '.join(map(str, YEARS))}[/] from the sandbox, through Dagster, into {root}"
    )
    began, logs = time.time(), root / "logs"
    with Catalog.open(root / "catalog.sqlite3") as catalog:
        before = {entry.work_id for entry in catalog.entries() if entry.retry_at is None}
        states = [State(str(year), phase="starting Dagster") for year in YEARS]
        signals = StopSignals(console, message=STOPPING, quits=False)
        with signals.handled(), _stopped_at_exit() as runs:
            runs += _start_runs(logs, environment)
            with Display(console, states) as display:
                while not signals.requested and any(process.poll() is None for process in runs):
                    _refresh(catalog, states, runs, began)
                    display.show()
                    time.sleep(0.5)
                _refresh(catalog, states, runs, began)
            if signals.requested:
                _stop(runs)  # as Ctrl-C would, so that Dagster marks them as canceled
                print_message(console, INTERRUPTED_MESSAGE)
                return INTERRUPTED
        failed = [year for year, process in zip(YEARS, runs, strict=True) if process.returncode != 0]
        for year in failed:
            console.print(f"[red]{year} failed[/]; its log is {logs / f'{year}.log'}")
        if failed:
            return 1
        _summary(console, root, catalog, began, before)
    return DONE


def _start_runs(logs: Path, environment: Mapping[str, str]) -> list[_Process]:
    """Start one Dagster run per year, the newest first. They share their rate limits through the data folder."""
    logs.mkdir(parents=True, exist_ok=True)
    runs = {}
    for year in sorted(YEARS, reverse=True):
        command = [_DAGSTER, "asset", "materialize", "--select", "*", "--partition", str(year), "-m", _MODULE]
        with (logs / f"{year}.log").open("wb") as log:
            runs[year] = subprocess.Popen(
                command, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
    return [runs[year] for year in YEARS]


@contextmanager
def _stopped_at_exit() -> Iterator[list[_Process]]:
    """Stop the processes of the list when the block is left; they have their own sessions and would outlive this one."""
    processes: list[_Process] = []
    try:
        yield processes
    finally:
        _stop(processes)


def _stop(processes: Sequence[_Process]) -> None:
    """Interrupt every process and its children; kill those that do not end within ten seconds, or at a second Ctrl-C."""
    runs = [process for process in processes if process.poll() is None]
    _signal_groups(runs, signal.SIGINT)
    try:
        for process in runs:
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=10)
    finally:
        _signal_groups(runs, signal.SIGKILL)


def _signal_groups(processes: Sequence[_Process], number: signal.Signals) -> None:
    for process in processes:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)


def _refresh(catalog: Catalog, states: Sequence[State], runs: Sequence[_Process], began: float) -> None:
    """Update the states from the progress that the runs reported, and from the counts of the catalog."""
    reports: dict[str, Mapping[str, Any]] = {}
    for run in catalog.runs():
        if run.started_at >= began - 1 and run.progress is not None:
            reports.setdefault(str(run.progress.get("year")), run.progress)
    for state, process in zip(states, runs, strict=True):
        report = reports.get(state.label)
        counts = catalog.queue_counts(int(state.label))
        ended = process.poll() is not None
        state.total, state.finished, state.later = counts.total, counts.done, counts.waiting
        state.saved = sum(o.count for o in catalog.outcome_counts(int(state.label)) if o.reason is Reason.OK)
        state.phase = "done" if ended else str(report["phase"]) if report else state.phase
        if report is None:
            continue
        state.works_per_s = float(report.get("works_per_s", state.works_per_s))
        state.waiting = "" if ended else waiting_text([Waiting(**wait) for wait in report.get("waiting", ())])
        state.hosts = "" if ended else hosts_text(report.get("hosts", ()))


def _summary(console: Console, root: Path, catalog: Catalog, began: float, done_before: set[str]) -> None:
    built = reports.build_report(LakeFolder(root / "lake"), root, WorkScope(), catalog, datetime.now(UTC))
    (root / "summary.md").write_text(reports.to_markdown(built), encoding="utf-8")
    print_report(console, built)
    stored = [artifact for artifact in catalog.artifacts_after(0, 1_000_000) if artifact.stored_at >= began]
    if stored:
        first = min(artifact.stored_at for artifact in stored) - began
        console.print(f"First file after {first:.1f} s, {plural(len(stored), 'file')} in {time.time() - began:.0f} s.")
    if done_before and not _fetched_again(catalog, began, done_before):
        console.print(f"[bold green]Nothing was downloaded again:[/] {len(done_before)} works were already finished.")
    print_message(console, f"Report: {root / 'summary.md'}\nLogs: {root / 'logs'}", verbatim=True)
    print_message(console, "Open the Dagster UI on this data: make ui")
    print_remaining(console, catalog, WorkScope())
    console.print(reports.headline(built), style="bold", highlight=False)


def _fetched_again(catalog: Catalog, began: float, done_before: set[str]) -> bool:
    """Whether the file of a work that was finished before this demo began was requested again."""
    position = 0
    while page := catalog.attempts_after(position, 10_000):
        position = page[-1].position
        fetched = (a.record for a in page if a.record.role == "artifact" and a.record.ts.timestamp() >= began)
        if any(record.work_id in done_before for record in fetched):
            return True
    return False


def _serve_ui(console: Console, environment: Mapping[str, str], port: int) -> int:
    """Run `dagster dev` on the same data, with the sandbox beside it, so that more years can be launched from the UI."""
    if _is_taken(port):
        fail(f"port {port} is taken; choose another one: make ui PORT={port + 1}")
    console.print("Starting the Dagster UI …")
    command = [_DAGSTER, "dev", "-m", _MODULE, "-h", "127.0.0.1", "-p", str(port), "--log-level", "error"]
    quiet = {"PYTHONWARNINGS": "ignore"}  # hides that `dagster dev` will be renamed to `dg dev`
    # Not in the project's folder: Dagster would warn about the dagster.yaml there.
    home, shown = environment["DAGSTER_HOME"], False
    signals = StopSignals(console, message="Stopping the Dagster UI.", quits=False)
    with signals.handled(), _stopped_at_exit() as servers:
        server = subprocess.Popen(command, env={**environment, **quiet}, cwd=home, start_new_session=True)
        servers.append(server)
        while server.poll() is None and not signals.requested:
            if not shown and (shown := _answers(port)):
                url = f"http://127.0.0.1:{port}"
                console.print(f"Dagster UI: [bold]{url}[/]   (Ctrl-C stops it and the sandbox)", soft_wrap=True)
            time.sleep(0.3)
        return DONE if signals.requested else server.returncode


def _answers(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False
