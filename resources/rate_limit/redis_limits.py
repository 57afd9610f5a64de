"""Limiter state in Redis or Valkey, for all machines that use the server: the store and script of pyrate-limiter, by its clock.

Keys expire by themselves when nothing is owed any more. The URL is a secret: messages name only the host.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from pydantic import SecretStr
from pyrate_limiter import GCRA, Rate
from pyrate_limiter.buckets.redis_state import RedisStateStore
from redis import Redis, RedisError
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as ConnectionLost
from redis.retry import Retry

from resources.errors import translate_errors
from resources.rate_limit.stores import LimiterUnavailable, LimitStore, wait_of

_PREFIX = "docstokg:limit:"
_CONNECT_S, _ANSWER_S = 1.0, 1.0
_ERRORS = (RedisError, OSError, ValueError)

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


class RedisLimits(LimitStore):
    def __init__(self, url: SecretStr) -> None:
        secret = url.get_secret_value()
        parts = urlsplit(secret)
        self._name = parts.hostname or parts.path
        self._algorithm = _ServerTimeGCRA()
        self._stores: dict[str, Any] = {}  # RedisStateStore has no types
        # Trying once more takes care of connections that did not outlive a restart of the server.
        again = Retry(NoBackoff(), 1, supported_errors=(ConnectionLost,))
        with translate_errors(_ERRORS, self._unavailable, hide_cause=True):
            self._redis = Redis.from_url(
                secret, socket_connect_timeout=_CONNECT_S, socket_timeout=_ANSWER_S, retry=again
            )
            self._redis.ping()  # fails now rather than at the first request

    def spend(self, key: str, rate: Rate, now_ms: int, weight: int) -> int:
        store = self._stores.get(key)
        if store is None:
            store = self._stores[key] = RedisStateStore(self._redis, _PREFIX + key)
        with translate_errors(_ERRORS, self._unavailable, hide_cause=True):
            return wait_of(store.check(self._algorithm, [rate], now_ms, weight))

    def close(self) -> None:
        self._redis.close()

    def _unavailable(self, error: Exception) -> LimiterUnavailable:
        """Without the library's message, which may repeat the URL."""
        return LimiterUnavailable(
            f"the limiter store in Redis on {self._name} cannot be used: {type(error).__name__}. No request goes out until "
            "it can; check the server and rate_limit.redis_url."
        )
