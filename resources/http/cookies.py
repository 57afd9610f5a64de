"""Remember the cookies of each origin for a while, so that a cookie wall is passed once and not for every paper.

Cookies are kept in the memory of one process, for pages and files only: an API needs none, and its answer to a client with a
cookie is for that client alone. A stored jar is never changed, only replaced.
"""

from __future__ import annotations

import threading
from typing import NamedTuple
from urllib.parse import urlsplit

from requests.cookies import RequestsCookieJar

from resources.clock import Clock
from resources.http.canonical import host_of
from resources.http.messages import Request, Role

Jar = RequestsCookieJar

_MOST_HOSTS = 1_000
_MOST_COOKIES = 50  # of one jar, as browsers keep them (RFC 6265, 6.1),
_MOST_LETTERS = 8_000  # and not more than servers take in a header


class Origin(NamedTuple):
    """Cookies know their hosts, but would be sent to every scheme and port of them."""

    host: str
    scheme_port: tuple[str, int | None]


def origin_of(url: str) -> Origin:
    parts = urlsplit(url)
    return Origin(host_of(url), (parts.scheme, parts.port))


def jar_text(jar: Jar) -> str:
    return ";".join(sorted(f"{c.domain}{c.path}{c.name}={c.value}" for c in jar))


class CookieStore:
    """Thread-safe. A jar expires a fixed time after the host first set it, however often it is sent."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[Origin, tuple[float, Jar]] = {}  # until when, by the monotonic clock
        self._lock = threading.Lock()

    def get(self, request: Request, origin: Origin) -> Jar | None:
        if request.role is Role.METADATA:
            return None
        with self._lock:
            until, jar = self._known.get(origin, (0.0, None))
            return jar if self._clock.monotonic() < until else None

    def remember(self, request: Request, origin: Origin, jar: Jar, status: int, seconds: float) -> None:
        """Keep a jar, or drop what is known of the origin: after a request with a key, a refusal, or with too many cookies."""
        if request.role is Role.METADATA:
            return
        now = self._clock.monotonic()
        refused, with_key = status >= 400, bool(request.secret_headers or request.secret_params)
        too_many = len(jar) > _MOST_COOKIES or len(jar_text(jar)) > _MOST_LETTERS
        with self._lock:
            until, _ = self._known.get(origin, (0.0, None))
            if refused or with_key or too_many:
                self._known.pop(origin, None)
            elif len(jar) and seconds:
                while len(self._known) >= _MOST_HOSTS and origin not in self._known:
                    self._known.pop(next(iter(self._known)))
                self._known[origin] = until if now < until else now + seconds, jar.copy()
