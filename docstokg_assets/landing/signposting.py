"""Signposting: typed links in `Link` headers (RFC 8288) and in linksets (RFC 9264), read leniently and in linear time.

Some repositories send malformed headers: Zenodo nests quotes in `type`, Dataverse leaves out the brackets of its licence. After a
part that cannot be read, reading continues at the next `, <`. https://signposting.org/FAIR/ defines the relations.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from docstokg_assets.domain.json_access import items, mapping, text

MAX_HEADER, MAX_LINKS = 256 * 1024, 500  # characters and links; more are not read
_MAX_PARAMETERS = 2000
_NEXT = re.compile(r",[ \t]{0,9}(?=<|https?://[^\s;,\"<>]{1,2000}[ \t]{0,9};)")
_TARGET = re.compile(r"[ \t,;]{0,9}(?:<([^<>]{0,4000})>|(https?://[^\s;,\"<>]{1,2000}))")
_REL = re.compile(r"(?i);[ \t]{0,9}rel[ \t]{0,3}=[ \t]{0,3}(?:\"([^\"]{0,200})\"?|([^\s;,\"]{1,100}))")
_TYPE = re.compile(r"(?i);[ \t]{0,9}type[ \t]{0,3}=[ \t]{0,3}\"?([^\s;,\"]{1,100})")


@dataclass(frozen=True, slots=True)
class TypedLink:
    rel: str  # relations in lower case, with spaces between them
    type: str
    href: str


def parse_link_header(header: str) -> list[TypedLink]:
    """The links of a `Link` header, or of several that were joined with commas. Never raises."""
    found: list[TypedLink] = []
    header, position = header[:MAX_HEADER], 0
    while position < len(header) and len(found) < MAX_LINKS:
        target = _TARGET.match(header, position)
        after = _NEXT.search(header, target.end() if target else position)
        end = after.start() if after else len(header)
        if target:
            parameters = header[target.end() : min(end, target.end() + _MAX_PARAMETERS)]
            rel, kind = _REL.search(parameters), _TYPE.search(parameters)
            href = (target[1] if target[1] is not None else target[2]).strip()
            if rel and href:
                found.append(TypedLink((rel[1] or rel[2] or "").lower(), kind[1].lower() if kind else "", href))
        position = after.end() if after else len(header)
    return found


def parse_linkset(data: Any) -> Iterator[TypedLink]:
    """The links of a linkset in JSON. Keys other than relations, such as DSpace's `uniqueType`, are ignored."""
    for context in items(mapping(data).get("linkset"))[:MAX_LINKS]:
        for rel, targets in list(mapping(context).items())[:50]:
            if rel in ("anchor", "uniqueType"):
                continue
            for target in map(mapping, items(targets)[:MAX_LINKS]):
                if href := text(target.get("href"), 4000):
                    yield TypedLink(str(rel).lower()[:100], (text(target.get("type"), 100) or "").lower(), href)


def link_header(headers: Mapping[str, str]) -> list[TypedLink]:
    """The links of a response whose header names are in lower case."""
    return parse_link_header(headers["link"]) if headers.get("link") else []


def first(links: Iterable[TypedLink], rel: str, kind: str = "") -> str | None:
    """The first target of a relation, of a media type if one is given."""
    return next((one.href for one in links if rel in one.rel.split() and one.type.startswith(kind)), None)
