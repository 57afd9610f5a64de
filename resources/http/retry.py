"""Retries: the pure decision after one try (repeat after a delay, give up, close the host), and the loop that carries it out.

Retry-After is handled here. Every 4xx and 5xx answer that has it closes the host for everybody until then, also where its own
request is not repeated; a request that is to be repeated waits for a short pause and ends at a longer one. There is no other
retry logic in the system; sessions and adapters are made with none. Nothing here sleeps.
"""

from __future__ import annotations

import random
from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from resources.clock import Clock
from resources.http import errors
from resources.http.breaker import Phase
from resources.http.errors import HttpError
from resources.http.exchange import Context, Pause, Reply, Send, Step, reason_of_status
from resources.http.host_state import PROBES_OUT_S, HostStateCache
from resources.http.messages import Request, Role, Unfinished, parse_http_date
from resources.http.settings import RetrySettings
from resources.records import Reason, Status

RETRIED_ERRORS = (*errors.BROKEN_TRANSFERS, errors.ChecksumMismatch)
_LONGEST_S = 366 * 86_400.0
_BREAKER_STATUS = {
    Phase.OPEN: Status.BREAKER_OPEN,
    Phase.HALF_OPEN: Status.BREAKER_HALF_OPEN,
    Phase.CLOSED: Status.BREAKER_CLOSED,
}


@dataclass(frozen=True, slots=True)
class Again:
    delay_s: float
    reason: Reason
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class CloseHost:
    """The server asked for a pause that is longer than a work is held for: no request to this host until then."""

    delay_s: float


@dataclass(frozen=True, slots=True)
class Settled:
    """Nothing to repeat: a good answer, a final one, or no tries left. Other requests may still have to wait."""

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
    `headers` are those of a 4xx or 5xx answer, of other answers they do not count; `now` is the wall time, for their dates."""
    asked = parse_retry_after(headers.get("retry-after"), now)
    if isinstance(answer, int):
        asked = asked if answer >= 400 else None
        again = answer in settings.retry_statuses
    else:
        again = isinstance(answer, RETRIED_ERRORS)
    if not again:
        return Settled(asked)
    if asked is not None and asked > settings.max_retry_after_s:
        return CloseHost(asked)
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
    """Seconds to wait, from seconds or an HTTP date; None when absent or not readable. Never more than a year."""
    text = (value or "").strip()
    if text.isascii() and text.isdigit():
        return min(float(text), _LONGEST_S)
    date = parse_http_date(text)
    return None if date is None else min(max(0.0, date - now), _LONGEST_S)


class RetryLoop:
    """Send until an answer or an error is final; each try is logged and reported to the host's breaker."""

    def __init__(self, hosts: HostStateCache, clock: Clock, rng: random.Random) -> None:
        self._hosts, self._clock, self._rng = hosts, clock, rng

    def send(self, context: Context, send: Send) -> Generator[Step, Reply | None, Reply]:
        tries, resent = 0, False
        with _PartialBody() as partial:
            while True:
                yield from self._wait_while_closed(context, send, tries)
                result: Reply | HttpError | None
                try:
                    result = yield partial.resumed(send)
                except HttpError as error:
                    result = error
                if result is None:
                    continue  # the host was closed while this waited for its turn
                partial.update(result)
                self._report(context, send, result)
                if isinstance(result, errors.KeptConnectionLost) and _is_idempotent(context.request) and not resent:
                    # sent once more over a new connection, with a permit and a token of its own
                    resent = True
                    _log_try(context, send, tries + 1, result, Again(0.0, result.reason))
                    continue
                tries += 1
                decision = self._decide(context, tries, result)
                if isinstance(decision, CloseHost):
                    self._close(context, send, tries, result, decision.delay_s)
                elif decision.retry_after_s:  # the host asked everybody to wait
                    self._hosts.close(send.host, self._clock.wall() + decision.retry_after_s, str(Reason.RETRY_AFTER))
                if isinstance(decision, Again):
                    _log_try(context, send, tries, result, decision)
                    yield Pause(decision.delay_s, send.host, decision.reason)
                    continue
                _log_try(context, send, tries, result, retry_after_s=decision.retry_after_s)
                if isinstance(result, HttpError):
                    raise result
                return result

    def _decide(self, context: Context, tries: int, result: Reply | HttpError) -> Decision:
        request, head = context.request, result.head
        status = head.status if head is not None else 0
        headers = head.headers if head is not None and status >= 400 else {}
        answer: int | HttpError = result if isinstance(result, HttpError) else status
        if isinstance(result, Reply) and request.final and request.final(status, result.head.headers, result.body):
            return Settled()  # it speaks of this request and not of the host
        decision = decide(context.retry, tries, answer, headers, self._rng, self._clock.wall())
        if isinstance(decision, Again) and not request.repeatable and answer != 429:
            return Settled(decision.retry_after_s)
        return decision

    def _wait_while_closed(self, context: Context, send: Send, tries: int) -> Generator[Step, Reply | None, None]:
        while (closed := self._closed(send, tried=tries > 0 and not context.patient)) is not None:
            assert closed.until is not None
            left = closed.until - self._clock.wall()
            waits = context.patient or not isinstance(closed, errors.BreakerOpen) or left <= PROBES_OUT_S
            if not waits or left > context.retry.max_retry_after_s:
                log, seconds = context.log, round(left, 3)
                log.write(context.request, send.url, Status.SKIPPED, closed.reason, retry_after_s=seconds)
                raise closed
            yield Pause(max(left, 0.05), send.host, closed.reason, untried=not tries)

    def _closed(self, send: Send, *, tried: bool) -> HttpError | None:
        """Why no request may go to the host now, and until when. `tried`: this one has just failed there."""
        if (until := self._hosts.closed_until(send.host)) is not None:
            return errors.HostClosed(f"{send.host} asked for no requests until later", url=send.url, until=until)
        if (until := self._hosts.broken_until(send.host, tried=tried)) is not None:
            message = f"{send.host} failed repeatedly and is left alone"
            return errors.BreakerOpen(message, url=send.url, until=until, tried=tried)
        return None

    def _report(self, context: Context, send: Send, result: Reply | HttpError) -> None:
        for phase in self._hosts.report(send.host, _host_failed(result)):
            until = self._hosts.broken_until(send.host) if phase is Phase.OPEN else None
            pause = None if until is None else round(until - self._clock.wall(), 3)
            reason = Reason.BREAKER_OPEN if phase is Phase.OPEN else None
            context.log.write(context.request, send.url, _BREAKER_STATUS[phase], reason, retry_after_s=pause)

    def _close(self, context: Context, send: Send, tries: int, result: Reply | HttpError, seconds: float) -> NoReturn:
        until = self._clock.wall() + seconds
        self._hosts.close(send.host, until, str(Reason.RETRY_AFTER))
        _log_try(context, send, tries, result, Again(0.0, Reason.RETRY_AFTER, seconds), closing=True)
        raise errors.HostClosed(f"{send.host} asked for a pause of {seconds:.0f} s", url=send.url, until=until)


class _PartialBody:
    """The beginning of a body that broke off, kept between two tries; dropped when the exchange ends without its rest."""

    def __init__(self) -> None:
        self._unfinished: Unfinished | None = None

    def __enter__(self) -> _PartialBody:
        return self

    def __exit__(self, *_: object) -> None:
        if self._unfinished is not None:
            self._unfinished.sink.abort()

    def resumed(self, send: Send) -> Send:
        """The same step, asking for the rest where there is a beginning."""
        begun = self._unfinished
        return send if begun is None else replace(send, headers={**send.headers, **begun.headers}, unfinished=begun)

    def update(self, result: Reply | HttpError) -> None:
        """An answer that is no success leaves the beginning as it is; any other has used it, or discarded it."""
        if isinstance(result, HttpError):
            if self._unfinished is not None and result.unfinished is None:
                self._unfinished.sink.abort()
            self._unfinished = result.unfinished
        elif 200 <= result.head.status < 300:
            self._unfinished = None


def _is_idempotent(request: Request) -> bool:
    return request.repeatable or request.verb in ("GET", "HEAD")


def _host_failed(result: Reply | HttpError) -> bool | None:
    """Whether a try counts against its host: a connection error or a 5xx does, any other answer counts for it, and a broken
    body, a kept connection that was closed, a network that is gone or an error of our own making says nothing."""
    if isinstance(result, Reply):
        return result.head.status >= 500
    if isinstance(result, errors.KeptConnectionLost | errors.NetworkDown):
        return None
    if isinstance(result, errors.ConnectionFailed | errors.DeadlineExceeded):
        return True
    return False if isinstance(result, errors.ContentRefused | errors.BodyTooLarge) else None


def _log_try(
    context: Context,
    send: Send,
    tries: int,
    result: Reply | HttpError,
    again: Again | None = None,
    *,
    closing: bool = False,
    retry_after_s: float | None = None,
) -> None:
    request = context.request
    status, reason = _status_of(request, result)
    fields: dict[str, Any] = {"retry_after_s": retry_after_s}
    extra: dict[str, Any] = {}
    if isinstance(result, HttpError):
        extra = {"error": str(result)[:300], "cause": str(result.reason)}
    else:
        head, payload = result.head, result.payload
        fields |= {"headers": head.headers, "http_status": head.status, "elapsed_ms": result.elapsed_ms}
        fields["bytes_written"] = result.bytes_read if payload is not None else None
        # a sink that hashed the body says which bytes these were
        sha256 = getattr(payload, "sha256", None)
        extra = {"sleep_ms": result.waited_ms, "went_on_at": result.went_on_at, "sha256": sha256}
        extra = {name: value for name, value in extra.items() if value}
    if again is not None:
        fields["retry_after_s"] = again.retry_after_s
        reason = again.reason
        if not closing:
            status = Status.RETRY
            extra |= {"attempt": tries, "sleep_ms": round(again.delay_s * 1000)}
    fields["cache_hit"] = status is Status.HTTP_304 and request.role is not Role.ARTIFACT
    context.log.write(request, send.url, status, reason, extra=extra, attempt=tries, **fields)


def _status_of(request: Request, result: Reply | HttpError) -> tuple[Status, Reason]:
    if isinstance(result, HttpError):
        if isinstance(result, errors.ContentRefused):
            return Status.CONTENT_POLICY_SKIP, result.reason
        mismatch = result.reason is Reason.SIZE_MISMATCH
        return (Status.SIZE_MISMATCH if mismatch else Status.DOWNLOAD_ERROR), result.reason
    code = result.head.status
    if request.verb == "HEAD":
        return Status.HTTP_HEAD, reason_of_status(code)
    if code == 304:
        return Status.HTTP_304, Reason.NOT_MODIFIED
    if request.role is Role.ARTIFACT and 200 <= code < 300:
        return Status.HTTP_200, Reason.OK
    return Status.HTTP_GET, reason_of_status(code)
