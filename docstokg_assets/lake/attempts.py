"""The attempts of a work, from the catalog or the lake. The lake is opened only where the catalog would take too long."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import orjson

from resources.records import AttemptRecord, Reason, Status

if TYPE_CHECKING:
    from resources.catalog.catalog import Catalog
    from resources.lake.files import LakeFiles

_MANY_ATTEMPTS = 200_000
_OF_WORK = """
SELECT * FROM ({attempts}) WHERE work_id = ? OR (extra LIKE '%"also_for"%' AND contains(extra, '"' || ? || '"'))
"""


def attempts_of_work(
    catalog: Catalog, open_files: Callable[[], LakeFiles], work_id: str, year: int | None
) -> list[AttemptRecord]:
    """All attempts for a work, by time. The catalog does not index attempts by work: if a year has many, the exported ones are
    read from the lake."""
    if not catalog.has_more_attempts(year, _MANY_ATTEMPTS):
        return catalog.attempts_of(work_id, year)
    from docstokg_assets.lake.connection import fetch_dicts
    from docstokg_assets.lake.views import every_row, open_lake

    lake = open_files()
    newer = catalog.attempts_of(work_id, year, after=catalog.export_position("lake.attempts"))
    with open_lake(lake, years=(year or 0,)) as con:
        sql = _OF_WORK.format(attempts=every_row(con, lake, "attempts", (year or 0,)))
        rows = fetch_dicts(con, sql, [work_id, work_id])
    found = [_attempt(row) for row in rows] + newer
    return sorted({(a.run_id, a.worker_id, a.seq): a for a in found}.values(), key=lambda a: (a.ts, a.seq))


def _attempt(row: dict[str, Any]) -> AttemptRecord:
    tokens = {"status": Status(row["status"]), "reason": Reason(row["reason"]) if row["reason"] else None}
    return AttemptRecord(**{**row, **tokens, "extra": orjson.loads(row["extra"])})
