"""Requests to provider APIs, alone or for several works at once, and how answers are read: errors, JSON, DOIs, licences."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from docstokg_assets.domain.identifiers import normalize_doi
from docstokg_assets.domain.json_access import text
from docstokg_assets.domain.plans import Candidate
from docstokg_assets.resolvers.registry import ResolverResult
from resources.http.exchange import reason_of_status
from resources.http.messages import BatchableRequest, Request, Response, Role
from resources.records import Reason

_CC_URL = re.compile(r"(?i)https?://creativecommons\.org/(?:licenses/(by[a-z-]*)|(publicdomain/zero))/.*")
_CC_NAME = re.compile(r"(?i)cc[\s_-]*(by|0|zero)((?:[\s_-]*(?:nc|nd|sa))*)(?![a-z]).*")


def api_request(url: str, **fields: Any) -> Request:
    """A metadata request. APIs are used under their own terms, so robots.txt, which is about pages, does not apply.

    `fields` are further fields of the Request.
    """
    return Request(url, Role.METADATA, obey_robots=False, **fields)


@dataclass(frozen=True, slots=True)
class BatchBuilder:
    """Call `build` with the items of a batch and with what the work's context gives, such as a key.

    Requests with equal builders may be sent as one.
    """

    build: Callable[..., Request]
    arguments: tuple[Any, ...] = field(default=(), repr=False)  # may hold a key

    def __call__(self, items: Sequence[str]) -> Request:
        return self.build(items, *self.arguments)


def batchable_request(
    item: str,
    most: int,
    build: Callable[..., Request],
    *arguments: Any,
    is_for_all: Callable[[Response], bool] = lambda response: False,
) -> Request:
    """A request for `item` that may also carry the items of other works, at most `most` of them.

    `build(items, *arguments)` makes the request for several items; `response.items` lists them in the order asked for.
    `is_for_all` tells an error about the whole batch from one that a single item caused.
    """
    builder = BatchBuilder(build, arguments)
    return replace(builder([item]), batchable=BatchableRequest(item, most, builder, is_for_all))


def nothing(note: str = "") -> ResolverResult:
    """An empty result: the provider knows no copy."""
    return ResolverResult(reason=Reason.NO_CANDIDATE, note=note)


def result_of(candidates: Iterable[Candidate], note: str = "") -> ResolverResult:
    """A result with these candidates, or an empty one with `note` when there are none."""
    found = tuple(candidates)
    return ResolverResult(found) if found else nothing(note)


def failure(response: Response) -> ResolverResult | None:
    """The result for an HTTP error; None for a 2xx answer. "Not found" is an ordinary empty result."""
    if response.ok:
        return None
    note = f"HTTP {response.status}"
    if response.status in (404, 410):
        return nothing(note)
    if response.status in (401, 403):
        note += ", as for a key that is missing or wrong"
    reason = reason_of_status(response.status)
    return ResolverResult(reason=Reason.HTTP_4XX if reason is Reason.OK else reason, note=note)


def bad_answer(note: str) -> ResolverResult:
    """The result for a 2xx answer that does not have the documented form."""
    return ResolverResult(reason=Reason.BAD_ANSWER, note=text(note) or "")


def json_of(response: Response) -> Any:
    """The JSON value of an answer, or None when it is not JSON."""
    try:
        return response.json()
    except ValueError:
        return None


def phrase(value: str) -> str:
    """A quoted phrase for the query languages of search engines, which match it literally."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def names_doi(value: Any, doi: str) -> bool:
    """Whether a value from a provider is this DOI; searches also return similar ones."""
    found = normalize_doi(value)
    return found is not None and found.lower() == doi.lower()


def license_name(value: Any) -> str | None:
    """`cc-by`, `cc-by-nc`, `cc0` … from any spelling or link that providers use; other licences as written."""
    written = text(value, 200)
    if written and (link := _CC_URL.fullmatch(written)):
        return f"cc-{link[1].lower()}" if link[1] else "cc0"
    if written and (name := _CC_NAME.fullmatch(written)):
        parts = re.findall("nc|nd|sa", name[2].lower())
        return "-".join(("cc-by", *parts)) if name[1].lower() == "by" else "cc0"
    return written
