"""What resolvers that ask an API have in common: the shape of a request, and what an answer without success means.

What stands in a good answer is each resolver's own business; retries and pauses are the driver's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from docstokg_assets.loose_json import text
from docstokg_assets.resolvers.registry import ResolverResult
from resources.http.messages import Request, Response, Role
from resources.records import Reason


def api_request(url: str) -> Request:
    """An API is asked under its own terms; robots.txt speaks of pages."""
    return Request(url, Role.METADATA, obey_robots=False)


def nothing(note: str = "") -> ResolverResult:
    return ResolverResult(reason=Reason.NO_CANDIDATE, note=note)


def failure(response: Response) -> ResolverResult | None:
    """None for a 2xx answer; "not there" is an ordinary empty result, everything else names its reason."""
    if response.ok:
        return None
    note = f"HTTP {response.status}"
    if response.status in (404, 410):
        return nothing(note)
    if response.status == 429:
        return ResolverResult(reason=Reason.RATE_LIMITED, note=note)
    reason = Reason.HTTP_5XX if response.status >= 500 else Reason.HTTP_4XX
    return ResolverResult(reason=reason, note=note)


def bad_answer(note: str) -> ResolverResult:
    return ResolverResult(reason=Reason.BAD_ANSWER, note=text(note) or "")


def json_of(response: Response) -> Any:
    """The JSON value of an answer, or None when it is not JSON."""
    try:
        return response.json()
    except ValueError:
        return None


def answer(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """An answer for an example: JSON for anything but bytes."""
    if isinstance(body, bytes):
        return Response(status, "", {"content-type": "text/html", **(headers or {})}, body)
    return Response(status, "", {"content-type": "application/json", **(headers or {})}, orjson.dumps(body))
