"""Files of identifiers and files of URLs: their lines, and the work that a line alone makes. No I/O."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import TypeVar

from slugify import slugify

from docstokg_assets.domain import identifiers as ids
from docstokg_assets.domain.json_access import text
from docstokg_assets.domain.works import Work, kept_url
from docstokg_assets.sources import SetAside
from resources.http.canonical import canonical_url
from resources.http.redact import redact_url

T = TypeVar("T")


def read_ids(lines: Iterable[str]) -> tuple[list[ids.Identifier], list[SetAside]]:
    """The identifiers of a file, one a line, each once, in their order. Blank lines and `#` comments are skipped."""
    problem = "neither OpenAlex id, DOI, arXiv id nor PMCID"
    return _read(lines, ids.parse_identifier, lambda found: f"{found.kind} {found.value.lower()}", problem)


def read_urls(lines: Iterable[str]) -> tuple[list[Work], list[SetAside]]:
    """The works of a file, one URL a line, each once, in their order. Blank lines and `#` comments are skipped."""
    return _read(lines, work_from_url, lambda work: work.work_id, "not an absolute http or https URL")


def _read(
    lines: Iterable[str], parse: Callable[[str], T | None], key: Callable[[T], str], problem: str
) -> tuple[list[T], list[SetAside]]:
    """What the lines hold, without white space and byte order mark; lines that cannot be parsed are set aside by number."""
    found: dict[str, T] = {}
    aside: list[SetAside] = []
    for number, line in enumerate(lines, start=1):
        content = line.lstrip("\ufeff").strip()
        if not content or content.startswith("#"):
            continue
        if (value := parse(content)) is None:
            aside.append(SetAside(f"line {number}", problem, text(redact_url(content)) or ""))
        else:
            found.setdefault(key(value), value)
    return list(found.values()), aside


def work_from_identifier(identifier: ids.Identifier) -> Work:
    """A work of which nothing but its identifier is known; resolvers can still find it."""
    value = identifier.value
    if identifier.kind == "doi":
        # DOIs that differ in case only are one; the hash keeps apart those that the slug makes equal.
        digest = hashlib.sha256(value.lower().encode()).hexdigest()[:8]
        return Work(f"doi-{slugify(value, max_length=60, regex_pattern=r'[^a-z0-9.]+')}-{digest}", doi=value)
    if identifier.kind == "arxiv":
        return Work(f"arxiv-{value.replace('/', '-')}", arxiv_id=value)
    return Work(value, pmcid=value if identifier.kind == "pmcid" else None)


def work_from_url(given: str) -> Work | None:
    """The work behind a URL. A URL of doi.org, arXiv or PMC contains the identifier, by which other resolvers find it."""
    url = kept_url(given)
    if url is None:
        return None
    digest = hashlib.sha256(canonical_url(url).encode()).hexdigest()[:12]
    doi, arxiv_id, pmcid = ids.normalize_doi(url), ids.normalize_arxiv(url), ids.normalize_pmcid(url)
    return Work(f"url-{digest}", doi=doi, arxiv_id=arxiv_id, pmcid=pmcid, urls=(url,))
