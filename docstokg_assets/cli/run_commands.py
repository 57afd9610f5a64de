"""`content pull` (also `content run`): download works from a query, ids or URLs into a data folder, without Dagster.

Declares the options; `pull` does the work. Exit codes: 0 done; 2 not started; 3 done, but lines were skipped or works are left;
4 the disk is full; 130 interrupted.
"""

from __future__ import annotations

from typing import Annotated

import typer

from docstokg_assets.cli.options import SETTING_NAMES, DeadlineOption, Load, with_settings
from docstokg_assets.cli.output import RowFormat

app = typer.Typer()


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
    from docstokg_assets.cli.pull import pull_works

    pull_works(load, query, ids, urls, dry_run, format, deadline)


app.command("pull")(pull)
app.command("run", help="Same as `pull`.")(pull)
