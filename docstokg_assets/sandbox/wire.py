"""Requests and responses as plain values, and helpers that every response needs.

No sockets: `server.py` reads and writes these values, `hosts/` and `faults.py` create and change them.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import format_datetime, parsedate_to_datetime
from functools import cached_property
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, unquote

import orjson

Headers = list[tuple[str, str]]
REASONS = {s.value: s.phrase for s in HTTPStatus}


@dataclass
class Request:
    method: str
    scheme: str
    host: str  # lower case, without port
    raw_path: str  # as sent, without query
    query: str
    headers: dict[str, str]  # names in lower case
    body: bytes = b""

    @cached_property
    def path(self) -> str:
        return unquote(self.raw_path)

    @cached_property
    def params(self) -> list[tuple[str, str]]:
        return parse_qsl(self.query, keep_blank_values=True)

    def param(self, name: str, default: str = "") -> str:
        """Return the last value of a query parameter."""
        return next((v for k, v in reversed(self.params) if k == name), default)

    @cached_property
    def cookies(self) -> dict[str, str]:
        pairs = (part.strip().partition("=") for part in self.headers.get("cookie", "").split(";"))
        return {name: value for name, _, value in pairs if name}


@dataclass
class Response:
    status: int = 200
    body: bytes = b""
    type: str = "text/html; charset=utf-8"
    headers: Headers = field(default_factory=list)
    etag: str = ""  # set on files: turns on conditional and range answers
    modified: dt.datetime | None = None
    delay: float = 0.0  # seconds before the first byte
    drip: float = 0.0  # bytes of body a second; 0: at once
    header_drip: float = 0.0  # bytes of head a second; 0: at once
    send: int | None = None  # bytes of body really sent before the connection is closed; None: all
    abort: bool = False  # close without an answer
    endless: bool = False  # repeat the body in chunks until the client disconnects
    length: bool = True  # whether Content-Length is sent; without it the end of the connection ends the body


Handler = Callable[[Request], Response]


def json_response(value: Any, status: int = 200, headers: Headers | None = None) -> Response:
    return Response(status, orjson.dumps(value), "application/json", headers or [])


def text(
    body: str, status: int = 200, kind: str = "text/plain; charset=utf-8", headers: Headers | None = None
) -> Response:
    return Response(status, body.encode(), kind, headers or [])


def redirect(url: str, status: int = 302, headers: Headers | None = None) -> Response:
    return Response(status, b"", "text/html; charset=utf-8", [("Location", url), *(headers or [])])


def not_found(message: str = "Not Found") -> Response:
    return text(
        f"<!doctype html>\n<html lang=en>\n<title>404 Not Found</title>\n<h1>{message}</h1>\n",
        404,
        "text/html; charset=utf-8",
    )


def http_date(moment: dt.datetime) -> str:
    return format_datetime(moment.replace(tzinfo=dt.UTC), usegmt=True)


def finish(request: Request, response: Response) -> Response:
    """Answer conditional and range requests for files with an ETag (RFC 9110, single ranges only)."""
    if not response.etag or response.status != 200:
        return response
    response.headers += [("ETag", response.etag), ("Accept-Ranges", "bytes")]
    if response.modified:
        response.headers.append(("Last-Modified", http_date(response.modified)))
    if _unchanged(request, response):
        response.status, response.body = 304, b""
        return response
    wanted = request.headers.get("range", "")
    if wanted and request.headers.get("if-range", response.etag) == response.etag:
        _cut_range(wanted, response)
    return response


def _unchanged(request: Request, response: Response) -> bool:
    tags = request.headers.get("if-none-match")
    if tags is not None:
        return tags.strip() == "*" or response.etag in [t.strip().removeprefix("W/") for t in tags.split(",")]
    since = request.headers.get("if-modified-since")
    if since is None or response.modified is None:
        return False
    try:
        return response.modified.replace(tzinfo=dt.UTC) <= parsedate_to_datetime(since)
    except (ValueError, TypeError):
        return False


def _cut_range(wanted: str, response: Response) -> None:
    unit, _, spec = wanted.partition("=")
    first, dash, last = spec.partition("-")
    size = len(response.body)
    if unit.strip() != "bytes" or not dash or "," in spec or not (first + last).isdigit():
        return
    start = int(first) if first else max(0, size - int(last))
    end = min(int(last), size - 1) if first and last else size - 1
    if start >= size or end < start:
        response.status, response.body = 416, b""
        response.headers.append(("Content-Range", f"bytes */{size}"))
        return
    response.status, response.body = 206, response.body[start : end + 1]
    response.headers.append(("Content-Range", f"bytes {start}-{end}/{size}"))
