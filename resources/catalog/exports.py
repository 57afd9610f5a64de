"""How far exports have come, and the turn of one exporter at a time."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from sqlalchemy import select, text, update

from resources.catalog.database import Database, insert_missing, now_of, retry_lost_transactions, upsert
from resources.catalog.errors import CatalogError
from resources.catalog.schema import exports

TURN_S = 600.0
_TURN = 0x6578706F  # the advisory lock of exporters


class Exports(Database):
    @retry_lost_transactions
    def export_position(self, name: str) -> int:
        """Up to where the export of that name has come; 0 when it has not begun."""
        with self._read() as connection:
            return connection.scalar(select(exports.c.position).where(exports.c.name == name)) or 0

    @retry_lost_transactions
    def set_export_position(self, name: str, position: int) -> None:
        moving = upsert(exports, ["position", "updated_at"])
        with self._write() as connection:
            connection.execute(moving, {"name": name, "position": position, "updated_at": now_of(connection)})

    @retry_lost_transactions
    def move_exports(self, moves: Mapping[str, tuple[int, int]]) -> bool:
        """Move each from one position to another, all or none: none when another exporter has moved one meanwhile."""
        with self._write() as connection:
            now, moved = now_of(connection), 0
            for name, (_, _) in sorted(moves.items()):
                connection.execute(insert_missing(exports), {"name": name, "position": 0, "updated_at": now})
            held = {
                row.name: row.position
                for row in connection.execute(select(exports).where(exports.c.name.in_(moves)).with_for_update())
            }
            if any(held[name] != before for name, (before, _) in moves.items()):
                return False
            for name, (_, after) in sorted(moves.items()):
                moving = update(exports).where(exports.c.name == name).values(position=after, updated_at=now)
                moved += connection.execute(moving).rowcount
        return moved == len(moves)

    @contextmanager
    def export_turn(self) -> Iterator[None]:
        """One exporter at a time, on all machines: the others wait. Ends with the process that has it."""
        if self._in_file:
            with open(f"{self.name}.export", "ab") as file:
                self._wait_for(file.fileno())
                yield
            return
        with self._read() as connection:
            connection.execute(text("SET LOCAL idle_in_transaction_session_timeout = 0"))
            connection.execute(text(f"SET LOCAL lock_timeout = '{TURN_S:.0f}s'"))
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _TURN})
            yield

    def _wait_for(self, descriptor: int) -> None:
        end = time.monotonic() + TURN_S
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > end:
                    raise CatalogError(
                        f"another process has been exporting {self.name} for {TURN_S:.0f} s. End it, then run the same "
                        "command again."
                    ) from None
                time.sleep(0.05)
