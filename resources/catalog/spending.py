"""What paid routes have spent, day by day, counted for all runs and processes of a catalog. Prices and budgets are theirs."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Update, update

from resources.catalog.database import Database, insert_missing, now_of, retry_lost_transactions
from resources.catalog.schema import spending

_DAY_S = 86_400
_MICROS = 1_000_000


class Spent(NamedTuple):
    """Whether it was taken from the budget of `day` (UTC, since the epoch); else nothing was."""

    taken: bool
    day: int

    @property
    def next_day_begins(self) -> float:
        return float((self.day + 1) * _DAY_S)


class Spending(Database):
    @retry_lost_transactions
    def spend(self, name: str, amount: float, per_day: float) -> Spent:
        """Take `amount` (US dollars) from today's budget, if it still has so much."""
        wanted, most = round(amount * _MICROS), round(per_day * _MICROS)
        with self._write() as connection:
            day = int(now_of(connection) // _DAY_S)
            connection.execute(insert_missing(spending), {"name": name, "day": day, "micros": 0})
            # one statement looks and takes, so that two processes cannot both take the last dollar
            taking = _of_day(name, day, wanted).where(spending.c.micros + wanted <= most)
            return Spent(bool(connection.execute(taking).rowcount), day)

    @retry_lost_transactions
    def give_back(self, name: str, amount: float, day: int) -> None:
        """Of what was taken on that day, so much was not asked for after all."""
        with self._write() as connection:
            connection.execute(_of_day(name, day, -round(amount * _MICROS)))


def _of_day(name: str, day: int, more: int) -> Update:
    changed = spending.c.micros + more
    return update(spending).where(spending.c.name == name, spending.c.day == day).values(micros=changed)
