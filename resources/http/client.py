"""The HTTP client: stacks guard, redirects, cache, robots and retries for every hop of a request.

`exchange` is for drivers with many requests under way, `request_with_retries` for callers that block. A redirect hop is a new
step with every check made again, so it is paced by the limits of the host that it leads to.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from resources.clock import Clock, Moment, SystemClock
from resources.http.attempts import AttemptLog
from resources.http.cache import Answer, HttpCache, Visit
from resources.http.canonical import host_of
from resources.http.cookies import CookieStore
from resources.http.errors import BreakerOpen, HostClosed, HttpError, Interrupted, RobotsRefused, RobotsUnavailable
from resources.http.exchange import Context, Exchange, Pause, Reply, RequestPolicy, Send, Step, reason_of_status
from resources.http.guard import guarded_url
from resources.http.headers import request_headers
from resources.http.host_state import HostStateCache
from resources.http.messages import Request, Response, ResponseHead, Role
from resources.http.reachability import why_unreachable
from resources.http.redirects import RedirectChain
from resources.http.retry import RetryLoop, parse_retry_after
from resources.http.robots import RobotsCache, check_robots
from resources.http.settings import HttpSettings, RobotsSettings
from resources.http.wire import Wire
from resources.rate_limit.limiter import Allowance, Limiter
from resources.rate_limit.server_limits import limits_from_headers
from resources.records import Reason, Status

if TYPE_CHECKING:
    from resources.catalog.catalog import Catalog

_BUSY_POLL_S = 0.05


class HttpClient:
    """Every request of the system goes through here."""

    def __init__(
        self,
        settings: HttpSettings,
        robots: RobotsSettings,
        catalog: Catalog,
        limiter: Limiter,
        *,
        cache: HttpCache | None = None,
        chunk_bytes: int = 262_144,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self.clock = clock or SystemClock()
        self.limiter = limiter
        self.hosts = HostStateCache(catalog, self.clock, settings.breaker)
        self.robots = RobotsCache(catalog, self.clock, robots)
        self.wire = Wire(settings, chunk_bytes)
        limiter.on_given_up = self.wire.close_idle
        self._settings, self._cache = settings, cache
        self._retries = RetryLoop(self.hosts, self.clock, rng or random.Random())
        self._cookies = CookieStore(self.clock)

    def exchange(
        self,
        request: Request,
        log: AttemptLog,
        policy: RequestPolicy | None = None,
        *,
        patient: bool = True,
        fresh: bool = False,
    ) -> Exchange:
        """Run until a final answer (any status), or raise the HttpError that says why there is none. Not `patient`: do not wait
        for a host whose breaker is open, because there is other work. `fresh`: ask the host, whatever the cache knows."""
        policy = policy or RequestPolicy()
        context = Context(request, log, policy.retry or self._settings.retry, policy.timeouts, patient, fresh)
        chain = RedirectChain(request, self._cookies)
        unjudged: list[Callable[[], None]] = []
        if request.pause_s:
            yield Pause(request.pause_s, host_of(request.url), Reason.BACKOFF)
        while True:
            try:
                chain.arrive(guarded_url(chain.url, self._settings), self._settings.max_redirects)
                headers = request_headers(self._settings, request)
                visit = self._visit(context, chain, headers)
                cached = visit.answer if visit is not None else None
                delay = None
                if cached is None:
                    delay = yield from check_robots(self.robots, context, chain.url, self._settings, self.exchange)
            except HttpError as refusal:
                _log_refusal(context, chain.url, refusal)
                raise
            if cached is not None:
                reply = _from_cache(context, cached)
            else:
                send = self._send(context, chain, headers, delay)
                reply = yield from self._fetch(context, send, visit, unjudged)
            if not chain.follow(reply):
                head = reply.head
                chain.keep_cookies(head.status, self._settings.remember_cookies_s)
                answer = head.status, chain.url, head.headers, reply.body, reply.payload
                keep = partial(_call_all, unjudged)
                return Response(*answer, tuple(chain.hops), reply.elapsed_ms, keep=keep)
            if cached is None:
                yield from self._wait_before_following(context, chain, reply)

    def request_with_retries(
        self,
        request: Request,
        log: AttemptLog,
        policy: RequestPolicy | None = None,
        *,
        stopped: Callable[[], bool] = lambda: False,
    ) -> Response:
        """Run one exchange in the calling thread, sleeping where it must wait."""
        with closing(self.exchange(request, log, policy)) as exchange:
            try:
                step: Step = next(exchange)
                while True:
                    step = self._perform(exchange, step, stopped)
            except StopIteration as done:
                response: Response = done.value
                return response

    def _perform(self, exchange: Exchange, step: Step, stopped: Callable[[], bool]) -> Step:
        if not isinstance(step, Send):
            self._sleep(step.seconds, stopped)
            return exchange.send(None)
        try:
            reply = self._send_when_allowed(step, stopped)
        except HttpError as error:
            return exchange.throw(error)
        return exchange.send(reply)

    def send(self, send: Send, allowance: Allowance, waited_ms: int = 0, granted: Moment | None = None) -> Reply | None:
        """Perform one step of an exchange, for a driver that holds its permit and token since `granted`. None, and nothing is
        sent, when the host was closed while the step waited, or what was granted is gone; the exchange then says how to go on."""
        if not self.hosts.admits(send.host):
            return None
        if not self.limiter.confirm(allowance, granted or Moment.now(self.clock)):
            self.hosts.report(send.host, None)  # it was not asked
            return None
        reply = self.wire.send(send, allowance.group, waited_ms)
        self.learn(allowance, reply.head)
        return reply

    def _send_when_allowed(self, send: Send, stopped: Callable[[], bool]) -> Reply | None:
        policy = self.limiter.policy_for(send.host, str(send.role), send.resolver, send.min_interval_s)
        began = granted = Moment.now(self.clock)
        while (wait := self.limiter.enter(policy)) != 0.0:
            self._sleep(_BUSY_POLL_S if wait is None else wait, stopped)
            granted = Moment.now(self.clock)
        try:
            return self.send(send, policy, round((self.clock.monotonic() - began.monotonic) * 1000), granted)
        finally:
            self.limiter.leave(policy)

    def learn(self, allowance: Allowance, head: ResponseHead) -> None:
        """Apply the limits that an answer states. A budget that is used up closes the host for everybody."""
        stated = limits_from_headers(head.headers, self.clock.wall())
        if stated is None:
            return
        self.limiter.learn(allowance, stated)
        if stated.exhausted_for_s is not None:
            until = self.clock.wall() + stated.exhausted_for_s
            self.hosts.close(host_of(head.url), until, str(Reason.RETRY_AFTER))

    def why_unreachable(self, hosts: Sequence[tuple[str, int]], none_left: bool) -> str | None:
        """Why neither the proxy nor any of these hosts can be reached, with the remedy; None when one can."""
        return why_unreachable(self.wire.settings, hosts, none_left)

    def _sleep(self, seconds: float, stopped: Callable[[], bool]) -> None:
        """Sleep in slices, so that a stop is noticed."""
        end = self.clock.monotonic() + seconds
        while (left := end - self.clock.monotonic()) > 0:
            if stopped():
                raise Interrupted("the run is being ended")
            self.clock.sleep(min(left, 0.25))

    def replace_settings(self, settings: HttpSettings, robots: RobotsSettings) -> None:
        """Use these settings for requests that begin from now on."""
        self.wire.settings = self._settings = settings
        self.robots.settings, self.hosts.breaker_settings = robots, settings.breaker
        if self._cache is not None:
            self._cache.ttl = settings.cache_ttl

    def close(self) -> None:
        self.wire.close()
        if self._cache is not None:
            self._cache.close()

    def _wait_before_following(
        self, context: Context, chain: RedirectChain, reply: Reply
    ) -> Generator[Step, Reply | None, None]:
        """A redirect may say how long to wait before its target is requested; that concerns this request alone."""
        now = self.clock.wall()
        if not (asked := parse_retry_after(reply.head.headers.get("retry-after"), now)):
            return
        host = host_of(chain.url)
        if asked > context.retry.max_retry_after_s:
            late = HostClosed(f"the redirect to {host} asks for {asked:.0f} s first", url=chain.url, until=now + asked)
            _log_refusal(context, chain.url, late)
            raise late
        yield Pause(asked, host, Reason.RETRY_AFTER)

    def _send(self, context: Context, chain: RedirectChain, headers: Mapping[str, str], delay: float | None) -> Send:
        request = context.request
        return Send(
            request,
            chain.url,
            host_of(chain.url),
            # keys go to the origin that they belong to, never to where it redirects
            headers={**headers, **request.secret_headers} if chain.own_origin else headers,
            jar=chain.jar,
            secret_params=request.secret_params if chain.own_origin else {},
            max_bytes=request.max_bytes or self._settings.max_page_bytes,
            min_interval_s=delay,
            timeouts=context.timeouts,
        )

    def _visit(self, context: Context, chain: RedirectChain, headers: Mapping[str, str]) -> Visit | None:
        """Not for an exchange that received a cookie on its way: the next answer may be for its bearer alone. A cookie that was
        kept from an earlier visit does not count, or a host with cookies would have no cache at all."""
        if self._cache is None or chain.received_cookie:
            return None
        request = context.request
        secrets = {**request.secret_params, **request.secret_headers} if chain.own_origin else {}
        return self._cache.visit(request, chain.url, headers, secrets, fresh=context.fresh)

    def _fetch(
        self, context: Context, send: Send, visit: Visit | None, unjudged: list[Callable[[], None]]
    ) -> Generator[Step, Reply | None, Reply]:
        """Ask the host, and store its answer in the cache. One on the way to a landing page is stored when the page has been
        judged, so it joins `unjudged`."""
        if visit is None or self._cache is None:
            return (yield from self._retries.send(context, send))
        conditional = replace(send, headers={**send.headers, **visit.conditions})
        reply = yield from self._retries.send(context, conditional)
        confirmed = self._cache.confirmed(visit, reply.head)
        if confirmed is not None:
            return replace(reply, head=confirmed.head, body=confirmed.body, bytes_read=len(confirmed.body))
        if reply.head.status == 304 and visit.conditions:  # it speaks of another answer than the one that we have
            reply = yield from self._retries.send(context, send)
        unjudged.append(partial(self._cache.settle, visit, reply.head, reply.body))
        if send.role is not Role.LANDING:
            _call_all(unjudged)
        return reply


def _call_all(steps: list[Callable[[], None]]) -> None:
    while steps:
        steps.pop(0)()


def _from_cache(context: Context, cached: Answer) -> Reply:
    """A cached answer costs no permit and no token, and sends nothing to the host."""
    head = cached.head
    context.log.write(
        context.request,
        head.url,
        Status.HTTP_GET,
        reason_of_status(head.status),
        headers=head.headers,
        http_status=head.status,
        elapsed_ms=0,
        cache_hit=True,
    )
    return Reply(head, cached.body, None, len(cached.body), 0)


def _log_refusal(context: Context, url: str, refusal: HttpError) -> None:
    robots = isinstance(refusal, RobotsRefused | RobotsUnavailable)
    closed = isinstance(refusal, HostClosed | BreakerOpen)
    status = Status.ROBOTS_DISALLOWED if robots else Status.SKIPPED if closed else Status.DOWNLOAD_ERROR
    context.log.write(context.request, url, status, refusal.reason, verb="ROBOTS" if robots else None)
