"""The hops of one exchange: loop detection, and what may be shown to each host on the way (cookies, keys)."""

from __future__ import annotations

from contextlib import suppress
from urllib.parse import urljoin

from resources.http.cookies import CookieStore, Jar, Origin, jar_text, origin_of
from resources.http.errors import RedirectLoop
from resources.http.exchange import Reply
from resources.http.messages import REDIRECTS, Request


class RedirectChain:
    """`url` is the current hop and `hops` the ones before it. `own_origin`: no redirect has led to another origin yet, so that
    the request's keys may be sent. `received_cookie`: a host has set a cookie on the way."""

    def __init__(self, request: Request, cookies: CookieStore) -> None:
        self.url = request.url
        self.hops: list[str] = []
        self.jar = Jar()
        self.own_origin = True
        self.received_cookie = False
        self._request, self._cookies = request, cookies
        self._origin: Origin | None = None
        self._seen: set[tuple[str, str]] = set()

    def arrive(self, url: str, max_redirects: int) -> None:
        """Make `url`, which the guard has passed, the current hop. RedirectLoop when it was here before with the same cookies."""
        self.url = url
        before, here = self._origin, origin_of(url)
        # once redirected elsewhere, the way back is another host's choice too
        self.own_origin = self.own_origin and before in (None, here)
        if before is not None and before.scheme_port != here.scheme_port:
            self.jar = Jar()
        if before != here and (known := self._cookies.get(self._request, here)) is not None:
            self.jar.update(known)
        self._origin = here
        state = (url, jar_text(self.jar))
        if state in self._seen or len(self.hops) > max_redirects:
            raise RedirectLoop(f"redirected in a circle or more than {max_redirects} times", url=url)
        self._seen.add(state)

    def follow(self, reply: Reply) -> bool:
        """Whether the reply redirects; then `url` is the target."""
        self.received_cookie = self.received_cookie or "set-cookie" in reply.head.headers
        target = reply.head.headers.get("location")
        if not (self._request.follow_redirects and reply.head.status in REDIRECTS and target):
            return False
        self.hops.append(self.url)
        self.url = _join(self.url, target)
        return True

    def keep_cookies(self, status: int, seconds: float) -> None:
        """Remember the cookies of the last hop for later requests to its origin."""
        assert self._origin is not None
        self._cookies.remember(self._request, self._origin, self.jar, status, seconds)


def _join(url: str, target: str) -> str:
    """The URL of a Location header. Servers send UTF-8 there, and the HTTP library reads Latin-1."""
    with suppress(UnicodeError):
        target = target.encode("latin-1").decode("utf-8")
    try:
        return urljoin(url, target)
    except ValueError:
        return target  # the guard says what is wrong with it
