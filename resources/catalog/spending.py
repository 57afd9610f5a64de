"""What paid routes have spent, day by day, counted for all runs and processes of a catalog. The routes set prices and budgets."""

from __future__ import annotations

from sqlalchemy import Connection, Update, update

from resources.catalog.database import Database, insert_missing, now_of, write_transaction
from resources.catalog.schema import spending
from resources.records import DAY_S, Spent

_MICROS = 1_000_000


class Spending(Database):
    @write_transaction
    def spend(self, connection: Connection, name: str, amount: float, per_day: float) -> Spent:
        """Take `amount` (US dollars) from today's budget, if that much is left."""
        wanted, most = round(amount * _MICROS), round(per_day * _MICROS)
        day = int(now_of(connection) // DAY_S)
        connection.execute(insert_missing(spending), {"name": name, "day": day, "micros": 0})
        # one statement checks and takes, so that two processes cannot both take the last dollar
        taking = _change(name, day, wanted).where(spending.c.micros + wanted <= most)
        return Spent(bool(connection.execute(taking).rowcount), day)

    @write_transaction
    def give_back(self, connection: Connection, name: str, amount: float, day: int) -> None:
        """Return to the budget of that day what was taken and not spent after all."""
        connection.execute(_change(name, day, -round(amount * _MICROS)))


def _change(name: str, day: int, more: int) -> Update:
    changed = spending.c.micros + more
    return update(spending).where(spending.c.name == name, spending.c.day == day).values(micros=changed)
