"""One exchange, from a Request to its Response, as a generator: guard, cache, robots, closed hosts, retries and redirects in
order.

It yields steps (`Send` this, `Pause` that long) and is sent the reply, or None after a Pause and for a Send that did not
leave because its host was closed meanwhile; it never waits, opens no connection and holds no thread. The drivers are
`HttpClient.request_with_retries`, which blocks, and the dispatcher, which does not. A redirect hop is a new step with every
check made again, so it is paced by the limits of the host that it leads to.
"""

from __future__ import annotations

import random
from collections.abc import Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urljoin

from resources.clock import Clock
from resources.http.attempts import AttemptLog
from resources.http.breaker import Phase
from resources.http.cache import Answer, HttpCache, Visit
from resources.http.canonical import authority_of, host_of
from resources.http.cookies import CookieStore, Jar, Origin, jar_text, origin_of
from resources.http.errors import (
    BodyTooLarge,
    BreakerOpen,
    ConnectionFailed,
    ContentRefused,
    DeadlineExceeded,
    HostClosed,
    HttpError,
    Interrupted,
    RedirectLoop,
    RobotsRefused,
    RobotsUnavailable,
)
from resources.http.guard import guarded_url
from resources.http.headers import request_headers, robots_token
from resources.http.hosts import MAX_ROBOTS_BYTES, PROBES_OUT_S, HostStateCache, Rules
from resources.http.messages import BodySink, Request, Response, ResponseHead, Role, Unfinished
from resources.http.retry import Again, CloseHost, Decision, Settled, decide
from resources.http.settings import HttpSettings, RetrySettings, RobotsSettings
from resources.records import Reason, Status

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_ROBOTS_POLL_S = 0.1
_CLOSED = (HostClosed, BreakerOpen)
_PHASES = {
    Phase.OPEN: Status.BREAKER_OPEN,
    Phase.HALF_OPEN: Status.BREAKER_HALF_OPEN,
    Phase.CLOSED: Status.BREAKER_CLOSED,
}


@dataclass(frozen=True, slots=True)
class Send:
    """Put this on the wire. The driver takes a permit and a token for (host, role) first."""

    url: str
    verb: str
    role: Role
    host: str
    headers: Mapping[str, str]
    jar: Jar
    max_bytes: int
    secret_params: Mapping[str, str]
    body: bytes | None = None
    beginning_only: bool = False
    open_sink: Any = None  # Callable[[ResponseHead], BodySink] | None
    unfinished: Unfinished | None = None  # its rest is what is asked for
    resolver: str | None = None
    min_interval_s: float | None = None  # crawl-delay
    timeouts: tuple[float, float] | None = None

    def sink_for(self, head: ResponseHead) -> BodySink | None:
        if self.open_sink is None or not 200 <= head.status < 300:
            return None
        sink: BodySink = self.open_sink(head)
        return sink


@dataclass(frozen=True, slots=True)
class Pause:
    """Go on after so many seconds. `host` and `reason` tell a person who is waited for, and why. `untried`: nothing has been
    sent yet, so that a driver with many exchanges may as well drop this one and begin it again later."""

    seconds: float
    host: str
    reason: Reason
    untried: bool = False


@dataclass(frozen=True, slots=True)
class Reply:
    """What one Send brought."""

    head: ResponseHead
    body: bytes
    payload: Any
    bytes_read: int
    elapsed_ms: int
    waited_ms: int = 0
    went_on_at: int = 0  # bytes that an earlier try had brought


Step = Send | Pause
Exchange = Generator[Step, Reply | None, Response]


@dataclass(frozen=True, slots=True)
class RequestPolicy:
    """What a resolver's settings change for its requests."""

    retry: RetrySettings | None = None
    timeouts: tuple[float, float] | None = None


class Exchanger:
    """Makes exchanges. Holds what all of them share: settings, what is known of hosts, clock and random source."""

    def __init__(
        self,
        settings: HttpSettings,
        robots: RobotsSettings,
        hosts: HostStateCache,
        clock: Clock,
        rng: random.Random,
        cache: HttpCache | None = None,
    ) -> None:
        self.settings, self.robots, self.hosts, self.clock, self.rng = settings, robots, hosts, clock, rng
        self._cache = cache
        self._passes = CookieStore(clock)

    def exchange(
        self, request: Request, log: AttemptLog, policy: RequestPolicy | None = None, *, patient: bool = True
    ) -> Exchange:
        """Runs until a final answer (any status), or raises the HttpError that stands for why there is none. Not `patient`: a
        host whose breaker is open is not waited for, because there is something else to do."""
        policy = policy or RequestPolicy()
        jar = Jar()
        hops: list[str] = []
        asked: set[tuple[str, str]] = set()
        url, own = request.url, True
        before: Origin | None = None
        given = False  # whether this exchange was handed a cookie
        if request.pause_s:
            yield Pause(request.pause_s, host_of(url), Reason.BACKOFF)
        while True:
            try:
                url = guarded_url(url, self.settings)
                headers = request_headers(self.settings, request)
                here = origin_of(url)
                own = own and before in (None, here)  # once led elsewhere, the way back is somebody else's choice too
                if before is not None and before.door != here.door:
                    jar = Jar()
                if before != here and (known_here := self._passes.show(request, here)) is not None:
                    jar.update(known_here)
                before = here
                # The same page with the same cookies has already sent us on: it is not asked a second time.
                state = (url, jar_text(jar))
                if state in asked or len(hops) > self.settings.max_redirects:
                    raise RedirectLoop(
                        f"redirected in a circle or more than {self.settings.max_redirects} times", url=url
                    )
                asked.add(state)
                visit = None if given else self._visit(request, url, headers, own)
                known = visit.answer if visit is not None else None
                delay = None if known is not None else (yield from self._permission(request, url, log, patient))
            except HttpError as refusal:
                self._log_refusal(request, url, log, refusal)
                raise
            if known is not None:
                reply = self._from_cache(request, known, log)
            else:
                send = self._send(request, url, headers, jar, delay, policy, own)
                reply = yield from self._ask(request, send, visit, log, policy.retry or self.settings.retry, patient)
            given = given or "set-cookie" in reply.head.headers
            target = reply.head.headers.get("location")
            if not (request.follow_redirects and reply.head.status in _REDIRECTS and target):
                lasting = self.settings.remember_cookies_s
                self._passes.remember(request, here, jar, reply.head.status, lasting)
                return Response(
                    reply.head.status, url, reply.head.headers, reply.body, reply.payload, tuple(hops), reply.elapsed_ms
                )
            hops.append(url)
            url = _joined(url, target)

    def _send(
        self,
        request: Request,
        url: str,
        headers: Mapping[str, str],
        jar: Jar,
        delay: float | None,
        policy: RequestPolicy,
        own: bool,
    ) -> Send:
        return Send(
            url=url,
            verb=request.verb,
            role=request.role,
            host=host_of(url),
            # keys go to the origin that they belong to, never to where it redirects
            headers={**headers, **request.secret_headers} if own else headers,
            jar=jar,
            max_bytes=request.max_bytes or self.settings.max_page_bytes,
            secret_params=request.secret_params if own else {},
            body=request.body,
            beginning_only=request.beginning_only,
            open_sink=request.sink,
            resolver=request.resolver,
            min_interval_s=delay,
            timeouts=policy.timeouts,
        )

    # -- cache --------------------------------------------------------------------------------------------------------

    def _visit(self, request: Request, url: str, headers: Mapping[str, str], own: bool) -> Visit | None:
        """Not for an exchange that was handed a cookie on its way: what comes next may be for its bearer alone. One that only
        lets in whoever has been there before is no such thing, or a host with cookies would have no cache at all."""
        if self._cache is None:
            return None
        secrets = {**request.secret_params, **request.secret_headers} if own else {}
        return self._cache.visit(request, url, headers, secrets)

    def _from_cache(self, request: Request, known: Answer, log: AttemptLog) -> Reply:
        """Costs no permit and no token, and asks nothing of the host."""
        head = known.head
        told: dict[str, Any] = {"headers": head.headers, "http_status": head.status, "elapsed_ms": 0, "cache_hit": True}
        log.write(request, head.url, Status.HTTP_GET, reason_of_status(head.status), **told)
        return Reply(head, known.body, None, len(known.body), 0)

    def _ask(
        self, request: Request, send: Send, visit: Visit | None, log: AttemptLog, retry: RetrySettings, patient: bool
    ) -> Generator[Step, Reply | None, Reply]:
        """Asks the host, and lets the cache learn from its answer."""
        if visit is None or self._cache is None:
            return (yield from self._with_retries(request, send, log, retry, patient))
        asked = replace(send, headers={**send.headers, **visit.conditions})
        reply = yield from self._with_retries(request, asked, log, retry, patient)
        confirmed = self._cache.settle(visit, reply.head, reply.body)
        if confirmed is not None:
            return replace(reply, head=confirmed.head, body=confirmed.body, bytes_read=len(confirmed.body))
        if reply.head.status == 304 and visit.conditions:  # it speaks of another answer than the one that we have
            reply = yield from self._with_retries(request, send, log, retry, patient)
            self._cache.settle(visit, reply.head, reply.body)
        return reply

    # -- robots -------------------------------------------------------------------------------------------------------

    def _permission(
        self, request: Request, url: str, log: AttemptLog, patient: bool
    ) -> Generator[Step, Reply | None, float | None]:
        """Returns the crawl delay, if any; raises when robots.txt forbids the URL."""
        if not self.robots.enabled or not request.obey_robots or request.role is Role.METADATA:
            return None
        site = authority_of(url)
        while (rules := self.hosts.rules(site)) is None:
            if self.hosts.begin_fetch(site):
                try:
                    # somebody may have finished reading it since we looked
                    rules = self.hosts.rules(site) or (yield from self._fetch_robots(url, log, patient))
                finally:
                    self.hosts.end_fetch(site)
            else:
                yield Pause(_ROBOTS_POLL_S, host_of(url), Reason.ROBOTS)
        agent = robots_token(self.settings)
        if not rules.available:
            raise RobotsUnavailable(f"robots.txt of {site} cannot be read at the moment", url=url, until=rules.expires)
        if not rules.allows(url, agent):
            raise RobotsRefused(f"robots.txt of {site} forbids this URL", url=url)
        return rules.crawl_delay(agent)

    def _fetch_robots(self, url: str, log: AttemptLog, patient: bool) -> Generator[Step, Reply | None, Rules]:
        request = Request(
            urljoin(url, "/robots.txt"),
            Role.LANDING,
            headers={"Accept": "text/plain, */*;q=0.1"},
            obey_robots=False,
            max_bytes=MAX_ROBOTS_BYTES,
            beginning_only=True,
            resolver="robots",
        )
        retry = self.settings.retry.model_copy(update={"max_attempts": min(2, self.settings.retry.max_attempts)})
        status: int | None = None
        body = b""
        try:
            as_robots = replace(log, emit=_as_robots(log))
            response = yield from self.exchange(request, as_robots, RequestPolicy(retry=retry), patient=patient)
            status, body = response.status, response.body
        except RedirectLoop:
            status = 404  # RFC 9309: more than five redirects may be taken as unavailable, which allows
        except (*_CLOSED, Interrupted):
            raise  # says nothing about robots.txt
        except HttpError:
            pass
        if len(body) >= MAX_ROBOTS_BYTES:
            body = body[: body.rfind(b"\n") + 1]  # half a rule may forbid more than the whole
        return self.hosts.save_rules(authority_of(url), status, body.decode("utf-8-sig", "replace"))

    def _log_refusal(self, request: Request, url: str, log: AttemptLog, refusal: HttpError) -> None:
        robots = isinstance(refusal, RobotsRefused | RobotsUnavailable)
        closed = isinstance(refusal, _CLOSED)
        status = Status.ROBOTS_DISALLOWED if robots else Status.SKIPPED if closed else Status.DOWNLOAD_ERROR
        log.write(request, url, status, refusal.reason, verb="ROBOTS" if robots else None)

    # -- retries ------------------------------------------------------------------------------------------------------

    def _with_retries(
        self, request: Request, send: Send, log: AttemptLog, retry: RetrySettings, patient: bool
    ) -> Generator[Step, Reply | None, Reply]:
        tries = 0
        with _Beginning() as beginning:
            while True:
                yield from self._wait_while_closed(request, send, log, retry, patient, untried=not tries)
                reply: Reply | None = None
                error: HttpError | None = None
                try:
                    reply = yield beginning.rest_of(send)
                except HttpError as failure:
                    error = failure
                if reply is None and error is None:
                    continue  # the host was closed while this waited for its turn
                beginning.keep(reply, error)
                tries += 1
                self._log_breaker(request, send, log, self.hosts.report(send.host, _failed(reply, error)))
                decision = self._decide(request, retry, tries, reply, error)
                if isinstance(decision, CloseHost):
                    self._close(request, send, log, tries, reply, decision)
                elif decision.retry_after_s:  # the whole host asked for it, so nobody else goes there meanwhile
                    self.hosts.close(send.host, self.clock.wall() + decision.retry_after_s, str(Reason.RETRY_AFTER))
                if isinstance(decision, Again):
                    self._log_try(request, send, log, tries, reply, error, decision)
                    yield Pause(decision.delay_s, send.host, decision.reason)
                    continue
                self._log_try(request, send, log, tries, reply, error, None)
                if error is not None:
                    raise error
                assert reply is not None
                return reply

    def _decide(
        self, request: Request, retry: RetrySettings, tries: int, reply: Reply | None, error: HttpError | None
    ) -> Decision:
        now = self.clock.wall()
        if reply is None:
            assert error is not None
            return decide(retry, tries, error, {}, self.rng, now) if request.repeatable else Settled()
        status, headers = reply.head.status, reply.head.headers
        if not request.repeatable and status != 429:
            return Settled()
        if request.final is not None and request.final(status, headers, reply.body):
            return Settled()
        return decide(retry, tries, status, headers, self.rng, now)

    def _wait_while_closed(
        self, request: Request, send: Send, log: AttemptLog, retry: RetrySettings, patient: bool, untried: bool
    ) -> Generator[Step, Reply | None, None]:
        while (closed := self._closed(send)) is not None:
            assert closed.until is not None
            left = closed.until - self.clock.wall()
            waits = patient or not isinstance(closed, BreakerOpen) or left <= PROBES_OUT_S
            if not waits or left > retry.max_retry_after_s:
                log.write(request, send.url, Status.SKIPPED, closed.reason, retry_after_s=round(left, 3))
                raise closed
            yield Pause(max(left, 0.05), send.host, closed.reason, untried)

    def _closed(self, send: Send) -> HttpError | None:
        """Why the host may not be asked now, and until when."""
        if (until := self.hosts.closed_until(send.host)) is not None:
            return HostClosed(f"{send.host} asked for no requests until later", url=send.url, until=until)
        if (until := self.hosts.broken_until(send.host)) is not None:
            return BreakerOpen(f"{send.host} failed again and again and is left alone", url=send.url, until=until)
        return None

    def _log_breaker(self, request: Request, send: Send, log: AttemptLog, entered: tuple[Phase, ...]) -> None:
        for phase in entered:
            until = self.hosts.broken_until(send.host) if phase is Phase.OPEN else None
            pause = None if until is None else round(until - self.clock.wall(), 3)
            reason = Reason.BREAKER_OPEN if phase is Phase.OPEN else None
            log.write(request, send.url, _PHASES[phase], reason, retry_after_s=pause)

    def _close(
        self, request: Request, send: Send, log: AttemptLog, tries: int, reply: Reply | None, decision: CloseHost
    ) -> None:
        until = self.clock.wall() + decision.delay_s
        self.hosts.close(send.host, until, str(Reason.RETRY_AFTER))
        self._log_try(
            request, send, log, tries, reply, None, Again(0.0, Reason.RETRY_AFTER, decision.delay_s), closing=True
        )
        raise HostClosed(f"{send.host} asked for a pause of {decision.delay_s:.0f} s", url=send.url, until=until)

    def _log_try(
        self,
        request: Request,
        send: Send,
        log: AttemptLog,
        tries: int,
        reply: Reply | None,
        error: HttpError | None,
        again: Again | None,
        closing: bool = False,
    ) -> None:
        extra: dict[str, Any] = {}
        if reply is not None and reply.waited_ms:
            extra["sleep_ms"] = reply.waited_ms
        if reply is not None and reply.went_on_at:
            extra["went_on_at"] = reply.went_on_at
        if digest := getattr(reply.payload if reply is not None else None, "sha256", None):
            extra["sha256"] = digest  # a sink that hashed what it took says which bytes these were
        if again is not None and not closing:
            extra |= {"attempt": tries, "sleep_ms": round(again.delay_s * 1000)}
        if error is not None:
            extra |= {"error": str(error)[:300], "cause": str(error.reason)}
        status, reason = _status_of(request, reply, error)
        if again is not None:
            status, reason = (status if closing else Status.RETRY), again.reason
        log.write(
            request,
            send.url,
            status,
            reason,
            headers=reply.head.headers if reply is not None else None,
            extra=extra,
            http_status=reply.head.status if reply is not None else None,
            elapsed_ms=reply.elapsed_ms if reply is not None else None,
            bytes_written=reply.bytes_read if reply is not None and reply.payload is not None else None,
            attempt=tries,
            cache_hit=status is Status.HTTP_304 and request.role is not Role.ARTIFACT,
            retry_after_s=again.retry_after_s if again is not None else None,
        )


class _Beginning:
    """What came of a body that broke off, between two tries. Let go when the exchange ends without its rest."""

    def __init__(self) -> None:
        self._unfinished: Unfinished | None = None

    def __enter__(self) -> _Beginning:
        return self

    def __exit__(self, *_: object) -> None:
        if self._unfinished is not None:
            self._unfinished.sink.abort()

    def rest_of(self, send: Send) -> Send:
        begun = self._unfinished
        return send if begun is None else replace(send, headers={**send.headers, **begun.headers}, unfinished=begun)

    def keep(self, reply: Reply | None, error: HttpError | None) -> None:
        """An answer that is no success says nothing of the file; any other has used the beginning, or done away with it."""
        if reply is not None and 200 <= reply.head.status < 300:
            self._unfinished = None
        if error is not None:
            if self._unfinished is not None and error.unfinished is None:
                self._unfinished.sink.abort()
            self._unfinished = error.unfinished


def _failed(reply: Reply | None, error: HttpError | None) -> bool | None:
    """Whether a try speaks against its host: a connection error or a 5xx does, any other answer speaks for it, and a broken
    body or an end of our own making says nothing."""
    if reply is not None:
        return reply.head.status >= 500
    if isinstance(error, ConnectionFailed | DeadlineExceeded):
        return True
    return False if isinstance(error, ContentRefused | BodyTooLarge) else None


def _status_of(request: Request, reply: Reply | None, error: HttpError | None) -> tuple[Status, Reason]:
    if error is not None:
        if isinstance(error, ContentRefused):
            return Status.CONTENT_POLICY_SKIP, error.reason
        mismatch = error.reason is Reason.SIZE_MISMATCH
        return (Status.SIZE_MISMATCH if mismatch else Status.DOWNLOAD_ERROR), error.reason
    assert reply is not None
    code = reply.head.status
    if request.verb == "HEAD":
        return Status.HTTP_HEAD, reason_of_status(code)
    if code == 304:
        return Status.HTTP_304, Reason.NOT_MODIFIED
    if request.role is Role.ARTIFACT and 200 <= code < 300:
        return Status.HTTP_200, Reason.OK
    return Status.HTTP_GET, reason_of_status(code)


def reason_of_status(status: int) -> Reason:
    """The reason that stands for a final HTTP status."""
    if status == 429:
        return Reason.RATE_LIMITED
    if status >= 500:
        return Reason.HTTP_5XX
    if status >= 400:
        return Reason.HTTP_4XX
    return Reason.OK


def _joined(url: str, target: str) -> str:
    """Where a Location leads. Servers send UTF-8 there, and the HTTP library reads Latin-1."""
    with suppress(UnicodeError):
        target = target.encode("latin-1").decode("utf-8")
    try:
        return urljoin(url, target)
    except ValueError:
        return target  # the guard says what is wrong with it


def _as_robots(log: AttemptLog) -> Any:
    def emit(record: Any) -> None:
        answered = record.status is Status.HTTP_GET
        log.emit(replace(record, verb="ROBOTS", status=Status.ROBOTS_FETCH if answered else record.status))

    return emit
