"""The retry decision, pure: given what one try brought, go again after a delay, give up, or close the host. Sleeps for nobody.

There is no other retry logic in the system; sessions and adapters are made with none.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import mktime_tz, parsedate_tz

from resources.http.errors import (
    BodyTooShort,
    BodyTruncated,
    ChecksumMismatch,
    ConnectionFailed,
    DeadlineExceeded,
    HttpError,
    ProtocolViolation,
)
from resources.http.settings import RetrySettings
from resources.records import Reason

RETRIED_ERRORS = (ConnectionFailed, DeadlineExceeded, ProtocolViolation, BodyTooShort, BodyTruncated, ChecksumMismatch)
_LONGEST_S = 366 * 86_400.0


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
    """Nothing to repeat: a good answer, a final one, or the tries are used up. Others may still have to wait."""

    retry_after_s: float | None = None


Decision = Again | CloseHost | Settled


def decide(
    settings: RetrySettings,
    tries: int,
    answer: int | HttpError,
    headers: Mapping[str, str],
    rng: random.Random,
    now: float,
) -> Decision:
    """`tries` have been made so far, the last one ended with `answer`: a status, or the error that came instead of one.
    `now` is the wall time, for the dates of servers."""
    if isinstance(answer, int):
        if answer not in settings.retry_statuses:
            return Settled()
        asked = parse_retry_after(headers.get("retry-after"), now)
        if asked is not None and asked > settings.max_retry_after_s:
            return CloseHost(asked)
    else:
        if not isinstance(answer, RETRIED_ERRORS):
            return Settled()
        asked = None
    if tries >= settings.max_attempts:
        return Settled(asked)
    delay = backoff(settings, tries - 1, rng)
    if asked is not None and asked > delay:
        return Again(asked, Reason.RETRY_AFTER, asked)
    return Again(delay, Reason.BACKOFF, asked)


def backoff(settings: RetrySettings, n: int, rng: random.Random) -> float:
    """Delay before retry `n` (from 0): base x 2^n plus jitter, capped."""
    factor = 2.0 ** min(n, 30) if settings.strategy == "exponential" else 1.0
    delay = settings.base_delay_ms * factor + rng.uniform(0, settings.jitter_ms)
    return min(delay, settings.max_delay_ms) / 1000.0


def parse_retry_after(value: str | None, now: float) -> float | None:
    """Seconds to wait, from seconds or an HTTP date; None when absent or junk. Never more than a year."""
    text = (value or "").strip()
    if text.isascii() and text.isdigit():
        return min(float(text), _LONGEST_S)
    try:
        date = parsedate_tz(text)
        if date is None:
            return None
        at = mktime_tz((*date[:9], date[9] or 0))  # HTTP dates are in GMT, also where they do not say so
        return min(max(0.0, at - now), _LONGEST_S)
    except (ValueError, OverflowError, TypeError, IndexError):
        return None  # the standard library's reader of dates fails in several ways
