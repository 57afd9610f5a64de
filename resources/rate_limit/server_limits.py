"""Parse the rate limits that servers state in response headers. Pure; the limiter and the client act on them.

`x-rate-limit-limit: 10` with `x-rate-limit-interval: 1s` and `x-concurrency-limit: 3` (Crossref); `X-RateLimit-Remaining: 0` with
`X-RateLimit-Reset` in seconds or as an epoch time (OpenAlex, Zenodo and many others); `X-RateLimitRemaining: 0` with
`X-RateLimit-Retry-After` as a date (CORE). Values that cannot be parsed are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from resources.rate_limit.settings import Rate

_LEFT = ("x-ratelimit-remaining", "x-ratelimitremaining")
_NAMES = frozenset({"x-rate-limit-limit", "x-concurrency-limit", *_LEFT})
_NUMBER = re.compile(r"\s*(\d{1,12})(?:\.\d+)?\s*(?:[,;].*)?", re.ASCII | re.DOTALL)
_INTERVAL = re.compile(r"\s*(\d{1,6})\s*(ms|s|m|h|d)?\s*", re.ASCII | re.IGNORECASE)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_DAY_S = 86_400.0
_WEEK_S = 8 * _DAY_S  # the longest quota that is known (Elsevier) lasts seven days
_EPOCH = 1_000_000_000  # a larger number is a date, not a time to wait


@dataclass(frozen=True, slots=True)
class Window:
    """At most `count` requests in any `seconds`."""

    count: int
    seconds: float

    @property
    def per_second(self) -> float:
        return self.count / self.seconds

    def allows(self, rate: Rate) -> bool:
        """Whether `rate` alone keeps within this window."""
        return rate.burst + rate.per_second * self.seconds <= self.count


@dataclass(frozen=True, slots=True)
class ServerLimits:
    window: Window | None = None
    concurrency: int | None = None
    exhausted_for_s: float | None = None  # no request is left until then


def limits_from_headers(headers: Mapping[str, str], now: float) -> ServerLimits | None:
    """`headers` with names in lower case, `now` in epoch seconds; None when they state no limits."""
    if not _NAMES & headers.keys():
        return None
    count, seconds = _number(headers.get("x-rate-limit-limit")), _interval(headers.get("x-rate-limit-interval"))
    window = Window(count, seconds) if count and seconds else None
    exhausted_for = None
    if any(_number(headers.get(name)) == 0 for name in _LEFT):
        reset, date = headers.get("x-ratelimit-reset"), headers.get("x-ratelimit-retry-after")
        exhausted_for = _reset(reset, now) or _until(date, now)
    stated = ServerLimits(window, _number(headers.get("x-concurrency-limit")) or None, exhausted_for)
    return None if stated == ServerLimits() else stated


def _number(text: str | None) -> int | None:
    match = _NUMBER.fullmatch(text) if text else None
    return int(match[1]) if match else None


def _interval(text: str | None) -> float | None:
    """`1s`, `5m`; a bare number is seconds. An interval of more than a day is ignored."""
    match = _INTERVAL.fullmatch(text) if text else None
    seconds = int(match[1]) * _SECONDS[(match[2] or "s").lower()] if match else 0.0
    return seconds if 0 < seconds <= _DAY_S else None


def _until(text: str | None, now: float) -> float | None:
    try:
        date = datetime.fromisoformat(text or "")
        left = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - now
    except (ValueError, OverflowError):
        return None
    return min(left, _DAY_S) if left > 0 else None


def _reset(text: str | None, now: float) -> float | None:
    number = _number(text)
    if number is None:
        return None
    if number > 1000 * _EPOCH:
        number //= 1000  # milliseconds
    left = number - now if number > _EPOCH else float(number)
    return min(left, _WEEK_S if number > _EPOCH else _DAY_S) if left > 0 else None
