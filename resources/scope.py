"""Which works a command, a pass or a report is about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Years = int | tuple[int, ...]  # a year, or several; 0: works without a year


@dataclass(frozen=True, slots=True)
class WorkScope:
    """The works of a year or of several (0: the year is unknown), of a run, of both, or all."""

    year: Years | None = None
    run_id: str | None = None

    def __str__(self) -> str:
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
