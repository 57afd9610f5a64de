"""A group with one connection never has two, also when the process that holds it is frozen or held up past its lease."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from docstokg_assets.config import load_config
from docstokg_assets.config.models import plain
from docstokg_assets.domain.works import Location, Work
from docstokg_assets.runs.run import DownloadRun
from docstokg_assets.runs.services import open_services

PROJECT = Path(__file__).resolve().parents[3]
PDF = b"%PDF-1.7\n" + b"x" * 4000 + b"\n%%EOF\n"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/pdf\r\nContent-Length: %d\r\n\r\n" % len(PDF) + PDF

# A pass with short leases. One that is told to freezes itself when its first request has its permit and is about to be sent.
PASS = """
import os, signal, sys, time
import resources.rate_limit.limiter as limiter
from docstokg_assets.config import ContentDownloadConfig
from resources.scope import WorkScope
from docstokg_assets.runs.run import DownloadRun
from docstokg_assets.runs.services import open_services
from resources.http.host_state import HostStateCache

limiter._LEASE_S, limiter._KEEP_S, limiter._TURN_S = 3.0, 0.3, 0.3
admits = HostStateCache.admits

def freeze(self, host):
    HostStateCache.admits = admits
    print("granted", flush=True)
    began = time.monotonic()
    os.kill(os.getpid(), signal.SIGSTOP)
    while time.monotonic() - began < 1.0:  # all threads are stopped a moment later
        time.sleep(0.01)
    print("awake", flush=True)
    return admits(self, host)

if sys.argv[3] == "freezes":
    HostStateCache.admits = freeze
with open_services(ContentDownloadConfig.from_yaml(sys.argv[1], env={})) as services, DownloadRun(services) as run:
    run.drain(WorkScope(int(sys.argv[2])), deadline_s=60.0)
    print("ended", flush=True)
"""


class OneConnection:
    """A web server that counts the connections that are open at the same time, and can withhold its answers."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.answers, self.withheld = threading.Event(), threading.Event()
        self.answers.set()
        self.most = self.asked = 0
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self.answers.set()
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                with self._lock:
                    self._open = {other for other in self._open if _is_open(other)} | {connection}
                    self.most = max(self.most, len(self._open))
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with suppress(OSError):
            while data := connection.recv(65_536):
                assert data.endswith(b"\r\n\r\n")
                self.asked += 1
                if not self.answers.is_set():
                    self.withheld.set()
                    self.answers.wait()
                connection.sendall(ANSWER)
        with self._lock:
            self._open.discard(connection)
            connection.close()


def _is_open(connection: socket.socket) -> bool:
    """Whether the other side has not closed it, though nobody may have noticed yet."""
    try:
        return connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


@pytest.fixture
def server() -> Iterator[OneConnection]:
    made = OneConnection()
    yield made
    made.close()


def _until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.requirement("TRU-7", "HTTP-10")
@pytest.mark.timeout(120)
def test_a_process_that_was_frozen_past_its_lease_does_not_send(server: OneConnection, tmp_path: Path) -> None:
    settings = {
        "data_root": str(tmp_path / "data"),
        "workers": 2,
        "http.proxy": server.url,
        "http.allow_http_hosts": ["one.example"],
        "http.contact_email": "crawler@library-of-tests.edu",
        "robots.enabled": False,
        "rate_limit.policies": {"one.example": "100/second burst 100"},
        "rate_limit.concurrency": {"one.example": 1},
        "resolvers.order": ["openalex"],
    }
    config = load_config(None, {}, settings).value
    with open_services(config) as services, DownloadRun(services) as run:
        run.store_and_enqueue(_work(number, year) for year in (2023, 2024) for number in range(8))
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(plain(config)))
    frozen = _start(tmp_path, 2023, "freezes")
    other = None
    try:
        assert frozen.stdout is not None and frozen.stdout.readline() == "granted\n"
        server.answers.clear()
        other = _start(tmp_path, 2024, "works")
        _until(server.withheld.is_set)  # the lease ran out, and the other process has a request under way
        asked = server.asked
        frozen.send_signal(signal.SIGCONT)
        assert frozen.stdout.readline() == "awake\n"
        with suppress(AssertionError):
            _until(lambda: server.most > 1, 4.0)  # longer than the lease, which the other one keeps
        assert (server.most, server.asked) == (1, asked)
        server.answers.set()
        assert other.wait(60) == frozen.wait(60) == 0
    finally:
        for process in filter(None, (frozen, other)):
            process.kill()
    assert (server.most, server.asked) == (1, 16)


def _work(number: int, year: int) -> Work:
    place = Location(pdf_url=f"http://one.example/{year}/{number}.pdf", is_oa=True)
    return Work(f"W{year}{number:02}", title=f"Work {number}", year=year, locations=(place,))


def _start(folder: Path, year: int, how: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PASS, str(folder / "config.yaml"), str(year), how]
    return subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True)
