"""Name servers that hang. The system's resolver is replaced by one that waits, because only root could choose its server."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from resources.http.errors import DeadlineExceeded, Interrupted
from resources.http.messages import Request, Role
from resources.http.resolver import NameResolver


class HangingServer:
    """Answers for names that begin with "hangs" when it is told to."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answers = threading.Event()
        self._real = socket.getaddrinfo

    def __call__(self, host: str, *arguments: Any, **options: Any) -> Any:
        if host.startswith("hangs"):
            self.asked.append(host)
            self.answers.wait(60)
            host = "127.0.0.1"
        return self._real(host, *arguments, **options)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[HangingServer]:
    server = HangingServer()
    monkeypatch.setattr(socket, "getaddrinfo", server)
    yield server
    server.answers.set()


@pytest.mark.requirement("TRU-5")
def test_a_name_server_that_hangs_costs_no_more_than_the_time_to_connect(
    polite: Callable[..., Any], names: HangingServer
) -> None:
    client = polite(http={"timeout_connect_s": 0.5, "deadline_s": 30.0, "retry": {"max_attempts": 1}})
    began = time.monotonic()
    with pytest.raises(DeadlineExceeded):
        client.ask(Request("https://hangs.example.org/a.pdf", Role.LANDING))
    assert 0.4 < time.monotonic() - began < 10


def test_a_request_that_waits_for_a_name_server_can_be_interrupted(
    polite: Callable[..., Any], names: HangingServer
) -> None:
    client = polite(http={"timeout_connect_s": 30.0, "deadline_s": 60.0, "retry": {"max_attempts": 1}})
    threading.Timer(0.3, client.client.wire.watchdog.cut_all).start()
    began = time.monotonic()
    with pytest.raises(Interrupted):
        client.ask(Request("https://hangs.example.org/a.pdf", Role.LANDING))
    assert time.monotonic() - began < 15


def test_requests_for_one_name_share_a_lookup_and_other_names_are_resolved_meanwhile(names: HangingServer) -> None:
    resolver, found = NameResolver(), list[Any]()
    threads = [
        threading.Thread(target=lambda: found.append(resolver.resolve("hangs.example", 80, 30.0, lambda: None)))
        for _ in range(5)
    ]
    for thread in threads:
        thread.start()
    assert resolver.resolve("localhost", 80, 30.0, lambda: None)
    names.answers.set()
    for thread in threads:
        thread.join(30)
    assert len(found) == 5 and names.asked == ["hangs.example"]


def test_lookups_that_hang_are_bounded(names: HangingServer) -> None:
    resolver, before = NameResolver(), threading.active_count()
    for n in range(100):
        with pytest.raises(TimeoutError, match="no name server"):
            resolver.resolve(f"hangs{n}.example", 80, 0.001, lambda: None)
    assert threading.active_count() - before <= 64
    names.answers.set()
    assert resolver.resolve("localhost", 80, 30.0, lambda: None)


def test_a_name_without_addresses_is_an_error_for_each_who_asks(names: HangingServer) -> None:
    resolver = NameResolver()
    for name in ("no-such-name.invalid", "x" * 70 + ".example"):
        for _ in range(2):
            with pytest.raises(OSError):
                resolver.resolve(name, 80, 30.0, lambda: None)
