"""Files of URLs, and the work that an identifier or a URL alone makes. No I/O."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from slugify import slugify

from docstokg_assets.domain import identifiers as ids
from docstokg_assets.domain.json_access import text
from docstokg_assets.domain.works import Work, kept_url
from docstokg_assets.sources.inputs import Input, References
from resources.http.canonical import canonical_url
from resources.http.redact import redact_url


def read_urls(lines: Iterable[str], name: str = "urls") -> References:
    """The works of a file, one URL a line, in their order. Blank lines and `#` comments are skipped."""
    inputs: list[Input] = []
    for number, line in enumerate(lines, start=1):
        given = line.lstrip("\ufeff").strip()
        if not given or given.startswith("#"):
            continue
        shown, work = text(redact_url(given)) or "", work_from_url(given)
        reason = None if work is not None else "not an absolute http or https URL"
        inputs.append(Input(name, number, shown, work=work, reason=reason))
    return References("list of URLs", len(inputs), tuple(inputs))


def work_from_identifier(identifier: ids.Identifier) -> Work | None:
    """A work of which nothing but its identifier is known; resolvers can still find it. None for a PMID: no resolver can."""
    value = identifier.value
    if identifier.kind == "pmid":
        return None
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
