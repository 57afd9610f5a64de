"""What all processes know of a host: its robots.txt, and until when it is closed. Others decide what follows."""

from __future__ import annotations

from sqlalchemy import func, select

from resources.catalog.database import Database, now_of, upsert
from resources.catalog.rows import ClosedHost, RobotsRow
from resources.catalog.schema import hosts


class Hosts(Database):
    def robots(self, host: str) -> RobotsRow | None:
        """What was last read of the host's robots.txt, however long ago; None when nobody has looked yet."""
        columns = (hosts.c.robots_status, hosts.c.robots_body, hosts.c.robots_fetched_at)
        with self._read() as connection:
            row = connection.execute(select(*columns).where(hosts.c.host == host)).one_or_none()
        if row is None or row.robots_fetched_at is None:
            return None
        return RobotsRow(row.robots_status, row.robots_body or "", row.robots_fetched_at)

    def save_robots(self, host: str, status: int | None, body: str) -> None:
        saving = upsert(hosts, ["robots_status", "robots_body", "robots_fetched_at", "updated_at"])
        with self._write() as connection:
            now = now_of(connection)
            read = {"robots_status": status, "robots_body": body, "robots_fetched_at": now}
            connection.execute(saving, {"host": host, **read, "updated_at": now})

    def close_host(self, host: str, until: float, reason: str) -> None:
        """Nobody asks the host before `until` (epoch seconds). A host that is closed for longer stays so."""
        longer = func.coalesce(hosts.c.closed_until, 0.0) < until
        closing = upsert(hosts, ["closed_until", "note", "updated_at"], where=longer)
        with self._write() as connection:
            connection.execute(
                closing, {"host": host, "closed_until": until, "note": reason, "updated_at": now_of(connection)}
            )

    def closed_until(self, host: str) -> float | None:
        """When the host may be asked again; None when it may be asked now."""
        with self._read() as connection:
            until = connection.scalar(select(hosts.c.closed_until).where(hosts.c.host == host))
            return until if until is not None and until > now_of(connection) else None

    def closed_hosts(self) -> list[ClosedHost]:
        """The hosts that are closed now, the one that opens first in front."""
        columns = (hosts.c.host, hosts.c.closed_until, hosts.c.note)
        with self._read() as connection:
            closed = hosts.c.closed_until > now_of(connection)
            return [
                ClosedHost(*row)
                for row in connection.execute(select(*columns).where(closed).order_by(hosts.c.closed_until))
            ]
