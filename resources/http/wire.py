"""Puts one Send on the wire and reads its answer, in the calling thread. The only module that touches a connection.

Connections belong to limit groups: each group has its own adapters, lent to one thread at a time, so a group with one permit
is one connection. Adapters retry nothing and follow nothing. A watchdog shuts the sockets of bodies that are past their
deadline or whose run is being ended, because a dripping body outlives every read timeout.
"""

from __future__ import annotations

import heapq
import itertools
import socket
import ssl
import threading
import time
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

import requests
import urllib3
from requests.adapters import HTTPAdapter
from requests.cookies import extract_cookies_to_jar

from resources.http.errors import (
    BodyTooLarge,
    BodyTooShort,
    BodyTruncated,
    ConnectionFailed,
    DeadlineExceeded,
    HttpError,
    Interrupted,
    ProtocolViolation,
    TlsFailed,
    TransportError,
)
from resources.http.exchange import Reply, Send
from resources.http.messages import ResponseHead
from resources.http.settings import HttpSettings

_IDLE_ADAPTERS = 256


class Wire:
    """Thread-safe. `close()` ends all connections."""

    def __init__(self, settings: HttpSettings, chunk_bytes: int = 262_144) -> None:
        self.settings, self.chunk_bytes = settings, chunk_bytes
        self._idle: dict[str, deque[HTTPAdapter]] = defaultdict(deque)
        self._idle_count = 0
        self._lock = threading.Lock()
        self._watchdog = Watchdog()

    def send(self, send: Send, group: str, waited_ms: int = 0) -> Reply:
        """One request, one answer, no repetition. Raises a TransportError when no whole answer came."""
        started = time.monotonic()
        prepared = _prepare(send)
        deadline = started + self.settings.deadline_s
        with self._adapter(group) as adapter, _translated_errors(send.url):
            raw = adapter.send(
                prepared,
                stream=True,
                timeout=send.timeouts or self._timeouts(),
                verify=self._verify(),
                proxies=self._proxies(),
            )
            try:
                extract_cookies_to_jar(send.jar, prepared, raw.raw)  # type: ignore[no-untyped-call]
                head = ResponseHead(raw.status_code, send.url, {k.lower(): v for k, v in raw.headers.items()})
                with self._watchdog.watch(raw.raw, deadline) as watched:
                    body, payload, count = self._read(send, head, raw.raw, watched)
            except BaseException:
                _cut(raw.raw)
                raise
            finally:
                raw.close()
        return Reply(head, body, payload, count, round((time.monotonic() - started) * 1000), waited_ms)

    def interrupt(self, reason: str = "the run is being ended") -> None:
        """Cut every transfer in flight; their sends raise Interrupted."""
        self._watchdog.cut_all(reason)

    def close(self) -> None:
        self._watchdog.close()
        with self._lock:
            for adapters in self._idle.values():
                for adapter in adapters:
                    adapter.close()
            self._idle.clear()

    def _read(self, send: Send, head: ResponseHead, raw: Any, watched: Watched) -> tuple[bytes, Any, int]:
        sink = send.sink_for(head)
        if sink is None:
            body = self._read_page(send, raw, watched)
            return body, None, len(body)
        count = 0
        try:
            for chunk in raw.stream(self.chunk_bytes, decode_content=True):
                watched.check()
                count += len(chunk)
                sink.write(chunk)
            watched.check()
            return b"", sink.finish(), count
        except BaseException:
            sink.abort()
            watched.check()  # an error of a socket that we shut ourselves is named by why we did
            raise

    def _read_page(self, send: Send, raw: Any, watched: Watched) -> bytes:
        pieces: list[bytes] = []
        size = 0
        try:
            for chunk in raw.stream(65_536, decode_content=True):
                watched.check()
                size += len(chunk)
                if size > send.max_bytes:
                    raise BodyTooLarge(f"the answer is larger than {send.max_bytes} bytes", url=send.url)
                pieces.append(chunk)
        except (urllib3.exceptions.HTTPError, OSError):
            watched.check()
            raise
        watched.check()
        return b"".join(pieces)

    @contextmanager
    def _adapter(self, group: str) -> Iterator[HTTPAdapter]:
        with self._lock:
            idle = self._idle[group]
            adapter = idle.pop() if idle else None
            self._idle_count -= adapter is not None
        adapter = adapter or HTTPAdapter(pool_connections=32, pool_maxsize=1, max_retries=0)
        try:
            yield adapter
        finally:
            with self._lock:
                full = self._idle_count >= _IDLE_ADAPTERS
                if not full:
                    self._idle[group].append(adapter)
                    self._idle_count += 1
            if full:
                adapter.close()

    def _timeouts(self) -> tuple[float, float]:
        both = self.settings.timeout
        return (both, both) if both is not None else (self.settings.timeout_connect_s, self.settings.timeout_read_s)

    def _verify(self) -> bool | str:
        if not self.settings.verify_tls:
            return False
        return str(self.settings.ca_bundle) if self.settings.ca_bundle is not None else True

    def _proxies(self) -> dict[str, str]:
        return {"http": self.settings.proxy, "https": self.settings.proxy} if self.settings.proxy else {}


class Watched:
    """One body being read, and why it was cut, if it was."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.cut: TransportError | None = None

    def check(self) -> None:
        if self.cut is not None:
            raise self.cut


class Watchdog:
    """A thread that shuts down the sockets of bodies whose deadline has come. Starts with the first body it watches."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int]] = []
        self._live: dict[int, tuple[Watched, socket.socket | None]] = {}
        self._numbers = itertools.count()
        self._wake = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    @contextmanager
    def watch(self, raw: Any, deadline: float) -> Iterator[Watched]:
        watched = Watched(str(getattr(raw, "url", "") or ""))
        connection = getattr(raw, "connection", None)
        with self._wake:
            number = next(self._numbers)
            self._live[number] = (watched, getattr(connection, "sock", None))
            heapq.heappush(self._heap, (deadline, number))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="http-watchdog", daemon=True)
                self._thread.start()
            elif self._heap[0][1] == number:
                self._wake.notify()
        try:
            yield watched
        finally:
            with self._wake:
                self._live.pop(number, None)

    def cut_all(self, reason: str) -> None:
        with self._wake:
            for watched, sock in self._live.values():
                _shut(watched, sock, Interrupted(reason, url=watched.url))

    def close(self) -> None:
        with self._wake:
            self._closed = True
            self._wake.notify()

    def _run(self) -> None:
        with self._wake:
            while not self._closed:
                now = time.monotonic()
                while self._heap and (self._heap[0][0] <= now or self._heap[0][1] not in self._live):
                    _, number = heapq.heappop(self._heap)
                    if number in self._live:
                        watched, sock = self._live[number]
                        _shut(
                            watched, sock, DeadlineExceeded("the answer took longer than its deadline", url=watched.url)
                        )
                self._wake.wait(max(0.0, self._heap[0][0] - now) if self._heap else None)


def _shut(watched: Watched, sock: socket.socket | None, why: TransportError) -> None:
    watched.cut = watched.cut or why
    if sock is not None:
        with suppress(OSError, ValueError):
            sock.shutdown(socket.SHUT_RDWR)


def _cut(raw: Any) -> None:
    """An answer that was not read to its end must not be reused for the next request."""
    with suppress(Exception):
        raw.close()


def _prepare(send: Send) -> requests.PreparedRequest:
    prepared = requests.PreparedRequest()
    prepared.prepare_method(send.verb)
    prepared.prepare_url(_with_params(send.url, send.secret_params), {})
    prepared.prepare_headers(dict(send.headers))
    prepared.prepare_cookies(send.jar)
    prepared.body = None
    return prepared


def _with_params(url: str, params: Any) -> str:
    if not params:
        return url
    parts = urlsplit(url)
    extra = "&".join(f"{quote(k, safe='')}={quote(v, safe='')}" for k, v in params.items())
    return urlunsplit(parts._replace(query=f"{parts.query}&{extra}" if parts.query else extra))


@contextmanager
def _translated_errors(url: str) -> Iterator[None]:
    """Errors of the libraries as our own tree."""
    try:
        yield
    except HttpError:
        raise
    except (requests.Timeout, urllib3.exceptions.TimeoutError, TimeoutError) as error:
        raise DeadlineExceeded(f"no answer in time: {_said(error)}", url=url) from error
    except (requests.exceptions.SSLError, urllib3.exceptions.SSLError, ssl.SSLError) as error:
        raise TlsFailed(f"TLS failed: {_said(error)}", url=url) from error
    except urllib3.exceptions.IncompleteRead as error:
        # urllib3 reports a broken chunk in the same class as a short body; only the latter has an expected length.
        if isinstance(error.expected, int) and error.expected >= 0:
            raise BodyTooShort(f"the body ended {error.expected} bytes early", url=url) from error
        raise BodyTruncated("the chunked body ended early", url=url) from error
    except urllib3.exceptions.DecodeError as error:
        raise BodyTruncated(f"the content coding cannot be read: {_said(error)}", url=url) from error
    except (
        requests.exceptions.InvalidURL,
        requests.exceptions.InvalidHeader,
        urllib3.exceptions.LocationValueError,
    ) as error:
        raise ProtocolViolation(f"cannot be requested: {_said(error)}", url=url) from error
    except (requests.ConnectionError, urllib3.exceptions.HTTPError, requests.RequestException, OSError) as error:
        if isinstance(error, urllib3.exceptions.ProtocolError) and "IncompleteRead" in str(error):
            raise BodyTooShort(f"the body ended early: {_said(error)}", url=url) from error
        raise ConnectionFailed(f"connection failed: {_said(error)}", url=url) from error


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}"
