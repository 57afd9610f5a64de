"""Reads works back from the lake as the records they were written from. Which row of a work counts is decided by the views."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from docstokg_assets.telemetry.views import open_lake
from docstokg_assets.works import Work
from resources.lake.files import LakeFiles

_BATCH = 2_000
_COLUMNS = tuple(field.name for field in fields(Work))


def works_of_year(lake: LakeFiles, year: int) -> Iterator[Work]:
    """The works of a year, each once, as they were collected last; a batch at a time is held in memory. 0: year unknown."""
    of_year = f"year = {year:d}" if year else "year IS NULL"
    with open_lake(lake) as con:
        found = con.execute(f"SELECT {', '.join(_COLUMNS)} FROM works WHERE {of_year}")
        while rows := found.fetchmany(_BATCH):
            for row in rows:
                known = zip(_COLUMNS, row, strict=True)
                yield Work.from_json({name: value for name, value in known if value is not None})
