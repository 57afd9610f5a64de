"""Reads works back from the lake as the records they were written from. Which row of a work counts is decided by the views."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.compute as pc

from docstokg_assets.telemetry.views import open_lake
from docstokg_assets.works import LOCATION_FIELDS, WORK_FIELDS, Location, Work
from resources.lake.files import LakeFiles, quoted

_BATCH = 2_000
_MEMORY = "300MB"


def works_of_year(lake: LakeFiles, year: int) -> Iterator[Work]:
    """The works of a year, each once, as they were collected last; in bounded memory, in any order. 0: year unknown."""
    of_year = f"year = {year:d}" if year else "year IS NULL"
    with open_lake(lake) as con, TemporaryDirectory(prefix="docstokg-works-") as spill:
        # To find the latest row of each work all of them are held: what does not fit goes to the disk for a while.
        con.execute(f"SET memory_limit = '{_MEMORY}'")
        con.execute(f"SET temp_directory = {quoted(spill)}")
        con.execute("SET preserve_insertion_order = false")
        found = con.sql(f"SELECT {', '.join(WORK_FIELDS)} FROM works WHERE {of_year}")
        for batch in found.to_arrow_reader(_BATCH):
            yield from _works_of(batch)


def _works_of(batch: pa.RecordBatch) -> Iterator[Work]:
    cells = {name: batch.column(name).to_pylist() for name in WORK_FIELDS if name != "locations"}
    cells["locations"] = _locations_of(batch.column("locations"))
    cells["urls"] = [tuple(urls or ()) for urls in cells["urls"]]
    cells["has_content"] = [bool(has) for has in cells["has_content"]]
    for values in zip(*(cells[name] for name in WORK_FIELDS), strict=True):
        yield Work(*values)


def _locations_of(column: pa.ListArray) -> list[tuple[Location, ...]]:
    """Column by column, as they were written: a dict for each of them would cost more than all the rest."""
    flat = column.flatten()
    places = map(Location, *(flat.field(name).to_pylist() for name in LOCATION_FIELDS))
    return [tuple(islice(places, number or 0)) for number in pc.list_value_length(column).to_pylist()]
