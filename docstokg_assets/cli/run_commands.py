"""`content pull` (also `content run`): download works from a query, ids or URLs into a data folder, without Dagster.

Reads the options, lists the works, and hands them to a `RunSession`. Exit codes: 0 done; 2 not started; 3 done, but lines were
skipped or works are left; 4 the disk is full; 130 interrupted.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from docstokg_assets.cli.exits import fail
from docstokg_assets.cli.options import SETTING_NAMES, DeadlineOption, Load, with_settings
from docstokg_assets.cli.output import RowFormat, print_message, stderr_console
from docstokg_assets.cli.run_session import RunSession, disk_errors, load_with_contact, working_root
from docstokg_assets.reporting.rendering import plural

if TYPE_CHECKING:
    from rich.console import Console

    from docstokg_assets.cli.progress import RunDisplay
    from docstokg_assets.cli.signals import StopSignals
    from docstokg_assets.config import ContentDownloadConfig
    from docstokg_assets.domain.identifiers import Identifier
    from docstokg_assets.domain.works import Work
    from docstokg_assets.runs.run import DownloadRun
    from docstokg_assets.sources import SetAside
    from docstokg_assets.sources.listing import Collected
    from resources.catalog.catalog import Catalog
    from resources.http.errors import HttpError

app = typer.Typer()

_MAX_SKIPPED = 20  # lines that are shown


@with_settings(*SETTING_NAMES)
def pull(
    load: Load,
    query: Annotated[
        str | None,
        typer.Option(
            "--query", metavar="FILTER", help="OpenAlex filter, e.g. 'topics.id:T10102,publication_year:2024'."
        ),
    ] = None,
    ids: Annotated[
        str | None,
        typer.Option(
            "--ids",
            metavar="FILE",
            help="File of OpenAlex ids, DOIs, arXiv ids and PMCIDs, one per line, in any mix; - for stdin.",
        ),
    ] = None,
    urls: Annotated[
        str | None, typer.Option("--urls", metavar="FILE", help="File of URLs, one per line; - for stdin.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Query metadata only; download and write nothing.")
    ] = False,
    format: Annotated[
        RowFormat, typer.Option(help="Output of a dry run; a table shows the first works, csv and json all of them.")
    ] = RowFormat.TABLE,
    deadline: DeadlineOption = None,
) -> None:
    """Find and download the full text of works. Run it again to continue where it stopped.

    Exit codes: 0 done; 2 not started; 3 done, but lines were skipped or works are left; 4 the disk is full; 130 interrupted.
    """
    from docstokg_assets.runs.run import open_services
    from docstokg_assets.sources import SourceError
    from resources.http.errors import HttpError

    config = load_with_contact(load)
    source = Source.from_options(query, ids, urls, config)
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


app.command("pull")(pull)
app.command("run", help="Same as `pull`.")(pull)


@contextmanager
def _remove_unused_root(config: ContentDownloadConfig) -> Iterator[None]:
    """Remove a data folder that was created for a run whose source failed before it listed any work."""
    from docstokg_assets.sources import SourceError
    from resources.catalog.catalog import Catalog
    from resources.catalog.errors import CatalogError
    from resources.http.errors import HttpError

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
    from resources.http.errors import TlsFailed
    from resources.http.redact import redact_url

    if config.http.proxy is None:
        return "Check the network, then run the same command again."
    if isinstance(error, TlsFailed):
        return "The proxy may use its own CA: set http.ca_bundle (`content sandbox serve` prints it)."
    return f"All requests go through the proxy {redact_url(config.http.proxy)} (http.proxy): is it running?"


@dataclass
class Source:
    """Where the works come from: exactly one of a query, ids and URLs, from the options or else the configuration."""

    kind: str
    value: str
    identifiers: Sequence[Identifier] = ()
    of_urls: Sequence[Work] = ()
    set_aside: list[SetAside] = field(default_factory=list)

    @classmethod
    def from_options(
        cls, query: str | None, ids: str | None, urls: str | None, config: ContentDownloadConfig
    ) -> Source:
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
        return cls._of_query(value) if kind == "query" else cls._from_file(kind, value)

    @classmethod
    def _of_query(cls, query: str) -> Source:
        """In one spelling, so that the same query in other words goes on where the last one was."""
        from docstokg_assets.config.openalex_filter import filter_string

        try:
            return cls("query", filter_string(query))
        except ValueError as error:
            fail(f"--query {query!r}: {error}")

    @classmethod
    def _from_file(cls, kind: str, name: str) -> Source:
        from docstokg_assets.sources.ids import read_ids
        from docstokg_assets.sources.urls import read_urls

        source, lines = cls(kind, name), _read_lines(name)
        if kind == "urls":
            source.of_urls, source.set_aside = read_urls(lines)
        else:
            source.identifiers, source.set_aside = read_ids(lines)
        if not source.of_urls and not source.identifiers:
            _print_skipped(stderr_console(), source.set_aside)
            what = "a URL" if kind == "urls" else "an OpenAlex id, DOI, arXiv id or PMCID"
            fail(f"none of the {plural(len(lines), 'line')} of {name} is {what}; give one per line")
        return source

    def works(self, run: DownloadRun, collected: Collected) -> Iterator[Work]:
        from docstokg_assets.sources import RequestRefused
        from docstokg_assets.sources.listing import works_of_ids

        collected.set_aside += self.set_aside
        if self.kind == "urls":
            collected.works = len(self.of_urls)
            yield from self.of_urls
        elif self.kind == "ids":
            yield from works_of_ids(run.driver(), run.openalex(), self.identifiers, collected)
        else:
            went_on = collected.cursor is not None
            try:
                yield from run.collect(self.value, None, collected)
            except RequestRefused:
                if not went_on:
                    raise
                collected.cursor = None  # too old to be understood: the list begins anew
                yield from run.collect(self.value, None, collected)


def _read_lines(name: str) -> list[str]:
    from resources.folders import read_lines

    try:
        return read_lines(0 if name == "-" else Path(name))
    except OSError as error:
        fail(f"{name} cannot be read: {error.strerror}. Give a file with one entry per line, or - for standard input.")
    except ValueError as error:  # a name that no file can have
        fail(f"{name!r} cannot be read: {error}. Give a file with one entry per line, or - for standard input.")


def _run(session: RunSession, source: Source, format: RowFormat) -> int:
    from docstokg_assets.cli.dry_run import print_candidates
    from docstokg_assets.runs.run import DownloadRun

    catalog, signals = session.services.catalog, session.signals
    scope = {source.kind: source.value}
    run_id, collected = _begin_or_go_on(catalog, scope)
    trouble: list[str] = []
    run = DownloadRun(session.services, run_id, stop=signals.stop, scope=scope, dry_run=session.dry_run)

    def list_works(display: RunDisplay) -> None:
        run.store_and_enqueue(_as_they_come(source, run, collected, signals, display, trouble))
        catalog.report_progress(run.run_id, {"cursor": collected.cursor})
        _keep_aside(catalog, run, source, collected)

    session.drain(run, list_works, year=None, run_id=run.run_id)
    if session.dry_run:
        print_candidates(catalog.entries(run_id=run.run_id), format)
    _print_skipped(session.console, collected.set_aside)
    for message in trouble:
        session.print(f"the list of works is incomplete: {message}")
    return session.exit_code(incomplete=bool(collected.set_aside or trouble))


def _begin_or_go_on(catalog: Catalog, scope: dict[str, str]) -> tuple[str | None, Collected]:
    """A new run, unless the list of the same query broke off in the last one: then that run goes on where its list ended."""
    from docstokg_assets.sources.listing import Collected

    last = next((run for run in catalog.runs() if run.scope == scope), None)
    cursor = (last.progress or {}).get("cursor") if last is not None else None
    if last is None or last.finished_at is None or not isinstance(cursor, str):
        return None, Collected()
    return last.run_id, Collected(works=catalog.queue_counts(run_id=last.run_id).total, cursor=cursor)


def _as_they_come(
    source: Source,
    run: DownloadRun,
    collected: Collected,
    signals: StopSignals,
    display: RunDisplay,
    trouble: list[str],
) -> Iterator[Work]:
    """What came before a source failed is kept and downloaded; when nothing came, the failure is the answer."""
    from docstokg_assets.sources import SourceError
    from resources.http.errors import HttpError, Interrupted

    announced = False
    works = source.works(run, collected)
    try:
        while True:
            with signals.interrupting():
                work = next(works, None)
            if work is None:
                return
            if not announced and collected.announced:
                announced = True
                most = run.config.openalex.max_works
                taken = f"; taking the first {most:,}" if most is not None and most < collected.announced else ""
                message = f"OpenAlex lists {plural(collected.announced, 'matching work')}{taken}."
                print_message(display.console, message)
            display.listed(collected.works, collected.announced)
            yield work
    except Interrupted:
        return
    except (SourceError, HttpError) as error:
        if collected.works == 0:
            raise
        trouble.append(str(error))


def _keep_aside(catalog: Catalog, run: DownloadRun, source: Source, collected: Collected) -> None:
    from resources.catalog.rows import SetAside as Row

    rows = [Row(run.run_id, source.value, f"{a.where}: {a.text}".rstrip(": "), a.reason) for a in collected.set_aside]
    catalog.add_set_aside(rows)


def _print_skipped(console: Console, set_aside: Sequence[SetAside]) -> None:
    for aside in set_aside[:_MAX_SKIPPED]:
        print_message(console, f"skipped: {aside.where}: {aside.reason}: {aside.text!r}")
    if len(set_aside) > _MAX_SKIPPED:
        print_message(console, f"… and {len(set_aside) - _MAX_SKIPPED:,} more")
