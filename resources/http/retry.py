"""The retry decision, pure: given what one try brought, go again after a delay, give up, or close the host. Sleeps for nobody.

There is no other retry logic in the system; sessions and adapters are made with none.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from urllib3.exceptions import InvalidHeader
from urllib3.util.retry import Retry

from resources.http.errors import (
    BodyTooShort,
    BodyTruncated,
    ConnectionFailed,
    DeadlineExceeded,
    ProtocolViolation,
    TransportError,
)
from resources.http.settings import RetrySettings
from resources.records import Reason

RETRIED_ERRORS = (ConnectionFailed, DeadlineExceeded, ProtocolViolation, BodyTooShort, BodyTruncated)


@dataclass(frozen=True, slots=True)
class Again:
    delay_s: float
    reason: Reason
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class CloseHost:
    """The server asked for a pause that is longer than a work is held for: nobody asks this host until then."""

    delay_s: float


@dataclass(frozen=True, slots=True)
class Settled:
    """Nothing to repeat: a good answer, a final one, or the tries are used up."""


Decision = Again | CloseHost | Settled


def decide(
    settings: RetrySettings,
    tries: int,
    answer: int | TransportError,
    headers: Mapping[str, str],
    rng: random.Random,
) -> Decision:
    """`tries` have been made so far, the last one ended with `answer`: a status, or the error that came instead of one."""
    if isinstance(answer, int):
        if answer not in settings.retry_statuses:
            return Settled()
        asked = parse_retry_after(headers.get("retry-after"))
        if asked is not None and asked > settings.max_retry_after_s:
            return CloseHost(asked)
    else:
        if not isinstance(answer, RETRIED_ERRORS):
            return Settled()
        asked = None
    if tries >= settings.max_attempts:
        return Settled()
    delay = backoff(settings, tries - 1, rng)
    if asked is not None and asked > delay:
        return Again(asked, Reason.RETRY_AFTER, asked)
    return Again(delay, Reason.BACKOFF, asked)


def backoff(settings: RetrySettings, n: int, rng: random.Random) -> float:
    """Delay before retry `n` (from 0): base x 2^n, capped, plus jitter."""
    factor = 2.0 ** min(n, 30) if settings.strategy == "exponential" else 1.0
    delay = min(settings.base_delay_ms * factor, settings.max_delay_ms)
    return (delay + rng.uniform(0, settings.jitter_ms)) / 1000.0


def parse_retry_after(value: str | None) -> float | None:
    """Seconds to wait, from seconds or an HTTP date; None when absent or junk."""
    if not value:
        return None
    try:
        return max(0.0, float(Retry(0).parse_retry_after(value.strip())))
    except (InvalidHeader, ValueError, OverflowError):
        return None
