"""Find the URL of the PDF in the data that a page carries for its own scripts (`__NEXT_DATA__`, `__INITIAL_STATE__` …).

The data is JSON in a script or in an attribute, assigned to a variable, passed to `JSON.parse`, or a string inside other JSON. A
value counts when it looks like a URL and its key, the keys above it or the values beside it say PDF; keys of other documents
(related articles, supplements, references) exclude all that is below them. Everything is bounded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

_ASSIGNED = re.compile(r"(?:=|\bpush\(|\bparse\(|:)\s{0,5}(?=[{\[\"'])")
_MAX_DATA, _MAX_NODES, _MAX_DEPTH, _MAX_INNER = 12, 40_000, 40, 6
_MAX_FOUND = 20
_DECODER = json.JSONDecoder()
_URL = re.compile(
    r"(?:https?:/|\.{0,2}/)[^\s\"'<>{}|^`]{2,1500}|[\w%.-]{1,200}(?:/[\w%.~-]{1,200}){0,12}\.pdf(?:\?[^\s\"'<>]{0,300})?",
    re.ASCII,
)
_PDF_URL = re.compile(r"(?i)\.pdf(?:$|[?#])|/e?pdf(?:ft|direct)?(?:$|[/?#])|[=/-]pdf(?:$|&)")
_URL_KEY = re.compile(r"(?i)url|href|link|path|src|file|download|content|uri|location|self|pdf")
_WORDS_BESIDE = """type mimetype mime format contenttype encodingformat kind label name filename key title extension filetype
ext role category description display displayname rel"""
_BESIDE = frozenset(_WORDS_BESIDE.split())
_NESTED = frozenset(
    {"links", "link", "urls", "url", "attributes", "file"}
)  # the URL of a file, one level below what describes it
# Keys and descriptions of other documents than the article.
_OTHER = re.compile(
    r"(?i)relat(?:ed|ion)|recommend|similar|suggest|references?$|reflist|bibliograph|cited|citing|suppl|append|additional"
    r"|attachment|preview|thumb|cover|issue_?pdf|(?:full|whole)_?issue|\btoc\b|guideline|polic(?:y|ies)|template|figures?$"
    r"|tables?$|poster|slides?|correction|erratum|peer_?review|review_?(?:er|report|history|file)|agreement|terms"
    r"|licen[cs]e|advert|banner|footer|^nav|menu|media_?kit|flyer|next_?article|prev|other_?articles|trending|most_?read"
    r"|dataset|checklist|disclosure|highlights|graphical|letter|proof|help|faq|cookie|privacy|icon|logo|sample|excerpt"
)
_OWN = re.compile(
    r"(?i)article|paper|manuscript|document|record|publication|preprint|item|work|chapter|fulltext|full_text"
)


def files_in_state(script: str) -> Iterator[str]:
    """URLs of PDFs in the data of a script or attribute, the most trusted first."""
    if "pdf" not in script.lower():
        return
    found: dict[str, int] = {}
    budget = [_MAX_NODES]
    for data, _ in islice(_data(script), _MAX_DATA):
        for url, points in _walk(data, budget):
            found[url] = max(points, found.get(url, 0))
            if len(found) >= _MAX_FOUND:
                break
    yield from sorted(found, key=lambda url: -found[url])


def has_data(script: str) -> bool:
    """Whether most of a script is data that `files_in_state` reads; else patterns are looked for in its text."""
    read = (length for data, length in islice(_data(script), _MAX_DATA) if not isinstance(data, str))
    return 2 * sum(read) >= len(script)


def _data(script: str) -> Iterator[tuple[Any, int]]:
    """The JSON values of a script, each with its length: all of it, or what is assigned or passed."""
    text = script.strip()
    if text[:1] in '{["' and (whole := _loads(text)) is not None:
        yield whole, len(script)
        return
    end, tries = 0, 0
    for match in _ASSIGNED.finditer(text):
        if match.end() < end:
            continue  # inside what was read already
        tries += 1
        if tries > 400:
            return
        try:
            value, end = _DECODER.raw_decode(text, match.end())
        except (ValueError, RecursionError):
            continue
        if isinstance(value, str) and (len(value) < 20 or "pdf" not in value.lower()):
            continue
        if isinstance(value, dict | list | str) and value:
            yield value, end - match.end()


def _loads(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _walk(data: Any, budget: list[int]) -> Iterator[tuple[str, int]]:
    """URLs with their points; `budget` is the number of values that may still be looked at."""
    pending: list[tuple[Any, tuple[str, ...], int]] = [(data, (), 0)]
    inner = 0
    while pending and budget[0] > 0:
        node, keys, beside = pending.pop()
        budget[0] -= 1
        if len(keys) > _MAX_DEPTH:
            continue
        if isinstance(node, str):
            if (points := _points(node, keys, beside)) > 0:
                yield node, points
            elif inner < _MAX_INNER and len(node) > 20 and "pdf" in node.lower():
                inner += 1
                # a JSON text inside a string, or the chunk of a stream: `12:["$","a",{…}]`
                start = min((at for at in (node.find("{"), node.find("[")) if at >= 0), default=-1)
                if 0 <= start < 40 and (value := _decoded(node, start)) is not None:
                    pending.append((value, keys, 0))
        elif isinstance(node, dict):
            described = _described(node)
            if described is None:
                continue
            if not described and keys and _plain(keys[-1]) in _NESTED:
                described = beside
            children = [(value, (*keys, str(key)[:80]), described) for key, value in node.items()]
            pending.extend(child for child in reversed(children) if not _other(child[1][-1]))
        elif isinstance(node, list):
            pending.extend((value, keys, beside) for value in reversed(node[:2000]))


def _decoded(text: str, start: int) -> Any:
    try:
        value, _ = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None


def _other(key: str) -> bool:
    return key.lower() != "citation_pdf_url" and _OTHER.search(key) is not None


def _described(node: dict[str, Any]) -> int | None:
    """3 when the values beside a URL say that it is a PDF, 0 when they say nothing, None when they say that it is another
    document."""
    points = 0
    for key, value in islice(node.items(), 60):
        if isinstance(value, str) and _plain(key) in _BESIDE:
            said = value[:200].lower()
            if key.lower() != "title" and len(said) < 60 and _OTHER.search(said):
                return None
            points = 3 if said == "pdf" or "application/pdf" in said or said.endswith((".pdf", "pdf")) else points
    return points


def _plain(key: str) -> str:
    return key.lower().replace("_", "").replace("-", "").lstrip("@$")


def _points(value: str, keys: tuple[str, ...], beside: int) -> int:
    if not keys or _plain(keys[-1]) in _BESIDE or not _URL.fullmatch(value):
        return 0
    key, above = keys[-1].lower(), keys[-2].lower() if len(keys) > 1 else ""
    says_pdf = 3 * ("pdf" in key) + 2 * ("pdf" in above) + beside
    looks = 2 * bool(_PDF_URL.search(value))
    if not (_URL_KEY.search(key) or "pdf" in above) or says_pdf + looks < 3 or not (says_pdf or looks):
        return 0
    if not says_pdf and key not in ("downloadurl", "download_url", "fileurl", "file_url", "contenturl"):
        return 0
    return says_pdf + bool(any(_OWN.search(one) for one in keys))
