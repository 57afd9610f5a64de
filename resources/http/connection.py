"""Connections: the adapter of a limit group, TLS, and sockets that the guard and the watchdog have seen.

Built on requests and urllib3. `refuse_private_peer` of `guard.py` checks every address here, before it is dialled.
"""

from __future__ import annotations

import errno
import http.client
import io
import socket
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

import urllib3
from requests.adapters import DEFAULT_CA_BUNDLE_PATH, HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.util.ssl_ import create_urllib3_context

from resources.http.errors import AddressRefused, NetworkDown
from resources.http.guard import refuse_private_peer
from resources.http.settings import HttpSettings
from resources.http.watchdog import Watched

if TYPE_CHECKING:
    from resources.http.wire import Wire

_MAX_INTERIM = 20


class GroupAdapter(HTTPAdapter):
    """Holds one connection, retries nothing, and skips the work of requests that is not needed."""

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
        """Reuse the pool of the last request to the same host; finding it anew costs a tenth of a small file."""
        place = request.url[: request.url.find("/", len("https://"))], self._wire.settings
        if self._last is None or self._last[0] != place:
            self._last = place, super().get_connection_with_tls_context(request, *args, **options)
        return self._last[1]

    def request_url(self, request: Any, proxies: Any) -> str:
        """The request target: behind a proxy as the library makes it, otherwise all that follows the host."""
        url: str = request.url
        return super().request_url(request, proxies) if proxies else url[url.find("/", len("https://")) :]

    def build_connection_pool_key_attributes(self, request: Any, verify: Any, cert: Any = None) -> Any:
        parts = urlsplit(request.url)
        place = {"scheme": parts.scheme, "host": parts.hostname, "port": parts.port}
        return place, {"ssl_context": self._wire.tls()} if parts.scheme == "https" else {}

    def cert_verify(self, *_: Any) -> None:
        """Nothing to do: the TLS context has the authorities; the library would read them again for each connection."""

    def build_response(self, _: Any, resp: Any) -> Any:
        """The urllib3 response itself: its bytes are read directly, and nothing of the requests wrapper is used."""
        return resp


def tls_context(verify: bool, ca_bundle: Path | None) -> ssl.SSLContext:
    context = create_urllib3_context()
    if not verify:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context
    trusted = ca_bundle or Path(DEFAULT_CA_BUNDLE_PATH)
    context.load_verify_locations(**{"capath" if trusted.is_dir() else "cafile": str(trusted)})
    return context


class _CountedBytes(io.RawIOBase):
    """The bytes of a socket, counted for the request that waits for them."""

    def __init__(self, raw: Any, watched: Watched) -> None:
        self._raw, self._watched = raw, watched

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        count: int | None = self._raw.readinto(buffer)
        self._watched.received += count or 0
        return count

    def fileno(self) -> int:
        number: int = self._raw.fileno()
        return number

    def close(self) -> None:
        try:
            self._raw.close()
        finally:
            super().close()


class _Response(http.client.HTTPResponse):
    """Count what comes. Skip all interim answers (1xx), up to a limit; the standard library skips only 100, and without end."""

    wire: ClassVar[Wire]
    fp: Any
    _interim = 0

    def __init__(self, sock: socket.socket, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        self.fp = io.BufferedReader(_CountedBytes(self.fp.detach(), self.wire.watchdog.current))

    def _read_status(self) -> tuple[str, int, str]:
        version, status, reason = super()._read_status()  # type: ignore[misc]
        if 100 <= status < 200:
            self._interim += 1
            if status == http.HTTPStatus.SWITCHING_PROTOCOLS or self._interim > _MAX_INTERIM:
                raise http.client.HTTPException("too many interim answers")
            status = http.HTTPStatus.CONTINUE
        return version, status, reason


class _Connection(HTTPConnection):
    """Have the guard check every address before it is dialled, and the watchdog know the socket before anything is waited for."""

    wire: ClassVar[Wire]
    _handle: socket.socket | None = None

    def connect(self) -> None:
        self.wire.watchdog.current.dialled = True
        try:
            super().connect()
        finally:
            if self._handle is not None:
                self._handle.close()
            self.wire.watchdog.uses(None)

    def _new_conn(self) -> socket.socket:
        """Resolve the name once and check the addresses before dialling, so DNS rebinding changes nothing."""
        try:
            return self._dial_first()
        except OSError as error:
            if self.proxy is not None or _is_local(error):
                kind = type(error).__name__
                where = f"the proxy {self.host}:{self.port}" if self.proxy is not None else "the network"
                raise NetworkDown(f"{where} cannot be reached: {kind}") from error
            raise

    def _dial_first(self) -> socket.socket:
        watchdog = self.wire.watchdog
        failure: Exception | None = None
        left = watchdog.time_left()
        resolve, wait = self.wire.resolver.resolve, min(self.timeout or left, left)
        for family, *_, address in resolve(self.host, self.port, wait, watchdog.current.check):
            try:
                if self.proxy is None:
                    refuse_private_peer(self.host, str(address[0]), self.wire.settings)
                return self._dial(family, address)
            except AddressRefused as refused:
                failure = failure or refused
            except OSError as error:
                failure = error
        raise failure or OSError("the name has no address")

    def _dial(self, family: socket.AddressFamily, address: Any) -> socket.socket:
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
        watchdog = self.wire.watchdog
        watchdog.awaits_head(self.sock, self.timeout)
        answer = super().getresponse()
        watchdog.head_came()
        return answer


def _is_local(error: OSError) -> bool:
    """Whether this machine has no way to the network, or no name server that answers."""
    if isinstance(error, socket.gaierror):
        return error.errno == socket.EAI_AGAIN
    return error.errno in (errno.ENETUNREACH, errno.ENETDOWN)


def pool_classes(wire: Wire) -> dict[str, Any]:
    """The connection pool classes of one wire, which know it."""
    shared = {"wire": wire, "response_class": type("Response", (_Response,), {"wire": wire})}
    plain = type("Plain", (_Connection,), shared)
    secure = type("Secure", (_Connection, HTTPSConnection), shared)
    return {
        "http": type("PlainPool", (urllib3.HTTPConnectionPool,), {"ConnectionCls": plain}),
        "https": type("SecurePool", (urllib3.HTTPSConnectionPool,), {"ConnectionCls": secure}),
    }
