"""What all processes share about hosts: robots.txt, the circuit breaker, until when a host is paused, and which process has the
lease on a group of hosts. The rules are in `resources.http` and `resources.rate_limit`."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection, delete, func, or_, select, update

from resources.catalog.database import (
    Database,
    insert_missing,
    now_of,
    read_transaction,
    retry_lost_transactions,
    upsert,
    write_transaction,
)
from resources.catalog.rows import HostPause, RobotsRow
from resources.catalog.schema import group_leases, hosts

_WISH_S = 15.0  # how long a refused request for a group counts; a process that still waits repeats it


class Hosts(Database):
    @read_transaction
    def robots(self, connection: Connection, host: str) -> RobotsRow | None:
        """What was last read of the host's robots.txt, however long ago; None when it was never read."""
        columns = (hosts.c.robots_status, hosts.c.robots_body, hosts.c.robots_fetched_at)
        row = connection.execute(select(*columns).where(hosts.c.host == host)).one_or_none()
        if row is None or row.robots_fetched_at is None:
            return None
        return RobotsRow(row.robots_status, row.robots_body or "", row.robots_fetched_at)

    @write_transaction
    def save_robots(self, connection: Connection, host: str, status: int | None, body: str) -> None:
        now = now_of(connection)
        read = {"robots_status": status, "robots_body": body, "robots_fetched_at": now, "updated_at": now}
        connection.execute(upsert(hosts, list(read)), {"host": host, **read})

    @write_transaction
    def pause_host(self, connection: Connection, host: str, until: float, reason: str) -> None:
        """Send nothing to the host before `until` (epoch seconds). A longer pause stays as it is."""
        longer = func.coalesce(hosts.c.closed_until, 0.0) < until
        pause = {"closed_until": until, "note": reason, "updated_at": now_of(connection)}
        connection.execute(upsert(hosts, list(pause), where=longer), {"host": host, **pause})

    @read_transaction
    def host_pause(self, connection: Connection, host: str) -> HostPause:
        """Until when the host is paused, if it is, and the state of its circuit breaker as `change_breaker` left it."""
        row = connection.execute(select(hosts.c.closed_until, hosts.c.breaker).where(hosts.c.host == host)).first()
        if row is None:
            return HostPause(None, None)
        still = row.closed_until is not None and row.closed_until > now_of(connection)
        return HostPause(row.closed_until if still else None, row.breaker)

    @write_transaction
    def change_breaker(
        self, connection: Connection, host: str, change: Callable[[str | None], tuple[str, float]]
    ) -> None:
        """Replace the state of the circuit breaker. `change` gets the state and returns the next one, and until when the host is
        not asked; no other change comes between."""
        connection.execute(insert_missing(hosts), {"host": host, "updated_at": now_of(connection)})
        locked = select(hosts.c.breaker).where(hosts.c.host == host).with_for_update()
        state, until = change(connection.scalar(locked))
        row = {"breaker": state, "breaker_until": until, "updated_at": now_of(connection)}
        connection.execute(upsert(hosts, list(row)), {"host": host, **row})

    @retry_lost_transactions
    def lease_group(self, group: str, owner: str, ttl_s: float) -> bool:
        """Whether `owner` alone may now ask the hosts of `group`, for `ttl_s` seconds; asking again renews it. A refusal is
        written only when no other was noted lately, because many processes may ask twice a second."""
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

    @read_transaction
    def group_is_wanted(self, connection: Connection, group: str) -> bool:
        """Whether a process that asked for the group lately was refused it."""
        until = connection.scalar(select(group_leases.c.wanted_until).where(group_leases.c.grp == group))
        return until is not None and until > now_of(connection)

    @write_transaction
    def free_group(self, connection: Connection, group: str, owner: str) -> None:
        connection.execute(delete(group_leases).where(group_leases.c.grp == group, group_leases.c.owner == owner))

    @write_transaction
    def free_groups(self, connection: Connection, owner: str) -> int:
        return connection.execute(delete(group_leases).where(group_leases.c.owner == owner)).rowcount
