"""`content resume`: goes on with what a run, or all runs, left; takes up again what is forced, damaged or may have changed.

Says what it found and how it ended; which works are taken up is `resume`'s business, fetching the run's. Exit codes as for
`content pull`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from docstokg_assets.cli.ending import DONE, INTERRUPTED, SOMETHING_LEFT, fail
from docstokg_assets.cli.options import ConfigOption, OutOption, WorkersOption, load_for_cli, overrides_from
from docstokg_assets.cli.report_commands import check_known, check_there, place
from docstokg_assets.cli.running import (
    HOW_IT_ENDED,
    Signals,
    exit_with_message,
    export_and_report,
    logged,
    tell_what_is_left,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from docstokg_assets.cli.progress import RunDisplay
    from docstokg_assets.config import ContentDownloadConfig
    from docstokg_assets.domain.scope import WorkScope
    from docstokg_assets.runs.resume import Selection
    from docstokg_assets.runs.services import Services

app = typer.Typer()


@app.command()
def resume(
    run: Annotated[
        str | None, typer.Option(help="A run's folder or its id; the works of all runs when left out.")
    ] = None,
    out: OutOption = None,
    config: ConfigOption = None,
    workers: WorkersOption = None,
    force: Annotated[
        bool, typer.Option("--force", help="Search again from the start for the works that --filter selects.")
    ] = False,
    filter: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE", help="With --force: status=failed, reason=…, resolver=…, year=…; repeatable."
        ),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Hash all stored files again; fetch what is missing or differs.")
    ] = False,
    revalidate: Annotated[
        bool, typer.Option("--revalidate", help="Ask hosts whether the PDF and XML files we have are still current.")
    ] = False,
    failed_ids: Annotated[
        Path | None,
        typer.Option("--failed-ids", metavar="FILE", help="Write the works without full text, for `pull --ids`."),
    ] = None,
    deadline: Annotated[
        float | None,
        typer.Option("--deadline", min=1, metavar="SECONDS", help="Time after which works that still wait are parked."),
    ] = None,
) -> None:
    """Go on with what is left: queued works, and failed ones whose time has come. What is done is not fetched again.

    Exit codes: 0 done; 2 nothing could start; 3 done, but something is left for later or lost; 4 the disk is full; 130
    interrupted.
    """
    from docstokg_assets.config import require_contact
    from docstokg_assets.runs.resume import FilterError, Selection
    from docstokg_assets.runs.services import open_services

    run_id, out = place(run, out)
    overrides = overrides_from(out=out, workers=workers)

    def load() -> ContentDownloadConfig:
        loaded = load_for_cli(config, os.environ, overrides).value
        require_contact(loaded)
        return loaded

    loaded = load()
    if force and not filter:
        fail("--force needs to know which works: --filter status=failed, or status=success for all that are there")
    if filter and not force:
        fail("--filter says which works are tried again although they are done: give --force with it")
    try:
        selection = Selection.parse(filter or (), loaded.resolvers.names())
    except FilterError as error:
        fail(str(error))
    if failed_ids is not None and not failed_ids.absolute().parent.is_dir():
        fail(f"--failed-ids {failed_ids}: there is no folder {failed_ids.parent}")
    check_there(loaded.catalog_location)
    with exit_with_message(loaded), open_services(loaded) as services:
        job = _Job(services, selection if force else None, verify, revalidate, failed_ids, deadline)
        raise typer.Exit(job.run(run_id, load))


class _Job:
    """One resume: take up again what was asked for, drain, tell."""

    def __init__(
        self,
        services: Services,
        forced: Selection | None,
        verify: bool,
        revalidate: bool,
        failed_ids: Path | None,
        deadline: float | None,
    ) -> None:
        from rich.console import Console

        self._services, self._forced, self._verify, self._revalidate = services, forced, verify, revalidate
        self._failed_ids, self._deadline = failed_ids, deadline
        self._console: Console = Console(stderr=True)
        self._signals = Signals(self._console)
        self._lost: list[str] = []

    def run(self, run_id: str | None, load: Callable[[], ContentDownloadConfig]) -> int:
        from docstokg_assets.cli.progress import RunDisplay, plural
        from docstokg_assets.domain.scope import WorkScope
        from docstokg_assets.runs.run import DownloadRun

        services, signals, catalog = self._services, self._signals, self._services.catalog
        known = check_known(catalog, run_id, services.config.data_root)
        # A run of a partition has no list of works of its own: what it left is what its year has left.
        if known is not None and "year" in known.scope:
            extent = WorkScope(year=known.scope["year"])
        else:
            extent = WorkScope(run_id=run_id)
        kind, scope = ("resume", {}) if known is None else (known.kind, known.scope)
        run = DownloadRun(services, run_id, kind=kind, scope=scope, stop=signals.stop)
        signals.reload = lambda: run.reload_with(load)
        with signals.watched(), logged(self._console, run.folder / "run.log"):
            with run, RunDisplay(self._console) as display:
                self._take_up(extent, display)
                before = catalog.queue_counts(extent.year, extent.run_id)
                due = before.total - before.done - before.retry
                self._say(f"run {run.run_id}: {due:,} of {plural(before.total, 'work')} to do, in {run.folder.parent}")
                display.start_pass(due)
                result = run.drain(extent, deadline_s=self._deadline, on_progress=display.update)
                display.end_pass(HOW_IT_ENDED.get(result.ended, result.ended))
            if not signals.stop.is_set():
                export_and_report(services, run, shown=bool(catalog.outcome_counts(run_id=run.run_id)))
        if self._revalidate:
            unchanged = result.outcomes["not-modified"]
            self._say(f"{plural(unchanged, 'file')} unchanged, {result.outcomes['ok']:,} in a new version.")
        gone = self._tell_lost()
        self._write_failed(extent)
        if signals.stop.is_set():
            self._say("Interrupted; nothing is lost. Run the same command again to go on.")
            return INTERRUPTED
        left = tell_what_is_left(
            self._console, catalog, before.done, result.finished, run_id=extent.run_id, year=extent.year
        )
        return SOMETHING_LEFT if left or gone else DONE

    def _take_up(self, extent: WorkScope, display: RunDisplay) -> None:
        """Put back into the queue what was asked for, and say how much it is."""
        from docstokg_assets.cli.progress import plural
        from docstokg_assets.runs import resume as resuming

        services, stop = self._services, self._signals.stop
        if self._forced is not None:
            forced = resuming.force(services.catalog, extent, self._forced)
            self._say(f"{plural(forced, 'work')} to be searched for again from the start.")
        if self._verify:
            found = resuming.verify(
                services.catalog,
                services.store,
                extent,
                services.config.workers,
                stop,
                lambda count: display.doing(f"checking files, {count:,} so far"),
            )
            self._lost = found.lost
            what = f"{len(found.missing):,} missing, {len(found.damaged):,} damaged" if found.lost else "all are whole"
            self._say(f"{plural(found.checked, 'file')} checked: {what}.")
        if self._revalidate and not stop.is_set():
            asked, unknown = resuming.revalidate(services.catalog, extent)
            also = f"; of {unknown:,} more no host can be asked, for it named no ETag or date" if unknown else ""
            self._say(f"{plural(asked, 'file')} to be asked for again{also}.")

    def _tell_lost(self) -> int:
        """Of the files that were missing or damaged, how many are not there again."""
        from docstokg_assets.cli.progress import plural
        from docstokg_assets.runs.resume import still_lost

        gone = still_lost(self._services.catalog, self._services.store, self._lost)
        if self._lost:
            again = len(self._lost) - len(gone)
            also = f"; still without one: {', '.join(gone[:5])}{' …' if len(gone) > 5 else ''}" if gone else ""
            self._say(f"{plural(again, 'file')} of {len(self._lost):,} fetched again{also}.")
        return len(gone)

    def _write_failed(self, extent: WorkScope) -> None:
        from docstokg_assets.cli.progress import plural
        from docstokg_assets.runs.resume import failed_lines

        if self._failed_ids is None:
            return
        works = 0
        with self._failed_ids.open("w", encoding="utf-8") as file:
            for line in failed_lines(self._services.catalog, extent):
                works += not line.startswith("#")
                file.write(f"{line}\n")
        self._say(f"{plural(works, 'work')} without full text: ids in {self._failed_ids}")

    def _say(self, message: str) -> None:
        from docstokg_assets.cli.progress import say

        say(self._console, message)
