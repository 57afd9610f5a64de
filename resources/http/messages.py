"""Request and Response, and the sink that a body can be streamed into without being kept in memory.

A Request says what is wanted, never how it is retried, paced or secured; exchange and driver decide that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import mktime_tz, parsedate_tz
from enum import StrEnum
from typing import Any, Protocol

import orjson

REDIRECTS = frozenset({301, 302, 303, 307, 308})


class Role(StrEnum):
    """The purpose of a request; decides headers, limits, robots and caching."""

    METADATA = "metadata"
    LANDING = "landing"
    ARTIFACT = "artifact"


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """Status line and headers (names in lower case) of one answer."""

    status: int
    url: str
    headers: Mapping[str, str]

    @property
    def content_type(self) -> str | None:
        """The media type alone, in lower case."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower() or None

    @property
    def content_length(self) -> int | None:
        return parse_length(self.headers.get("content-length"))


def parse_length(value: str | None) -> int | None:
    """A Content-Length, or None where the header is missing, no number, or none that any store could hold."""
    return int(value) if value and len(value) <= 18 and value.isascii() and value.isdigit() else None


def parse_http_date(text: str) -> float | None:
    """Epoch seconds; None when the text is not a date. HTTP dates are in GMT, also where they do not say so."""
    try:
        date = parsedate_tz(text)
        return mktime_tz((*date[:9], date[9] or 0)) if date else None
    except (ValueError, OverflowError, TypeError, IndexError):
        return None  # the standard library's parser fails in several ways


class BodySink(Protocol):
    """Takes a body piece by piece while it arrives. `write` may raise BodyTooLarge or another HttpError to stop the transfer."""

    def write(self, chunk: bytes) -> None: ...

    def finish(self) -> Any:
        """The body is whole. What is returned becomes `Response.payload`."""

    def abort(self) -> None:
        """The body will not be completed; leave nothing behind. Must be safe to call at any time, also twice."""


@dataclass(frozen=True, slots=True)
class Unfinished:
    """The beginning of a body that broke off: in a sink, which continues with the rest or is aborted."""

    head: ResponseHead
    sink: BodySink
    size: int
    etag: str

    @classmethod
    def of(cls, head: ResponseHead, sink: BodySink, size: int) -> Unfinished | None:
        """None where the rest cannot be requested: that needs ranges, a strong validator, and no content coding."""
        etag = head.headers.get("etag", "")
        coded = head.headers.get("content-encoding", "identity").strip().lower() != "identity"
        ranges = "bytes" in head.headers.get("accept-ranges", "").lower()
        if head.status != 200 or size == 0 or coded or not ranges or not etag.startswith('"'):
            return None
        return cls(head, sink, size, etag)

    @property
    def headers(self) -> dict[str, str]:
        """The headers that request the rest, or all of it if it has changed."""
        return {"Range": f"bytes={self.size}-", "If-Range": self.etag}

    def is_continued_by(self, head: ResponseHead) -> bool:
        first, _, size = head.headers.get("content-range", "").removeprefix("bytes ").partition("/")
        fits = first.startswith(f"{self.size}-") and size in ("*", str(self.head.content_length or size))
        return head.status == 206 and fits and head.headers.get("etag", self.etag) == self.etag

    def whole_size(self, rest: ResponseHead) -> int | None:
        """Size of the whole body, where either answer states it; a server may send less than the whole rest."""
        total = rest.headers.get("content-range", "").rpartition("/")[2]
        return self.head.content_length or parse_length(total)


@dataclass(frozen=True, slots=True)
class BatchableRequest:
    """How to merge requests that wait for the same endpoint. Those with equal `build` may be sent as one; the answer then goes to
    each of them, with the `items` that were requested."""

    item: str
    most: int  # items in one request
    build: Callable[[Sequence[str]], Request]
    # Whether a refusal concerns all items, and not a single bad one: then they are not retried alone.
    is_for_all: Callable[[Response], bool] = lambda response: False


@dataclass(frozen=True, slots=True)
class Request:
    url: str
    role: Role
    verb: str = "GET"
    body: bytes | None = None
    repeatable: bool = True  # False: sent once; repeated only when the server says that it did nothing (429)
    batchable: BatchableRequest | None = None
    resolver: str | None = None
    tier: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)  # besides those of the role; never a key
    # Secrets travel apart from the URL and the headers, so that records of either cannot show them.
    secret_headers: Mapping[str, str] = field(default_factory=dict)
    secret_params: Mapping[str, str] = field(default_factory=dict)
    referer: str | None = None
    pause_s: float = 0.0  # before it is sent, e.g. between two polls
    obey_robots: bool = True
    cache: bool = True  # False: a fresh answer is needed
    follow_redirects: bool = True
    max_bytes: int | None = None  # of a body that is kept in memory; a sink has its own rule
    beginning_only: bool = False  # take the first `max_bytes` of a longer body instead of failing
    sink: Callable[[ResponseHead], BodySink] | None = None  # opened for a 2xx answer only
    # Whether an answer (status, headers, body) is final although its status is one that is retried.
    final: Callable[[int, Mapping[str, str], bytes], bool] | None = None


@dataclass(frozen=True, slots=True)
class Response(ResponseHead):
    """The last answer of an exchange, its body read: in `body`, or in what the sink made of it (`payload`). `url` is where it
    came from, after redirects."""

    body: bytes = b""
    payload: Any = None
    hops: tuple[str, ...] = ()  # URLs before `url`
    elapsed_ms: int = 0
    items: tuple[str, ...] = ()  # of a batchable request, in the order of the request
    # Put a landing page, and the redirects that led to it, into the cache: called by whoever read it and found it useful.
    keep: Callable[[], None] = field(default=lambda: None, repr=False, compare=False)

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    def json(self) -> Any:
        """The body as JSON; ValueError when it is not."""
        return orjson.loads(self.body)
