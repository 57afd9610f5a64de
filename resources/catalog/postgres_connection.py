"""The connection to PostgreSQL, whose waits for answers have an end. Imported only where the catalog is on a server."""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.types.string import StrDumper

from resources.catalog import patience as waiting
from resources.catalog.patience import Patience

CONNECT_S = 5
_LAST_CONNECT_S = 2  # the least that libpq takes
_NOTICE_DEAD_WIRES: dict[str, Any] = {  # in seconds, the last in milliseconds
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
T = TypeVar("T")


class CatalogConnection(psycopg.Connection[Any]):
    """Gives up when no byte has come for `answer_s` seconds, or when the end of the run leaves no time. It is then closed, though
    the server may still execute the statement."""

    patience = Patience()
    answer_s: float | None = None  # None: the usual time

    def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
        return super().wait(self._with_limit(gen), interval, timeout)

    def _with_limit(self, gen: PQGen[T]) -> Generator[Any, Any, T]:
        """The same steps, with a check of the time when the driver reports that nothing has come."""
        since = time.monotonic()
        try:
            step = next(gen)
            while True:
                ready = yield step
                now = time.monotonic()
                if ready:
                    since = now
                elif now >= self.patience.answer_until(
                    since, waiting.ANSWER_S if self.answer_s is None else self.answer_s
                ):
                    self.pgconn.finish()
                    raise psycopg.OperationalError("the connection was given up: the server does not answer")
                step = gen.send(ready)
        except StopIteration as done:
            result: T = done.value
            return result


class _WithoutNul(StrDumper):
    """Replaces NUL, which a title may have and PostgreSQL's text cannot store."""

    def dump(self, obj: str) -> Any:
        return super().dump(obj.replace("\0", "\ufffd") if "\0" in obj else obj)


def connect(patience: Patience, **parameters: Any) -> CatalogConnection:
    """Connect without prepared statements, which a pooler that assigns sessions by transaction would mix up."""
    connection = CatalogConnection.connect(
        **{**_NOTICE_DEAD_WIRES, **parameters},
        connect_timeout=_LAST_CONNECT_S if patience.is_short() else CONNECT_S,
        application_name="docstokg-catalog",
        prepare_threshold=None,
    )
    connection.patience = patience
    connection.adapters.register_dumper(str, _WithoutNul)
    return connection
