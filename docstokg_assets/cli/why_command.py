"""`content why`: the history of one work. Finds the work and reads its rows; `reporting.explain_work` words the answer.

Exit codes: 0 explained; 2 there is no catalog; 3 no work, or more than one, matches.
"""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from docstokg_assets.cli.data_folder import open_catalog
from docstokg_assets.cli.exits import INCOMPLETE, fail, print_error
from docstokg_assets.cli.options import JsonOption, Load, with_settings
from docstokg_assets.reporting.rendering import json_text, printable

if TYPE_CHECKING:
    from docstokg_assets.config import ContentDownloadConfig
    from docstokg_assets.reporting.explain_work import WorkHistory
    from resources.catalog.catalog import Catalog
    from resources.catalog.rows import QueueItem

app = typer.Typer()
_MAX_LISTED = 20


@app.command("why")
@with_settings("out", "policy")
def why(
    load: Load,
    work: Annotated[
        str,
        typer.Argument(
            help="OpenAlex id, DOI, arXiv id, PMCID, file name, part of the title, or id of an ingest request."
        ),
    ],
    as_json: JsonOption = False,
) -> None:
    """Explain what happened to one work: every request, its answer, why it ended so, and what you can do."""
    from docstokg_assets.reporting import explain_work
    from docstokg_assets.runs import work_history

    loaded = load()
    wanted = explain_work.without_file_name(work)
    with open_catalog(loaded.value) as catalog:
        history = _of_request(catalog, loaded.value, wanted)
        if history is None:
            options = pasted_options(load.config, load.given["out"])
            history = work_history.history_of(catalog, loaded, find_work(catalog, wanted), options)
    if as_json:
        typer.echo(json_text(history))
    else:
        typer.echo(explain_work.as_text(history, min(shutil.get_terminal_size().columns, 100)), nl=False)


def find_work(catalog: Catalog, wanted: str) -> QueueItem:
    """The one work that an id, a DOI or a part of the title names. Ends the command where it is none, or several."""
    from docstokg_assets.runs import work_history

    try:
        matching = work_history.find_works(catalog, wanted)
    except work_history.TooManyWorks:
        _fail_too_many(wanted)
    if len(matching) != 1:
        _fail_ambiguous(wanted, [(one.work_id, str(one.record.get("title") or "(no title)")) for one in matching])
    return matching[0]


def _of_request(catalog: Catalog, config: ContentDownloadConfig, wanted: str) -> WorkHistory | None:
    """The history of an ingest request, where its id is given."""
    if not wanted.startswith("ingest-"):
        return None
    from docstokg_assets.ingest.history import history_of_request
    from docstokg_assets.ingest.service import IngestService

    return history_of_request(IngestService(catalog, config), wanted)


def pasted_options(config: Path | None, out: Path | None) -> str:
    """The options with which a command finds the same collection."""
    given = [("--out", out), ("--config", config)]
    return "".join(f" {option} {shlex.quote(str(value))}" for option, value in given if value is not None)


def _fail_too_many(wanted: str) -> NoReturn:
    """Only ids are indexed. The lake finds the others: by columns, and where a year is known in one year."""
    from docstokg_assets.domain.identifiers import parse_identifier
    from docstokg_assets.runs import work_history

    known = parse_identifier(wanted)
    if known is not None and known.kind == "openalex":
        _fail_ambiguous(wanted, [])
    column = {"doi": "doi", "arxiv": "arxiv_id", "pmcid": "pmcid", "pmid": "pmid"}.get(
        known.kind if known else "", "title"
    )
    value = (known.value if known else wanted).replace("'", "''")
    condition = f"{column} = '{value}'" if known else f"title ILIKE '%{value}%'"
    fail(
        f"{wanted!r} is no OpenAlex id, and this collection has more than {work_history.MOST_SEARCHED:,} works. "
        f"Find its id first, quicker with AND year = …:\n"
        f'content query "SELECT DISTINCT work_id, title FROM works WHERE {condition}"',
        INCOMPLETE,
    )


def _fail_ambiguous(wanted: str, works: list[tuple[str, str]]) -> NoReturn:
    if not works:
        hint = (
            "Try another id or fewer words of the title, name the data folder with --out, or `content pull` it first."
        )
        fail(f"{wanted!r} is not in this collection. {hint}", INCOMPLETE)
    print_error(f"{wanted!r} matches {len(works)} works; give one of these ids:")
    for work_id, title in works[:_MAX_LISTED]:
        typer.echo(printable(f"{work_id}  {title}"[:110]))
    if len(works) > _MAX_LISTED:
        typer.echo(f"… and {len(works) - _MAX_LISTED} more", err=True)
    raise typer.Exit(INCOMPLETE)
