"""Remove exported attempts from the catalog after `storage.keep_attempts_days`, and keep the parts that are then their only copy.

An attempt leaves the catalog only when the lake gives the same row back. Attempts leave in the order of their numbers, and the
catalog notes up to which one (`REMOVED`) and until when (`REMOVED_UNTIL`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from docstokg_assets.lake.views import every_row, open_lake
from docstokg_assets.lake.writer import BATCH_ROWS, SCHEMAS, LakeWriter, export_rows, to_batch
from resources.catalog.catalog import Catalog
from resources.catalog.exports import REMOVED_UNTIL
from resources.catalog.queries import Columns
from resources.lake.files import DamagedPart, LakeFiles

log = logging.getLogger(__name__)

_DAY_S = 86_400.0
_PAGES = 5  # of attempts that are compared with the lake at once


def remove_old_attempts(catalog: Catalog, lake: LakeFiles, keep_days: int) -> int:
    """Remove the attempts that are older than that and found in the lake; returns how many. One that is not found there stays,
    and all after it."""
    removed = 0
    with catalog.export_turn():
        while page := _old_page(catalog, catalog.now() - keep_days * _DAY_S):
            if missing := _not_in_lake(lake, page):
                log.warning(
                    "%d attempts of the catalog are not in the lake, so old attempts stay in the catalog. "
                    "`content telemetry rebuild` repairs the lake.",
                    missing,
                )
                break
            removed += catalog.remove_attempts(int(page["id"][-1]), max(page["ts"]))
    return removed


def _old_page(catalog: Catalog, before: float) -> Columns:
    """The first attempts of the catalog, as long as they are exported and older than `before`."""
    exported = catalog.export_position("lake.attempts")
    page = catalog.attempt_columns_after(0, _PAGES * BATCH_ROWS)
    old = 0
    for number, at in zip(page["id"], page["ts"], strict=True) if page else ():
        if number > exported or at >= before:
            break
        old += 1
    return {name: cells[:old] for name, cells in page.items()} if old else {}


def _not_in_lake(lake: LakeFiles, page: Columns) -> int:
    """How many of these rows the lake does not have exactly so."""
    years = sorted({year or 0 for year in page["year"]})
    names = ", ".join(f'"{name}"' for name in SCHEMAS["attempts"].names)
    with open_lake(lake, years=years) as con:
        con.register("wanted", pa.Table.from_batches([to_batch("attempts", page)]))
        stored = every_row(con, lake, "attempts", years)
        times = "SELECT min(ts) AS first, max(ts) AS last FROM wanted"
        found = f"SELECT {names} FROM ({stored}), ({times}) WHERE ts BETWEEN first AND last"
        missing = con.execute(f"SELECT count(*) FROM (SELECT {names} FROM wanted EXCEPT {found})").fetchone()
    assert missing is not None
    return int(missing[0])


def removed_until(catalog: Catalog) -> int:
    """Epoch seconds: attempts up to then are, or may be, in the lake only. 0: all are in the catalog."""
    return catalog.export_position(REMOVED_UNTIL)


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What a rebuilt lake holds. `only_here`: attempts that the catalog no longer has; `lost`: where damaged parts are, which may
    have held such attempts."""

    attempts: int
    outcomes: int
    only_here: int
    lost: tuple[str, ...]


def rebuild_manifest(catalog: Catalog, lake: LakeWriter) -> Rebuilt:
    """All attempts and outcomes anew, wherever an export of another process may be. The old parts go when the new ones are
    there, so that a reader always sees each row. Attempts that the catalog no longer has are taken from the old parts."""
    damaged, kept = list[str](), 0
    with catalog.export_turn():
        old = [*lake.files.parts("attempts"), *lake.files.parts("outcomes")]
        if removed_until(catalog):
            kept = _append_counted(lake, _rows_only_in_lake(catalog, lake.files, damaged))
        exported = export_rows(catalog, lake, 0, 0, anew=True)
        lost = tuple(lake.files.set_aside(part) for part in damaged)
        for part in old:
            if part not in damaged:
                lake.files.remove(part)
    return Rebuilt(exported.attempts, exported.outcomes, kept, lost)


def _append_counted(lake: LakeWriter, pages: Iterator[Columns]) -> int:
    counts: list[int] = []

    def counted() -> Iterator[Columns]:
        for page in pages:
            counts.append(len(page["seq"]))
            yield page

    lake.append_columns("attempts", counted())
    return sum(counts)


def _rows_only_in_lake(catalog: Catalog, lake: LakeFiles, lost: list[str]) -> Iterator[Columns]:
    """The attempts of the lake that the catalog does not have, by pages with their year. Parts that cannot be read are added to
    `lost`."""
    for part in lake.parts("attempts"):
        year = int(part.split("year=")[1].partition("/")[0]) or None
        try:
            for batch in lake.batches(part):
                page = {name: batch.column(name).to_pylist() for name in batch.schema.names}
                runs = [run_id or "" for run_id in page["run_id"]]  # the catalog has an empty text for no run
                keys = list(zip(runs, page["worker_id"], page["seq"], strict=True))
                known = catalog.known_attempts(keys)
                if only := [n for n, key in enumerate(keys) if key not in known]:
                    rows = {name: [cells[n] for n in only] for name, cells in page.items()}
                    absent = {name: [None] * len(only) for name in SCHEMAS["attempts"].names if name not in rows}
                    yield {**rows, **absent, "year": [year] * len(only)}
        except DamagedPart:
            lost.append(part)
