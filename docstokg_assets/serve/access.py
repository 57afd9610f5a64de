"""Who may call the server: Host and Origin checks, tokens, sessions of browsers, and a limit for each caller. Without I/O."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import urlsplit

from docstokg_assets.config.serve import ServeSettings

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
OPEN_PATHS = frozenset({"/healthz", "/login"})  # need no token; so do the files of the pages
SESSION_COOKIE, VISIT_COOKIE = "content_session", "content_visit"
_SESSION_S = 12 * 3600
_MAX_CALLERS = 10_000
_FAILURES_PER_MINUTE = 10  # wrong tokens of one address
_FORWARDED = ("x-forwarded-for", "forwarded", "x-real-ip")
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


class Refused(Exception):
    """The call is refused, with the HTTP status and what to do about it."""

    def __init__(self, status: HTTPStatus, detail: str, retry_after_s: int | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.retry_after_s = status, detail, retry_after_s


@dataclass(frozen=True, slots=True)
class Call:
    """What is known of an HTTP request before its body is read. Header names are lower-case."""

    peer: str
    method: str
    path: str
    headers: Mapping[str, str]
    cookies: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Caller:
    """`name` identifies the caller for limits: its token, or its address."""

    name: str
    address: str
    https: bool = False


class RateLimiter:
    """A bucket of calls for each caller, refilled evenly. Remembers the callers of late, not all that ever were."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._most, self._clock = per_minute / 60, float(max(1, per_minute)), clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def wait_s(self, caller: str, *, take: bool = True) -> float:
        """Take one call; 0 when it may go, else the seconds until the next one may. `take=False` only looks."""
        with self._lock:
            now = self._clock()
            left, at = self._buckets.pop(caller, (self._most, now))
            left = min(self._most, left + (now - at) * self._rate)
            waits = 0.0 if left >= 1 else (1 - left) / self._rate
            self._buckets[caller] = left - 1 if take and not waits else left, now
            if len(self._buckets) > _MAX_CALLERS:
                self._buckets.popitem(last=False)
            return waits


class Access:
    """The rules of one server, for HTTP and gRPC alike. Safe for use by several threads."""

    def __init__(self, settings: ServeSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self.settings = settings
        self._tokens = tuple(_digest(token.get_secret_value()) for token in settings.tokens)
        self._proxies = tuple(ipaddress.ip_network(each) for each in settings.trusted_proxies)
        self._names = {name.lower() for name in settings.hostnames} | {settings.host.lower()}
        if settings.is_loopback:
            self._names |= LOOPBACK_NAMES
        self._secret = secrets.token_bytes(32)  # sessions end with the process
        self._calls = RateLimiter(settings.requests_per_minute, clock)
        self._failures = RateLimiter(_FAILURES_PER_MINUTE, clock)

    @property
    def needs_token(self) -> bool:
        return bool(self._tokens)

    def admit(self, call: Call) -> Caller:
        """The caller of an HTTP request; Refused says why not."""
        caller = self._caller(call)
        if call.path == "/healthz":
            return caller
        self._check_host(call)
        self._check_origin(call)
        if call.path in OPEN_PATHS or call.path.startswith("/static/"):
            return caller
        if self._tokens:
            caller = self._identified(call, caller)
            self.count(caller.name)
        return caller

    def admit_grpc(self, peer: str, authorization: str) -> Caller:
        """The caller of a gRPC call, by its address and the metadata `authorization`; Refused says why not."""
        if not self.peer_may_connect(peer):
            raise Refused(HTTPStatus.FORBIDDEN, "Only the proxies in serve.trusted_proxies may connect.")
        if not self._tokens:
            return Caller(peer, peer)
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise Refused(HTTPStatus.UNAUTHORIZED, "A token is needed: send the metadata authorization: Bearer TOKEN.")
        caller = Caller(self.caller_of_token(token.strip(), peer), peer)
        self.count(caller.name)
        return caller

    def count(self, name: str) -> None:
        """Refused when this caller has used up its calls."""
        if waits := self._calls.wait_s(name) if self._tokens else 0.0:
            seconds = max(1, round(waits + 0.5))
            most = f"{self.settings.requests_per_minute:,} requests a minute are allowed (serve.requests_per_minute)"
            raise Refused(
                HTTPStatus.TOO_MANY_REQUESTS, f"Too many requests: {most}. Try again in {seconds} s.", seconds
            )

    def peer_may_connect(self, peer: str) -> bool:
        """Behind declared proxies without TLS of its own, only they may connect."""
        return not self._proxies or self.settings.tls_cert is not None or self._is_proxy(peer) or _is_loopback(peer)

    # -- tokens and sessions ------------------------------------------------------------------------------------------

    def caller_of_token(self, token: str, address: str) -> str:
        """The name of the caller who has this token; Refused for a wrong one. Compares in constant time."""
        if waits := self._failures.wait_s(address, take=False):
            seconds = max(1, round(waits + 0.5))
            raise Refused(HTTPStatus.TOO_MANY_REQUESTS, f"Too many wrong tokens. Try again in {seconds} s.", seconds)
        given, found = _digest(token), b""
        for known in self._tokens:
            if hmac.compare_digest(given, known):
                found = known
        if not found:
            self._failures.wait_s(address)
            raise Refused(HTTPStatus.UNAUTHORIZED, "The token is wrong; use one of serve.tokens.")
        return found.hex()[:16]

    def new_session(self, token: str, address: str) -> str:
        """The cookie of a browser whose user gave this token."""
        self.caller_of_token(token, address)
        until = str(int(time.time()) + _SESSION_S)
        return f"{until}.{self._mac('session', until, _digest(token).hex())}"

    def csrf_token(self, visit: str) -> str:
        """What forms carry, so that a POST can only come from a page of ours. `visit` is the cookie of the same browser."""
        return self._mac("csrf", visit)

    def check_csrf(self, visit: str, given: str) -> None:
        if not visit or not hmac.compare_digest(self.csrf_token(visit).encode(), given.encode()):
            raise Refused(HTTPStatus.FORBIDDEN, "This form is out of date. Reload the page and send it again.")

    def _identified(self, call: Call, caller: Caller) -> Caller:
        scheme, _, token = call.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and token:
            return Caller(self.caller_of_token(token.strip(), caller.address), caller.address, caller.https)
        if name := self._caller_of_session(call.cookies.get(SESSION_COOKIE, "")):
            return Caller(name, caller.address, caller.https)
        raise Refused(HTTPStatus.UNAUTHORIZED, "A token is needed: send the header Authorization: Bearer TOKEN.")

    def _caller_of_session(self, session: str) -> str | None:
        until, _, mac = session.partition(".")
        found = b""
        for known in self._tokens:
            if hmac.compare_digest(self._mac("session", until, known.hex()).encode(), mac.encode()):
                found = known
        return found.hex()[:16] if found and until.isdecimal() and int(until) > time.time() else None

    def _mac(self, *parts: str) -> str:
        return hmac.new(self._secret, "\n".join(parts).encode(), hashlib.sha256).hexdigest()

    # -- where the call comes from ------------------------------------------------------------------------------------

    def _caller(self, call: Call) -> Caller:
        forwarded = [name for name in _FORWARDED if name in call.headers]
        if self._proxies and self._is_proxy(call.peer):
            address = self._forwarded_for(call.headers.get("x-forwarded-for", "")) or call.peer
            return Caller(address, address, call.headers.get("x-forwarded-proto", "https").lower() == "https")
        if not self.peer_may_connect(call.peer):
            raise Refused(HTTPStatus.FORBIDDEN, "Only the proxies in serve.trusted_proxies may connect.")
        if forwarded and not self.needs_token:
            remedy = "Declare it in serve.trusted_proxies, and set serve.tokens and serve.hostnames."
            raise Refused(HTTPStatus.FORBIDDEN, f"The request came through a proxy ({forwarded[0]}). {remedy}")
        return Caller(call.peer, call.peer, self.settings.tls_cert is not None)

    def _forwarded_for(self, header: str) -> str | None:
        """The last address that none of our proxies has."""
        for part in reversed(header.split(",")):
            address = part.strip().strip("[]")
            if _address(address) is None:
                return None
            if not self._is_proxy(address):
                return address
        return None

    def _is_proxy(self, peer: str) -> bool:
        address = _address(peer)
        return address is not None and any(address in network for network in self._proxies)

    def _check_host(self, call: Call) -> None:
        """A page of another site can make a browser send requests here under its own name (DNS rebinding)."""
        if _host_of(call.headers.get("host", "")) not in self._names:
            remedy = "add the name to serve.hostnames"
            raise Refused(HTTPStatus.MISDIRECTED_REQUEST, f"This server does not answer for this host name; {remedy}.")

    def _check_origin(self, call: Call) -> None:
        site, origin = call.headers.get("sec-fetch-site"), call.headers.get("origin")
        foreign = site in ("cross-site", "same-site")
        if call.method in _SAFE:
            foreign = foreign and call.headers.get("sec-fetch-mode") != "navigate"
        elif origin is not None:
            foreign = foreign or urlsplit(origin).netloc.lower() != call.headers.get("host", "").lower()
        if foreign:
            raise Refused(HTTPStatus.FORBIDDEN, "Requests from pages of other sites are refused.")


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def _host_of(header: str) -> str | None:
    try:
        return urlsplit(f"//{header}").hostname
    except ValueError:
        return None


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _is_loopback(peer: str) -> bool:
    address = _address(peer)
    return address is not None and address.is_loopback
