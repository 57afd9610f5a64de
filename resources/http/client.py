"""The HTTP client: exchanges for drivers with many of them, and `request_with_retries` for callers that block.

It assembles the parts and owns their lifetime; each part decides for itself.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from resources.clock import Clock, Moment, SystemClock
from resources.http.attempts import AttemptLog
from resources.http.cache import HttpCache
from resources.http.canonical import host_of
from resources.http.errors import HttpError, Interrupted
from resources.http.exchange import Exchange, Reply, RequestPolicy, Send, Step
from resources.http.exchanger import Exchanger
from resources.http.host_state import HostStateCache
from resources.http.messages import Request, Response, ResponseHead
from resources.http.reachability import why_unreachable
from resources.http.robots import RobotsCache
from resources.http.settings import HttpSettings, RobotsSettings
from resources.http.wire import Wire
from resources.rate_limit.limiter import Allowance, Limiter
from resources.rate_limit.server_limits import limits_from_headers
from resources.records import Reason

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
        self._cache = cache
        self._exchanger = Exchanger(settings, self.robots, self.hosts, self.clock, rng or random.Random(), cache)

    def exchange(
        self,
        request: Request,
        log: AttemptLog,
        policy: RequestPolicy | None = None,
        *,
        patient: bool = True,
        fresh: bool = False,
    ) -> Exchange:
        return self._exchanger.exchange(request, log, policy, patient=patient, fresh=fresh)

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
        self.wire.settings = self._exchanger.settings = settings
        self.robots.settings, self.hosts.breaker_settings = robots, settings.breaker
        if self._cache is not None:
            self._cache.ttl = settings.cache_ttl

    def close(self) -> None:
        self.wire.close()
        if self._cache is not None:
            self._cache.close()
