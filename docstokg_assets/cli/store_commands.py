"""`content gc`: list the files in the artifact store that belong to no work, and remove them on request."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from rich.console import Console

from docstokg_assets.cli.data_folder import open_catalog
from docstokg_assets.cli.exits import fail
from docstokg_assets.cli.options import Load, TableFormatOption, with_settings
from docstokg_assets.cli.output import MAX_TABLE_ROWS
from docstokg_assets.reporting.rendering import format_bytes, format_time, iso, json_text, plural, rich_table
from docstokg_assets.runs.orphans import Quarantined, delete_unnamed, find_orphans, find_quarantined, processes_at_work
from resources.artifacts.store import QUARANTINE, ArtifactStore, Found
from resources.catalog.catalog import Catalog

app = typer.Typer()
_HOURS = 24.0


@dataclass(frozen=True, slots=True)
class _Listed:
    kind: str
    found: Found
    quarantined: Quarantined | None = None

    @property
    def description(self) -> str:
        if (rejected := self.quarantined) is None:
            return self.kind
        if rejected.work_id is None:
            return "left by a run that was killed"
        return f"{rejected.work_id}, {rejected.reason}: it {rejected.fault}\n{rejected.url}"

    def as_json(self, removed: set[Found]) -> dict[str, Any]:
        found, rejected = self.found, self.quarantined
        file: dict[str, Any] = {
            "what": self.kind,
            "path": found.path,
            "bytes": found.bytes,
            "changed_at": iso(found.changed_at, "seconds"),
            "removed": found in removed,
        }
        columns = ("work_id", "url", "reason", "fault") if rejected is not None else ()
        return file | {name: getattr(rejected, name) for name in columns}


@app.command()
@with_settings("out")
def gc(
    load: Load,
    delete: Annotated[bool, typer.Option("--delete", help="Remove the listed files; default: only list them.")] = False,
    quarantine: Annotated[
        bool, typer.Option("--quarantine", help="List the files in quarantine instead, with their works and reasons.")
    ] = False,
    older_than: Annotated[
        float | None,
        typer.Option(
            min=1,
            metavar="HOURS",
            help=f"Skip files changed since then; default {_HOURS:g}, for the quarantine any age.",
        ),
    ] = None,
    format: TableFormatOption = "table",
) -> None:
    """List orphans (files that the catalog does not name) and stale parts (of killed writers), or the quarantine.

    Removes nothing without --delete, and nothing while a run is in progress.
    """
    config = load().value
    with open_catalog(config) as catalog:
        store = config.artifacts.open(config.data_root)
        if delete and (busy := processes_at_work(catalog)):
            fail(
                f"runs are in progress ({', '.join(busy)}), and their files look like orphans. Run gc when they have ended."
            )
        mark = catalog.names_mark()
        if quarantine:
            found = find_quarantined(catalog, store, (older_than or 0.0) * 3600)
            listed, notes = [_Listed("quarantined file", one.found, one) for one in found], list[str]()
        else:
            listed, notes = _orphans(catalog, store, _HOURS if older_than is None else older_than, delete)
        files = dict.fromkeys(one.found for one in listed)
        removed = set(delete_unnamed(catalog, store, files, mark)) if delete else set()
    place = store.place()
    if format == "json":
        told = [one.as_json(removed) for one in listed]
        typer.echo(json_text({"store": place, "bytes": _bytes(files), "files": told}))
        for note in notes:
            typer.echo(note, err=True)
        return
    _print_table(place, listed)
    if listed:
        result = f"{len(removed):,} removed." if delete else "nothing was removed; --delete removes them."
        typer.echo(f"{_counts(listed)}: {result}")
    else:
        typer.echo(f"No files in quarantine in {place}." if quarantine else f"No orphans or stale parts in {place}.")
    for note in notes:
        typer.echo(note)


def _orphans(catalog: Catalog, store: ArtifactStore, hours: float, delete: bool) -> tuple[list[_Listed], list[str]]:
    """Orphans and stale parts that are older than so many hours, and notes on what is not listed."""
    left = find_orphans(catalog, store, hours * 3600)
    if delete and left.orphans and not left.named:
        fail(
            f"the catalog {catalog.name} names no file, but there are some in {store.place()}: is this the right data "
            "folder? Nothing was removed."
        )
    notes = []
    if left.more:
        notes.append(f"Not listed: {left.more:,} more orphans; run it again when these are removed.")
    if left.young:
        young = f"{plural(left.young, 'file')} younger than {hours:g} h"
        notes.append(f"Not listed: {young} that the catalog does not name (--older-than).")
    if apart := list(store.iter_files(QUARANTINE)):
        notes.append(f"{plural(len(apart), 'file')} in quarantine ({format_bytes(_bytes(apart))}): see --quarantine.")
    listed = [_Listed("orphan", found) for found in left.orphans]
    return listed + [_Listed("stale part", found) for found in left.stale_parts], notes


def _print_table(place: str, listed: list[_Listed]) -> None:
    if not listed:
        return
    console, columns = Console(), ("What", "File", "Size", "Last written")
    rows = [
        (one.description, one.found.path, format_bytes(one.found.bytes), format_time(one.found.changed_at))
        for one in listed[:MAX_TABLE_ROWS]
    ]
    console.print(rich_table(columns, rows, title=f"In {place}", right={"Size"}, one_line={"Size", "Last written"}))
    if len(listed) > MAX_TABLE_ROWS:
        typer.echo(f"… and {len(listed) - MAX_TABLE_ROWS:,} more; --format json shows all")


def _counts(listed: list[_Listed]) -> str:
    """`2 orphans (2.5 MB) and 1 stale part (400.0 kB)`"""
    counts = []
    for kind in dict.fromkeys(one.kind for one in listed):
        files = {one.found for one in listed if one.kind == kind}
        counts.append(f"{plural(len(files), kind)} ({format_bytes(_bytes(files))})")
    return " and ".join(counts)


def _bytes(files: Iterable[Found]) -> int:
    return sum(found.bytes for found in files)
