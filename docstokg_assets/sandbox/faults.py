"""Faults that are switched on while the server runs: by host and path pattern, for the first N requests or for all.

A fault replaces or damages the normal answer. It is plain data (JSON over the control API); `server.py` writes the
bytes.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from fnmatch import fnmatchcase
from typing import Any
from zlib import crc32

from .files import WALLS
from .wire import Request, Response, redirect

_VALIDATORS = ("ETag", "Last-Modified", "Accept-Ranges")


@dataclass
class Fault:
    """One fault. Effects can be combined; `times=None` keeps it active until it is cleared."""

    host: str = "*"  # glob over the host
    path: str = "*"  # glob over path and query
    method: str = "*"
    name: str = ""  # for those who read the list; with `share` it also says which addresses are meant
    share: float = 1.0  # of the addresses that match: always the same ones, whatever the order of the requests
    times: int | None = None
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    body: str | None = None
    body_repeat: int = 1  # for bodies too long to be sent as JSON
    body_hex: str | None = None  # bytes that JSON cannot carry, e.g. a compression bomb
    type: str | None = None
    delay: float = 0.0
    drip: float = 0.0  # bytes of body a second
    header_drip: float = 0.0  # bytes of head a second
    truncate: int | None = None  # bytes sent before the connection is closed; Content-Length stays whole
    loop: bool = False  # redirect to itself by way of a query counter
    redirect: str | None = None
    wall: str | None = None  # cookie | captcha | login | pow
    close: bool = False  # close without an answer
    endless: bool = False  # a chunked body that never ends
    no_length: bool = False  # no Content-Length; the connection is closed after the body
    stamp: bool = False  # a PDF sent whole ends with a line of its own, so that no two copies are equal; no ETag
    used: int = 0

    @classmethod
    def parse(cls, values: dict[str, Any]) -> Fault:
        known = {f.name for f in fields(cls)} - {"used"}
        unknown = sorted(set(values) - known)
        if unknown:
            raise ValueError(f"unknown in fault: {', '.join(unknown)}; known: {', '.join(sorted(known))}")
        if values.get("wall") is not None and values["wall"] not in WALLS:
            raise ValueError(f"unknown wall; known: {', '.join(WALLS)}")
        return cls(**values)

    def matches(self, request: Request) -> bool:
        if self.times is not None and self.used >= self.times:
            return False
        target = f"{request.path}?{request.query}" if request.query else request.path
        return (
            fnmatchcase(request.host, self.host.lower())
            and (self.path == "*" or fnmatchcase(target, self.path) or fnmatchcase(request.path, self.path))
            and self.method in ("*", request.method)
            and (self.share >= 1.0 or crc32(f"{self.name} {request.host}{target}".encode()) < self.share * 2**32)
        )

    @property
    def replaces(self) -> bool:
        """Whether the fault answers instead of the host."""
        return bool(self.status or self.loop or self.redirect or self.wall or self.close)

    def answer(self, request: Request) -> Response:
        if self.close:
            return Response(abort=True)
        if self.loop:
            turn = int(request.param("turn", "0") or 0) + 1
            return redirect(f"{request.scheme}://{request.host}{request.raw_path}?turn={turn % 2}")
        if self.redirect:
            return redirect(self.redirect)
        if self.wall:
            status, page = WALLS[self.wall]
            return Response(status, page.encode())
        return Response(self.status or 200, b"fault", "text/plain")

    def spoil(self, response: Response) -> Response:
        """Apply the effects to an answer of the fault or of the host."""
        if self.body is not None:
            response.body = self.body.encode() * self.body_repeat
        if self.body_hex is not None:
            response.body = bytes.fromhex(self.body_hex)
        if self.type is not None:
            response.type = self.type
        response.headers += list(self.headers.items())
        response.delay += self.delay
        response.endless, response.length = self.endless, not self.no_length
        response.drip = self.drip or response.drip
        response.header_drip = self.header_drip or response.header_drip
        if self.stamp and response.status == 200 and response.body.startswith(b"%PDF-"):
            response.body += b"%% copy %d\n" % self.used
            response.headers = [(name, value) for name, value in response.headers if name not in _VALIDATORS]
        if self.truncate is not None:
            response.send = self.truncate
        return response


class Faults:
    """The active faults in the order in which they were added; the first match applies."""

    def __init__(self) -> None:
        self._active: list[Fault] = []

    def add(self, fault: Fault) -> None:
        self._active.append(fault)

    def clear(self) -> None:
        self._active.clear()

    def find(self, request: Request) -> Fault | None:
        for fault in self._active:
            if fault.matches(request):
                fault.used += 1
                return fault
        return None

    def describe(self) -> list[dict[str, Any]]:
        return [asdict(fault) for fault in self._active]
