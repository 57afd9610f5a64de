"""Files of identifiers: their lines, and the work that an identifier alone makes when OpenAlex knows none. No I/O."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from slugify import slugify

from docstokg_assets.domain.identifiers import Identifier, parse_identifier
from docstokg_assets.domain.json_access import text
from docstokg_assets.domain.works import Work
from docstokg_assets.sources import SetAside


def read_ids(lines: Iterable[str]) -> tuple[list[Identifier], list[SetAside]]:
    """The identifiers of a file, one a line, each once, in their order. Blank lines and `#` comments are skipped."""
    found: dict[tuple[str, str], Identifier] = {}
    aside: list[SetAside] = []
    for number, line in meaningful_lines(lines):
        identifier = parse_identifier(line)
        if identifier is None:
            aside.append(SetAside(f"line {number}", "neither OpenAlex id, DOI, arXiv id nor PMCID", text(line) or ""))
        else:
            found.setdefault((identifier.kind, identifier.value.lower()), identifier)
    return list(found.values()), aside


def meaningful_lines(lines: Iterable[str]) -> Iterable[tuple[int, str]]:
    """Numbered from 1, without white space and byte order mark, comments and blank lines left out."""
    for number, line in enumerate(lines, start=1):
        content = line.lstrip("\ufeff").strip()
        if content and not content.startswith("#"):
            yield number, content


def work_from_identifier(identifier: Identifier) -> Work:
    """A work of which nothing but its identifier is known; resolvers can still find it."""
    value = identifier.value
    if identifier.kind == "doi":
        # DOIs that differ in case only are one; the hash keeps apart those that the slug makes equal.
        digest = hashlib.sha256(value.lower().encode()).hexdigest()[:8]
        return Work(f"doi-{slugify(value, max_length=60, regex_pattern=r'[^a-z0-9.]+')}-{digest}", doi=value)
    if identifier.kind == "arxiv":
        return Work(f"arxiv-{value.replace('/', '-')}", arxiv_id=value)
    return Work(value, pmcid=value if identifier.kind == "pmcid" else None)
