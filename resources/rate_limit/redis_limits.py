"""Limiter state in Redis or Valkey, for all machines that use the server: the store and script of pyrate-limiter, by its clock.

Keys expire by themselves when nothing is owed any more. The URL is a secret: messages name only the host.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from pydantic import SecretStr
from pyrate_limiter import GCRA, Rate, StateStore
from pyrate_limiter.abstracts.algorithm import Decision, State, StateAlgorithm
from pyrate_limiter.buckets.redis_state import RedisStateStore
from redis import Redis, RedisError
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as ConnectionLost
from redis.retry import Retry

from resources.rate_limit.stores import LimiterUnavailable

_PREFIX = "docstokg:limit:"
_CONNECT_S, _ANSWER_S = 1.0, 1.0

# Hosts whose clocks differ must agree on when a token was spent, so the time that the script is given is not used.
_BY_SERVER_TIME = """
local time = redis.call('TIME')
ARGV[1] = time[1] * 1000 + math.floor(time[2] / 1000)
"""


class _ServerTimeGCRA(GCRA):
    def redis_script(self) -> str | None:
        script = super().redis_script()
        assert script is not None
        return _BY_SERVER_TIME + script


class RedisLimits:
    def __init__(self, url: SecretStr) -> None:
        secret = url.get_secret_value()
        parts = urlsplit(secret)
        self._name = parts.hostname or parts.path
        self._algorithm = _ServerTimeGCRA()
        # Trying once more takes care of connections that did not outlive a restart of the server.
        again = Retry(NoBackoff(), 1, supported_errors=(ConnectionLost,))
        with self.explained():
            self._redis = Redis.from_url(
                secret, socket_connect_timeout=_CONNECT_S, socket_timeout=_ANSWER_S, retry=again
            )
            self._redis.ping()  # fails now rather than at the first request

    def store(self, key: str) -> StateStore:
        return _Store(self, RedisStateStore(self._redis, _PREFIX + key), self._algorithm)

    @contextmanager
    def explained(self) -> Iterator[None]:
        try:
            yield
        except (RedisError, OSError, ValueError) as error:
            raise LimiterUnavailable(
                f"the limiter store in Redis on {self._name} cannot be used: {type(error).__name__}. No request goes out until "
                "it can; check the server and rate_limit.redis_url."
            ) from None  # the library's words may repeat the URL

    def close(self) -> None:
        self._redis.close()


class _Store(StateStore):
    """The library's store, with our error and the server's time."""

    is_async = False

    def __init__(self, limits: RedisLimits, store: Any, algorithm: GCRA) -> None:
        self._limits, self._algorithm = limits, algorithm
        self._store = store  # a RedisStateStore, which has no types

    def check(self, algorithm: StateAlgorithm, rates: list[Rate], now: int, weight: int) -> Decision:
        with self._limits.explained():
            decision: Decision = self._store.check(self._algorithm, rates, now, weight)
            return decision

    def read(self, algorithm: StateAlgorithm, rates: list[Rate]) -> State:
        with self._limits.explained():
            state: State = self._store.read(self._algorithm, rates)
            return state

    def reset(self) -> None:
        with self._limits.explained():
            self._store.reset()
