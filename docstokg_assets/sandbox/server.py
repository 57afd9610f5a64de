"""The server: one asyncio process, a forward proxy with its own TLS and a plain origin on the same port.

Reads requests, lets `Web` answer them and writes the answers, dripped, cut or delayed where a fault says so. `hosts/`
defines the answers, `tls.py` the certificates.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import httptools

from .tls import Authority
from .web import Web
from .wire import REASONS, Request, Response

if TYPE_CHECKING:
    from .universe import Universe

_MAX_BODY = 16 * 1024 * 1024
_BODYLESS = frozenset({204, 304})
_DRIP_STEP = 0.05  # seconds between the pieces of a dripping answer


class Connection(asyncio.Protocol):
    """One client connection, or the inside of one CONNECT tunnel (then `tunnel_host` is set)."""

    def __init__(self, web: Web, authority: Authority, tunnel_host: str = "") -> None:
        self._web = web
        self._authority = authority
        self._tunnel_host = tunnel_host
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpRequestParser(self)
        self._queue: deque[tuple[Request, bool]] = deque()
        self._busy: asyncio.Task[None] | None = None
        self._early: list[bytes] = []
        self._lost = False
        self._can_write = asyncio.Event()
        self._can_write.set()

    # -- asyncio callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # TCP and TLS transports are full transports
        early, self._early = self._early, []
        for data in early:
            self.data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        self._can_write.set()
        if self._busy:
            self._busy.cancel()

    def pause_writing(self) -> None:
        self._can_write.clear()

    def resume_writing(self) -> None:
        self._can_write.set()

    def data_received(self, data: bytes) -> None:
        if self._transport is None:  # inside of a tunnel, before start_tls has returned
            self._early.append(data)
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # CONNECT: handled when its message is complete; Upgrade requests are answered as plain ones
        except httptools.HttpParserError as error:
            self._write_now(Response(400, f"cannot parse the request: {error}\n".encode(), "text/plain"), "GET", False)

    # -- httptools callbacks

    def on_message_begin(self) -> None:
        self._url = b""
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._body_size = 0

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._body_size += len(body)
        if self._body_size <= _MAX_BODY:
            self._body.append(body)

    def on_message_complete(self) -> None:
        method = self._parser.get_method().decode("ascii")
        if method == "CONNECT":
            self._open_tunnel(self._url.decode("latin-1"))
            return
        keep = self._parser.should_keep_alive()
        self._queue.append((self._make_request(method), keep))
        if self._busy is None:
            self._work_off()

    # -- requests

    def _make_request(self, method: str) -> Request:
        target = self._url.decode("latin-1")
        # Direct requests, without a proxy, are answered as behind a TLS-terminating load balancer.
        scheme, host = "https", self._tunnel_host or self._headers.get("host", "")
        if "://" in target[:8]:
            scheme, _, rest = target.partition("://")
            host, slash, path = rest.partition("/")
            target = slash + path or "/"
        path, _, query = target.partition("?")
        host = host.lower().rsplit("@", 1)[-1]
        name = host[: host.index("]") + 1] if host.startswith("[") and "]" in host else host.partition(":")[0]
        return Request(method, scheme, name, path, query, self._headers, b"".join(self._body))

    def _open_tunnel(self, authority: str) -> None:
        host, _, port = authority.lower().rpartition(":")
        if not self._web.knows(host) or port != "443":
            answer = Response(502, f"sandbox: no such host here: {authority}\n".encode(), "text/plain; charset=utf-8")
            self._web.note("CONNECT", "https", host, authority, 502, self._headers.get("user-agent", ""))
            self._write_now(answer, "GET", False)
            return
        assert self._transport is not None
        self._transport.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        self._busy = asyncio.get_running_loop().create_task(self._upgrade(host))

    async def _upgrade(self, host: str) -> None:
        inner = Connection(self._web, self._authority, host)
        assert self._transport is not None
        try:
            tls = await asyncio.get_running_loop().start_tls(
                self._transport, inner, self._authority.context(host), server_side=True, ssl_handshake_timeout=20
            )
        except (OSError, asyncio.CancelledError):  # the client rejected the certificate or disconnected
            self._transport.close()
            return
        if tls is not None:
            inner.connection_made(tls)

    def _work_off(self) -> None:
        """Answer queued requests in order; plain answers are written at once, dripped or delayed ones by a task."""
        while self._queue and not self._lost:
            request, keep = self._queue.popleft()
            response = self._web.answer(request)
            keep = keep and response.length
            if response.delay or response.drip or response.header_drip or response.abort or response.endless:
                self._busy = asyncio.get_running_loop().create_task(self._write_slowly(response, request.method, keep))
                return
            self._write_now(response, request.method, keep)

    # -- answers

    def _write_now(self, response: Response, method: str, keep: bool) -> None:
        if self._transport is None or self._lost:
            return
        body = b"" if method == "HEAD" or response.status in _BODYLESS else response.body
        whole = response.send is None or response.send >= len(body)
        keep = keep and whole
        self._transport.write(_head(response, keep) + (body if whole else body[: response.send]))
        if not keep:
            self._transport.close()

    async def _write_slowly(self, response: Response, method: str, keep: bool) -> None:
        assert self._transport is not None
        if response.delay:
            await asyncio.sleep(response.delay)
        if response.abort:
            self._transport.abort()
            return
        if response.endless:
            await self._write_endlessly(response)
            return
        if response.drip or response.header_drip:
            body = b"" if method == "HEAD" or response.status in _BODYLESS else response.body
            await self._drip(_head(response, keep), response.header_drip)
            await self._drip(body[: response.send] if response.send is not None else body, response.drip)
            if not keep or (response.send is not None and response.send < len(body)):
                self._transport.close()
        else:
            self._write_now(response, method, keep)
        self._busy = None
        self._work_off()

    async def _write_endlessly(self, response: Response) -> None:
        assert self._transport is not None
        response.headers.append(("Transfer-Encoding", "chunked"))
        self._transport.write(_head(response, False))
        piece = response.body or b"\0" * 65_536
        while not self._lost:
            await self._can_write.wait()
            self._transport.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            await asyncio.sleep(0)

    async def _drip(self, data: bytes, rate: float) -> None:
        assert self._transport is not None
        if not rate:
            self._transport.write(data)
            return
        step = max(1, int(rate * _DRIP_STEP))
        for start in range(0, len(data), step):
            await self._can_write.wait()
            self._transport.write(data[start : start + step])
            await asyncio.sleep(step / rate)


def _head(response: Response, keep: bool) -> bytes:
    lines = [f"HTTP/1.1 {response.status} {REASONS.get(response.status, 'Status')}"]
    names = {name.lower() for name, _ in response.headers}
    if response.status not in _BODYLESS:
        if "content-type" not in names and response.type:
            lines.append(f"Content-Type: {response.type}")
        if response.length and not names & {"content-length", "transfer-encoding"}:
            lines.append(f"Content-Length: {len(response.body)}")
    lines += [f"{name}: {value}" for name, value in response.headers]
    if not keep:
        lines.append("Connection: close")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")


class PortTaken(Exception):
    """The port is in use."""


def bind(port: int) -> socket.socket:
    """Return a listening socket on loopback; port 0 takes a free one."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind(("127.0.0.1", port))
    except OSError as error:
        sock.close()
        raise PortTaken(f"port {port} on 127.0.0.1 is taken; choose another with --port") from error
    sock.listen(1024)
    sock.setblocking(False)
    return sock


async def _serve(
    sock: socket.socket, universe: Universe, state_dir: Path, enforce: bool, ready: Callable[[int, Path], None],
    stop: asyncio.Event,
) -> None:  # fmt: skip
    loop = asyncio.get_running_loop()
    authority = Authority(state_dir)
    bundle = authority.write_bundle()
    web = Web(universe, enforce_limits=enforce)
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, stop.set)
    server = await loop.create_server(lambda: Connection(web, authority), sock=sock)
    ready(sock.getsockname()[1], bundle)
    await stop.wait()
    server.close()


async def _watch_parent(stop: asyncio.Event) -> None:
    """Stop when the parent process is gone; a fork of it may keep our standard input open."""
    parent = os.getppid()
    while os.getppid() == parent:
        await asyncio.sleep(0.5)
    stop.set()


def serve(
    universe: Universe,
    state_dir: Path,
    *,
    port: int = 0,
    enforce_limits: bool = True,
    ready: Callable[[int, Path], None],
    watch_stdin: bool = False,
) -> None:
    """Serve until SIGINT or SIGTERM (or, when asked to watch it, until standard input closes)."""
    state_dir.mkdir(parents=True, exist_ok=True)
    sock = bind(port)

    async def main() -> None:
        stop = asyncio.Event()
        watchers: list[asyncio.Task[None]] = []  # held, so that they are not collected
        if watch_stdin:  # the parent holds the other end: exit when it dies, however it dies
            asyncio.get_running_loop().add_reader(sys.stdin.fileno(), stop.set)
            watchers.append(asyncio.create_task(_watch_parent(stop)))
        await _serve(sock, universe, state_dir, enforce_limits, ready, stop)

    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(main())


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:  # not on every platform
        return None
    return uvloop.new_event_loop
