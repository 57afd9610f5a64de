"""`content gc`: what lies in the artifact store and is no work's file, listed, and removed when that is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from docstokg_assets.cli.ending import fail
from docstokg_assets.cli.options import ConfigOption, OutOption, ShownAs
from docstokg_assets.cli.report_commands import SHOWN_ROWS, open_catalog, settings_of

if TYPE_CHECKING:
    from docstokg_assets.runs.orphans import Quarantined
    from resources.artifacts.store import ArtifactStore, Found
    from resources.catalog.catalog import Catalog

app = typer.Typer()
_HOURS = 24.0


@dataclass(frozen=True, slots=True)
class _Listed:
    what: str
    found: Found
    told: Quarantined | None = None


@app.command()
def gc(
    delete: Annotated[
        bool, typer.Option("--delete", help="Remove what is listed; without it nothing is touched.")
    ] = False,
    quarantine: Annotated[
        bool, typer.Option("--quarantine", help="List the files in quarantine instead, with their works and reasons.")
    ] = False,
    older_than: Annotated[
        float | None,
        typer.Option(
            min=1,
            metavar="HOURS",
            help=f"Leave alone what was written to since then; {_HOURS:g} when not given, for the quarantine any age.",
        ),
    ] = None,
    out: OutOption = None,
    format: ShownAs = "table",
    config: ConfigOption = None,
) -> None:
    """List orphans (files that the catalog does not name) and stale parts (of writers that were killed), or the quarantine.

    Nothing is removed without --delete, and nothing while a run is under way.
    """
    from docstokg_assets.runs.orphans import delete_orphans, processes_at_work
    from resources.artifacts.store import StoreError

    settings = settings_of(config, out)
    try:
        with open_catalog(settings) as catalog:
            store = settings.artifacts.open(settings.data_root)
            if delete and (busy := processes_at_work(catalog)):
                fail(
                    f"works are under way ({', '.join(busy)}), and their files look like orphans. Run gc when they have ended."
                )
            find = _quarantined if quarantine else _leftovers
            listed, remarks = find(catalog, store, older_than, delete)
            gone = set(delete_orphans(store, dict.fromkeys(one.found for one in listed))) if delete else set()
    except StoreError as error:
        fail(str(error))
    if format == "json":
        _print_json(store.place(), listed, gone)
    else:
        _print_table(store.place(), listed, gone, delete, quarantine)
        for remark in remarks:
            typer.echo(remark)


def _leftovers(
    catalog: Catalog, store: ArtifactStore, older_than: float | None, delete: bool
) -> tuple[list[_Listed], list[str]]:
    from docstokg_assets.cli.progress import plural
    from docstokg_assets.reporting.report import size
    from docstokg_assets.runs.orphans import find_orphans
    from resources.artifacts.store import QUARANTINE

    hours = _HOURS if older_than is None else older_than
    left = find_orphans(catalog, store, hours * 3600)
    if delete and left.orphans and not left.named:
        fail(
            f"the catalog {catalog.name} names no file, but there are some in {store.place()}: is it the right data "
            "root? Nothing was removed."
        )
    remarks = []
    if left.young:
        young = f"{plural(left.young, 'file')} younger than {hours:g} h"
        remarks.append(f"Besides, {young} that the catalog does not name: left alone (--older-than).")
    if apart := list(store.iter_files(QUARANTINE)):
        remarks.append(f"In quarantine {plural(len(apart), 'file')} ({size(_bytes(apart))}): see --quarantine.")
    listed = [_Listed("orphan", found) for found in left.orphans]
    return listed + [_Listed("stale part", found) for found in left.stale_parts], remarks


def _quarantined(
    catalog: Catalog, store: ArtifactStore, older_than: float | None, delete: bool
) -> tuple[list[_Listed], list[str]]:
    from docstokg_assets.runs.orphans import find_quarantined

    found = find_quarantined(catalog, store, (older_than or 0.0) * 3600)
    return [_Listed("quarantined file", told.found, told) for told in found], []


def _print_json(place: str, listed: list[_Listed], gone: set[Found]) -> None:
    import orjson

    files = []
    for one in listed:
        file: dict[str, Any] = {
            "what": one.what,
            "path": one.found.path,
            "bytes": one.found.bytes,
            "changed_at": _moment(one.found, "%Y-%m-%dT%H:%M:%SZ"),
            "removed": one.found in gone,
        }
        if (told := one.told) is not None:
            file |= {"work_id": told.work_id, "url": told.url, "reason": told.reason, "fault": told.fault}
        files.append(file)
    total = _bytes({one.found for one in listed})
    typer.echo(orjson.dumps({"store": place, "bytes": total, "files": files}, option=orjson.OPT_INDENT_2).decode())


def _print_table(place: str, listed: list[_Listed], gone: set[Found], delete: bool, quarantine: bool) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from docstokg_assets.reporting.rendering import printable
    from docstokg_assets.reporting.report import size

    console = Console()
    if listed:
        table = Table("What", title=Text(f"In {place}"), title_justify="left")
        table.add_column("File", overflow="fold")
        table.add_column("Size", justify="right", no_wrap=True)
        table.add_column("Last written", no_wrap=True)
        for one in listed[:SHOWN_ROWS]:
            what, found = _about(one.told) if one.told is not None else one.what, one.found
            cells = (what, printable(found.path), size(found.bytes), _moment(found, "%Y-%m-%d %H:%M"))
            table.add_row(*map(Text, cells))
        console.print(table)
    if len(listed) > SHOWN_ROWS:
        console.print(f"… and {len(listed) - SHOWN_ROWS:,} more; --format json shows all", style="dim", highlight=False)
    console.print(_sentence(place, listed, gone, delete, quarantine), highlight=False, soft_wrap=True, markup=False)


def _about(told: Quarantined) -> str:
    if told.work_id is None:
        return "of a run that was killed before it could tell"
    return f"{told.work_id}, {told.reason}: it {told.fault}\n{told.url}"


def _sentence(place: str, listed: list[_Listed], gone: set[Found], delete: bool, quarantine: bool) -> str:
    from docstokg_assets.cli.progress import plural
    from docstokg_assets.reporting.report import size

    if not listed:
        return f"Nothing in {place} is {'in quarantine' if quarantine else 'left over'}."
    counts = []
    for noun in dict.fromkeys(one.what for one in listed):
        files = {one.found for one in listed if one.what == noun}
        counts.append(f"{plural(len(files), noun)} ({size(_bytes(files))})")
    end = f"{len(gone):,} removed." if delete else "nothing was removed; --delete removes them."
    return f"{' and '.join(counts)}: {end}"


def _bytes(files: set[Found] | list[Found]) -> int:
    return sum(found.bytes for found in files)


def _moment(found: Found, form: str) -> str:
    return datetime.fromtimestamp(found.changed_at, UTC).strftime(form)
