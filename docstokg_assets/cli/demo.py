"""`content demo`: the whole job on a laptop. Starts the sandbox, has Dagster materialise three years, shows what comes out.

Dagster runs in processes of its own, as an operator would start it; what is shown while they run is read from the catalog
that they share. Nothing here knows how works are found or fetched.
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
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from docstokg_assets.cli.ending import tell
from docstokg_assets.cli.report_commands import DEMO
from docstokg_assets.runs.signals import signal_handlers

if TYPE_CHECKING:
    from rich.console import Console

    from docstokg_assets.cli.progress import State
    from docstokg_assets.sandbox.handle import Sandbox
    from resources.catalog.catalog import Catalog

app = typer.Typer()

YEARS = (2023, 2024, 2025)
WORKS_PER_YEAR = 80
PASS_S = 55.0
_PORT = 8899
_MODULE = "docstokg_assets.definitions"


@app.command()
def demo(
    out: Annotated[Path, typer.Option("--out", help="Data root of the demo.")] = DEMO,
    ui: Annotated[bool, typer.Option("--ui", help="Open the Dagster UI on what is there instead.")] = False,
    port: Annotated[int, typer.Option("--port", help="Port of the Dagster UI.")] = 3000,
) -> None:
    """Collect three years of papers from a web in a box: no network, no keys, no services."""
    from rich.console import Console

    from docstokg_assets.sandbox.handle import SandboxError

    console = Console()
    root = out.resolve()
    try:
        with _sandbox(console, root) as sandbox:
            environment = _environment(root, sandbox)
            code = _serve_ui(console, environment, port) if ui else _collect(console, root, environment)
    except SandboxError as error:
        tell(str(error))
        code = 2
    raise typer.Exit(code)


def _sandbox(console: Console, root: Path) -> Sandbox:
    from docstokg_assets.sandbox.handle import Sandbox

    # The port is part of the configuration: while it is the same, so is the configuration's hash.
    port, years = 0 if _is_taken(_PORT) else _PORT, (YEARS[0], YEARS[-1])
    box = Sandbox.start(root / "sandbox", works_per_year=WORKS_PER_YEAR, years=years, profile="demo", port=port)
    if port != _PORT:
        console.print(f"Port {_PORT} is taken; the sandbox uses {box.port}.", highlight=False)
    return box


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
    import yaml

    config = {
        "data_root": str(root),
        "workers": 8,
        "http": {
            "proxy": sandbox.proxy_url,
            "ca_bundle": str(sandbox.ca_bundle),
            "contact_email": "librarian@demo-library.example",
            # One host of the sandbox is broken for good; nobody should sit and watch how often it is tried again.
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


def _dagster(*arguments: str) -> list[str]:
    return [str(Path(sys.executable).with_name("dagster")), *arguments]


def _collect(console: Console, root: Path, environment: Mapping[str, str]) -> int:
    from docstokg_assets.cli.progress import Display, State, say
    from docstokg_assets.cli.running import ENDING
    from resources.catalog.catalog import Catalog

    console.print(
        f"[bold]Collecting the papers of {', '.join(map(str, YEARS))}[/] from the sandbox, through Dagster, into {root}"
    )
    began = time.time()
    with Catalog.open(root / "catalog.sqlite3") as catalog:
        before = {entry.work_id for entry in catalog.entries() if entry.retry_at is None}
        states = [State(str(year), phase="starting Dagster") for year in YEARS]
        with _signals_end_it() as ending, _ended_with_us(runs := list[subprocess.Popen[bytes]]()):
            runs += _start_runs(root, environment)
            with Display(console, states) as display:
                while not ending.asked and any(process.poll() is None for process in runs):
                    _refresh(catalog, states, runs, began)
                    display.show()
                    time.sleep(0.5)
                _refresh(catalog, states, runs, began)
            if ending.asked:
                say(console, ENDING)
                _end(runs)  # as Ctrl-C would, so that Dagster has them as canceled
                say(console, "Interrupted; nothing is lost. Run the same command again to go on.")
                return 130
        failed = [year for year, process in zip(YEARS, runs, strict=True) if process.returncode != 0]
        if failed:
            for year in failed:
                console.print(f"[red]{year} failed[/]; its log is {_log(root, year)}")
            return 1
        _summary(console, root, catalog, began, before)
    return 0


def _start_runs(root: Path, environment: Mapping[str, str]) -> list[subprocess.Popen[bytes]]:
    """One Dagster run a year, the newest first; all under the same limits, which they share through the data root."""
    runs = {}
    for year in sorted(YEARS, reverse=True):
        log = _log(root, year)
        log.parent.mkdir(parents=True, exist_ok=True)
        command = _dagster("asset", "materialize", "--select", "*", "--partition", str(year), "-m", _MODULE)
        with log.open("wb") as file:
            runs[year] = subprocess.Popen(
                command, env=dict(environment), stdout=file, stderr=subprocess.STDOUT, start_new_session=True
            )
    return [runs[year] for year in YEARS]


@contextmanager
def _ended_with_us(processes: Sequence[subprocess.Popen[bytes]]) -> Iterator[None]:
    """Those that still go on when the block is left, however that comes, are ended; they have sessions of their own."""
    try:
        yield
    finally:
        _end(processes)


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Ask every process and its children to end; what does not within its grace, or until a second Ctrl-C, is killed."""
    runs = [process for process in processes if process.poll() is None]
    for process in runs:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
    try:
        for process in runs:
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=10)
    finally:
        for process in runs:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _log(root: Path, year: int) -> Path:
    return root / "logs" / f"{year}.log"


def _refresh(catalog: Catalog, states: Sequence[State], runs: Sequence[subprocess.Popen[bytes]], began: float) -> None:
    """What the runs of this demo last told the catalog, and what the catalog counts itself."""
    from docstokg_assets.cli.progress import hosts_text
    from docstokg_assets.engine.progress import Waiting, waiting_text
    from resources.records import Reason

    reports: dict[str, Mapping[str, Any]] = {}
    for run in catalog.runs():
        if run.started_at >= began - 1 and run.progress is not None:
            reports.setdefault(str(run.progress.get("year")), run.progress)
    for state, process in zip(states, runs, strict=True):
        report = reports.get(state.label)
        counts = catalog.queue_counts(int(state.label))
        ended = process.poll() is not None
        state.total, state.finished, state.later = counts.total, counts.done, counts.parked + counts.retry
        state.saved = sum(o.count for o in catalog.outcome_counts(int(state.label)) if o.reason is Reason.OK)
        state.phase = "done" if ended else str(report["phase"]) if report else state.phase
        if report is None:
            continue
        state.works_per_s = float(report.get("works_per_s", state.works_per_s))
        state.waiting = "" if ended else waiting_text([Waiting(**told) for told in report.get("waiting", ())])
        state.hosts = "" if ended else hosts_text(report.get("hosts", ()))


def _summary(console: Console, root: Path, catalog: Catalog, began: float, done_before: set[str]) -> None:
    from datetime import UTC, datetime

    from docstokg_assets.cli.progress import plural, say
    from docstokg_assets.cli.report_commands import show_report
    from docstokg_assets.cli.running import tell_what_is_left
    from docstokg_assets.domain.scope import WorkScope
    from docstokg_assets.reporting import report as reports
    from resources.lake.files import LakeFolder

    built = reports.build_report(LakeFolder(root / "lake"), root, WorkScope(), catalog, datetime.now(UTC))
    (root / "summary.md").write_text(reports.to_markdown(built), encoding="utf-8")
    show_report(console, built)
    stored = [artifact for artifact in catalog.artifacts_after(0, 1_000_000) if artifact.stored_at >= began]
    again = _fetched_again(catalog, began, done_before)
    if stored:
        first = min(artifact.stored_at for artifact in stored) - began
        console.print(f"First file after {first:.1f} s, {plural(len(stored), 'file')} in {time.time() - began:.0f} s.")
    if done_before and not again:
        console.print(f"[bold green]Nothing was downloaded again:[/] {len(done_before)} works were finished before.")
    say(console, f"Report: {root / 'summary.md'}\nLogs: {root / 'logs'}", verbatim=True)
    say(console, "Open the Dagster UI on all this with: make ui")
    tell_what_is_left(console, catalog, 0, len(stored), run_id=None)
    console.print(reports.headline(built), style="bold", highlight=False)


def _fetched_again(catalog: Catalog, began: float, done_before: set[str]) -> set[str]:
    """Works that were finished before this demo began and whose file was asked for all the same."""
    again: set[str] = set()
    position = 0
    while page := catalog.attempts_after(position, 10_000):
        position = page[-1].position
        fetched = (a.record for a in page if a.record.role == "artifact" and a.record.ts.timestamp() >= began)
        again |= {record.work_id for record in fetched if record.work_id in done_before}
    return again


def _serve_ui(console: Console, environment: Mapping[str, str], port: int) -> int:
    """`dagster dev` on the same data, with the sandbox beside it, so that further years can be launched from the UI."""
    if _is_taken(port):
        tell(f"port {port} is taken; choose another one: make ui PORT={port + 1}")
        return 2
    console.print("Starting the Dagster UI …")
    command = _dagster("dev", "-m", _MODULE, "-h", "127.0.0.1", "-p", str(port), "--log-level", "error")
    quiet = {"PYTHONWARNINGS": "ignore"}  # that `dagster dev` is to be called `dg dev` one day is no changed to a user
    # Not in the project's folder: the dagster.yaml there is the one of DAGSTER_HOME, which Dagster would remark upon.
    home = environment["DAGSTER_HOME"]
    with _signals_end_it() as ending, _ended_with_us(servers := list[subprocess.Popen[bytes]]()):
        server = subprocess.Popen(command, env={**environment, **quiet}, cwd=home, start_new_session=True)
        servers.append(server)
        while server.poll() is None and not ending.asked and not _answers(port):
            time.sleep(0.2)
        if server.poll() is None and not ending.asked:
            url = f"http://127.0.0.1:{port}"
            console.print(f"Dagster UI: [bold]{url}[/]   (Ctrl-C ends it, and the sandbox with it)", soft_wrap=True)
        while server.poll() is None and not ending.asked:
            time.sleep(0.5)
        return 0 if ending.asked else server.returncode


def _answers(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


@dataclass(slots=True)
class _Ending:
    """No `threading.Event`: a handler that comes while that one is looked at would wait for itself."""

    asked: bool = False


@contextmanager
def _signals_end_it() -> Iterator[_Ending]:
    """Set by the first of them. A closed terminal or a SIGTERM is as good as Ctrl-C: Dagster's processes must not outlive us.

    An exception, such as Ctrl-C usually raises, is lost where it comes at a bad moment; only a second signal raises one.
    """
    ending = _Ending()

    def interrupt(number: int, frame: object) -> None:
        if ending.asked:
            raise KeyboardInterrupt
        ending.asked = True

    with signal_handlers(dict.fromkeys((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), interrupt)):
        yield ending
