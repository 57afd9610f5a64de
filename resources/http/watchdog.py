"""Shuts the sockets of requests that are past their deadline or whose run is being ended: a dripping answer outlives every read
timeout. What was sent, and what the error then means to the sender, is the wire's.
"""

from __future__ import annotations

import math
import socket
import threading
import time
from contextlib import suppress

from resources.http.errors import DeadlineExceeded, HttpError, Interrupted


class Watched:
    """One request under way, watched inside a `with`: the socket that it uses, once it has one, and why it was cut, if it was."""

    def __init__(self, watchdog: Watchdog, url: str, deadline: float) -> None:
        self.watchdog, self.url, self.deadline = watchdog, url, deadline
        self.sock: socket.socket | None = None
        self.cut: HttpError | None = None

    def __enter__(self) -> Watched:
        self.watchdog.begin(self)
        return self

    def __exit__(self, *_: object) -> None:
        self.watchdog.end(self)

    def check(self) -> None:
        if self.cut is not None:
            raise self.cut


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
            watched: Watched = self._of_thread.watched
            watched.sock = sock
        watched.check()

    def time_left(self) -> float:
        """Seconds of the calling thread's request; never none, because that would mean not to wait at all."""
        watched: Watched = self._of_thread.watched
        return max(0.01, watched.deadline - time.monotonic())

    def cut_all(self, reason: str) -> None:
        with self._wake:
            for watched in self._live:
                _shut(watched, Interrupted(reason, url=watched.url))

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
                        _shut(watched, DeadlineExceeded("the answer took longer than its deadline", url=watched.url))
                self._wakes_at = min((w.deadline for w in self._live if w.cut is None), default=math.inf)
                self._wake.wait(None if self._wakes_at == math.inf else self._wakes_at - now)


def _shut(watched: Watched, why: HttpError) -> None:
    watched.cut = watched.cut or why
    if watched.sock is not None:
        with suppress(OSError, ValueError):
            watched.sock.shutdown(socket.SHUT_RDWR)
