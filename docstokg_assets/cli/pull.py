"""What `content pull` does: list the works of a query, ids or URLs, and hand them to a `RunSession`."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import typer
from rich.console import Console

from docstokg_assets.cli.exits import fail
from docstokg_assets.cli.options import Load
from docstokg_assets.cli.output import RowFormat, print_message, print_rows, stderr_console
from docstokg_assets.cli.progress import RunDisplay
from docstokg_assets.cli.run_session import RunSession, disk_errors, load_with_contact, working_root
from docstokg_assets.cli.signals import StopSignals
from docstokg_assets.config import ContentDownloadConfig
from docstokg_assets.domain.works import Work
from docstokg_assets.reporting.rendering import plural
from docstokg_assets.runs.run import DownloadRun
from docstokg_assets.runs.services import open_services
from docstokg_assets.sources import SetAside, SourceError
from docstokg_assets.sources.listing import Collected, Source, continue_query, record_set_aside
from docstokg_assets.sources.settings import filter_string
from resources.catalog.catalog import Catalog
from resources.catalog.errors import CatalogError
from resources.catalog.rows import Entry
from resources.folders import read_lines
from resources.http.errors import HttpError, Interrupted, TlsFailed
from resources.http.redact import redact_url
from resources.records import Answer

_MAX_SKIPPED = 20  # lines that are shown
_FIRST = 10  # works and hosts in the table of a dry run
_COLUMNS = ("work_id", "title", "resolver", "tier", "url")
_Row = tuple[str | None, ...]


def pull_works(
    load: Load,
    query: str | None,
    ids: str | None,
    urls: str | None,
    dry_run: bool,
    format: RowFormat,
    deadline: float | None,
) -> None:
    """Download the works of one source; ends the command with its exit code."""
    config = load_with_contact(load)
    source = _source_from_options(query, ids, urls, config)
    if load.given["max_works"] is not None and source.kind != "query":
        fail(f"--max-works goes with a query; {source.value} already names the works")
    if format is not RowFormat.TABLE and not dry_run:
        fail("--format goes with --dry-run; `content report --format json` shows the results of a run")
    try:
        with (
            disk_errors(config),
            _remove_unused_root(config),
            working_root(config, dry_run) as (effective, limits),
            open_services(effective, limits) as services,
        ):
            session = RunSession(services, lambda: load_with_contact(load), deadline, dry_run)
            raise typer.Exit(_run(session, source, format))
    except SourceError as error:
        fail(f"could not list works: {error}")
    except HttpError as error:
        host = urlsplit(error.url).hostname or "the source"
        fail(f"could not list works from {host}: {error}. {_hint(error, config)}")


@contextmanager
def _remove_unused_root(config: ContentDownloadConfig) -> Iterator[None]:
    """Remove a data folder that was created for a run whose source failed before it listed any work."""
    root = config.data_root
    created = not root.exists()
    try:
        yield
    except (SourceError, HttpError):
        if created and root.exists():
            with suppress(CatalogError):  # the error of the source matters more
                with Catalog.open(config.catalog_location) as catalog:
                    unused = len(catalog.runs()) <= 1 and not catalog.queue_counts().total
                if unused:
                    shutil.rmtree(root, ignore_errors=True)
        raise


def _hint(error: HttpError, config: ContentDownloadConfig) -> str:
    """What to check when the first request fails."""
    if config.http.proxy is None:
        return "Check the network, then run the same command again."
    if isinstance(error, TlsFailed):
        return "The proxy may use its own CA: set http.ca_bundle (`content sandbox serve` prints it)."
    return f"All requests go through the proxy {redact_url(config.http.proxy)} (http.proxy): is it running?"


def _source_from_options(query: str | None, ids: str | None, urls: str | None, config: ContentDownloadConfig) -> Source:
    """Where the works come from: exactly one of a query, ids and URLs, from the options or else the configuration."""
    given = [(kind, value) for kind, value in (("query", query), ("ids", ids), ("urls", urls)) if value is not None]
    openalex = config.openalex
    if len(given) > 1:
        fail(f"give one of --query, --ids and --urls, not {len(given)} of them")
    if not given and openalex.source == "snapshot":
        years = "openalex.source is snapshot, which goes by years: `make materialize YEAR=2024`"
        fail(f"{years}, or give --query, --ids or --urls")
    configured = {
        "api": ("query", openalex.filter),
        "ids": ("ids", openalex.ids_file),
        "urls": ("urls", openalex.urls_file),
    }
    if not given and (found := configured[openalex.source])[1]:
        given = [(found[0], str(found[1]))]
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
    lines = _read_lines(name)
    source = Source.from_lines(kind, name, lines)
    if not source.works and not source.identifiers:
        _print_skipped(stderr_console(), source.set_aside)
        what = "a URL" if kind == "urls" else "an OpenAlex id, DOI, arXiv id or PMCID"
        found = f"none of the {plural(len(lines), 'line')} of {name} is {what}; give one per line"
        fail(found if lines else f"{name} is empty; give {what} per line")
    return source


def _read_lines(name: str) -> list[str]:
    try:
        return read_lines(0 if name == "-" else Path(name))
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        why = (
            f"{name} cannot be read: {error.strerror}"
            if isinstance(error, OSError)
            else f"{name!r} cannot be read: {error}"
        )
        fail(f"{why}. Give a file with one entry per line, or - for standard input.")


def _run(session: RunSession, source: Source, format: RowFormat) -> int:
    catalog, signals = session.services.catalog, session.signals
    scope: dict[str, str] = {source.kind: source.value}
    run_id, collected = continue_query(catalog, scope)
    run = DownloadRun(session.services, run_id, stop=signals.stop, scope=scope, dry_run=session.dry_run)

    def list_works(display: RunDisplay) -> None:
        run.store_and_enqueue(_as_they_come(source, run, collected, signals, display))
        if isinstance(collected.error, Interrupted):
            collected.error = None
        if collected.error is not None and collected.works == 0:
            raise collected.error
        catalog.report_progress(run.run_id, {"cursor": collected.cursor})
        record_set_aside(catalog, run.run_id, source.value, collected)

    session.drain(run, list_works, run.own_works)
    if session.dry_run:
        _print_candidates(catalog.entries(settled_by=run.run_id), format)
    _print_skipped(session.console, collected.set_aside)
    if collected.error is not None:
        session.print(f"the list of works is incomplete: {collected.error}")
    return session.exit_code(incomplete=bool(collected.set_aside or collected.error))


def _as_they_come(
    source: Source, run: DownloadRun, collected: Collected, signals: StopSignals, display: RunDisplay
) -> Iterator[Work]:
    """Yield the works of the source, and print how many it lists. A signal interrupts it at once."""
    announced = False
    works = run.list_works(source, collected)
    while True:
        with signals.interrupting():
            work = next(works, None)
        if work is None:
            return
        if not announced and collected.announced:
            announced = True
            most = run.config.openalex.max_works
            taken = f"; taking the first {most:,}" if most is not None and most < collected.announced else ""
            print_message(display.console, f"OpenAlex lists {plural(collected.announced, 'matching work')}{taken}.")
        display.listed(collected.works, collected.announced)
        yield work


def _print_skipped(console: Console, set_aside: Sequence[SetAside]) -> None:
    for aside in set_aside[:_MAX_SKIPPED]:
        print_message(console, f"skipped: {aside.where}: {aside.reason}: {aside.text!r}")
    if len(set_aside) > _MAX_SKIPPED:
        print_message(console, f"… and {len(set_aside) - _MAX_SKIPPED:,} more")


def _print_candidates(entries: Iterable[Entry], format: RowFormat) -> None:
    """Print the URLs that a dry run would try, from the outcomes in its temporary catalog."""
    rows: list[_Row] = []
    for entry in entries:
        found = entry.meta.get("candidates") or [{}]  # a work without a known copy has a row, too
        rows += [(entry.work_id, entry.title, *(one.get(name) for name in _COLUMNS[2:])) for one in found]
    candidates, works = [row for row in rows if row[4]], list(dict.fromkeys(row[:2] for row in rows))
    if format is RowFormat.TABLE:
        _print_first(candidates, works)
    else:
        print_rows(Answer(_COLUMNS, tuple(rows), False), format)
    totals = f"{plural(len(works), 'work')}, {plural(len(candidates), 'candidate URL')}"
    print_message(stderr_console(), f"{totals}; dry run: nothing was downloaded or written.")


def _print_first(candidates: list[_Row], works: list[_Row]) -> None:
    """The first works with their candidates, then the number of URLs by resolver and by host."""
    console = Console()
    for work in works[:_FIRST]:
        print_message(console, f"{work[0]}  {work[1] or ''}".rstrip())
        urls = [f"    {resolver:<10} {url}" for *known, resolver, _, url in candidates if tuple(known) == work]
        for line in urls or ["    no known copy"]:
            print_message(console, line, verbatim=True)
    if len(works) > _FIRST:
        print_message(console, f"… and {plural(len(works) - _FIRST, 'more work')}; --format csv or json shows all")
    resolvers = Counter((resolver, tier) for _, _, resolver, tier, _ in candidates)
    by_resolver = tuple((*who, count) for who, count in resolvers.most_common())
    print_rows(Answer(("resolver", "tier", "URLs"), by_resolver, False), RowFormat.TABLE)
    hosts = Counter(urlsplit(row[4] or "").hostname for row in candidates)
    print_rows(Answer(("host", "URLs"), tuple(hosts.most_common(_FIRST)), len(hosts) > _FIRST), RowFormat.TABLE)
