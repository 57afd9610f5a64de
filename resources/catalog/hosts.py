"""What all processes share about hosts: robots.txt, the circuit breaker, until when a host is closed, and which process has
the lease on a group of hosts. The rules are in `resources.http` and `resources.rate_limit`."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import delete, func, or_, select, update

from resources.catalog.database import Database, insert_missing, now_of, retry_lost_transactions, upsert
from resources.catalog.rows import HostClosure, RobotsRow
from resources.catalog.schema import group_leases, hosts

_WISH_S = 15.0  # a wish is repeated after that, by whoever still has it


class Hosts(Database):
    @retry_lost_transactions
    def robots(self, host: str) -> RobotsRow | None:
        """What was last read of the host's robots.txt, however long ago; None when nobody has looked yet."""
        columns = (hosts.c.robots_status, hosts.c.robots_body, hosts.c.robots_fetched_at)
        with self._read() as connection:
            row = connection.execute(select(*columns).where(hosts.c.host == host)).one_or_none()
        if row is None or row.robots_fetched_at is None:
            return None
        return RobotsRow(row.robots_status, row.robots_body or "", row.robots_fetched_at)

    @retry_lost_transactions
    def save_robots(self, host: str, status: int | None, body: str) -> None:
        saving = upsert(hosts, ["robots_status", "robots_body", "robots_fetched_at", "updated_at"])
        with self._write() as connection:
            now = now_of(connection)
            read = {"robots_status": status, "robots_body": body, "robots_fetched_at": now}
            connection.execute(saving, {"host": host, **read, "updated_at": now})

    @retry_lost_transactions
    def close_host(self, host: str, until: float, reason: str) -> None:
        """Nobody asks the host before `until` (epoch seconds). A host that is closed for longer stays so."""
        longer = func.coalesce(hosts.c.closed_until, 0.0) < until
        closing = upsert(hosts, ["closed_until", "note", "updated_at"], where=longer)
        with self._write() as connection:
            connection.execute(
                closing, {"host": host, "closed_until": until, "note": reason, "updated_at": now_of(connection)}
            )

    @retry_lost_transactions
    def closure(self, host: str) -> HostClosure:
        """Until when the host is closed, if it is, and the state of its circuit breaker as `change_breaker` left it."""
        with self._read() as connection:
            row = connection.execute(select(hosts.c.closed_until, hosts.c.breaker).where(hosts.c.host == host)).first()
            if row is None:
                return HostClosure(None, None)
            still = row.closed_until is not None and row.closed_until > now_of(connection)
            return HostClosure(row.closed_until if still else None, row.breaker)

    @retry_lost_transactions
    def change_breaker(self, host: str, change: Callable[[str | None], tuple[str, float]]) -> None:
        """`change` makes of the state its successor, and until when the host is left alone; no other change comes between."""
        saving = upsert(hosts, ["breaker", "breaker_until", "updated_at"])
        locked = select(hosts.c.breaker).where(hosts.c.host == host).with_for_update()
        with self._write() as connection:
            connection.execute(insert_missing(hosts), {"host": host, "updated_at": now_of(connection)})
            state, until = change(connection.scalar(locked))
            row = {"host": host, "breaker": state, "breaker_until": until, "updated_at": now_of(connection)}
            connection.execute(saving, row)

    @retry_lost_transactions
    def lease_group(self, group: str, owner: str, ttl_s: float) -> bool:
        """Whether `owner` may now ask the hosts of `group` alone, for `ttl_s` seconds; asking again renews it. A refusal is
        a write only when nobody's wish is known: many may ask in vain, twice a second."""
        with self._read() as connection:
            now = now_of(connection)
            row = connection.execute(select(group_leases).where(group_leases.c.grp == group)).first()
            if row is not None and row.owner != owner and row.until >= now and row.wanted_until > now:
                return False
        with self._write() as connection:
            now = now_of(connection)
            free = or_(group_leases.c.owner == owner, group_leases.c.until < now)
            taking = upsert(group_leases, ["owner", "until"], where=free)
            values = {"grp": group, "owner": owner, "until": now + ttl_s, "wanted_until": 0.0}
            if connection.execute(taking, values).rowcount == 1:
                return True
            wish = update(group_leases).where(group_leases.c.grp == group)
            connection.execute(wish.values(wanted_until=now + _WISH_S))
            return False

    @retry_lost_transactions
    def group_is_wanted(self, group: str) -> bool:
        """Whether somebody who asked for the group lately was refused it."""
        with self._read() as connection:
            until = connection.scalar(select(group_leases.c.wanted_until).where(group_leases.c.grp == group))
            return until is not None and until > now_of(connection)

    @retry_lost_transactions
    def free_group(self, group: str, owner: str) -> None:
        with self._write() as connection:
            connection.execute(delete(group_leases).where(group_leases.c.grp == group, group_leases.c.owner == owner))

    @retry_lost_transactions
    def free_groups(self, owner: str) -> int:
        with self._write() as connection:
            return connection.execute(delete(group_leases).where(group_leases.c.owner == owner)).rowcount
