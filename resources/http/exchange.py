"""One exchange, from a Request to its Response, as a generator: guard, robots, closed hosts, retries and redirects in order.

It yields steps (`Send` this, `Pause` that long) and is sent the reply; it never waits, opens no connection and holds no
thread. The drivers are `HttpClient.request_with_retries`, which blocks, and the dispatcher, which does not. A redirect hop
is a new step with every check made again, so it is paced by the limits of the host that it leads to.
"""

from __future__ import annotations

import random
from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urljoin

from requests.cookies import RequestsCookieJar

from resources.clock import Clock
from resources.http.attempts import AttemptLog
from resources.http.canonical import host_of
from resources.http.errors import (
    ContentRefused,
    HostClosed,
    HttpError,
    RedirectLoop,
    RobotsRefused,
    RobotsUnavailable,
    TransportError,
)
from resources.http.guard import guarded_url
from resources.http.headers import request_headers, robots_token
from resources.http.hosts import MAX_ROBOTS_BYTES, HostBook, Rules
from resources.http.messages import BodySink, Request, Response, ResponseHead, Role
from resources.http.retry import Again, CloseHost, decide
from resources.http.settings import HttpSettings, RetrySettings, RobotsSettings
from resources.records import Reason, Status

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_ROBOTS_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class Send:
    """Put this on the wire. The driver takes a permit and a token for (host, role) first."""

    url: str
    verb: str
    role: Role
    host: str
    headers: Mapping[str, str]
    jar: RequestsCookieJar
    max_bytes: int
    secret_params: Mapping[str, str]
    open_sink: Any = None  # Callable[[ResponseHead], BodySink] | None
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
    """Go on after so many seconds. `host` and `reason` tell a person who is waited for, and why."""

    seconds: float
    host: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class Reply:
    """What one Send brought."""

    head: ResponseHead
    body: bytes
    payload: Any
    bytes_read: int
    elapsed_ms: int
    waited_ms: int = 0


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
        self, settings: HttpSettings, robots: RobotsSettings, hosts: HostBook, clock: Clock, rng: random.Random
    ) -> None:
        self.settings, self.robots, self.hosts, self.clock, self.rng = settings, robots, hosts, clock, rng

    def exchange(self, request: Request, log: AttemptLog, policy: RequestPolicy | None = None) -> Exchange:
        """Runs until a final answer (any status), or raises the HttpError that stands for why there is none."""
        policy = policy or RequestPolicy()
        jar = RequestsCookieJar()
        hops: list[str] = []
        seen: set[tuple[str, str]] = set()
        first_host = ""
        url = request.url
        while True:
            try:
                url = guarded_url(url, self.settings)
                first_host = first_host or host_of(url)
                delay = yield from self._permission(request, url, log)
            except HttpError as refusal:
                self._log_refusal(request, url, log, refusal)
                raise
            send = self._send(request, url, jar, delay, policy, own_host=host_of(url) == first_host)
            reply = yield from self._with_retries(request, send, log, policy.retry or self.settings.retry)
            target = reply.head.headers.get("location")
            if not (request.follow_redirects and reply.head.status in _REDIRECTS and target):
                return Response(
                    reply.head.status, url, reply.head.headers, reply.body, reply.payload, tuple(hops), reply.elapsed_ms
                )
            # The same page again is a loop only when no cookie was added meanwhile.
            state = (url, jar_text(jar))
            hops.append(url)
            if state in seen or len(hops) > self.settings.max_redirects:
                log.write(request, url, Status.DOWNLOAD_ERROR, Reason.REDIRECT_LOOP, extra={"hops": len(hops)})
                raise RedirectLoop(f"redirected in a circle or more than {self.settings.max_redirects} times", url=url)
            seen.add(state)
            url = urljoin(url, target)

    def _send(
        self,
        request: Request,
        url: str,
        jar: RequestsCookieJar,
        delay: float | None,
        policy: RequestPolicy,
        own_host: bool,
    ) -> Send:
        headers = request_headers(self.settings, request)
        if own_host:  # keys go to the host that they belong to, never to where it redirects
            headers |= dict(request.secret_headers)
        return Send(
            url=url,
            verb=request.verb,
            role=request.role,
            host=host_of(url),
            headers=headers,
            jar=jar,
            max_bytes=request.max_bytes or self.settings.max_page_bytes,
            secret_params=request.secret_params if own_host else {},
            open_sink=request.sink,
            resolver=request.resolver,
            min_interval_s=delay,
            timeouts=policy.timeouts,
        )

    # -- robots -------------------------------------------------------------------------------------------------------

    def _permission(self, request: Request, url: str, log: AttemptLog) -> Generator[Step, Reply | None, float | None]:
        """Returns the crawl delay, if any; raises when robots.txt forbids the URL."""
        if not self.robots.enabled or not request.obey_robots or request.role is Role.METADATA:
            return None
        host = host_of(url)
        while (rules := self.hosts.rules(host)) is None:
            if self.hosts.begin_fetch(host):
                try:
                    rules = yield from self._fetch_robots(url, log)
                finally:
                    self.hosts.end_fetch(host)
            else:
                yield Pause(_ROBOTS_POLL_S, host, Reason.ROBOTS)
        agent = robots_token(self.settings)
        if not rules.available:
            raise RobotsUnavailable(f"robots.txt of {host} cannot be read at the moment", url=url, until=rules.expires)
        if not rules.allows(url, agent):
            raise RobotsRefused(f"robots.txt of {host} forbids this URL", url=url)
        return rules.crawl_delay(agent)

    def _fetch_robots(self, url: str, log: AttemptLog) -> Generator[Step, Reply | None, Rules]:
        host = host_of(url)
        request = Request(
            urljoin(url, "/robots.txt"),
            Role.LANDING,
            verb="GET",
            headers={"Accept": "text/plain, */*;q=0.1"},
            obey_robots=False,
            max_bytes=8 * MAX_ROBOTS_BYTES,
            resolver="robots",
        )
        status: int | None = None
        body = ""
        fetch = self.exchange(
            request, replace(log, emit=_as_robots(log)), RequestPolicy(retry=RetrySettings(max_attempts=2))
        )
        try:
            response = yield from fetch
            status, body = response.status, response.body[:MAX_ROBOTS_BYTES].decode("utf-8", "replace")
        except RedirectLoop:
            status = 404  # RFC 9309: more than five redirects may be taken as unavailable, which allows
        except HttpError:
            status = None
        self.hosts.save_rules(host, status, body)
        return Rules.read(status, body, self.clock.wall(), self.robots.ttl_seconds)

    def _log_refusal(self, request: Request, url: str, log: AttemptLog, refusal: HttpError) -> None:
        robots = isinstance(refusal, RobotsRefused | RobotsUnavailable)
        status = Status.ROBOTS_DISALLOWED if robots else Status.DOWNLOAD_ERROR
        log.write(request, url, status, refusal.reason, verb="ROBOTS" if robots else None)

    # -- retries ------------------------------------------------------------------------------------------------------

    def _with_retries(
        self, request: Request, send: Send, log: AttemptLog, retry: RetrySettings
    ) -> Generator[Step, Reply | None, Reply]:
        tries = 0
        while True:
            yield from self._wait_while_closed(request, send, log, retry)
            tries += 1
            reply, error = None, None
            try:
                reply = yield send
            except TransportError as failure:
                error = failure
            answer = reply.head.status if reply is not None else error
            assert answer is not None
            headers = reply.head.headers if reply is not None else {}
            final = reply is not None and request.final is not None
            final = final and bool(request.final and reply and request.final(reply.head.status, headers, reply.body))
            decision = None if final else decide(retry, tries, answer, headers, self.rng)
            if isinstance(decision, CloseHost):
                self._close(request, send, log, tries, reply, decision)
            if isinstance(decision, Again):
                self._log_try(request, send, log, tries, reply, error, decision)
                yield Pause(decision.delay_s, send.host, decision.reason)
                continue
            self._log_try(request, send, log, tries, reply, error, None)
            if error is not None:
                raise error
            assert reply is not None
            return reply

    def _wait_while_closed(
        self, request: Request, send: Send, log: AttemptLog, retry: RetrySettings
    ) -> Generator[Step, Reply | None, None]:
        until = self.hosts.closed_until(send.host)
        while until is not None:
            left = until - self.clock.wall()
            if left > retry.max_retry_after_s:
                log.write(request, send.url, Status.SKIPPED, Reason.RETRY_AFTER, retry_after_s=round(left, 3))
                raise HostClosed(f"{send.host} asked for no requests until later", url=send.url, until=until)
            yield Pause(max(left, 0.05), send.host, Reason.RETRY_AFTER)
            until = self.hosts.closed_until(send.host)

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
        error: TransportError | None,
        again: Again | None,
        closing: bool = False,
    ) -> None:
        extra: dict[str, Any] = {}
        if reply is not None and reply.waited_ms:
            extra["sleep_ms"] = reply.waited_ms
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
            retry_after_s=again.retry_after_s if again is not None else None,
        )


def _status_of(request: Request, reply: Reply | None, error: TransportError | None) -> tuple[Status, Reason]:
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


def jar_text(jar: RequestsCookieJar) -> str:
    return ";".join(sorted(f"{c.domain}{c.path}{c.name}={c.value}" for c in jar))


def _as_robots(log: AttemptLog) -> Any:
    def emit(record: Any) -> None:
        answered = record.status is Status.HTTP_GET
        log.emit(replace(record, verb="ROBOTS", status=Status.ROBOTS_FETCH if answered else record.status))

    return emit
