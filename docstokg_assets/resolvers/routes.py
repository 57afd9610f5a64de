"""URL rewrites shared by all resolvers: from the URL that a provider names to the one to request.

Different spellings of an arXiv URL become one; hosts for harvesters are preferred to sites for readers; URLs that answer
only people are dropped, because another resolver has the sanctioned route. Robots and rates are decided elsewhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote

from docstokg_assets.domain.identifiers import normalize_url
from docstokg_assets.domain.plans import Target
from resources.http.canonical import host_of


@dataclass(frozen=True, slots=True)
class Route:
    """A rewrite: `pattern` must match the whole URL; `to` is the template of the better URL, or None when there is none. It
    leads to a PDF, unless `any_file`. URLs are written without their scheme."""

    pattern: re.Pattern[str]
    hosts: re.Pattern[str]  # the hosts of the URLs that it matches
    to: str | None
    example: tuple[str, str | None]  # the URL that a provider names, and the one that is requested
    any_file: bool = False


def _route(pattern: str, to: str | None, named: str, asked: str | None = None, any_file: bool = False) -> Route:
    host = pattern.partition("/")[0]
    if host.count("(") != host.count(")") or host.count("[") != host.count("]"):  # the slash is inside a group
        host = ".*"
    return Route(re.compile(f"(?i)https?://{pattern}"), re.compile(rf"(?i)\A(?:{host})"), to, (named, asked), any_file)


_ARXIV_ID = r"([0-9]{4}\.[0-9]{4,5}(?:v[0-9]+)?|[a-z-]+(?:\.[a-z]{2})?/[0-9]{7}(?:v[0-9]+)?)"
_DOI = r"(10\.[0-9]{4,9}/[^?#]+?)"
_TAIL = r"/?(?:[?#].*)?"

FILE_ROUTES = (
    # export.arxiv.org is the host that arXiv asks harvesters to use
    _route(
        rf"(?:www\.|export\.)?arxiv\.org/(?:pdf|abs|html)/{_ARXIV_ID}(?:\.pdf)?{_TAIL}",
        r"export.arxiv.org/pdf/\1",
        "arxiv.org/abs/hep-th/9901001v2",
        "export.arxiv.org/pdf/hep-th/9901001v2",
    ),
    # the old renderer was superseded
    _route(
        r"(?:www\.)?europepmc\.org/backend/ptpmcrender\.fcgi\?accid=(PMC[0-9]+)&blobtype=pdf",
        r"europepmc.org/articles/\1?pdf=render",
        "europepmc.org/backend/ptpmcrender.fcgi?accid=PMC1&blobtype=pdf",
        "europepmc.org/articles/PMC1?pdf=render",
    ),
    # the address on figshare.com stands behind a firewall challenge
    _route(
        r"(?:www\.)?figshare\.com/ndownloader/files/([0-9]+)",
        r"ndownloader.figshare.com/files/\1",
        "figshare.com/ndownloader/files/7",
        "ndownloader.figshare.com/files/7",
        any_file=True,
    ),
    # PMC's pages are walled, and the pmc resolver uses its open bucket; these APIs need the publisher's token
    _route(
        r"(?:pmc\.ncbi\.nlm\.nih\.gov|www\.ncbi\.nlm\.nih\.gov/pmc)/.*",
        None,
        "pmc.ncbi.nlm.nih.gov/articles/PMC1/pdf/1.pdf",
        any_file=True,
    ),
    _route(r"api\.(?:elsevier|wiley)\.com/.*", None, "api.elsevier.com/content/article/pii/S1", any_file=True),
    # a reader shows the file in a frame; this is the file itself
    _route(
        rf"([a-z.]*onlinelibrary\.wiley\.com)/doi/(?:e?pdf|full|abs|pdfdirect)/{_DOI}{_TAIL}",
        r"\1/doi/pdfdirect/\2",
        "onlinelibrary.wiley.com/doi/pdf/10.1002/abc.123",
        "onlinelibrary.wiley.com/doi/pdfdirect/10.1002/abc.123",
    ),
    _route(
        rf"([^/?#]+)/doi/(?:epdf|pdfplus|reader|full|abs)/{_DOI}{_TAIL}",
        r"\1/doi/pdf/\2",
        "journals.press.example/doi/epdf/10.1080/0.1?needAccess=true",
        "journals.press.example/doi/pdf/10.1080/0.1",
    ),
    _route(
        r"reader\.elsevier\.com/reader/sd/pii/(S[0-9X]+).*",
        r"www.sciencedirect.com/science/article/pii/\1/pdfft",
        "reader.elsevier.com/reader/sd/pii/S1?token=1",
        "www.sciencedirect.com/science/article/pii/S1/pdfft",
    ),
    # OJS shows a galley under `view` and sends it under `download`
    _route(
        r"([^?#]+/article)/view(?:File)?/([0-9]+)/([0-9]+)",
        r"\1/download/\2/\3",
        "ojs.example/index.php/j/article/view/1/2",
        "ojs.example/index.php/j/article/download/1/2",
        any_file=True,
    ),
    # the page of the article, on a platform whose file URLs follow from it
    _route(
        rf"link\.springer\.com/(?:article|chapter)/(10\.[0-9]{{4,9}}/[^/?#]+?)(?:\.pdf)?{_TAIL}",
        r"link.springer.com/content/pdf/\1.pdf",
        "link.springer.com/article/10.1007/s1-2",
        "link.springer.com/content/pdf/10.1007/s1-2.pdf",
    ),
    _route(
        rf"www\.nature\.com/articles/([\w-]+){_TAIL}",
        r"www.nature.com/articles/\1.pdf",
        "www.nature.com/articles/s41586-1",
        "www.nature.com/articles/s41586-1.pdf",
    ),
    _route(
        rf"www\.(bio|med)rxiv\.org/content/(10\.[0-9]+/[0-9.]+v[0-9]+)(?:\.full|\.abstract|\.full-text)?{_TAIL}",
        r"www.\1rxiv.org/content/\2.full.pdf",
        "www.biorxiv.org/content/10.1101/2020.01v2.full",
        "www.biorxiv.org/content/10.1101/2020.01v2.full.pdf",
    ),
    _route(
        rf"www\.mdpi\.com/([0-9-]+(?:/[0-9]+){{3}})(?:/html?)?{_TAIL}",
        r"www.mdpi.com/\1/pdf",
        "www.mdpi.com/1420-3049/28/1/5/htm",
        "www.mdpi.com/1420-3049/28/1/5/pdf",
    ),
    _route(
        r"journals\.plos\.org/(\w+)/article\?id=(10\.1371/[\w.]+)",
        r"journals.plos.org/\1/article/file?id=\2&type=printable",
        "journals.plos.org/one/article?id=10.1371/p.1",
        "journals.plos.org/one/article/file?id=10.1371/p.1&type=printable",
    ),
    _route(
        rf"www\.frontiersin\.org/((?:journals/[\w-]+/)?articles/10\.3389/[\w.]+)/(?:full|abstract){_TAIL}",
        r"www.frontiersin.org/\1/pdf",
        "www.frontiersin.org/articles/10.3389/fpsyg.1/full",
        "www.frontiersin.org/articles/10.3389/fpsyg.1/pdf",
    ),
    _route(
        rf"iopscience\.iop\.org/article/(10\.[0-9]{{4,9}}(?:/[\w.()-]*[0-9][\w.()-]*){{1,4}})(?:/(?:meta|pdf))?{_TAIL}",
        r"iopscience.iop.org/article/\1/pdf",
        "iopscience.iop.org/article/10.1088/1-1/1/1/meta",
        "iopscience.iop.org/article/10.1088/1-1/1/1/pdf",
    ),
    _route(
        rf"pubs\.rsc\.org/([a-z-]+)/content/articlelanding/([\w/]+){_TAIL}",
        r"pubs.rsc.org/\1/content/articlepdf/\2",
        "pubs.rsc.org/en/content/articlelanding/2024/d4sc1",
        "pubs.rsc.org/en/content/articlepdf/2024/d4sc1",
    ),
    _route(
        rf"(hal\.science|[\w-]+\.hal\.science|hal\.archives-ouvertes\.fr)/([a-z]+-[0-9]{{8}}(?:v[0-9]+)?){_TAIL}",
        r"\1/\2/document",
        "hal.science/hal-01234567v2",
        "hal.science/hal-01234567v2/document",
    ),
    _route(
        r"openreview\.net/forum\?id=([\w-]+)",
        r"openreview.net/pdf?id=\1",
        "openreview.net/forum?id=Abc_1",
        "openreview.net/pdf?id=Abc_1",
    ),
    _route(
        rf"aclanthology\.org/([A-Z0-9][\w.-]+?)(?:\.pdf)?{_TAIL}",
        r"aclanthology.org/\1.pdf",
        "aclanthology.org/2024.acl-long.1/",
        "aclanthology.org/2024.acl-long.1.pdf",
    ),
    _route(
        rf"(elifesciences\.org|peerj\.com)/articles/([\w-]+){_TAIL}",
        r"\1/articles/\2.pdf",
        "peerj.com/articles/99001/",
        "peerj.com/articles/99001.pdf",
    ),
    _route(
        rf"osf\.io/preprints/\w+/(\w{{5}}(?:_v[0-9]+)?){_TAIL}",
        r"osf.io/download/\1/",
        "osf.io/preprints/psyarxiv/abcd5_v2",
        "osf.io/download/abcd5_v2/",
    ),
)
# Hosts of pages that another resolver covers by a sanctioned route.
COVERED_PAGE_HOSTS = frozenset(
    {"doi.org", "dx.doi.org", "www.doi.org"}
    | {"arxiv.org", "www.arxiv.org", "export.arxiv.org"}
    | {"pmc.ncbi.nlm.nih.gov", "www.ncbi.nlm.nih.gov", "pubmed.ncbi.nlm.nih.gov", "europepmc.org", "www.europepmc.org"}
)
SANCTIONED_HOSTS = frozenset({"export.arxiv.org", "europepmc.org"})
_PDF_PATH = re.compile(r"(?i)https?://[^?#]*(?:\.pdf/?|/e?pdf(?:ft|direct)?(?:/[^?#]*)?)(?:[?#].*)?")


def file_url(value: object, target: Target = Target.PDF) -> str | None:
    """The URL to request for a file that a provider names, or None when it is unusable or a known dead end."""
    url = normalize_url(value)
    if url is None:
        return None
    for route in _routes_at(url.split("/", 3)[2]):
        if (target is Target.PDF or route.any_file) and (match := route.pattern.fullmatch(url)):
            return match.expand(f"https://{route.to}") if route.to else None
    return url


@lru_cache(4_096)  # trying all patterns on every URL costs more than the rest of a plan
def _routes_at(host: str) -> tuple[Route, ...]:
    return tuple(route for route in FILE_ROUTES if route.hosts.fullmatch(host))


def page_url(value: object) -> str | None:
    """The URL of a landing page, or None when another resolver covers its host."""
    url = normalize_url(value)
    return None if url is None or host_of(url) in COVERED_PAGE_HOSTS else url


def doi_url(doi: str) -> str:
    """The doi.org URL of a DOI."""
    return f"https://doi.org/{quote(doi, safe='/:;()!$&*+,=@')}"


def looks_like_pdf(url: str) -> bool:
    return _PDF_PATH.fullmatch(url) is not None


def is_sanctioned(url: str) -> bool:
    """Whether the host invites harvesters."""
    return host_of(url) in SANCTIONED_HOSTS
