"""The handle with which tests, demos and benchmarks control a running sandbox.

The server is a separate process that exits with its parent. Control calls go straight to loopback with the standard
library, never through the project's HTTP client.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote

from .mix import Mix
from .universe import Universe


class SandboxError(RuntimeError):
    """The sandbox did not start, or did not answer as expected."""


class Sandbox:
    """A running sandbox. Use `Sandbox.start(...)`, preferably as a context manager."""

    def __init__(self, process: subprocess.Popen[str], port: int, ca_bundle: Path, universe: Universe) -> None:
        self._process = process
        self.pid = process.pid
        self.port = port
        self.ca_bundle = ca_bundle
        self.universe = universe
        self.base_url = f"http://127.0.0.1:{port}"
        self.proxy_url = self.base_url

    @classmethod
    def start(
        cls,
        state_dir: str | Path,
        *,
        seed: int = 7,
        works_per_year: int = 200,
        years: tuple[int, int] = (2021, 2026),
        profile: str = "default",
        mix: Mapping[str, Any] | None = None,
        enforce_limits: bool = True,
        port: int = 0,
    ) -> Sandbox:
        """Start a server process and wait until it answers."""
        universe = Universe(seed, works_per_year, years, Mix.load(profile, mix))
        folder = Path(state_dir).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        command = [
            sys.executable, "-m", __package__, "--state-dir", str(folder), "--port", str(port), "--seed", str(seed),
            "--works-per-year", str(works_per_year), "--first-year", str(years[0]), "--last-year", str(years[1]),
            "--profile", profile, "--mix", json.dumps(dict(mix or {})), "--watch-stdin",
        ]  # fmt: skip
        if not enforce_limits:
            command.append("--no-enforce-limits")
        root = Path(__file__).resolve().parents[2]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root)
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise SandboxError(f"the sandbox ended at start with code {process.wait()}")
        ready = json.loads(line)
        return cls(process, ready["port"], Path(ready["ca_bundle"]), universe)

    # -- control -------------------------------------------------------------------------------------------------------

    def control(self, method: str, path: str, body: Any = None) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, f"/__control__/{path}", json.dumps(body) if body is not None else None)
            response = connection.getresponse()
            data = response.read()
        finally:
            connection.close()
        if response.status != 200:
            raise SandboxError(f"{method} {path}: {response.status} {data[:300].decode(errors='replace')}")
        return json.loads(data)

    def add_fault(self, **fault: Any) -> None:
        """Switch a fault on: the fields of `faults.Fault`, e.g. `host="arxiv.org", status=503, times=2`."""
        self.control("POST", "faults", fault)

    def clear_faults(self) -> None:
        self.control("DELETE", "faults")

    def place(self, *resources: Mapping[str, Any]) -> None:
        """Place resources under any URL, or captures of them in the archive: the fields of `placed.Placed`."""
        self.control("POST", "placed", list(resources))

    def set_save_places(self, count: int) -> None:
        """How many captures Save Page Now says that it would begin for us."""
        self.control("PUT", "placed", {"save_places": count})

    def arrivals(self, host: str | None = None) -> list[dict[str, Any]]:
        """Return the requests received, oldest first: time (server's monotonic clock), host, method, path, status, user_agent."""
        result: list[dict[str, Any]] = self.control("GET", f"arrivals?host={quote(host)}" if host else "arrivals")
        return result

    def violations(self) -> list[dict[str, Any]]:
        result: list[dict[str, Any]] = self.control("GET", "violations")
        return result

    def stats(self) -> dict[str, Any]:
        result: dict[str, Any] = self.control("GET", "stats")
        return result

    def enforce_limits(self, on: bool) -> None:
        self.control("POST", "limits", {"enforce": on})

    def reset(self) -> None:
        """Clear faults, received requests, violations and budgets."""
        self.control("POST", "reset")

    def stop(self) -> None:
        """Close the server's standard input, which stops it; kill it if it does not stop."""
        for stream in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                if stream is not None:
                    stream.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
