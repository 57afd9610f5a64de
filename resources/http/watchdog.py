"""Shut the sockets of requests that are past a deadline or whose run is being stopped. A read timeout does not end an answer
that arrives byte by byte. The head of an answer has a deadline of its own, before that of the whole. The watchdog also knows
which answers are too slow ("crawl").
"""

from __future__ import annotations

import math
import socket
import threading
import time
from contextlib import suppress

from resources.http.errors import DeadlineExceeded, HttpError, Interrupted

_WINDOW_S = 1.0  # an answer crawls when in so long
_FLOOR = 4096.0  # fewer bytes came for each second: no paper would be whole before its deadline


class Watched:
    """One request under way, watched inside a `with`: the socket that it uses, once it has one, what came over it, and why it was
    cut, if it was. `deadline` is that of its head until that has come, then that of the whole answer, `ends`."""

    def __init__(self, watchdog: Watchdog, url: str, deadline: float, ends: float, request: object = None) -> None:
        self.watchdog, self.url, self.deadline, self.ends, self.request = watchdog, url, deadline, ends, request
        self.sock: socket.socket | None = None
        self.cut: HttpError | None = None
        self.dialled = False  # else it uses a connection that was kept from an earlier request
        self.received = 0  # bytes
        self.crawls_since: float | None = None
        self._looked_at, self._received_then = time.monotonic(), 0

    def __enter__(self) -> Watched:
        self.watchdog.begin(self)
        return self

    def __exit__(self, *_: object) -> None:
        self.watchdog.end(self)

    def check(self) -> None:
        if self.cut is not None:
            raise self.cut

    def judge(self, now: float) -> None:
        """Note whether it crawls, by what came since it was last judged."""
        if (passed := now - self._looked_at) < _WINDOW_S:
            return
        crawls = self.received - self._received_then < _FLOOR * passed
        self.crawls_since = (self.crawls_since or self._looked_at) if crawls else None
        self._looked_at, self._received_then = now, self.received


class Watchdog:
    """A thread that shuts the sockets of requests whose deadline has come. Starts with the first request that it watches."""

    def __init__(self) -> None:
        self._live: set[Watched] = set()
        self._of_thread = threading.local()
        self._wake = threading.Condition()
        self._wakes_at = math.inf
        self._thread: threading.Thread | None = None
        self._closed = False

    def begin(self, watched: Watched) -> None:
        self._of_thread.watched = watched
        with self._wake:
            self._live.add(watched)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="http-watchdog", daemon=True)
                self._thread.start()
            elif watched.deadline < self._wakes_at:
                self._wake.notify()

    def end(self, watched: Watched) -> None:
        self._of_thread.watched = None
        with self._wake:
            self._live.discard(watched)

    def uses(self, sock: socket.socket | None) -> None:
        """The request of the calling thread goes over this socket."""
        with self._wake:
            self.current.sock = sock
        self.current.check()

    @property
    def current(self) -> Watched:
        """The request of the calling thread."""
        watched: Watched = self._of_thread.watched
        return watched

    def awaits_head(self, sock: socket.socket, seconds: float | None) -> None:
        """The request of the calling thread was sent over this socket; the head of its answer may take so long in total."""
        watched = self.current
        with self._wake:
            watched.sock = sock
            watched.deadline = watched.ends if seconds is None else min(watched.ends, time.monotonic() + seconds)
            if watched.deadline < self._wakes_at:
                self._wake.notify()
        watched.check()

    def head_came(self) -> None:
        watched = self.current
        watched.deadline = watched.ends
        watched.check()

    def crawlers(self) -> dict[int, Watched]:
        """The requests under way whose answers crawl, by the id of their Send."""
        now = time.monotonic()
        with self._wake:
            for watched in self._live:
                watched.judge(now)
            return {id(watched.request): watched for watched in self._live if watched.crawls_since is not None}

    def give_up(self, most: int, patience_s: float) -> None:
        """Cut so many of the answers that have crawled for longest, and at least for so long; their sends raise
        DeadlineExceeded."""
        now = time.monotonic()
        with self._wake:
            slow = [(w.crawls_since, id(w), w) for w in self._live if w.crawls_since is not None and w.cut is None]
            for since, _, watched in sorted(slow)[:most]:
                if now - since >= patience_s:
                    _shut(watched, DeadlineExceeded("the answer crawls, as too many others do", url=watched.url))

    def time_left(self) -> float:
        """Seconds of the calling thread's request; never none, because that would mean not to wait at all."""
        return max(0.01, self.current.deadline - time.monotonic())

    def cut_all(self) -> None:
        """Cut every request under way; their sends raise Interrupted."""
        with self._wake:
            for watched in self._live:
                _shut(watched, Interrupted("the run is being ended", url=watched.url))

    def close(self) -> None:
        with self._wake:
            self._closed = True
            self._wake.notify()

    def _run(self) -> None:
        with self._wake:
            while not self._closed:
                now = time.monotonic()
                for watched in self._live:
                    if watched.cut is None and watched.deadline <= now:
                        what = "the answer" if watched.deadline >= watched.ends else "the head of the answer"
                        _shut(watched, DeadlineExceeded(f"{what} took longer than its deadline", url=watched.url))
                self._wakes_at = min((w.deadline for w in self._live if w.cut is None), default=math.inf)
                self._wake.wait(None if self._wakes_at == math.inf else self._wakes_at - now)


def _shut(watched: Watched, why: HttpError) -> None:
    watched.cut = watched.cut or why
    if watched.sock is not None:
        with suppress(OSError, ValueError):
            watched.sock.shutdown(socket.SHUT_RDWR)
