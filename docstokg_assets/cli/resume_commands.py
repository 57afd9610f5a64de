"""`content resume`: finish what a run, or all runs, left; fetch again what is forced, damaged or may have changed.

Declares the options; `resume` does the work. Exit codes as for `content pull`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from docstokg_assets.cli.options import DeadlineOption, Load, RunOption, with_settings

app = typer.Typer()


@app.command()
@with_settings("out", "workers")
def resume(
    load: Load,
    run: RunOption = None,
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
        bool, typer.Option("--verify", help="Hash all stored files; fetch missing and damaged ones again.")
    ] = False,
    revalidate: Annotated[
        bool, typer.Option("--revalidate", help="Ask hosts whether stored PDF and XML files are still current.")
    ] = False,
    failed_ids: Annotated[
        Path | None,
        typer.Option("--failed-ids", metavar="FILE", help="Write the works without full text, for `pull --ids`."),
    ] = None,
    deadline: DeadlineOption = None,
) -> None:
    """Continue with queued works and with failed works whose retry time has come. Finished works are not fetched again.

    Exit codes: 0 done; 2 not started; 3 done, but works are left or files lost; 4 the disk is full; 130 interrupted.
    """
    from docstokg_assets.cli.resume import resume_works

    resume_works(load, run, force, filter, verify, revalidate, failed_ids, deadline)
