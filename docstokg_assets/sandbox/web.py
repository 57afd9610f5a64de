"""Request routing: which host answers, which faults apply, and the log of requests.

`Web.answer` handles every request: control API, then limits, then faults, then the host. It is synchronous and uses no
sockets, so it can be tested without a server.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from typing import Any

import orjson

from . import hosts
from .faults import Fault, Faults
from .limits import Windows
from .placed import Placed
from .state import SandboxState
from .universe import Universe
from .wire import Handler, Request, Response, finish, json_response, text

ARRIVALS_KEPT = 250_000
_LOCAL = frozenset({"127.0.0.1", "localhost", ""})


class Web:
    def __init__(self, universe: Universe, enforce_limits: bool = True) -> None:
        self.windows = Windows(time.monotonic, enforce_limits)
        self.state = SandboxState(universe, self.windows)
        self.faults = Faults()
        self.arrivals: deque[tuple[float, str, str, str, int, str]] = deque(maxlen=ARRIVALS_KEPT)
        self.by_status: Counter[int] = Counter()
        self._started = time.monotonic()
        self._hosts: dict[str, Handler] = hosts.table(self.state)

    def knows(self, host: str) -> bool:
        return host in self._hosts or host in self.state.placed.hosts

    def note(self, method: str, scheme: str, host: str, path: str, status: int, agent: str) -> None:
        """Log a request (server's monotonic clock)."""
        self.arrivals.append((time.monotonic(), host, method, path, status, agent))
        self.by_status[status] += 1

    def answer(self, request: Request) -> Response:
        if request.host in _LOCAL and not request.path.startswith("/bench/"):
            return self._local(request)
        arrived = time.monotonic()
        response = self._remote(request)
        target = f"{request.raw_path}?{request.query}" if request.query else request.raw_path
        self.arrivals.append(
            (arrived, request.host, request.method, target, response.status, request.headers.get("user-agent", ""))
        )
        self.by_status[response.status] += 1
        return response

    def _remote(self, request: Request) -> Response:
        handler = self._bench if request.host in _LOCAL else self._hosts.get(request.host)
        if request.host in self.state.placed.hosts:
            handler = self._placed
        if handler is None:
            return text(f"sandbox: no such host here: {request.host}\n", 502)
        refusal = self.windows.refuse(request)
        if refusal is not None:
            return refusal
        fault = self.faults.find(request)
        if fault is None:
            return finish(request, self._ask(handler, request))
        response = fault.answer(request) if fault.replaces else finish(request, self._ask(handler, request))
        return fault.spoil(response)

    def _placed(self, request: Request) -> Response:
        target = f"{request.raw_path}?{request.query}" if request.query else request.raw_path
        found = self.state.placed.pages.get((request.host, target))
        if found is not None:
            return found.response(self.state.files)
        own = self._hosts.get(request.host)
        if own is not None:
            return own(request)
        return text("User-agent: *\nDisallow:\n" if request.raw_path == "/robots.txt" else "not found\n",
                    200 if request.raw_path == "/robots.txt" else 404)  # fmt: skip

    @staticmethod
    def _ask(handler: Handler, request: Request) -> Response:
        try:
            return handler(request)
        except Exception as error:  # a bug must be visible to the test and must not stop the server
            return text(f"sandbox: {type(error).__name__}: {error}\n", 599)

    # -- loopback: control API and benchmark files ---------------------------------------------------------------------

    def _local(self, request: Request) -> Response:
        if request.path.startswith("/__control__/"):
            return self._control(request, request.path.removeprefix("/__control__/").rstrip("/"))
        return text("sandbox: use /__control__/... or /bench/<nbytes> here, or ask through the proxy\n", 404)

    def _bench(self, request: Request) -> Response:
        parts = request.path.split("/")[2:]
        if not parts[-1].isdigit():
            return text("sandbox: /bench/<nbytes> or /bench/pdf/<n>\n", 404)
        number = int(parts[-1])
        if parts[0] == "pdf":
            return Response(200, self.state.bench_pdf(number), "application/pdf", etag=f'"bench-{number}"')
        return Response(200, self.state.files.bench_bytes(min(number, 1 << 30)), "application/octet-stream")

    def _control(self, request: Request, what: str) -> Response:
        if what == "faults":
            return self._control_faults(request)
        if what == "placed":
            return self._control_placed(request)
        if what == "health":
            return json_response({"status": "ok"})
        if what == "arrivals":
            return self._control_arrivals(request)
        if what == "violations":
            if request.method == "DELETE":
                self.windows.violations.clear()
            return json_response(list(self.windows.violations))
        if what == "limits" and request.method == "POST":
            self.windows.enforce = bool(orjson.loads(request.body)["enforce"])
            return json_response({"enforce": self.windows.enforce})
        if what == "stats":
            return json_response(self._stats())
        if what == "reset" and request.method == "POST":
            self._reset()
            return json_response({"status": "ok"})
        return text("sandbox: unknown control request\n", 404)

    def _control_placed(self, request: Request) -> Response:
        placed = self.state.placed
        if request.method == "POST":
            try:
                values = orjson.loads(request.body)
                for one in values if isinstance(values, list) else [values]:
                    placed.add(Placed.parse(one))
            except (ValueError, TypeError) as error:
                return json_response({"error": str(error)}, 400)
        elif request.method == "DELETE":
            placed.clear()
        elif request.method == "PUT":
            placed.save_places = int(orjson.loads(request.body)["save_places"])
        return json_response({"pages": len(placed.pages), "saved": placed.saved})

    def _control_faults(self, request: Request) -> Response:
        if request.method == "POST":
            try:
                values = orjson.loads(request.body)
                for one in values if isinstance(values, list) else [values]:
                    self.faults.add(Fault.parse(one))
            except (ValueError, TypeError) as error:
                return json_response({"error": str(error)}, 400)
        elif request.method == "DELETE":
            self.faults.clear()
        return json_response(self.faults.describe())

    def _control_arrivals(self, request: Request) -> Response:
        if request.method == "DELETE":
            self.arrivals.clear()
            return json_response([])
        host = request.param("host")
        names = ("time", "host", "method", "path", "status", "user_agent")
        return json_response(
            [dict(zip(names, row, strict=True)) for row in self.arrivals if not host or row[1] == host]
        )

    def _stats(self) -> dict[str, Any]:
        universe = self.state.universe
        return {
            "uptime_seconds": time.monotonic() - self._started, "requests": sum(self.by_status.values()),
            "by_status": {str(k): v for k, v in sorted(self.by_status.items())},
            "violations": len(self.windows.violations),
            "by_host": dict(Counter(row[1] for row in self.arrivals)), "enforce_limits": self.windows.enforce,
            "seed": universe.seed, "years": list(universe.years), "works_per_year": universe.works_per_year,
            "hosts": sorted(self._hosts),
        }  # fmt: skip

    def _reset(self) -> None:
        self.faults.clear()
        self.state.placed.clear()
        self.arrivals.clear()
        self.windows.reset()
        self.by_status.clear()
        self._hosts = hosts.table(self.state)  # budgets live in the hosts
