"""Normalise identifiers: DOI, arXiv id, PMCID, PMID, OpenAlex id, and URL. No I/O, no lookup.

Each `normalize_…` takes the spellings of people and providers and returns the canonical one, or None when the value is not
such an identifier. It is idempotent.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal
from urllib.parse import unquote, urlsplit, urlunsplit

from resources.http.canonical import plain_host

MAX_URL_LENGTH = 4096
_MAX_LENGTH = 2048  # of any text that is looked at as an identifier

_DOI_NAME = re.compile(r"(?i)(?:doi:\s*|info:doi/)")
_DOI_URL = re.compile(r"(?i)(?:https?://)?(?:dx\.|www\.)?doi\.org/")
# What follows a DOI in a pasted address. A bare `#` may belong to the DOI (SICI); parameters and anchor names do not.
_URL_TAIL = re.compile(r"\?\w+=.*|#[A-Za-z].*")
_DOI = re.compile(r"10\.[0-9]{4,9}(?:\.[0-9]+)*/[^\s\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffd]+")
# The pages and files of bioRxiv and medRxiv are named by the DOI and a version, which is no part of it.
_RXIV_URL = re.compile(r"(?i)(?:https?://)?(?:www\.)?(?:bio|med)rxiv\.org/content/(?=10\.)")
_RXIV_VERSION = re.compile(
    r"(10\.(?:1101|64898)/(?:[0-9]{6}|[0-9]{4}\.[0-9]{2}\.[0-9]{2}\.[0-9]{6,8}))v[0-9]+(?:[./].*)?"
)
_PAIRS = {")": "(", "]": "[", "}": "{", ">": "<"}

_ARXIV_PREFIX = re.compile(
    r"(?i)(?:https?://)?(?:www\.|export\.)?arxiv\.org/(?:abs|pdf|html|format)/|arxiv:\s*"
    r"|(?:(?:https?://)?(?:dx\.|www\.)?doi\.org/|doi:\s*)?10\.48550/arxiv\.|oai:arxiv\.org:"
)
_ARXIV = re.compile(
    r"(?i)([0-9]{4}\.[0-9]{4,5}|[a-z-]{2,16}(?:\.[a-z]{2})?/[0-9]{7})(v[1-9][0-9]?)?(?:\.pdf)?/?(?:[?#].*)?"
)

_PMCID = re.compile(
    r"(?i)(?:pmcid:\s*)?PMC([1-9][0-9]{0,9})(?:\.[0-9]+)?"
    r"|(?:https?://)?(?:www\.ncbi\.nlm\.nih\.gov/pmc|pmc\.ncbi\.nlm\.nih\.gov|(?:www\.)?europepmc\.org)"
    r"/(?:articles|(?:article|abstract)/PMC)/(?:PMC)?([1-9][0-9]{0,9})(?:\.[0-9]+)?(?:[/?#].*)?"
    r"|(?:pmh:)?oai:pubmedcentral\.nih\.gov:([1-9][0-9]{0,9})"
)
_PMID = re.compile(
    r"(?i)(pmid[:#\s]\s*|pubmed(?:\s+id)?[:#\s]\s*|(?:https?://)?(?:pubmed\.ncbi\.nlm\.nih\.gov/|www\.ncbi\.nlm\.nih\.gov/pubmed/"
    r"|(?:www\.)?europepmc\.org/(?:article|abstract)/MED/))?([1-9][0-9]{0,9})/?(?:[?#].*)?"
)
_OPENALEX = re.compile(
    r"(?i)(?:(?:https?://)?(?:www\.|api\.|explore\.)?openalex\.org/(?:works/)?|openalex:)?W([1-9][0-9]{0,14})/?(?:[?#].*)?"
)
_HOST = re.compile(r"[\w-]+(?:\.[\w-]+)*\.?|[0-9a-f.]*:[0-9a-f:.]*")  # the second form: IPv6, brackets removed
_UNFIT_FOR_URL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")

IdentifierKind = Literal["openalex", "doi", "arxiv", "pmcid", "pmid"]


@dataclass(frozen=True, slots=True)
class Identifier:
    kind: IdentifierKind
    value: str


def normalize_doi(value: Any) -> str | None:
    """`10.…/…` without prefix, escapes and trailing punctuation. The case is kept, though it means nothing."""
    doi = _stripped(value)
    if "/" not in doi:  # escaped as a whole, address or DOI
        doi = unquote(doi)
    from_url = False
    while match := _DOI_NAME.match(doi) or _DOI_URL.match(doi) or _RXIV_URL.match(doi):
        from_url = from_url or match.re is not _DOI_NAME
        doi = doi[match.end() :]
    if from_url:
        doi = unquote(_URL_TAIL.sub("", doi))
    doi = _without_trailing_punctuation(doi)
    if version := _RXIV_VERSION.fullmatch(doi):
        doi = version[1]
    return doi if _DOI.fullmatch(doi) else None


def normalize_arxiv(value: Any) -> str | None:
    """`2401.00001`, `2401.00001v2` or `hep-th/9901001`; a version that was given is kept."""
    rest = _stripped(value)
    if prefix := _ARXIV_PREFIX.match(rest):
        rest = unquote(rest[prefix.end() :])
    if (match := _ARXIV.fullmatch(rest.rstrip(".,;"))) is None:
        return None
    archive, _, number = match[1].rpartition("/")
    name, dot, subject = archive.lower().partition(".")
    return f"{name}{dot}{subject.upper()}{'/' if archive else ''}{number}{(match[2] or '').lower()}"


def arxiv_without_version(arxiv_id: str) -> str:
    return re.sub(r"v[0-9]+$", "", arxiv_id)


def normalize_pmcid(value: Any) -> str | None:
    """`PMC123`, without a version. Bare digits count only inside an address that says what they are."""
    match = _PMCID.fullmatch(_stripped(value))
    return f"PMC{match[1] or match[2] or match[3]}" if match else None


def normalize_pmid(value: Any) -> str | None:
    match = _PMID.fullmatch(_stripped(value))
    return match[2] if match else None


def _named_pmid(value: Any) -> str | None:
    """A PMID that says what it is: `PMID: 123`, or an address of PubMed or Europe PMC."""
    match = _PMID.fullmatch(_stripped(value))
    return match[2] if match and match[1] else None


def normalize_openalex_id(value: Any) -> str | None:
    match = _OPENALEX.fullmatch(_stripped(value))
    return f"W{match[1]}" if match else None


def parse_identifier(text: str) -> Identifier | None:
    """What kind of identifier a person wrote down; an arXiv DOI counts as arXiv, bare digits as nothing."""
    found = ((kind, normalize(text)) for kind, normalize in _NORMALIZERS.items())
    return next((Identifier(kind, value) for kind, value in found if value), None)


_NORMALIZERS: dict[IdentifierKind, Callable[[Any], str | None]] = {
    "openalex": normalize_openalex_id,
    "arxiv": normalize_arxiv,
    "pmcid": normalize_pmcid,
    "doi": normalize_doi,
    "pmid": _named_pmid,
}


def normalize_url(value: Any) -> str | None:
    """An absolute http(s) URL that can be requested, or None. Not a key: it only removes white space and credentials, which we
    neither send nor store."""
    return _fit_url(value) if isinstance(value, str) and len(value) <= MAX_URL_LENGTH else None


@lru_cache(16_384)  # a URL is looked at when its work is read, and again by each resolver that plans for it
def _fit_url(value: str) -> str | None:
    if plain_host(value):
        return value
    url = value.strip().replace(" ", "%20")
    if len(url) > MAX_URL_LENGTH or _UNFIT_FOR_URL.search(url):
        return None
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return None
    # some read a backslash as a slash, and so another host
    if "\\" in parts.netloc or parts.scheme not in ("http", "https") or not _HOST.fullmatch(host):
        return None
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])) if "@" in parts.netloc else url


def _stripped(value: Any) -> str:
    return value.strip() if isinstance(value, str) and len(value) <= _MAX_LENGTH else ""


def _without_trailing_punctuation(doi: str) -> str:
    """Sentences end in stops and brackets; so do some DOIs, and there the bracket has its partner."""
    while doi:
        last = doi[-1]
        unbalanced = last in _PAIRS and doi.count(last) > doi.count(_PAIRS[last])
        if not (unbalanced or last in ".,;:'\"/’”»" or last.isspace()):
            break
        doi = doi[:-1]
    return doi
