"""What `content pull` does: list the works of a query, ids or URLs, and hand them to a `RunSession`."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

import typer

from docstokg_assets.cli.dry_run import names_of, print_candidates, print_estimate
from docstokg_assets.cli.exits import DONE, fail
from docstokg_assets.cli.options import Load
from docstokg_assets.cli.output import RowFormat, print_message
from docstokg_assets.cli.progress import RunDisplay
from docstokg_assets.cli.pull_source import Wanted, print_policy, print_skipped, source_of
from docstokg_assets.cli.run_session import RunSession, disk_errors, load_with_contact, working_root
from docstokg_assets.cli.signals import StopSignals
from docstokg_assets.config import ContentDownloadConfig
from docstokg_assets.domain.works import Work
from docstokg_assets.reporting.input_files import SET_ASIDE, write_inputs, write_set_aside
from docstokg_assets.reporting.rendering import plural
from docstokg_assets.runs import resume as resuming
from docstokg_assets.runs.run import DownloadRun
from docstokg_assets.runs.services import open_services
from docstokg_assets.sources import SourceError
from docstokg_assets.sources.listing import Collected, Source, continue_query, record_set_aside
from resources.catalog.catalog import Catalog
from resources.catalog.errors import CatalogError
from resources.http.errors import HttpError, Interrupted, TlsFailed
from resources.http.redact import redact_url

_ASK_ABOVE = 1_000  # works
_SAMPLE = 5_000


def pull_works(
    load: Load, wanted: Wanted, force: bool, yes: bool, dry_run: bool, format: RowFormat, deadline: float | None
) -> None:
    """Run `content pull` with its options, and exit."""
    config = load_with_contact(load)
    source = source_of(wanted, config)
    print_policy(load)
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
            raise typer.Exit(_run(session, source, format, force, yes))
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


def _run(session: RunSession, source: Source, format: RowFormat, force: bool, yes: bool) -> int:
    catalog, signals = session.services.catalog, session.signals
    scope: dict[str, str] = {source.kind: source.value}
    run_id, collected = continue_query(catalog, scope)
    run = DownloadRun(session.services, run_id, stop=signals.stop, scope=scope, dry_run=session.dry_run)

    sample: list[Work] = []  # the first works, by which the run is estimated

    def list_works(display: RunDisplay) -> None:
        run.store_and_enqueue(_as_they_come(source, run, collected, signals, display, sample))
        if isinstance(collected.error, Interrupted):
            collected.error = None
        if collected.error is not None and collected.works == 0:
            raise collected.error
        catalog.report_progress(run.run_id, {"cursor": collected.cursor})
        if force:
            again = resuming.force(catalog, run.own_works, resuming.Selection({}))
            session.print(f"{plural(again, 'finished work')} to search for again.")
        record_set_aside(catalog, run.run_id, source.value, collected)
        if not session.dry_run:
            write_inputs(run.folder, source.inputs, collected.work_ids, collected.left_out)
            write_set_aside(run.folder, collected.set_aside)
            if not yes and collected.works > _ASK_ABOVE and sys.stdin.isatty() and session.console.is_terminal:
                display.set_phase("waiting for your answer")
                print_estimate(session.console, run.config, sample, collected.works)
                if not typer.confirm("Start?", default=True, err=True):
                    fail("not started; the works are in the queue: `content resume` fetches them", DONE)

    session.drain(run, list_works, run.own_works)
    if session.dry_run:
        named = names_of(catalog, run.run_id, run.config.download.file_name) if format is RowFormat.TABLE else {}
        print_candidates(catalog.entries(settled_by=run.run_id), format, named)
        print_estimate(session.console, session.load(), sample, collected.works)
    print_skipped(session.console, collected.set_aside, None if session.dry_run else run.folder / SET_ASIDE)
    if collected.error is not None:
        session.print(f"the list of works is incomplete: {collected.error}")
    return session.exit_code(incomplete=bool(collected.set_aside or collected.error))


def _as_they_come(
    source: Source,
    run: DownloadRun,
    collected: Collected,
    signals: StopSignals,
    display: RunDisplay,
    sample: list[Work],
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
        if len(sample) < _SAMPLE:
            sample.append(work)
        yield work
