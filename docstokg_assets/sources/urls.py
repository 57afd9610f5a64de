"""Files of URLs: each line becomes a work that knows only where somebody saw it. No I/O."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from docstokg_assets.domain.identifiers import normalize_arxiv, normalize_doi, normalize_pmcid
from docstokg_assets.domain.json_access import text
from docstokg_assets.domain.works import Work, kept_url
from docstokg_assets.sources import SetAside
from docstokg_assets.sources.ids import meaningful_lines
from resources.http.canonical import canonical_url
from resources.http.redact import redact_url


def read_urls(lines: Iterable[str]) -> tuple[list[Work], list[SetAside]]:
    """The works of a file, one URL a line, each once, in their order. Blank lines and `#` comments are skipped."""
    found: dict[str, Work] = {}
    aside: list[SetAside] = []
    for number, line in meaningful_lines(lines):
        url = kept_url(line)
        if url is None:
            aside.append(SetAside(f"line {number}", "not an absolute http or https URL", text(redact_url(line)) or ""))
        else:
            work = work_from_url(url)
            found.setdefault(work.work_id, work)
    return list(found.values()), aside


def work_from_url(url: str) -> Work:
    """The work behind a URL. An address of doi.org, arXiv or PMC tells the identifier, so that others can help."""
    digest = hashlib.sha256(canonical_url(url).encode()).hexdigest()[:12]
    doi, arxiv_id, pmcid = normalize_doi(url), normalize_arxiv(url), normalize_pmcid(url)
    return Work(f"url-{digest}", doi=doi, arxiv_id=arxiv_id, pmcid=pmcid, urls=(url,))
