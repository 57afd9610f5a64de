"""Put one Send on the wire and read its answer, in the calling thread.

Connections belong to limit groups: each group has its own adapters, lent to one thread at a time and holding one connection,
so a group with one permit has one connection. Adapters retry nothing and follow no redirects. A host that closed a kept
connection as the next request was sent gets a new one for each request from then on. The watchdog knows every socket that is
waited for. Connections are made in `connection.py`, bodies read in `body.py`, errors translated in `wire_errors.py`.
"""

from __future__ import annotations

import logging
import re
import ssl
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

import requests
from requests.adapters import HTTPAdapter
from requests.cookies import extract_cookies_to_jar

from resources.http.body import Body, read_body
from resources.http.connection import GroupAdapter, pool_classes, tls_context
from resources.http.errors import ConnectionFailed, HttpError, KeptConnectionLost, SchemeRefused
from resources.http.exchange import Reply, Send
from resources.http.messages import ResponseHead
from resources.http.resolver import NameResolver
from resources.http.settings import HttpSettings
from resources.http.watchdog import Watchdog, Watched
from resources.http.wire_errors import translate_wire_errors

_IDLE_ADAPTERS = 256
_MOST_UNKEPT = 10_000  # hosts
# A URL that the library would leave as it is, at a cost: no character to quote, no folder to go up from.
_PLAIN_URL = re.compile(
    r"https?://[a-z0-9.-]+(:\d+)?(/(?!\.)[\w.~!$&'()*+,;=:@-]*)+(\?[\w.~!$&'()*+,;=:@/?-]*)?", re.ASCII
)
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")

# Its lines name whole URLs, keys and all; our own records say what happened, without them.
logging.getLogger("urllib3").setLevel(logging.CRITICAL)


class Wire:
    """Thread-safe. `close()` ends all connections."""

    def __init__(self, settings: HttpSettings, chunk_bytes: int = 262_144) -> None:
        self.settings, self.chunk_bytes = settings, chunk_bytes
        self.watchdog, self.resolver = Watchdog(), NameResolver()
        self.pools = pool_classes(self)
        self._tls: tuple[tuple[bool, Path | None], ssl.SSLContext] | None = None
        self._idle: dict[str, deque[HTTPAdapter]] = {}  # by group, the one used longest ago first
        self._idle_count = 0
        self._unkept: dict[str, None] = {}  # hosts whose connections are not kept, the first noticed first
        self._closed = False
        self._lock = threading.Lock()

    def send(self, send: Send, group: str, waited_ms: int = 0) -> Reply:
        """Send one request once and return its answer. HttpError when no whole answer came."""
        started = time.monotonic()
        prepared = _prepare(send)
        timeouts, ends = self._timeouts(send), started + self.settings.deadline_s
        watched = Watched(self.watchdog, send.url, min(ends, started + sum(timeouts)), ends, send)
        keep = send.host not in self._unkept
        if not keep:
            prepared.headers["Connection"] = "close"
        with self._adapter(group, keep) as adapter, watched:
            try:
                with translate_wire_errors(watched):
                    answer: Any = adapter.send(prepared, timeout=timeouts, proxies=self._proxies())
            except HttpError as error:
                failure = error
                if type(error) is ConnectionFailed and not (watched.dialled or watched.received):
                    self._keep_none(send.host, group)
                    failure = KeptConnectionLost("the host closed a kept connection", url=send.url)
                failure.unfinished = send.unfinished  # no answer came, so it is worth as much as before
                raise failure from error
            try:
                if "set-cookie" in answer.headers:
                    extract_cookies_to_jar(send.jar, prepared, answer)  # type: ignore[no-untyped-call]
                head = ResponseHead(answer.status, send.url, {k.lower(): v for k, v in answer.headers.items()})
                reply = _read(send, head, Body(answer, self.chunk_bytes, watched))
            finally:
                _release(answer)
        return replace(reply, elapsed_ms=round((time.monotonic() - started) * 1000), waited_ms=waited_ms)

    def close(self) -> None:
        self.watchdog.close()
        with self._lock:
            self._closed, groups = True, list(self._idle)
        for group in groups:
            self.close_idle(group)

    def close_idle(self, group: str) -> None:
        """Close the connections that are kept for a group."""
        with self._lock:
            adapters = self._idle.pop(group, ())
            self._idle_count -= len(adapters)
        for adapter in adapters:
            adapter.close()

    @contextmanager
    def _adapter(self, group: str, keep: bool) -> Iterator[HTTPAdapter]:
        adapter = (self._take_idle(group) if keep else None) or GroupAdapter(self)
        try:
            yield adapter
        finally:
            for superfluous in self._put_idle(group, adapter) if keep else [adapter]:
                superfluous.close()

    def _keep_none(self, host: str, group: str) -> None:
        """Keep no connection of this host any more, those that are idle included."""
        with self._lock:
            self._unkept[host] = None
            if len(self._unkept) > _MOST_UNKEPT:
                del self._unkept[next(iter(self._unkept))]
        self.close_idle(group)

    def _take_idle(self, group: str) -> HTTPAdapter | None:
        with self._lock:
            adapters = self._idle.get(group)
            if not adapters:
                return None
            self._idle_count -= 1
            return adapters.pop()

    def _put_idle(self, group: str, adapter: HTTPAdapter) -> list[HTTPAdapter]:
        """Keep the adapter for the next request of its group; return those that must be closed for it."""
        with self._lock:
            if self._closed:
                return [adapter]
            self._idle[group] = adapters = self._idle.pop(group, None) or deque()
            adapters.append(adapter)
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
        known = self.settings
        usual = known.timeout or known.timeout_connect_s, known.timeout or known.timeout_read_s
        connect, read = send.timeouts or usual
        return min(connect, known.deadline_s), min(read, known.deadline_s)

    def tls(self) -> ssl.SSLContext:
        """One context for all connections: reading the authorities costs 20 ms and a megabyte."""
        trusted = (self.settings.verify_tls, self.settings.ca_bundle)
        with self._lock:
            if self._tls is None or self._tls[0] != trusted:
                self._tls = trusted, tls_context(*trusted)
            return self._tls[1]

    def _proxies(self) -> dict[str, str]:
        return {"http": self.settings.proxy, "https": self.settings.proxy} if self.settings.proxy else {}


def _read(send: Send, head: ResponseHead, body: Body) -> Reply:
    try:
        return read_body(send, head, body)
    except HttpError as error:
        error.head = head
        raise


def _release(answer: Any) -> None:
    """Return the connection to its pool, closed unless the answer was read to its end."""
    if not answer.isclosed():
        answer.close()
    answer.release_conn()


def _prepare(send: Send) -> requests.PreparedRequest:
    """The request as the library sends it; SchemeRefused for what cannot be sent, such as a line break in a header."""
    prepared = requests.PreparedRequest()
    try:
        for value in send.headers.values():
            if _CONTROL.search(value):
                raise ValueError("control characters")
            value.encode("latin-1")
        prepared.prepare_method(send.request.verb)
        prepared.url = _with_params(send.url, send.secret_params)
        if not _PLAIN_URL.fullmatch(prepared.url):
            prepared.prepare_url(prepared.url, {})
        body = send.request.body
        length = {} if body is None else {"Content-Length": str(len(body))}
        prepared.prepare_headers({**send.headers, **length})
        if any(True for _ in send.jar):
            prepared.prepare_cookies(send.jar)
    except (requests.RequestException, ValueError) as error:
        raise SchemeRefused(f"cannot be requested: {type(error).__name__}", url=send.url) from None
    prepared.body = send.request.body
    return prepared


def _with_params(url: str, params: Any) -> str:
    if not params:
        return url
    parts = urlsplit(url)
    extra = "&".join(f"{quote(k, safe='')}={quote(v, safe='')}" for k, v in params.items())
    return urlunsplit(parts._replace(query=f"{parts.query}&{extra}" if parts.query else extra))
