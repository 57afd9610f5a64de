"""Which works a command, a pass or a report is about."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any

Years = int | tuple[int, ...]  # a year, or several; 0: works without a year
INGEST_YEAR = (
    -1
)  # in the column `year` of ingest items and their attempts: they belong to no year, not even to the unknown one


class ItemKind(StrEnum):
    """What an item of the queue is: a work of a year, or the URL of ingest requests."""

    WORK = "work"
    INGEST = "ingest"


class Lane(IntEnum):
    """The queue of an ingest request, as its priority: interactive, daily, bulk. Higher ones are claimed first."""

    BULK = 1
    DAILY = 2
    PRIORITY = 3


ALL_LANES = (Lane.PRIORITY, Lane.DAILY, Lane.BULK)


@dataclass(frozen=True, slots=True)
class WorkScope:
    """The works of a year or of several (0: the year is unknown), of a run, of both, or all. With `lanes`: no works, but the
    ingest items of these lanes."""

    year: Years | None = None
    run_id: str | None = None
    lanes: tuple[Lane, ...] = ()

    @property
    def kind(self) -> ItemKind:
        return ItemKind.INGEST if self.lanes else ItemKind.WORK

    def __str__(self) -> str:
        if self.lanes:
            return f"ingest requests ({', '.join(lane.name.lower() for lane in self.lanes)})"
        parts = [f"run {self.run_id}"] if self.run_id else []
        parts += [f"year {year or 'unknown'}" for year in self.years]
        return ", ".join(parts) or "all works"

    @property
    def years(self) -> tuple[int, ...]:
        """The years as a tuple; empty when the scope has none."""
        if self.year is None:
            return ()
        return (self.year,) if isinstance(self.year, int) else self.year

    @property
    def condition(self) -> str:
        """For a WHERE over `attempts` or `outcomes`. Years are literals in it, so that other folders are skipped."""
        parts = ["run_id = $run_id"] if self.run_id else []
        if self.years:
            # beside a year, only works without one: requests that were made for no work are of all years
            unknown = "year IS NULL" if len(self.years) == 1 else "year IS NULL AND work_id IS NOT NULL"
            of_years = " OR ".join(f"year = {year:d}" if year else unknown for year in self.years)
            parts.append(f"({of_years})")
        return " AND ".join(parts) or "true"

    @property
    def parameters(self) -> dict[str, Any]:
        """The values of the parameters in `condition`."""
        return {"run_id": self.run_id} if self.run_id else {}


ALL_WORKS = WorkScope()
ALL_INGEST = WorkScope(lanes=ALL_LANES)
