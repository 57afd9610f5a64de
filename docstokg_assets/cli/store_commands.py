"""`content gc`: what lies in the artifact store and belongs to nobody, listed, and removed when that is asked for."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from docstokg_assets.cli.ending import fail
from docstokg_assets.cli.options import ConfigOption, OutOption, ShownAs
from docstokg_assets.cli.report_commands import SHOWN_ROWS, open_catalog, settings_of

if TYPE_CHECKING:
    from resources.artifacts.store import Found

app = typer.Typer()


@app.command()
def gc(
    delete: Annotated[
        bool, typer.Option("--delete", help="Remove what is listed; without it nothing is touched.")
    ] = False,
    older_than: Annotated[
        float, typer.Option(min=1, metavar="HOURS", help="Leave alone what was written to since then.")
    ] = 24.0,
    out: OutOption = None,
    format: ShownAs = "table",
    config: ConfigOption = None,
) -> None:
    """List orphans (files that the catalog does not name) and stale parts (of writers that were killed).

    Nothing is removed without --delete, and nothing while a run is under way.
    """
    from docstokg_assets.cli.progress import plural
    from docstokg_assets.leftovers import delete_leftovers, find_leftovers, processes_at_work
    from resources.artifacts.store import StoreError

    settings = settings_of(config, out)
    try:
        with open_catalog(settings) as catalog:
            store = settings.artifacts.open(settings.data_root)
            if delete and (busy := processes_at_work(catalog)):
                fail(
                    f"works are under way ({', '.join(busy)}), and their files look like orphans. Run gc when they have ended."
                )
            left = find_leftovers(catalog, store, older_than * 3600)
            if delete and left.orphans and not left.named:
                fail(
                    f"the catalog {catalog.name} names no file, but there are some in {store.place()}: is it the right data "
                    "root? Nothing was removed."
                )
            listed = [("orphan", found) for found in left.orphans]
            listed += [("stale part", found) for found in left.stale_parts]
            gone = set(delete_leftovers(store, (found for _, found in listed))) if delete else set()
    except StoreError as error:
        fail(str(error))
    if format == "json":
        _print_json(store.place(), listed, gone)
    else:
        _print_table(store.place(), listed, gone, delete)
        if left.young:
            young = f"{plural(left.young, 'file')} younger than {older_than:g} h"
            typer.echo(f"Besides, {young} that the catalog does not name: left alone (--older-than).")


def _print_json(place: str, listed: list[tuple[str, Found]], gone: set[Found]) -> None:
    import orjson

    files = [
        {
            "what": what,
            "path": found.path,
            "bytes": found.bytes,
            "changed_at": _moment(found, "%Y-%m-%dT%H:%M:%SZ"),
            "removed": found in gone,
        }
        for what, found in listed
    ]
    total = sum(found.bytes for _, found in listed)
    typer.echo(orjson.dumps({"store": place, "bytes": total, "files": files}, option=orjson.OPT_INDENT_2).decode())


def _print_table(place: str, listed: list[tuple[str, Found]], gone: set[Found], delete: bool) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from docstokg_assets.telemetry.files import printable
    from docstokg_assets.telemetry.report import size

    console = Console()
    if listed:
        table = Table("What", title=Text(f"In {place}"), title_justify="left")
        table.add_column("File", overflow="fold")
        table.add_column("Size", justify="right", no_wrap=True)
        table.add_column("Last written", no_wrap=True)
        for what, found in listed[:SHOWN_ROWS]:
            cells = (what, printable(found.path), size(found.bytes), _moment(found, "%Y-%m-%d %H:%M"))
            table.add_row(*map(Text, cells))
        console.print(table)
    if len(listed) > SHOWN_ROWS:
        console.print(f"… and {len(listed) - SHOWN_ROWS:,} more; --format json shows all", style="dim", highlight=False)
    console.print(_sentence(place, listed, gone, delete), highlight=False, soft_wrap=True, markup=False)


def _sentence(place: str, listed: list[tuple[str, Found]], gone: set[Found], delete: bool) -> str:
    from docstokg_assets.cli.progress import plural
    from docstokg_assets.telemetry.report import size

    if not listed:
        return f"Nothing in {place} is left over."
    counts = []
    for noun in ("orphan", "stale part"):
        kind = [found for what, found in listed if what == noun]
        counts += [f"{plural(len(kind), noun)} ({size(sum(found.bytes for found in kind))})"] if kind else []
    end = f"{len(gone):,} removed." if delete else "nothing was removed; --delete removes them."
    return f"{' and '.join(counts)}: {end}"


def _moment(found: Found, form: str) -> str:
    return datetime.fromtimestamp(found.changed_at, UTC).strftime(form)
