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
    from resources.catalog.catalog import Catalog
    from resources.catalog.rows import QueueItem

app = typer.Typer()
_MAX_LISTED = 20
_MOST_SEARCHED = 300_000  # works that are looked through for a title or a DOI; more take longer than anybody waits


@app.command("why")
@with_settings("out", "policy")
def why(
    load: Load,
    work: Annotated[str, typer.Argument(help="OpenAlex id, DOI, arXiv id, PMCID, file name, or part of the title.")],
    as_json: JsonOption = False,
) -> None:
    """Explain what happened to one work: every request, its answer, why it ended so, and what you can do."""
    from docstokg_assets.config import resolvers_of
    from docstokg_assets.config.explain import explain_resolvers
    from docstokg_assets.lake.attempts import attempts_of_work
    from docstokg_assets.reporting import explain_work

    loaded = load()
    wanted = explain_work.without_file_name(work)
    with open_catalog(loaded.value) as catalog:
        queued = find_work(catalog, wanted)
        entry = catalog.entry(queued.work_id)
        same = catalog.works_with(entry.sha256) if entry is not None and entry.sha256 else []
        off = [(row.name, str(row.state)) for row in explain_resolvers(loaded) if row.state.value != "enabled"]
        history = explain_work.explain(
            queued,
            entry,
            attempts_of_work(catalog, loaded.value.lake_files, queued.work_id, queued.year),
            resolvers_of(loaded.value),
            off,
            catalog.now(),
            same_file=sorted({artifact.work_id for artifact in same} - {queued.work_id}),
            options=pasted_options(load.config, load.given["out"]),
        )
    if as_json:
        typer.echo(json_text(history))
    else:
        typer.echo(explain_work.as_text(history, min(shutil.get_terminal_size().columns, 100)), nl=False)


def find_work(catalog: Catalog, wanted: str) -> QueueItem:
    """The one work that an id, a DOI or a part of the title names. Ends the command where it is none, or several."""
    from docstokg_assets.domain.works import Work
    from docstokg_assets.reporting import explain_work

    matching = catalog.queued(explain_work.as_work_id(wanted))
    if not matching and catalog.has_more_works(_MOST_SEARCHED):
        _fail_too_many(wanted)
    if not matching:
        similar = catalog.queued_like(explain_work.search_terms(wanted))
        matching = [queued for queued in similar if explain_work.matches(wanted, Work.from_json(queued.record))]
    if len(matching) != 1:
        _fail_ambiguous(wanted, [(one.work_id, str(one.record.get("title") or "(no title)")) for one in matching])
    return matching[0]


def pasted_options(config: Path | None, out: Path | None) -> str:
    """The options with which a command finds the same collection."""
    given = [("--out", out), ("--config", config)]
    return "".join(f" {option} {shlex.quote(str(value))}" for option, value in given if value is not None)


def _fail_too_many(wanted: str) -> NoReturn:
    """Only ids are indexed. The lake finds the others: by columns, and where a year is known in one year."""
    from docstokg_assets.domain.identifiers import parse_identifier

    known = parse_identifier(wanted)
    if known is not None and known.kind == "openalex":
        _fail_ambiguous(wanted, [])
    column = {"doi": "doi", "arxiv": "arxiv_id", "pmcid": "pmcid", "pmid": "pmid"}.get(
        known.kind if known else "", "title"
    )
    value = (known.value if known else wanted).replace("'", "''")
    condition = f"{column} = '{value}'" if known else f"title ILIKE '%{value}%'"
    fail(
        f"{wanted!r} is no OpenAlex id, and this collection has more than {_MOST_SEARCHED:,} works. Find its id first, quicker "
        f"with AND year = …:\n"
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
