"""robots.txt: fetch it once per site for all processes, keep it, and check URLs against it (RFC 9309)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from protego import Protego

from resources.clock import Clock
from resources.http import errors
from resources.http.attempts import AttemptLog
from resources.http.canonical import authority_of, host_of
from resources.http.exchange import Context, Exchange, Pause, Reply, RequestPolicy, Step
from resources.http.headers import robots_token
from resources.http.messages import Request, Role
from resources.http.settings import HttpSettings, RobotsSettings
from resources.records import AttemptRecord, Reason, Status

if TYPE_CHECKING:
    from resources.catalog.catalog import Catalog

MAX_ROBOTS_BYTES = 500 * 1024
UNAVAILABLE_FOR_S = 600.0
_MAX_CHARACTERS = 2_000_000  # of all robots.txt in memory; parsed they take twenty times as much
_MIN_WEIGHT = 500  # of a site in memory; one without a robots.txt takes some space too
_LONGEST_CRAWL_DELAY_S = 86_400.0  # by then robots.txt is fetched again
_POLL_S = 0.1


@dataclass(frozen=True)
class RobotsRules:
    """robots.txt of one site by RFC 9309: a 4xx allows all; a 5xx or no answer forbids all for now. So do the 4xx that speak
    of the moment (408, 429)."""

    parser: Protego | None
    available: bool
    expires: float  # wall time
    weight: int = _MIN_WEIGHT

    @classmethod
    def parse(cls, status: int | None, body: str, fetched_at: float, ttl_s: float) -> RobotsRules:
        if status is None or status >= 500 or status in (408, 429):
            return cls(None, False, fetched_at + UNAVAILABLE_FOR_S)
        text = body if 200 <= status < 300 else ""
        return cls(Protego.parse(text), True, fetched_at + ttl_s, len(text) + _MIN_WEIGHT)

    def allows(self, url: str, agent: str) -> bool:
        return self.parser is not None and bool(self.parser.can_fetch(url, agent))

    def crawl_delay(self, agent: str) -> float | None:
        delay = self.parser.crawl_delay(agent) if self.parser is not None else None
        return min(float(delay), _LONGEST_CRAWL_DELAY_S) if delay else None


class RobotsCache:
    """The rules of many sites in memory, over the rows that all processes share. Thread-safe."""

    def __init__(self, catalog: Catalog, clock: Clock, settings: RobotsSettings) -> None:
        self._catalog, self._clock, self.settings = catalog, clock, settings
        self._rules: dict[str, RobotsRules] = {}
        self._weight = 0
        self._fetching: set[str] = set()
        self._lock = threading.Lock()

    def rules(self, site: str) -> RobotsRules | None:
        """The rules in force, or None when robots.txt must be fetched first."""
        now = self._clock.wall()
        known = self._rules.get(site)
        if known is None or known.expires <= now:
            row = self._catalog.robots(site)
            if row is None:
                return None
            known = self._keep(site, RobotsRules.parse(row.status, row.body, row.fetched_at, self.settings.ttl_seconds))
        return known if known.expires > now else None

    def save(self, site: str, status: int | None, body: str) -> RobotsRules:
        self._catalog.save_robots(site, status, body)
        return self._keep(site, RobotsRules.parse(status, body, self._clock.wall(), self.settings.ttl_seconds))

    def begin_fetch(self, site: str) -> bool:
        """True for the one caller that must fetch robots.txt; the others look again a little later."""
        with self._lock:
            if site in self._fetching:
                return False
            self._fetching.add(site)
            return True

    def end_fetch(self, site: str) -> None:
        with self._lock:
            self._fetching.discard(site)

    def _keep(self, site: str, rules: RobotsRules) -> RobotsRules:
        with self._lock:
            before = self._rules.pop(site, None)
            self._rules[site] = rules
            self._weight += rules.weight - (before.weight if before is not None else 0)
            while self._weight > _MAX_CHARACTERS and len(self._rules) > 1:
                self._weight -= self._rules.pop(next(iter(self._rules))).weight
        return rules


def check_robots(
    cache: RobotsCache, context: Context, url: str, http: HttpSettings, exchange: Callable[..., Exchange]
) -> Generator[Step, Reply | None, float | None]:
    """The crawl delay, if any; RobotsRefused or RobotsUnavailable when the URL may not be fetched. `exchange` makes the exchange
    that fetches robots.txt where nobody has yet."""
    request = context.request
    if not cache.settings.enabled or not request.obey_robots or request.role is Role.METADATA:
        return None
    site = authority_of(url)
    while (rules := cache.rules(site)) is None:
        if cache.begin_fetch(site):
            try:
                # another thread may have finished fetching it since we looked
                rules = cache.rules(site) or (yield from _fetch(cache, context, url, http, exchange))
            finally:
                cache.end_fetch(site)
        else:
            yield Pause(_POLL_S, host_of(url), Reason.ROBOTS)
    agent = robots_token(http)
    if not rules.available:
        raise errors.RobotsUnavailable(
            f"robots.txt of {site} cannot be read at the moment", url=url, until=rules.expires
        )
    if not rules.allows(url, agent):
        raise errors.RobotsRefused(f"robots.txt of {site} forbids this URL", url=url)
    return rules.crawl_delay(agent)


def _fetch(
    cache: RobotsCache, context: Context, url: str, http: HttpSettings, exchange: Callable[..., Exchange]
) -> Generator[Step, Reply | None, RobotsRules]:
    request = Request(
        urljoin(url, "/robots.txt"),
        Role.LANDING,
        headers={"Accept": "text/plain, */*;q=0.1"},
        obey_robots=False,
        max_bytes=MAX_ROBOTS_BYTES,
        beginning_only=True,
        resolver="robots",
    )
    retry = http.retry.model_copy(update={"max_attempts": min(2, http.retry.max_attempts)})
    status: int | None = None
    body = b""
    try:
        log, policy = _robots_log(context.log), RequestPolicy(retry=retry)
        response = yield from exchange(request, log, policy, patient=context.patient)
        status, body = response.status, response.body
    except errors.RedirectLoop:
        status = 404  # RFC 9309: more than five redirects may be taken as unavailable, which allows
    except (errors.HostClosed, errors.BreakerOpen, errors.Interrupted):
        raise  # says nothing about robots.txt
    except errors.HttpError:
        pass
    if len(body) >= MAX_ROBOTS_BYTES:
        body = body[: body.rfind(b"\n") + 1]  # half a rule may forbid more than the whole
    return cache.save(authority_of(url), status, body.decode("utf-8-sig", "replace"))


def _robots_log(log: AttemptLog) -> AttemptLog:
    def emit(record: AttemptRecord) -> None:
        answered = record.status is Status.HTTP_GET
        log.emit(replace(record, verb="ROBOTS", status=Status.ROBOTS_FETCH if answered else record.status))

    return replace(log, emit=emit)
