"""Puts one Send on the wire and reads its answer, in the calling thread. The only module that touches a connection.

Connections belong to limit groups: each group has its own adapters, lent to one thread at a time and holding one connection,
so a group with one permit is one connection. Adapters retry nothing and follow nothing. The watchdog knows every socket that is
waited for.
"""

from __future__ import annotations

import http.client
import logging
import re
import socket
import ssl
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote, urlsplit, urlunsplit

import requests
import urllib3
from requests.adapters import DEFAULT_CA_BUNDLE_PATH, HTTPAdapter
from requests.cookies import extract_cookies_to_jar
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.util.ssl_ import create_urllib3_context

from resources.http.coding import decoded
from resources.http.errors import (
    AddressRefused,
    BodyTooLarge,
    BodyTooShort,
    BodyTruncated,
    ConnectionFailed,
    DeadlineExceeded,
    HttpError,
    ProtocolViolation,
    SchemeRefused,
    TlsFailed,
)
from resources.http.exchange import Reply, Send
from resources.http.guard import refuse_private_peer
from resources.http.messages import BodySink, ResponseHead, Unfinished
from resources.http.settings import HttpSettings
from resources.http.watchdog import Watchdog, Watched

_IDLE_ADAPTERS = 256
_MOST_INTERIM = 20
# What the library would leave as it is, at a cost: no letter to quote, no folder to go up from.
_PLAIN_URL = re.compile(
    r"https?://[a-z0-9.-]+(:\d+)?(/(?!\.)[\w.~!$&'()*+,;=:@-]*)+(\?[\w.~!$&'()*+,;=:@/?-]*)?", re.ASCII
)
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_BROKEN_OFF = (ConnectionFailed, DeadlineExceeded, ProtocolViolation, BodyTooShort, BodyTruncated)
_OF_LIBRARIES = (OSError, ValueError, http.client.HTTPException, urllib3.exceptions.HTTPError)

# Its lines name whole URLs, keys and all; what happened is in our own records, without them.
logging.getLogger("urllib3").setLevel(logging.CRITICAL)


class Wire:
    """Thread-safe. `close()` ends all connections."""

    def __init__(self, settings: HttpSettings, chunk_bytes: int = 262_144) -> None:
        self.settings, self.chunk_bytes = settings, chunk_bytes
        self.watchdog = Watchdog()
        self.pools = _pool_classes(self)
        self._tls: tuple[tuple[bool, Path | None], ssl.SSLContext] | None = None
        self._idle: dict[str, deque[HTTPAdapter]] = {}  # by group, the one used longest ago first
        self._idle_count = 0
        self._closed = False
        self._lock = threading.Lock()

    def send(self, send: Send, group: str, waited_ms: int = 0) -> Reply:
        """One request, one answer, no repetition. Raises an HttpError when no whole answer came."""
        started = time.monotonic()
        prepared = _prepare(send)
        deadline = started + self.settings.deadline_s
        with self._adapter(group) as adapter, Watched(self.watchdog, send.url, deadline) as watched:
            try:
                with _TranslatedErrors(watched):
                    answer: Any = adapter.send(prepared, timeout=self._timeouts(send), proxies=self._proxies())
            except HttpError as error:
                error.unfinished = send.unfinished  # nobody answered, so it is worth as much as before
                raise
            try:
                if "set-cookie" in answer.headers:
                    extract_cookies_to_jar(send.jar, prepared, answer)  # type: ignore[no-untyped-call]
                head = ResponseHead(answer.status, send.url, {k.lower(): v for k, v in answer.headers.items()})
                reply = _read(send, head, _Body(answer, self.chunk_bytes, watched))
            finally:
                _give_back(answer)
        return replace(reply, elapsed_ms=round((time.monotonic() - started) * 1000), waited_ms=waited_ms)

    def interrupt(self, reason: str = "the run is being ended") -> None:
        """Cut every request in flight; their sends raise Interrupted."""
        self.watchdog.cut_all(reason)

    def close(self) -> None:
        self.watchdog.close()
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, {}
        for adapters in idle.values():
            for adapter in adapters:
                adapter.close()

    @contextmanager
    def _adapter(self, group: str) -> Iterator[HTTPAdapter]:
        adapter = self._take_idle(group) or _Adapter(self)
        try:
            yield adapter
        finally:
            for superfluous in self._put_idle(group, adapter):
                superfluous.close()

    def _take_idle(self, group: str) -> HTTPAdapter | None:
        with self._lock:
            adapters = self._idle.get(group)
            if not adapters:
                return None
            self._idle_count -= 1
            return adapters.pop()

    def _put_idle(self, group: str, adapter: HTTPAdapter) -> list[HTTPAdapter]:
        """Keep the adapter for the next request of its group; returns those that are to be closed for it."""
        with self._lock:
            if self._closed:
                return [adapter]
            adapters = self._idle.pop(group, None) or deque()
            adapters.append(adapter)
            self._idle[group] = adapters
            self._idle_count += 1
            dropped = []
            while self._idle_count > _IDLE_ADAPTERS:
                oldest = next(iter(self._idle))
                if self._idle[oldest]:
                    dropped.append(self._idle[oldest].popleft())
                    self._idle_count -= 1
                if not self._idle[oldest]:
                    del self._idle[oldest]
            return dropped

    def _timeouts(self, send: Send) -> tuple[float, float]:
        settings = self.settings
        connect, read = send.timeouts or (
            settings.timeout or settings.timeout_connect_s,
            settings.timeout or settings.timeout_read_s,
        )
        return min(connect, settings.deadline_s), min(read, settings.deadline_s)

    def tls(self) -> ssl.SSLContext:
        """One for all connections: reading the authorities costs 20 ms and a megabyte."""
        trusted = (self.settings.verify_tls, self.settings.ca_bundle)
        with self._lock:
            if self._tls is None or self._tls[0] != trusted:
                self._tls = trusted, _tls_context(*trusted)
            return self._tls[1]

    def _proxies(self) -> dict[str, str]:
        return {"http": self.settings.proxy, "https": self.settings.proxy} if self.settings.proxy else {}


# -- connections ------------------------------------------------------------------------------------------------------


class _Adapter(HTTPAdapter):
    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._last: tuple[tuple[str, HttpSettings], Any] | None = None
        super().__init__(pool_connections=1, pool_maxsize=1, max_retries=0)

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        super().init_poolmanager(*args, **options)
        self.poolmanager.pool_classes_by_scheme = self._wire.pools

    def proxy_manager_for(self, *args: Any, **options: Any) -> Any:
        manager = super().proxy_manager_for(*args, **options)
        manager.pool_classes_by_scheme = self._wire.pools
        return manager

    def get_connection_with_tls_context(self, request: Any, *args: Any, **options: Any) -> Any:
        """The pool of the last request when it is for the same place; finding it anew costs a tenth of a small file."""
        place = request.url[: request.url.find("/", len("https://"))], self._wire.settings
        if self._last is None or self._last[0] != place:
            self._last = place, super().get_connection_with_tls_context(request, *args, **options)
        return self._last[1]

    def request_url(self, request: Any, proxies: Any) -> str:
        """What to ask for: behind a proxy the library knows, otherwise it is all that follows the host."""
        url: str = request.url
        return super().request_url(request, proxies) if proxies else url[url.find("/", len("https://")) :]

    def build_connection_pool_key_attributes(self, request: Any, verify: Any, cert: Any = None) -> Any:
        parts = urlsplit(request.url)
        place = {"scheme": parts.scheme, "host": parts.hostname, "port": parts.port}
        return place, {"ssl_context": self._wire.tls()} if parts.scheme == "https" else {}

    def cert_verify(self, *_: Any) -> None:
        """The context knows whom to trust; told again, it would read the authorities for each connection."""

    def build_response(self, _: Any, resp: Any) -> Any:
        """The answer of urllib3 as it is: the bytes are read from it, and nothing else of the wrapping is used."""
        return resp


def _tls_context(verify: bool, ca_bundle: Path | None) -> ssl.SSLContext:
    context = create_urllib3_context()
    if not verify:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context
    trusted = ca_bundle or Path(DEFAULT_CA_BUNDLE_PATH)
    context.load_verify_locations(**{"capath" if trusted.is_dir() else "cafile": str(trusted)})
    return context


class _Answer(http.client.HTTPResponse):
    """CookieStore over every interim answer (1xx); the standard library does so with one kind only, and without end."""

    _interim = 0

    def _read_status(self) -> tuple[str, int, str]:
        version, status, reason = super()._read_status()  # type: ignore[misc]
        if 100 <= status < 200:
            self._interim += 1
            if status == http.HTTPStatus.SWITCHING_PROTOCOLS or self._interim > _MOST_INTERIM:
                raise http.client.HTTPException("interim answers, and no end of them")
            status = http.HTTPStatus.CONTINUE
        return version, status, reason


class _Connection(HTTPConnection):
    """Shows every address to the guard before it is dialled, and its socket to the watchdog before anything is waited for."""

    wire: ClassVar[Wire]
    response_class = _Answer
    _handle: socket.socket | None = None

    def connect(self) -> None:
        try:
            super().connect()
        finally:
            if self._handle is not None:
                self._handle.close()
            self.wire.watchdog.uses(None)

    def _new_conn(self) -> socket.socket:
        """The name is looked up once; what it leads to is judged before it is dialled, so rebinding changes nothing."""
        failure: Exception | None = None
        for family, *_, address in socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM):
            try:
                if self.proxy is None:
                    refuse_private_peer(self.host, str(address[0]), self.wire.settings)
                return self._dialled(family, address)
            except AddressRefused as refused:
                failure = failure or refused
            except OSError as error:
                failure = error
        raise failure or OSError("the name leads nowhere")

    def _dialled(self, family: socket.AddressFamily, address: Any) -> socket.socket:
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            for option in self.socket_options or ():
                sock.setsockopt(*option)
            left = self.wire.watchdog.time_left()
            sock.settimeout(min(self.timeout or left, left))
            # A second handle, because TLS takes the first one away for as long as its handshake lasts.
            self._handle = sock.dup()
            self.wire.watchdog.uses(self._handle)
            sock.connect(address)
        except BaseException:
            for opened in (sock, self._handle):
                if opened is not None:
                    opened.close()
            raise
        return sock

    def getresponse(self) -> Any:
        self.wire.watchdog.uses(self.sock)
        return super().getresponse()


def _pool_classes(wire: Wire) -> dict[str, Any]:
    """The connection pools of one wire, which know it."""
    plain = type("Plain", (_Connection,), {"wire": wire})
    secure = type("Secure", (_Connection, HTTPSConnection), {"wire": wire})
    return {
        "http": type("PlainPool", (urllib3.HTTPConnectionPool,), {"ConnectionCls": plain}),
        "https": type("SecurePool", (urllib3.HTTPSConnectionPool,), {"ConnectionCls": secure}),
    }


def _give_back(answer: Any) -> None:
    """An answer that was not read to its end must not be followed by another one on the same connection."""
    if not answer.isclosed():
        answer.close()
    answer.release_conn()


# -- requests and answers ---------------------------------------------------------------------------------------------


def _prepare(send: Send) -> requests.PreparedRequest:
    """SchemeRefused for what cannot be put on the wire, such as a line break in a header."""
    prepared = requests.PreparedRequest()
    try:
        for value in send.headers.values():
            if _CONTROL.search(value):
                raise ValueError("control characters")
            value.encode("latin-1")
        prepared.prepare_method(send.verb)
        prepared.url = _with_params(send.url, send.secret_params)
        if not _PLAIN_URL.fullmatch(prepared.url):
            prepared.prepare_url(prepared.url, {})
        length = {} if send.body is None else {"Content-Length": str(len(send.body))}
        prepared.prepare_headers({**send.headers, **length})
        if any(True for _ in send.jar):
            prepared.prepare_cookies(send.jar)
    except (requests.RequestException, ValueError) as error:
        raise SchemeRefused(f"cannot be requested: {type(error).__name__}", url=send.url) from None
    prepared.body = send.body
    return prepared


def _with_params(url: str, params: Any) -> str:
    if not params:
        return url
    parts = urlsplit(url)
    extra = "&".join(f"{quote(k, safe='')}={quote(v, safe='')}" for k, v in params.items())
    return urlunsplit(parts._replace(query=f"{parts.query}&{extra}" if parts.query else extra))


class _Body:
    """The decoded body in pieces; what goes wrong with the connection is told in our own errors. `as_sent`: the pieces are the
    very bytes that came, so that a place in one is a place in the other."""

    def __init__(self, raw: Any, size: int, watched: Watched) -> None:
        self._raw, self._size, self._watched = raw, size, watched
        self.as_sent = True

    def __iter__(self) -> Iterator[bytes]:
        return self._checked(lambda: decoded(self._looked_at(), self._raw.headers.get("content-encoding", "")))

    def rest(self) -> Iterator[bytes]:
        """Of a body that began earlier: its first bytes are in the middle of something."""
        return self._checked(lambda: self._raw.stream(self._size, decode_content=False))

    def _looked_at(self) -> Iterator[bytes]:
        pieces = self._raw.stream(self._size, decode_content=False)
        for number, piece in enumerate(pieces):
            self.as_sent = self.as_sent and not (number == 0 and piece.startswith(b"\x1f"))
            yield piece

    def _checked(self, pieces: Callable[[], Iterable[bytes]]) -> Iterator[bytes]:
        with _TranslatedErrors(self._watched):
            for piece in pieces():
                self._watched.check()
                yield piece
            self._watched.check()


def _read(send: Send, head: ResponseHead, body: _Body) -> Reply:
    begun = send.unfinished
    if begun is not None and begun.is_continued_by(head):
        return _into(begun.sink, begun.head, body.rest(), body, begun.size, begun.whole_size(head))
    if begun is not None and head.status in (206, 416):
        raise BodyTruncated("the rest does not fit the beginning", url=send.url)
    if begun is not None and 200 <= head.status < 300:
        begun.sink.abort()  # it has changed, and comes whole
    sink = send.sink_for(head)
    if sink is not None:
        return _into(sink, head, body, body, 0)
    page = _page(send, body)
    return Reply(head, page, None, len(page), 0)


def _into(
    sink: BodySink, head: ResponseHead, pieces: Iterable[bytes], body: _Body, size: int, wanted: int | None = None
) -> Reply:
    """A body that breaks off, and whose rest can be asked for, leaves with the error; otherwise nothing is left of it.
    `wanted` is its size where its pieces come one by one, and their own lengths do not tell."""
    went_on_at = size
    try:
        for piece in pieces:
            sink.write(piece)
            size += len(piece)
        if wanted is not None and size != wanted:
            raise BodyTooShort(f"the rest ended at {size} of {wanted} bytes", url=head.url)
        return Reply(head, b"", sink.finish(), size, 0, went_on_at=went_on_at)
    except _BROKEN_OFF as error:
        error.unfinished = Unfinished.of(head, sink, size) if body.as_sent else None
        if error.unfinished is None:
            sink.abort()
        raise
    except BaseException:
        sink.abort()
        raise


def _page(send: Send, chunks: Iterable[bytes]) -> bytes:
    body = bytearray()
    for chunk in chunks:
        body += chunk
        if len(body) > send.max_bytes:
            if send.beginning_only:
                break
            raise BodyTooLarge(f"the answer is larger than {send.max_bytes} bytes", url=send.url)
    return bytes(body[: send.max_bytes])


class _TranslatedErrors:
    """Errors of the libraries as our own tree. An error of a socket that we shut ourselves is named by why we did."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched

    def __enter__(self) -> None:
        self._outer = sys.exception()

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if not isinstance(error, Exception):
            return
        self._watched.check()
        if isinstance(error, HttpError):
            error.url = error.url or self._watched.url
        elif isinstance(error, _OF_LIBRARIES):
            raise _translated(list(_causes(error, self._outer)), self._watched.url) from error


def _translated(causes: list[BaseException], url: str) -> HttpError:
    said = type(causes[-1]).__name__  # the text of an error may hold what is not to be shown

    def any_is(*kinds: type[BaseException]) -> bool:
        return any(isinstance(cause, kinds) for cause in causes)

    if any_is(TimeoutError):  # not urllib3's own, of which a refused connection is one
        return DeadlineExceeded(f"no answer in time: {said}", url=url)
    if any_is(ssl.SSLEOFError, ssl.SSLZeroReturnError):
        return ConnectionFailed(f"connection closed: {said}", url=url)
    if any_is(ssl.SSLError, urllib3.exceptions.SSLError, requests.exceptions.SSLError):
        return TlsFailed(f"TLS failed: {said}", url=url)
    if any_is(urllib3.exceptions.IncompleteRead):
        return BodyTooShort("the body is shorter than its Content-Length", url=url)
    if any_is(ConnectionError):
        return ConnectionFailed(f"connection failed: {said}", url=url)
    if any_is(http.client.IncompleteRead) or isinstance(causes[0], urllib3.exceptions.ProtocolError):
        return BodyTruncated(f"the body ended early: {said}", url=url)
    if any_is(http.client.HTTPException, requests.exceptions.InvalidHeader, ValueError):
        return ProtocolViolation(f"the answer cannot be understood: {said}", url=url)
    return ConnectionFailed(f"connection failed: {said}", url=url)


def _causes(error: BaseException, outer: BaseException | None) -> Iterator[BaseException]:
    """The error, what it was made of, and so on, up to what was being handled before."""
    found: BaseException | None = error
    while found is not None and found is not outer:
        yield found
        found = found.__cause__ or found.__context__
