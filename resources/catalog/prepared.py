"""Statements that are compiled once for a database and then given to its driver directly, for many rows at a time.

SQLAlchemy compiles an INSERT … ON CONFLICT anew for every execution and prepares each row; on the way of every commit that costs
more than the database does. Errors are still translated by SQLAlchemy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.sql.dml import UpdateBase


class PreparedStatement:
    """`columns`: the parameters that an INSERT gets, where the statement does not name them."""

    def __init__(self, statement: UpdateBase, columns: Iterable[str] | None = None) -> None:
        self._statement, self._columns = statement, None if columns is None else list(columns)
        self._compiled: dict[str, tuple[str, tuple[str, ...] | None]] = {}  # by database: its SQL, and the order of `?`

    def run(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> int:
        """Execute it for each row, and return the number of rows that were written."""
        if not rows:
            return 0
        known = self._compiled.get(connection.dialect.name)
        sql, order = known if known is not None else self._compile(connection)
        values: Any = rows if order is None else list(map(itemgetter(*order), rows))
        return connection.exec_driver_sql(sql, values, {"preserve_rowcount": True}).rowcount

    def _compile(self, connection: Connection) -> tuple[str, tuple[str, ...] | None]:
        compiled: Any = self._statement.compile(dialect=connection.dialect, column_keys=self._columns)
        order = tuple(compiled.positiontup) if compiled.positional else None
        self._compiled[connection.dialect.name] = found = str(compiled), order
        return found
