"""`content pull` (also `content run`): works from a query, ids or URLs, downloaded into a data root, without Dagster.

Reads what the person gave, watches over the run, and says how it ended. The work itself is `orchestrator`'s. Exit codes: 0 done;
2 nothing could start; 3 done, but something was set aside or is left for later; 4 the disk is full; 130 interrupted.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal
from urllib.parse import urlsplit

import typer

from docstokg_assets.cli.ending import DONE, INTERRUPTED, SOMETHING_LEFT, fail
from docstokg_assets.cli.options import (
    AcceptOption,
    ChunkSizeOption,
    ConcurrentResolversOption,
    ConfigOption,
    HeadPrecheckOption,
    MaxWorksOption,
    NoRobotsOption,
    OutOption,
    PolicyOption,
    ResolverOrderOption,
    WorkersOption,
    load_for_cli,
    overrides_from,
)
from docstokg_assets.cli.report_commands import QueryFormat, print_answer
from docstokg_assets.cli.running import (
    HOW_IT_ENDED,
    Signals,
    exit_with_message,
    export_and_report,
    logged,
    say_to,
    tell_what_is_left,
    terminal,
    working_root,
)

if TYPE_CHECKING:
    from rich.console import Console

    from docstokg_assets.cli.progress import RunDisplay
    from docstokg_assets.config import ContentDownloadConfig
    from docstokg_assets.domain.works import Work
    from docstokg_assets.runs.run import DownloadRun
    from docstokg_assets.runs.services import Services
    from docstokg_assets.sources import SetAside
    from docstokg_assets.sources.listing import Collected, Source
    from resources.http.errors import HttpError

app = typer.Typer()

_SHOWN, _FIRST = 20, 10


def pull(
    query: Annotated[
        str | None,
        typer.Option(
            "--query", metavar="FILTER", help="OpenAlex filter, e.g. 'topics.id:T10102,publication_year:2024'."
        ),
    ] = None,
    ids: Annotated[
        str | None,
        typer.Option(
            "--ids", metavar="FILE", help="File of OpenAlex ids, DOIs, arXiv ids, PMCIDs, one a line; - for stdin."
        ),
    ] = None,
    urls: Annotated[
        str | None, typer.Option("--urls", metavar="FILE", help="File of URLs, one a line; - for stdin.")
    ] = None,
    max_works: MaxWorksOption = None,
    out: OutOption = None,
    workers: WorkersOption = None,
    config: ConfigOption = None,
    policy: PolicyOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Ask metadata only: no files are fetched, nothing is written.")
    ] = False,
    format: Annotated[
        QueryFormat, typer.Option(help="Of a dry run: a table shows its first works, the others all.")
    ] = QueryFormat.TABLE,
    resolver_order: ResolverOrderOption = None,
    no_robots: NoRobotsOption = False,
    chunk_size: ChunkSizeOption = None,
    accept: AcceptOption = None,
    head_precheck: HeadPrecheckOption = None,
    concurrent_resolvers: ConcurrentResolversOption = None,
    deadline: Annotated[
        float | None,
        typer.Option("--deadline", min=1, metavar="SECONDS", help="Time after which works that still wait are parked."),
    ] = None,
) -> None:
    """Find and download the full text of works. Run it again and it goes on where it was.

    Exit codes: 0 done; 2 nothing could start; 3 done, but something was set aside or is left for later; 4 the disk is full;
    130 interrupted.
    """
    from docstokg_assets.config import require_contact
    from docstokg_assets.runs.services import open_services
    from docstokg_assets.sources import SourceError
    from resources.http.errors import HttpError

    overrides = overrides_from(
        policy=policy,
        max_works=max_works,
        workers=workers,
        out=out,
        resolver_order=resolver_order,
        no_robots=no_robots,
        chunk_size=chunk_size,
        accept=accept,
        head_precheck=head_precheck,
        concurrent_resolvers=concurrent_resolvers,
    )

    def load() -> ContentDownloadConfig:
        loaded = load_for_cli(config, os.environ, overrides).value
        require_contact(loaded)
        return loaded

    loaded = load()
    source = _source_from_options(query, ids, urls, loaded)
    if max_works is not None and source.kind != "query":
        fail(f"--max-works goes with a query; {source.value} says itself which works are meant")
    if format is not QueryFormat.TABLE and not dry_run:
        fail("--format goes with --dry-run; what a run brought is told by `content report --format json`")
    try:
        with (
            exit_with_message(loaded),
            no_root_for_nothing(loaded),
            working_root(loaded, dry_run) as (effective, limits),
            open_services(effective, limits) as services,
        ):
            code = _run(services, source, format if dry_run else None, deadline, load)
    except SourceError as error:
        fail(f"no works could be had: {error}")
    except HttpError as error:
        host = urlsplit(error.url).hostname or "the source"
        fail(f"no works could be had from {host}: {error}. {_hint(error, loaded)}")
    raise typer.Exit(code)


@contextmanager
def no_root_for_nothing(config: ContentDownloadConfig) -> Iterator[None]:
    """A data root that was made for a run of which nothing came, because its source refused, goes with it."""
    from docstokg_assets.sources import SourceError
    from resources.catalog.catalog import Catalog
    from resources.catalog.database import CatalogError
    from resources.http.errors import HttpError

    root = config.data_root
    made = not root.exists()
    try:
        yield
    except (SourceError, HttpError):
        if made and root.exists():
            with suppress(CatalogError):  # the source's own words matter more
                with Catalog.open(config.catalog_location) as catalog:
                    alone = len(catalog.runs()) <= 1 and not catalog.queue_counts().total
                if alone:
                    shutil.rmtree(root, ignore_errors=True)
        raise


def _hint(error: HttpError, config: ContentDownloadConfig) -> str:
    """What to look at first when the very first request fails."""
    from resources.http.errors import TlsFailed
    from resources.http.redact import redact_url

    if config.http.proxy is None:
        return "Check the network, then run the same command again."
    if isinstance(error, TlsFailed):
        return "The proxy may have an authority of its own: set http.ca_bundle (`content sandbox serve` prints it)."
    return f"All requests go through the proxy {redact_url(config.http.proxy)} (http.proxy): is it running?"


app.command("pull")(pull)
app.command("run", help="The same as `pull`.")(pull)


def _source_from_options(query: str | None, ids: str | None, urls: str | None, config: ContentDownloadConfig) -> Source:
    """Where the works come from: exactly one of a query, ids and URLs, from the options or else the configuration."""
    from docstokg_assets.sources.listing import Source
    from docstokg_assets.sources.settings import filter_string

    given = [(kind, value) for kind, value in (("query", query), ("ids", ids), ("urls", urls)) if value is not None]
    if len(given) > 1:
        fail(f"give one of --query, --ids and --urls, not {len(given)} of them")
    if not given and config.openalex.source == "api" and config.openalex.filter:
        given = [("query", config.openalex.filter)]
    if not given and config.openalex.source == "snapshot":
        fail(
            "openalex.source is snapshot, which goes by years: `make materialize YEAR=2024`, or give --query, --ids or --urls"
        )
    if not given and config.openalex.source != "api":
        file = config.openalex.ids_file if config.openalex.source == "ids" else config.openalex.urls_file
        given = [(config.openalex.source, str(file))]
    if not given:
        fail("say which works: --query 'topics.id:T10102,publication_year:2024', --ids FILE or --urls FILE")
    kind, value = given[0]
    if kind == "query" and ":" not in value:
        if not Path(value).is_file():
            fail(f"--query {value!r} is neither an OpenAlex filter (name:value,name:value) nor a file of ids")
        kind = "ids"
    if kind != "query":
        return _source_from_file("urls" if kind == "urls" else "ids", value)
    try:  # in one spelling, so that the same query in other words continues where the last one stopped
        return Source("query", filter_string(value))
    except ValueError as error:
        fail(f"--query {value!r}: {error}")


def _source_from_file(kind: Literal["ids", "urls"], name: str) -> Source:
    from docstokg_assets.cli.progress import plural
    from docstokg_assets.sources.listing import Source

    lines = _read_lines(name)
    source = Source.from_lines(kind, name, lines)
    if not source.works and not source.identifiers:
        _tell_set_aside(terminal(), source.set_aside)
        what = "a URL" if kind == "urls" else "an OpenAlex id, DOI, arXiv id or PMCID"
        fail(f"none of the {plural(len(lines), 'line')} of {name} is {what}; give one a line")
    return source


def _read_lines(name: str) -> list[str]:
    from resources.folders import read_lines

    try:
        return read_lines(0 if name == "-" else Path(name))
    except OSError as error:
        fail(f"{name} cannot be read: {error.strerror}. Give a file with one entry a line, or - for standard input.")
    except ValueError as error:  # a name that no file can have
        fail(f"{name!r} cannot be read: {error}. Give a file with one entry a line, or - for standard input.")


def _run(
    services: Services,
    source: Source,
    dry_run: QueryFormat | None,
    deadline: float | None,
    load: Callable[[], ContentDownloadConfig],
) -> int:
    """`dry_run` says how a dry run shows what it found; None: this is none."""
    from docstokg_assets.cli.progress import RunDisplay, plural
    from docstokg_assets.runs.run import DownloadRun
    from docstokg_assets.sources.listing import continue_query, record_set_aside
    from resources.http.errors import Interrupted

    console = terminal()
    signals = Signals(console)
    scope: dict[str, str] = {source.kind: source.value}
    run_id, collected = continue_query(services.catalog, scope)
    run = DownloadRun(services, run_id, stop=signals.stop, scope=scope, dry_run=dry_run is not None)
    signals.reload = lambda: run.reload_with(load)
    with signals.watched(), logged(console, None if dry_run is not None else run.folder / "run.log"):
        with run, RunDisplay(console, dry_run=dry_run is not None) as display:
            run.store_and_enqueue(_as_they_come(source, run, collected, signals, display))
            stopped_early = None if isinstance(collected.error, Interrupted) else collected.error
            if stopped_early is not None and collected.works == 0:
                raise stopped_early
            services.catalog.report_progress(run.run_id, {"cursor": collected.cursor})
            record_set_aside(services.catalog, run.run_id, source.value, collected)
            before = services.catalog.queue_counts(run_id=run.run_id)
            due = before.total - before.done - before.retry
            if dry_run is None:
                say_to(
                    console,
                    f"run {run.run_id}: {due:,} of {plural(before.total, 'work')} to do, in {run.folder.parent}",
                )
            display.start_pass(due)
            result = run.drain(run.own_works, deadline_s=deadline, on_progress=display.update)
            display.end_pass(HOW_IT_ENDED.get(result.ended, result.ended))
        if dry_run is not None:
            _show_dry_run(services, run, dry_run)
        elif not signals.stop.is_set():
            export_and_report(services, run, shown=result.finished > 0)
    _tell_set_aside(console, collected.set_aside)
    if stopped_early is not None:
        say_to(console, f"the source of works stopped early: {stopped_early}")
    if signals.stop.is_set():
        say_to(console, "Interrupted; nothing is lost. Run the same command again to go on.")
        return INTERRUPTED
    left = dry_run is None and tell_what_is_left(
        console, services.catalog, before.done, result.finished, run_id=run.run_id
    )
    return SOMETHING_LEFT if left or collected.set_aside or stopped_early else DONE


def _as_they_come(
    source: Source, run: DownloadRun, collected: Collected, signals: Signals, display: RunDisplay
) -> Iterator[Work]:
    """The works of the source, with a line about how many there will be, and interrupted at once by a signal."""
    from docstokg_assets.cli.progress import plural

    told = False
    works = run.list_works(source, collected)
    while True:
        with signals.cut_short():
            work = next(works, None)
        if work is None:
            return
        if not told and collected.announced:
            told = True
            most = run.config.openalex.max_works
            taken = f"; {most:,} of them are taken" if most is not None and most < collected.announced else ""
            say_to(display.console, f"The source announces {plural(collected.announced, 'work')}{taken}.")
        display.found(collected.works, collected.announced)
        yield work


def _show_dry_run(services: Services, run: DownloadRun, format: QueryFormat) -> None:
    """What would be tried, from the outcomes that the dry run left in its passing catalog."""
    from docstokg_assets.cli.progress import plural
    from resources.records import Answer

    columns = ("work_id", "title", "resolver", "tier", "url")
    rows: list[tuple[str | None, ...]] = []
    for entry in services.catalog.entries(run_id=run.run_id):
        found = entry.meta.get("candidates") or [{}]  # a work of which no copy is known has a row too
        rows += [(entry.work_id, entry.title, *(one.get(name) for name in columns[2:])) for one in found]
    if format is QueryFormat.TABLE:
        _show_candidates([row for row in rows if row[4]], list(dict.fromkeys(row[:2] for row in rows)))
    else:
        print_answer(Answer(columns, tuple(rows), False), format, "")
    works, urls = len({row[0] for row in rows}), sum(row[4] is not None for row in rows)
    what = f"{plural(works, 'work')}, {plural(urls, 'URL')} that would be tried"
    say_to(terminal(), f"{what}; nothing was fetched, nothing was written.")


def _show_candidates(candidates: list[tuple[str | None, ...]], works: list[tuple[str | None, ...]]) -> None:
    """The first works with what would be tried for them, and who would be asked how often."""
    from rich.console import Console

    from docstokg_assets.cli.progress import plural, say
    from resources.records import Answer

    console = Console()
    for work in works[:_FIRST]:
        say_to(console, f"{work[0]}  {work[1] or ''}".rstrip())
        tried = [f"    {resolver:<10} {url}" for *of, resolver, _, url in candidates if tuple(of) == work]
        for line in tried or ["    no copy is known"]:
            say(console, line, verbatim=True)
    if len(works) > _FIRST:
        say_to(console, f"… and {plural(len(works) - _FIRST, 'work')} more; --format csv or json shows all")
    resolvers = Counter((resolver, tier) for _, _, resolver, tier, _ in candidates)
    rows = tuple((*who, count) for who, count in resolvers.most_common())
    print_answer(Answer(("resolver", "tier", "URLs"), rows, False), QueryFormat.TABLE, "")
    hosts = Counter(urlsplit(row[4] or "").hostname for row in candidates)
    busiest = tuple(hosts.most_common(_FIRST))
    print_answer(Answer(("host", "URLs"), busiest, len(hosts) > _FIRST), QueryFormat.TABLE, "the first {}")


def _tell_set_aside(console: Console, set_aside: Sequence[SetAside]) -> None:
    for aside in set_aside[:_SHOWN]:
        say_to(console, f"set aside: {aside.where}: {aside.reason}: {aside.text!r}")
    if len(set_aside) > _SHOWN:
        say_to(console, f"… and {len(set_aside) - _SHOWN:,} more")
