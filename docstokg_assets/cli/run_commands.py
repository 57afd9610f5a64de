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
    works: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ID]...", help="DOIs, arXiv ids, PMIDs, PMCIDs, OpenAlex ids or URLs; or files of them."
        ),
    ] = None,
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
            help="List of works: BibTeX, RIS, nbib, CSV, Excel, CSL-JSON, or text with DOIs or other ids; - for stdin.",
        ),
    ] = None,
    column: Annotated[
        str | None, typer.Option("--column", metavar="NAME", help="Column of the table that --ids gives.")
    ] = None,
    urls: Annotated[
        str | None, typer.Option("--urls", metavar="FILE", help="File of URLs, one per line; - for stdin.")
    ] = None,
    type: Annotated[
        str | None, typer.Option("--type", metavar="TYPES", help="Only these OpenAlex types: article,review.")
    ] = None,
    year: Annotated[
        str | None,
        typer.Option("--year", metavar="YEARS", help="Only these publication years: 2024, 2020-2024, 2020-."),
    ] = None,
    topic: Annotated[
        str | None, typer.Option("--topic", metavar="IDS", help="Only works on these OpenAlex topics: T10102.")
    ] = None,
    language: Annotated[
        str | None, typer.Option("--language", metavar="CODES", help="Only works in these languages: en,de.")
    ] = None,
    oa: Annotated[
        bool | None, typer.Option("--oa/--no-oa", help="Only works that OpenAlex lists as open access, or as closed.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Search again for works that are finished, from the start.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before more than 1,000 works.")] = False,
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
    from docstokg_assets.cli.pull_source import Wanted, selection_of

    selection = selection_of(
        types=type, years=year, topics=topic, languages=language, is_oa=oa, licenses=load.given["license"]
    )
    pull_works(load, Wanted(works or (), query, ids, urls, column, selection), force, yes, dry_run, format, deadline)


app.command("pull")(pull)
app.command("run", help="Same as `pull`.")(pull)
