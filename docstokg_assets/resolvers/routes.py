"""Which way to take to a copy that several providers name: one small table of rewrites, shared by all resolvers.

The same paper of arXiv is named in many spellings; sanctioned harvest hosts come before reading rooms; addresses that
are known to answer only people are left out, because another resolver has the sanctioned way. Robots and pace are not
decided here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote

from docstokg_assets.identifiers import normalize_url
from resources.http.canonical import host_of


@dataclass(frozen=True, slots=True)
class Route:
    """`pattern` must match the whole URL; `to` is the template of the better one, or None when there is none."""

    pattern: re.Pattern[str]
    to: str | None
    why: str


def _route(pattern: str, to: str | None, why: str) -> Route:
    return Route(re.compile(r"(?i)https?://" + pattern), to, why)


_ARXIV_ID = r"([0-9]{4}\.[0-9]{4,5}(?:v[0-9]+)?|[a-z-]+(?:\.[a-z]{2})?/[0-9]{7}(?:v[0-9]+)?)"

FILE_ROUTES = (
    _route(
        rf"(?:www\.|export\.)?arxiv\.org/(?:pdf|abs|html)/{_ARXIV_ID}(?:\.pdf)?/?",
        r"https://export.arxiv.org/pdf/\1",
        "export.arxiv.org is the host that arXiv asks harvesters to use",
    ),
    _route(
        r"(?:www\.)?europepmc\.org/backend/ptpmcrender\.fcgi\?accid=(PMC[0-9]+)&blobtype=pdf",
        r"https://europepmc.org/articles/\1?pdf=render",
        "the old renderer was superseded",
    ),
    _route(
        r"figshare\.com/ndownloader/files/([0-9]+)",
        r"https://ndownloader.figshare.com/files/\1",
        "the address on figshare.com stands behind a firewall challenge",
    ),
    _route(
        r"(?:pmc\.ncbi\.nlm\.nih\.gov|www\.ncbi\.nlm\.nih\.gov/pmc)/.*",
        None,
        "walled; the pmc resolver asks its open bucket",
    ),
    _route(r"api\.(?:elsevier|wiley)\.com/.*", None, "needs a token of the publisher's"),
)
# Pages on hosts that another resolver covers by its sanctioned way.
COVERED_PAGE_HOSTS = frozenset(
    {"doi.org", "dx.doi.org", "www.doi.org"}
    | {"arxiv.org", "www.arxiv.org", "export.arxiv.org"}
    | {"pmc.ncbi.nlm.nih.gov", "www.ncbi.nlm.nih.gov", "pubmed.ncbi.nlm.nih.gov", "europepmc.org", "www.europepmc.org"}
)
SANCTIONED_HOSTS = frozenset({"export.arxiv.org", "europepmc.org"})
_PDF_PATH = re.compile(r"(?i)https?://[^?#]*(?:\.pdf/?|/e?pdf(?:ft|direct)?(?:/[^?#]*)?)(?:[?#].*)?")


def file_url(value: object) -> str | None:
    """The URL to ask for a file that a provider names, or None when it is no usable URL or a known dead end."""
    url = normalize_url(value)
    if url is None:
        return None
    for route in FILE_ROUTES:
        if match := route.pattern.fullmatch(url):
            return match.expand(route.to) if route.to else None
    return url


def page_url(value: object) -> str | None:
    """The URL of a landing page that nobody else covers."""
    url = normalize_url(value)
    return None if url is None or host_of(url) in COVERED_PAGE_HOSTS else url


def doi_url(doi: str) -> str:
    """The address that leads to whatever a DOI names."""
    return f"https://doi.org/{quote(doi, safe='/:;()!$&*+,=@')}"


def looks_like_pdf(url: str) -> bool:
    return _PDF_PATH.fullmatch(url) is not None


def is_sanctioned(url: str) -> bool:
    """Whether the host invites harvesters."""
    return host_of(url) in SANCTIONED_HOSTS
