"""uvicorn with our limits, in a thread of its own, so that the main thread handles signals."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from docstokg_assets.config.serve import ServeSettings
from resources.errors import ExplainedError

HEADERS_S = 15.0  # for the headers of a request, from its first byte or the connection's begin
_MAX_CONNECTIONS = 1_000
_GRACE_S = 5


class ServerError(ExplainedError):
    """The server cannot start."""


class TimedProtocol(H11Protocol):
    """Closes connections whose headers do not come in time, which uvicorn keeps open."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._headers_timer: asyncio.TimerHandle | None = self.loop.call_later(HEADERS_S, self._on_late)

    def data_received(self, data: bytes) -> None:
        idle = self._is_idle()
        super().data_received(data)
        if not self._is_idle():
            self._cancel_timer()
        elif idle and self._headers_timer is None:
            self._headers_timer = self.loop.call_later(HEADERS_S, self._on_late)

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_timer()
        super().connection_lost(exc)

    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _cancel_timer(self) -> None:
        if self._headers_timer is not None:
            self._headers_timer.cancel()
            self._headers_timer = None

    def _on_late(self) -> None:
        self._headers_timer = None
        if self._is_idle():
            self.transport.close()


class HttpServer:
    def __init__(self, app: ASGIApp, settings: ServeSettings) -> None:
        """ServerError when the port or the certificate cannot be used."""
        self._socket = listen(settings.host, settings.port, "serve.port")
        self.port: int = self._socket.getsockname()[1]
        tls: dict[str, Any] = {}
        if settings.tls_cert is not None and settings.tls_key is not None:
            tls = {"ssl_certfile": str(settings.tls_cert), "ssl_keyfile": str(settings.tls_key)}
        config = uvicorn.Config(
            app,
            http=TimedProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=_MAX_CONNECTIONS,
            timeout_graceful_shutdown=_GRACE_S,
            **tls,
        )
        try:
            config.load()
        except OSError as error:
            self._socket.close()
            place = f"serve.tls_cert {settings.tls_cert} and serve.tls_key {settings.tls_key}"
            raise ServerError(f"{place} cannot be used: {error}. Give PEM files that belong together.") from None
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), name="http")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Answer what is under way for a few seconds, then end."""
        self._server.should_exit = True
        self._thread.join(_GRACE_S + 5)
        self._socket.close()


def listen(host: str, port: int, key: str) -> socket.socket:
    """A listening socket; ServerError with the remedy when there is none."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
        return socket.create_server((host, port), family=family, backlog=256)
    except OSError as error:
        raise ServerError(f"cannot listen on {host} port {port}: {error.strerror}. Choose another {key}.") from None
