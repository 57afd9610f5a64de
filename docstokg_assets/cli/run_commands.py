"""`content pull` (also `content run`): works from a query, ids or URLs, downloaded into a data root, without Dagster.

Reads what the person gave, watches over the run, and says how it ended. The work itself is `orchestrator`'s. Exit codes: 0 done;
2 nothing could start; 3 done, but something was set aside or is left for later; 130 interrupted.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from docstokg_assets.cli.options import (
    AcceptOption,
    ChunkSizeOption,
    ConcurrentResolversOption,
    ConfigOption,
    HeadPrecheckOption,
    NoRobotsOption,
    OutOption,
    ResolverOrderOption,
    WorkersOption,
    load_for_cli,
    overrides_from,
)

if TYPE_CHECKING:
    from rich.console import Console

    from docstokg_assets.config import ContentDownloadConfig
    from docstokg_assets.dispatcher import PassResult
    from docstokg_assets.openalex import SetAside
    from docstokg_assets.orchestrator import DownloadRun, Services
    from docstokg_assets.sources import Collected
    from docstokg_assets.works import Work

app = typer.Typer()

DONE, NOTHING_STARTED, SOMETHING_LEFT, INTERRUPTED = 0, 2, 3, 130


def pull(
    query: Annotated[
        str | None, typer.Option("--query", help="OpenAlex filter, e.g. 'topics.id:T10102,publication_year:2024'.")
    ] = None,
    ids: Annotated[
        str | None,
        typer.Option("--ids", help="File of OpenAlex ids, DOIs, arXiv ids, PMCIDs, one a line; - for stdin."),
    ] = None,
    urls: Annotated[str | None, typer.Option("--urls", help="File of URLs, one a line; - for stdin.")] = None,
    out: OutOption = None,
    workers: WorkersOption = None,
    config: ConfigOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Ask metadata only: no files are fetched, nothing is written.")
    ] = False,
    resolver_order: ResolverOrderOption = None,
    no_robots: NoRobotsOption = False,
    chunk_size: ChunkSizeOption = None,
    accept: AcceptOption = None,
    concurrent_resolvers: ConcurrentResolversOption = None,
    head_precheck: HeadPrecheckOption = None,
    deadline: Annotated[
        float | None, typer.Option("--deadline", min=1, help="Seconds after which works that still wait are parked.")
    ] = None,
) -> None:
    """Find and download the full text of works. Run it again and it goes on where it was."""
    from docstokg_assets.openalex import SourceError
    from docstokg_assets.orchestrator import open_services
    from resources.artifacts.file_system import StoreError
    from resources.catalog.database import CatalogError
    from resources.http.errors import HttpError
    from resources.rate_limit.stores import LimiterUnavailable

    overrides = overrides_from(
        workers=workers,
        out=out,
        resolver_order=resolver_order,
        no_robots=no_robots,
        chunk_size=chunk_size,
        accept=accept,
        concurrent_resolvers=concurrent_resolvers,
        head_precheck=head_precheck,
    )
    loaded = load_for_cli(config, os.environ, overrides).value
    source = Source.from_options(query, ids, urls, loaded)

    def reload() -> ContentDownloadConfig:
        return load_for_cli(config, os.environ, overrides).value

    try:
        with _data_root(loaded, dry_run) as (effective, limits), open_services(effective, limits) as services:
            code = _run(services, source, dry_run, deadline, reload)
    except (CatalogError, StoreError, LimiterUnavailable) as error:
        _fail(str(error))
    except (SourceError, HttpError) as error:
        _fail(f"no works could be had: {error}")
    raise typer.Exit(code)


app.command("pull")(pull)
app.command("run", help="The same as `pull`.")(pull)


class Source:
    """Where the works come from: exactly one of a query, ids and URLs, from the options or else the configuration."""

    def __init__(self, kind: str, value: str) -> None:
        self.kind, self.value = kind, value
        self.set_aside: list[SetAside] = []

    @classmethod
    def from_options(
        cls, query: str | None, ids: str | None, urls: str | None, config: ContentDownloadConfig
    ) -> Source:
        given = [(kind, value) for kind, value in (("query", query), ("ids", ids), ("urls", urls)) if value is not None]
        if len(given) > 1:
            _fail(f"give one of --query, --ids and --urls, not {len(given)} of them")
        if not given and config.openalex.source == "api" and config.openalex.filter:
            given = [("query", config.openalex.filter)]
        if not given and config.openalex.source != "api":
            file = config.openalex.ids_file if config.openalex.source == "ids" else config.openalex.urls_file
            given = [(config.openalex.source, str(file))]
        if not given:
            _fail("say which works: --query 'topics.id:T10102,publication_year:2024', --ids FILE or --urls FILE")
        kind, value = given[0]
        if kind == "query" and ":" not in value:
            if Path(value).is_file():
                return cls("ids", value)
            _fail(f"--query {value!r} is neither an OpenAlex filter (name:value,name:value) nor a file of ids")
        return cls(kind, value)

    def works(self, run: DownloadRun, collected: Collected) -> Iterator[Work]:
        from docstokg_assets.openalex.ids import read_ids
        from docstokg_assets.openalex.urls import read_urls
        from docstokg_assets.sources import works_of_ids

        if self.kind == "query":
            return run.collect(self.value, None, collected)
        lines = _read_lines(self.value)
        if self.kind == "urls":
            works, collected.set_aside = read_urls(lines)
            collected.works = len(works)
            return iter(works)
        identifiers, collected.set_aside = read_ids(lines)
        return works_of_ids(run.asker(), run.openalex(), identifiers, collected)


def _read_lines(name: str) -> list[str]:
    try:
        if name == "-":
            return sys.stdin.buffer.read().decode("utf-8", "replace").splitlines()
        return Path(name).read_bytes().decode("utf-8", "replace").splitlines()
    except OSError as error:
        _fail(f"{name} cannot be read: {error.strerror}. Give a file with one entry a line, or - for standard input.")


@contextmanager
def _data_root(config: ContentDownloadConfig, dry_run: bool) -> Iterator[tuple[ContentDownloadConfig, Path | None]]:
    """A dry run works in a folder that disappears with it, but under the limits of the real one."""
    if not dry_run:
        yield config, None
        return
    shared = config.data_root / "limits.sqlite3"
    with tempfile.TemporaryDirectory(prefix="content-dry-run-") as folder:
        places = {"data_root": Path(folder), "storage": config.storage.model_copy(update={"path": None})}
        places["artifacts"] = config.artifacts.model_copy(update={"root": None})
        yield config.model_copy(update=places), shared if shared.is_file() else None


def _run(
    services: Services,
    source: Source,
    dry_run: bool,
    deadline: float | None,
    reload: Callable[[], ContentDownloadConfig],
) -> int:
    from rich.console import Console

    from docstokg_assets.cli.progress import RunDisplay
    from docstokg_assets.orchestrator import DownloadRun, export_lake
    from docstokg_assets.sources import Collected

    console = Console(stderr=True)
    stop = threading.Event()
    collected = Collected()
    trouble: list[str] = []
    run = DownloadRun(services, stop=stop, scope={source.kind: source.value}, dry_run=dry_run)
    with _signals(stop, lambda: run.reload_with(reload)), run, RunDisplay(console) as display:
        planned = run.take_in(_until_trouble(source.works(run, collected), trouble), display.planned)
        display.start_pass(planned.works)
        result = run.drain(of_run=True, deadline_s=deadline, on_progress=display.update)
    _keep_aside(services, run, source, collected)
    if dry_run:
        _show_dry_run(services, run)
    else:
        export_lake(services)
        _show_summary(services, run)
    return _say_how_it_ended(services, run, result, collected, trouble, planned.works, stop)


def _until_trouble(works: Iterator[Work], trouble: list[str]) -> Iterator[Work]:
    """What came before a source failed is kept and downloaded; when nothing came, the failure is the answer."""
    from docstokg_assets.openalex import SourceError
    from resources.http.errors import HttpError

    came = 0
    try:
        for work in works:
            came += 1
            yield work
    except (SourceError, HttpError) as error:
        if came == 0:
            raise
        trouble.append(str(error))


@contextmanager
def _signals(stop: threading.Event, reload: Callable[[], None]) -> Iterator[None]:
    """The first SIGINT or SIGTERM ends the run in order, the second at once; SIGHUP reloads the configuration."""

    def end(number: int, frame: object) -> None:
        if stop.is_set():
            os._exit(INTERRUPTED)
        stop.set()

    previous = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    if hasattr(signal, "SIGHUP"):
        previous[signal.SIGHUP] = signal.signal(signal.SIGHUP, lambda number, frame: reload())
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _keep_aside(services: Services, run: DownloadRun, source: Source, collected: Collected) -> None:
    from resources.catalog.rows import SetAside as Row

    rows = [Row(run.run_id, source.value, f"{a.where}: {a.text}".rstrip(": "), a.reason) for a in collected.set_aside]
    services.catalog.add_set_aside(rows)


def _show_summary(services: Services, run: DownloadRun) -> None:
    from datetime import UTC, datetime

    from rich.console import Console

    from docstokg_assets.telemetry import report as reports
    from docstokg_assets.telemetry.metrics import Scope

    root = services.config.data_root
    built = reports.build_report(root, Scope(None, run.run_id), services.catalog, datetime.now(UTC))
    (run.folder / "summary.md").write_text(reports.to_markdown(built), encoding="utf-8")
    Console().print(reports.to_terminal(built))


def _show_dry_run(services: Services, run: DownloadRun) -> None:
    """What would be tried, from the outcomes that the dry run left in its passing catalog."""
    from rich.console import Console
    from rich.table import Table

    table = Table("Work", "Title", "Resolver", "Tier", "URL", title="What would be tried")
    for entry in services.catalog.entries(run_id=run.run_id):
        candidates = entry.meta.get("candidates", [])
        for candidate in candidates or [{"resolver": "–", "tier": "–", "url": "no copy is known"}]:
            title = (entry.title or "")[:50]
            table.add_row(entry.work_id, title, candidate["resolver"], candidate["tier"], candidate["url"])
    Console().print(table)


def _say_how_it_ended(
    services: Services,
    run: DownloadRun,
    result: PassResult,
    collected: Collected,
    trouble: list[str],
    works: int,
    stop: threading.Event,
) -> int:
    console = _plain_console()
    for aside in collected.set_aside[:20]:
        console.print(f"set aside: {aside.where}: {aside.reason} {aside.text!r}")
    if len(collected.set_aside) > 20:
        console.print(f"… and {len(collected.set_aside) - 20} more; all are in the catalog (table set_aside)")
    for message in trouble:
        console.print(f"the source of works stopped early: {message}")
    counts = services.catalog.queue_counts(run_id=run.run_id)
    left = counts.total - counts.done
    if works and not result.finished and not left:
        console.print(f"All {works} works were finished before; nothing was downloaded again.")
    if left and not run.dry_run:
        console.print(f"{left} works are left for later; run the same command again to go on.")
    if stop.is_set():
        console.print("Interrupted; nothing is lost.")
        return INTERRUPTED
    if run.dry_run:
        return SOMETHING_LEFT if collected.set_aside or trouble else DONE
    return SOMETHING_LEFT if collected.set_aside or trouble or left else DONE


def _plain_console() -> Console:
    from rich.console import Console

    return Console(stderr=True, highlight=False, markup=False)


def _fail(message: str) -> NoReturn:
    typer.echo(f"content: {message}", err=True)
    raise typer.Exit(NOTHING_STARTED)
