"""What the tests of the polite client, and of all that goes through it, build on: servers that answer with bytes as they are, a
clock that stands still, and a client together with what it recorded. The fixtures are in `conftest.py`."""

from __future__ import annotations

import itertools
import random
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from docstokg_assets.sandbox import Sandbox
from resources.catalog.catalog import Catalog
from resources.clock import Clock, SystemClock
from resources.http.attempts import AttemptLog
from resources.http.cache import HttpCache
from resources.http.client import HttpClient
from resources.http.messages import Request, Response
from resources.http.settings import HttpSettings, RobotsSettings
from resources.rate_limit.limiter import Limiter
from resources.rate_limit.settings import RateLimitSettings
from resources.records import AttemptRecord

LOOPBACK = tuple(f"127.0.0.{n}" for n in range(1, 5))
QUICK = {"base_delay_ms": 1, "jitter_ms": 0}
Answer = Callable[["RawRequest"], Any]


class FakeClock:
    """Time that passes only when somebody sleeps, or when the test says so."""

    def __init__(self, wall: float = 1_700_000_000.0) -> None:
        self.now, self.offset = 1000.0, wall - 1000.0

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.now + self.offset

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@dataclass(frozen=True)
class RawRequest:
    line: str
    headers: dict[str, str]  # names in lower case
    number: int  # among all requests of this server
    connection: int

    @property
    def path(self) -> str:
        return self.line.split(" ")[1]


class RawServer:
    """Answers each request with the bytes that `answer` gives: bytes, a list of pieces (numbers are pauses), or None to hang up.
    The connection stays open for the next request unless the answer says `Connection: close`."""

    def __init__(self, answer: Answer, host: str = "127.0.0.1") -> None:
        self.requests: list[RawRequest] = []
        self.connections = 0
        self.gone = threading.Event()  # set when a client ended a connection
        self._answer, self._listener = answer, socket.create_server((host, 0))
        self._numbers = itertools.count(1)
        self.host, self.port = host, self._listener.getsockname()[1]
        self.url = f"http://{host}:{self.port}"
        self._ended = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._ended.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.connections += 1
                threading.Thread(target=self._serve, args=(connection, self.connections), daemon=True).start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        with connection, suppress(OSError), connection.makefile("rb") as lines:
            while line := lines.readline().decode("latin-1").strip():
                headers = {}
                while header := lines.readline().decode("latin-1").strip():
                    name, _, value = header.partition(":")
                    headers[name.lower()] = value.strip()
                request = RawRequest(line, headers, next(self._numbers), number)
                self.requests.append(request)
                answer = self._answer(request)
                if answer is None:
                    return
                pieces = answer if isinstance(answer, list) else [answer]
                for piece in pieces:
                    if isinstance(piece, bytes):
                        connection.sendall(piece)
                    elif self._ended.wait(piece):
                        return
                if b"connection: close" in b"".join(p for p in pieces if isinstance(p, bytes)).lower():
                    return
        self.gone.set()


def ok(body: bytes = b"fine", status: str = "200 OK", **headers: Any) -> bytes:
    """An answer with a Content-Length."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body


def moved(to: str, **headers: Any) -> bytes:
    return ok(b"", "302 Found", Location=to, **headers)


@dataclass
class Polite:
    """A client together with what it recorded."""

    client: HttpClient
    attempts: list[AttemptRecord] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def log(self) -> AttemptLog:
        return AttemptLog(
            self.attempts.append, self.client.clock, "run", "worker", lambda: next(self.numbers), "W1", 2024
        )

    def ask(self, request: Request, **options: Any) -> Response:
        return self.client.request_with_retries(request, self.log, **options)

    def told(self, *names: str) -> list[Any]:
        """These fields of all attempts."""
        return [tuple(getattr(record, name) for name in names) for record in self.attempts]


class PoliteClients:
    """Makes clients: `http`, `robots` and `limits` are settings, `through` a sandbox to go through, `hosts` a shared store."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._opened: list[Callable[[], None]] = []

    def close(self) -> None:
        for close in reversed(self._opened):
            close()

    def __call__(
        self,
        *,
        through: Sandbox | None = None,
        http: dict[str, Any] | None = None,
        robots: bool = False,
        limits: dict[str, Any] | None = None,
        hosts: Catalog | None = None,
        clock: Clock | None = None,
        limiter: Limiter | None = None,
        cache: HttpCache | None = None,
        chunk_bytes: int = 65_536,
    ) -> Polite:
        if hosts is None:
            hosts = Catalog.open(self._folder / f"hosts-{len(self._opened)}.sqlite3")
            self._opened.append(hosts.close)
        reach: dict[str, Any] = {"allow_http_hosts": LOOPBACK, "allow_private_hosts": LOOPBACK}
        if through is not None:
            reach = {"proxy": through.proxy_url, "ca_bundle": str(through.ca_bundle)}
        settings = HttpSettings.model_validate(
            {"contact_email": "team@example.org", "retry": QUICK, **reach, **(http or {})}
        )
        quick = {"backend": "memory", "policies": {"*": "1000/s burst 1000"}, "concurrency": {"*": 64}}
        used = limiter or Limiter.open(
            RateLimitSettings.model_validate({**quick, **(limits or {})}),
            self._folder / f"limits-{len(self._opened)}" / "limits",
        )
        made = HttpClient(
            settings,
            RobotsSettings(enabled=robots),
            hosts,
            used,
            cache=cache,
            chunk_bytes=chunk_bytes,
            clock=clock or SystemClock(),
            rng=random.Random(7),
        )
        self._opened.extend((made.close, used.close))
        return Polite(made)
