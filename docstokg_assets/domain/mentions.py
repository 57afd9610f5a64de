"""Find identifiers anywhere in a line of text: in quotes, in brackets, in addresses, several in one line. No I/O, no lookup."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from urllib.parse import unquote

from docstokg_assets.domain.identifiers import (
    Identifier,
    normalize_arxiv,
    normalize_doi,
    normalize_pmcid,
    normalize_url,
    parse_identifier,
)

_MAX_LINE = 100_000  # characters of a line that are searched
_INVISIBLE = re.compile("[\u200b-\u200f\u2060\ufeff\u00ad]")
_SEPARATED = (
    r"(?![,;|]+\s*(?:https?://|doi\b|10\.[0-9]{4,9}/|pmc?i?d?:?\s?[0-9]|arxiv:|W[0-9]{5}))"  # another one follows
)
_FOUND = re.compile(
    rf"""(?xi)
    (?P<url> https?://(?:{_SEPARATED}[^\s<>"“”|])+ )
    | (?<![0-9.]) (?P<doi> 10\.[0-9]{{4,9}}(?:\.[0-9]+)*(?:/|%2F)(?:{_SEPARATED}[^\s"“”|])+ )
    | \bpmc(?:id)?[:\#\s]*(?:PMC)? (?P<pmc>[1-9][0-9]{{1,9}}) (?![0-9])
    | \b(?:pmids?|pubmed(?:\s+ids?)?)[:\#\s]\s* (?P<pmid>[1-9][0-9]{{0,9}}(?:\s*[,;/]\s*[1-9][0-9]{{4,9}})*) (?![0-9.])
    | \barxiv(?:\.org/(?:abs|pdf|html)/|[:\s]\s*) (?P<arxiv>[0-9]{{4}}\.[0-9]{{4,5}}|[a-z-]{{2,16}}(?:\.[a-z]{{2}})?/[0-9]{{7}})
      (?P<version>v[1-9][0-9]?)?
    | (?<![\w./]) (?P<bare>[0-9]{{2}}(?:0[1-9]|1[0-2])\.[0-9]{{4,5}}(?:v[1-9][0-9]?)?
      |[a-z]{{2,10}}(?:-[a-z]{{2,5}})?/[0-9]{{7}}) (?![\w/])
    | (?<![\w/.]) (?P<openalex>W[1-9][0-9]{{4,14}}) (?!\w)
    """
)
_IN_URL = re.compile(r"(?<![0-9.])10\.[0-9]{4,9}(?:\.[0-9]+)*/[^\s&?#]+")
_PAGE_SUFFIX = re.compile(
    r"(?i)(?:/(?:full|fulltext|full-text|abstract|abs|pdf|epdf|pdfft|html|xml|meta|summary|references|figures|citation|download)"
    r"(?:/.*)?|\.(?:full|abstract)(?:\.\w+)?|\.(?:pdf|html?|xml|epub))$"
)


def find_mentions(line: str) -> list[Identifier | str]:
    """The identifiers of a line in their order, each once; where there is none, its http(s) addresses."""
    text = _INVISIBLE.sub("", line[:_MAX_LINE]).strip()
    whole = text.strip("'\"“”‘’<>")
    if whole and not any(space in whole for space in " \t,;|") and (known := parse_identifier(whole)) is not None:
        return [known]
    if "&" in text and ";" in text:
        text = html.unescape(text)
    found = list(dict.fromkeys(one for match in _FOUND.finditer(text) for one in _mentioned(match)))
    return [one for one in found if isinstance(one, Identifier)] or list(found)


def _mentioned(match: re.Match[str]) -> Iterator[Identifier | str]:
    kind, value = match.lastgroup or "", match[match.lastgroup or 0]
    if kind == "version":
        kind, value = "arxiv", f"{match['arxiv']}{match['version']}"
    if kind == "url":
        yield from filter(None, [_of_url(_cut(value))])
    elif kind == "doi":
        yield from filter(None, [_of_doi(_cut(value))])
    elif kind == "pmc":
        yield Identifier("pmcid", f"PMC{value}")
    elif kind == "pmid":
        yield from (Identifier("pmid", number) for number in re.findall("[0-9]+", value))
    elif kind == "openalex":
        yield Identifier("openalex", value.upper())
    elif (arxiv := normalize_arxiv(value)) is not None:
        yield Identifier("arxiv", arxiv)


def _cut(value: str) -> str:
    """Without what follows an identifier in marked-up text. Only old DOIs (SICI) have angle brackets inside."""
    value = value.partition("](")[0].partition("}{")[0]
    if "<" in value and "sici" not in value.lower():
        value = value.partition("<")[0]
    return value


def _of_doi(value: str) -> Identifier | None:
    known = parse_identifier(unquote(value) if "%2f" in value.lower() else value)
    return known if known is not None else None


def _of_url(value: str) -> Identifier | str | None:
    """The identifier that an address contains, else the address."""
    while value and (value[-1] in ".,;:'’”»*" or (value[-1] in ")]}" and value.count(value[-1]) > _opened(value))):
        value = value[:-1]
    if (known := parse_identifier(value)) is not None:
        return known
    if (inside := _IN_URL.search(unquote(value))) is not None:
        name = inside[0]
        while (shorter := _PAGE_SUFFIX.sub("", name)) != name and "/" in shorter:
            name = shorter
        if (doi := normalize_doi(name)) is not None:
            return parse_identifier(doi)
    if (pmcid := normalize_pmcid(value)) is not None:
        return Identifier("pmcid", pmcid)
    return normalize_url(value)


def _opened(value: str) -> int:
    return value.count({")": "(", "]": "[", "}": "{"}[value[-1]])
