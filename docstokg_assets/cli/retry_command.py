"""`content retry`: search again for single works, from the start. Exit codes as for `content pull`."""

from __future__ import annotations

from typing import Annotated

import typer

from docstokg_assets.cli.options import DeadlineOption, Load, with_settings

app = typer.Typer()


@app.command("retry")
@with_settings("out", "workers", "policy", "name", "license", "copy_version")
def retry(
    load: Load,
    works: Annotated[
        list[str], typer.Argument(metavar="ID...", help="OpenAlex ids, DOIs, arXiv ids, PMCIDs or file names.")
    ],
    deadline: DeadlineOption = None,
) -> None:
    """Search again, from the start, for works of this collection. A file that is there stays until a new one is stored.

    Exit codes: 0 done; 2 not started; 3 a work is not known, or works are left; 4 the disk is full; 130 interrupted.
    """
    from docstokg_assets.cli.data_folder import require_catalog
    from docstokg_assets.cli.run_session import RunSession, disk_errors, load_with_contact
    from docstokg_assets.cli.why_command import find_work
    from docstokg_assets.domain.works import Work
    from docstokg_assets.reporting import explain_work
    from docstokg_assets.reporting.rendering import plural
    from docstokg_assets.runs.resume import force_works
    from docstokg_assets.runs.run import DownloadRun
    from docstokg_assets.runs.services import open_services

    config = load_with_contact(load)
    require_catalog(config.catalog_location)
    with disk_errors(config), open_services(config) as services:
        catalog = services.catalog
        named = (find_work(catalog, explain_work.without_file_name(one)) for one in works)
        found = list({one.work_id: one for one in named}.values())
        session = RunSession(services, lambda: load_with_contact(load), deadline)
        run = DownloadRun(services, kind="retry", scope={"retry": " ".join(works)[:500]}, stop=session.signals.stop)

        def reopen(_: object) -> None:
            run.store_and_enqueue(Work.from_json(one.record) for one in found)
            again = force_works(catalog, [one.work_id for one in found])
            session.print(f"{plural(again, 'work')} to search for again from the start.")

        result = session.drain(run, reopen, run.own_works)
        for entry in catalog.entries_of([one.work_id for one in found]):
            session.print(f"{entry.work_id}: {entry.reason}{f', {entry.path}' if entry.path else ''}")
        raise typer.Exit(session.exit_code(incomplete=result.finished < len(found)))
