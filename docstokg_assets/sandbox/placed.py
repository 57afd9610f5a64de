"""Resources that a test places under any URL, and captures and Save Page Now answers for them.

They come before what the simulated hosts answer themselves; a host that exists only here answers 404 for everything else.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field, fields
from hashlib import sha1
from typing import Any
from urllib.parse import urlsplit

from .files import FileMaker
from .wire import Response


@dataclass
class Placed:
    """A resource, or with `timestamp` a capture of one in the archive."""

    url: str
    status: int = 200
    body: str = ""
    pdf: int | None = None  # a generated PDF of that number instead of `body`
    size: int = 0  # the PDF is filled up to so many bytes
    type: str = "text/html; charset=utf-8"
    headers: dict[str, str] = field(default_factory=dict)
    drip: float = 0.0  # bytes a second
    timestamp: str = ""
    revisit: bool = False  # a capture whose bytes are those of another one
    save: str = ""  # what Save Page Now says instead of capturing it: a `status_ext`

    @classmethod
    def parse(cls, values: dict[str, Any]) -> Placed:
        unknown = sorted(set(values) - {f.name for f in fields(cls)})
        if unknown:
            raise ValueError(f"unknown in placed resource: {', '.join(unknown)}")
        return cls(**values)

    def content(self, files: FileMaker) -> bytes:
        if self.pdf is None:
            return self.body.encode()
        whole = files.bench_pdf(self.pdf)
        head, mark, tail = whole.partition(b"\n")
        return head + mark + b"%" + b"x" * max(0, self.size - len(whole)) + b"\n" + tail if self.size else whole

    def mimetype(self) -> str:
        return "application/pdf" if self.pdf is not None else self.type.partition(";")[0]

    def response(self, files: FileMaker) -> Response:
        headers = list(self.headers.items())
        kind = "application/pdf" if self.pdf is not None else self.type
        return Response(self.status, self.content(files), kind, headers, drip=self.drip)


def key_of(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.netloc.lower(), (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


class PlacedResources:
    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.pages: dict[tuple[str, str], Placed] = {}
        self.captures: dict[tuple[str, str], list[Placed]] = {}
        self.hosts: set[str] = set()
        self.save_places = 10  # what /save/status/user says
        self.saved: list[str] = []

    def add(self, placed: Placed) -> None:
        key = key_of(placed.url)
        if placed.timestamp:
            self.captures.setdefault(key, []).append(placed)
            self.captures[key].sort(key=lambda each: each.timestamp)
        else:
            self.pages[key] = placed
            self.hosts.add(key[0])

    def row(self, placed: Placed, files: FileMaker) -> dict[str, str]:
        """The row of the archive's index for a capture."""
        host, path = key_of(placed.url)
        digest = base64.b32encode(sha1(placed.content(files)).digest()).decode()
        return {
            "urlkey": f"{','.join(reversed(host.removeprefix('www.').split('.')))}){path}",
            "timestamp": placed.timestamp,
            "original": placed.url,
            "mimetype": "warc/revisit" if placed.revisit else placed.mimetype(),
            "statuscode": "-" if placed.revisit else str(placed.status),
            "digest": digest,
            "length": str(len(placed.content(files))),
        }
