"""What `content resume` does: put works back into the queue, drain it, report. `runs.resume` selects the works."""

from __future__ import annotations

from pathlib import Path

import typer

from docstokg_assets.cli.data_folder import require_catalog, require_run, run_and_root
from docstokg_assets.cli.exits import fail
from docstokg_assets.cli.options import Load
from docstokg_assets.cli.progress import RunDisplay
from docstokg_assets.cli.run_session import RunSession, disk_errors, load_with_contact
from docstokg_assets.reporting.rendering import first_few, plural
from docstokg_assets.runs import resume as resuming
from docstokg_assets.runs.resume import FilterError, Selection, failed_lines, still_lost
from docstokg_assets.runs.run import DownloadRun
from docstokg_assets.runs.services import open_services
from resources.scope import WorkScope


def resume_works(
    load: Load,
    run: str | None,
    force: bool,
    filter: list[str] | None,
    verify: bool,
    revalidate: bool,
    failed_ids: Path | None,
    deadline: float | None,
) -> None:
    """Finish what a run, or all runs, left; ends the command with its exit code."""
    run_id, out = run_and_root(run, load.given["out"])
    config = load_with_contact(load, out=out)
    if force and not filter:
        fail("--force needs --filter to select works: --filter status=failed, or status=success for all full texts")
    if filter and not force:
        fail("--filter selects finished works to search for again: give --force with it")
    try:
        selection = Selection.parse(filter or (), config.resolvers.names())
    except FilterError as error:
        fail(str(error))
    if failed_ids is not None and not failed_ids.absolute().parent.is_dir():
        fail(f"--failed-ids {failed_ids}: there is no folder {failed_ids.parent}")
    require_catalog(config.catalog_location)
    with disk_errors(config), open_services(config) as services:
        session = RunSession(services, lambda: load_with_contact(load, out=out), deadline)
        job = _Job(session, selection if force else None, verify, revalidate, failed_ids)
        raise typer.Exit(job.run(run_id))


class _Job:
    """One resume: put works back into the queue, drain it, report."""

    def __init__(
        self, session: RunSession, forced: Selection | None, verify: bool, revalidate: bool, failed_ids: Path | None
    ) -> None:
        self._session, self._services, self._print = session, session.services, session.print
        self._forced, self._verify, self._revalidate, self._failed_ids = forced, verify, revalidate, failed_ids
        self._lost: list[str] = []
        self._unverified = False

    def run(self, run_id: str | None) -> int:
        services, session = self._services, self._session
        known = require_run(services.catalog, run_id, services.config.data_root)
        # A run of a partition has no list of works: it stands for all works of its year.
        if known is not None and "year" in known.scope:
            extent = WorkScope(year=known.scope["year"])
        else:
            extent = WorkScope(run_id=run_id)
        kind, scope = ("resume", {}) if known is None else (known.kind, known.scope)
        run = DownloadRun(services, run_id, kind=kind, scope=scope, stop=session.signals.stop)
        result = session.drain(run, lambda display: self._requeue(extent, display), extent)
        if self._revalidate:
            unchanged = plural(result.outcomes["not-modified"], "file")
            self._print(f"{unchanged} unchanged, {result.outcomes['ok']:,} in a new version.")
        lost = self._print_lost()
        self._write_failed(extent)
        return session.exit_code(incomplete=lost or self._unverified)

    def _requeue(self, extent: WorkScope, display: RunDisplay) -> None:
        """Put the selected works back into the queue, and print how many."""
        catalog, store, stop = self._services.catalog, self._services.store, self._session.signals.stop
        if self._forced is not None:
            forced = resuming.force(catalog, extent, self._forced)
            self._print(f"{plural(forced, 'work')} to search for again from the start.")
        if self._verify:
            config = self._services.config
            found = resuming.verify(
                catalog,
                store,
                extent,
                config.workers,
                stop,
                lambda n: display.set_phase(f"checking files, {n:,} so far"),
                config.download.quarantine_bytes,
            )
            self._lost, self._unverified = found.lost, found.no_room_for is not None
            what = f"{len(found.missing):,} missing, {len(found.damaged):,} damaged" if found.lost else "all intact"
            self._print(f"{plural(found.checked, 'file')} checked: {what}.")
            if found.no_room_for is not None:
                self._print(
                    f"Stopped at {found.no_room_for}: it is damaged, and the quarantine has no room for it. Nothing was done "
                    "with it. Make room with `content gc --quarantine --delete`, or raise download.quarantine_bytes."
                )
        if self._revalidate and not stop.is_set():
            asked, unknown = resuming.revalidate(catalog, extent)
            also = f"; {unknown:,} cannot be revalidated (no ETag or Last-Modified)" if unknown else ""
            self._print(f"{plural(asked, 'file')} to revalidate{also}.")

    def _print_lost(self) -> bool:
        """Print how many missing or damaged files were fetched again; returns whether some are still lost."""
        gone = still_lost(self._services.catalog, self._services.store, self._lost)
        if self._lost:
            also = f"; still missing: {first_few(gone, 5, ' …')}" if gone else ""
            again = len(self._lost) - len(gone)
            self._print(f"{again:,} of {plural(len(self._lost), 'lost file')} fetched again{also}.")
        return bool(gone)

    def _write_failed(self, extent: WorkScope) -> None:
        if self._failed_ids is None:
            return
        works = 0
        with self._failed_ids.open("w", encoding="utf-8") as file:
            for line in failed_lines(self._services.catalog, extent):
                works += not line.startswith("#")
                file.write(f"{line}\n")
        self._print(f"{plural(works, 'work')} without full text: ids in {self._failed_ids}")
