"""Published rate limits, counted as the services count them.

Arrivals fall into sliding windows; a window that overflows is a violation, and with enforcement on the request is
answered as the real service answers it. The windows are 5 % shorter than published, to allow for jitter between
sending and arrival.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from .wire import Request, Response, json_response, text

GRACE = 0.95


@dataclass(frozen=True)
class Limit:
    name: str
    hosts: frozenset[str]
    count: int
    seconds: float
    answer: Callable[[Request], Response]
    prefix: str = "/"


def _arxiv(_: Request) -> Response:
    return text("Rate exceeded.", 429, "text/html")


def _ncbi(_: Request) -> Response:
    return json_response({"error": "API rate limit exceeded", "count": "4"}, 429, [("Retry-After", "2")])


def _wayback(_: Request) -> Response:
    return text("<html><head><title>429 Too Many Requests</title></head><body><h1>429 Too Many Requests</h1>"
                "</body></html>", 429, "text/html", [("Retry-After", "60")])  # fmt: skip


def _europe_pmc(_: Request) -> Response:
    return text("Service Unavailable", 503)


def _plain(_: Request) -> Response:
    return text("Too Many Requests", 429)


# The limits of OpenAlex, Crossref, Semantic Scholar, CORE and OpenAIRE depend on key and pool: their handlers ask for
# them by name (see `Windows.check`).
LIMITS: tuple[Limit, ...] = (
    Limit("arxiv", frozenset({"arxiv.org", "export.arxiv.org", "www.arxiv.org"}), 1, 3.0, _arxiv),
    Limit("ncbi", frozenset({"pmc.ncbi.nlm.nih.gov", "www.ncbi.nlm.nih.gov"}), 3, 1.0, _ncbi),
    Limit("europe-pmc", frozenset({"www.ebi.ac.uk"}), 10, 1.0, _europe_pmc),
    Limit("doaj", frozenset({"doaj.org"}), 15, 5.0, _plain, "/api/"),  # 2 a second, 5 at once
    Limit("base", frozenset({"api.base-search.net"}), 1, 1.0, _plain),
    Limit("wayback-cdx", frozenset({"web.archive.org"}), 30, 60.0, _wayback, "/cdx/"),
    Limit("wayback-replay", frozenset({"web.archive.org"}), 600, 60.0, _wayback, "/web/"),
)


class Windows:
    """Sliding windows by name, and the violations counted."""

    def __init__(self, clock: Callable[[], float], enforce: bool = True) -> None:
        self._clock = clock
        self.enforce = enforce
        self._arrivals: dict[str, deque[float]] = {}
        self.violations: deque[dict[str, object]] = deque(maxlen=10_000)
        self._by_host = {host: [lim for lim in LIMITS if host in lim.hosts] for lim in LIMITS for host in lim.hosts}

    def check(self, name: str, count: int, seconds: float, request: Request) -> bool:
        """Count an arrival; return whether it is within the limit."""
        now = self._clock()
        window = self._arrivals.setdefault(name, deque())
        horizon = now - seconds * GRACE
        while window and window[0] <= horizon:
            window.popleft()
        window.append(now)
        if len(window) <= count:
            return True
        seen = {"time": now, "limit": name, "host": request.host, "path": request.path, "seen": len(window)}
        allowed = {"count": count, "seconds": seconds, "user_agent": request.headers.get("user-agent", "")}
        self.violations.append(seen | allowed)
        if self.enforce:
            window.pop()  # refused requests do not count
        return not self.enforce

    def refuse(self, request: Request) -> Response | None:
        """Return the refusal for a host over its limit, or None."""
        for limit in self._by_host.get(request.host, ()):
            if request.path.startswith(limit.prefix) and not self.check(
                limit.name, limit.count, limit.seconds, request
            ):
                return limit.answer(request)
        return None

    def reset(self) -> None:
        self._arrivals.clear()
        self.violations.clear()
