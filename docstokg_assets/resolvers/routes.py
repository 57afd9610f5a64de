"""URL rewrites shared by all resolvers: from the URL that a provider names to the one to request.

Different spellings of an arXiv URL become one; hosts for harvesters are preferred to sites for readers; URLs that answer
only people are dropped, because another resolver has the sanctioned route. Robots and rates are decided elsewhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote

from docstokg_assets.domain.identifiers import normalize_url
from docstokg_assets.domain.plans import Target
from resources.http.canonical import host_of


@dataclass(frozen=True, slots=True)
class Route:
    """A rewrite: `pattern` must match the whole URL; `to` is the template of the better URL, or None when there is none. It
    leads to a PDF, unless `any_file`."""

    pattern: re.Pattern[str]
    to: str | None
    why: str
    example: tuple[str, str | None]  # the URL that a provider names, and the one that is requested
    any_file: bool = False


def _route(pattern: str, to: str | None, why: str, named: str, asked: str | None, *, any_file: bool = False) -> Route:
    return Route(re.compile(r"(?i)https?://" + pattern), to, why, (named, asked), any_file or to is None)


_ARXIV_ID = r"([0-9]{4}\.[0-9]{4,5}(?:v[0-9]+)?|[a-z-]+(?:\.[a-z]{2})?/[0-9]{7}(?:v[0-9]+)?)"
_DOI = r"(10\.[0-9]{4,9}/[^?#]+?)"
_TAIL = r"/?(?:[?#].*)?"
_READER = "the reader shows the file in a frame; this is the file itself"
_PAGE = "the page of the article, on a platform whose file URLs follow from it"

FILE_ROUTES = (
    _route(
        rf"(?:www\.|export\.)?arxiv\.org/(?:pdf|abs|html)/{_ARXIV_ID}(?:\.pdf)?{_TAIL}",
        r"https://export.arxiv.org/pdf/\1",
        "export.arxiv.org is the host that arXiv asks harvesters to use",
        "http://arxiv.org/abs/hep-th/9901001v2",
        "https://export.arxiv.org/pdf/hep-th/9901001v2",
    ),
    _route(
        r"(?:www\.)?europepmc\.org/backend/ptpmcrender\.fcgi\?accid=(PMC[0-9]+)&blobtype=pdf",
        r"https://europepmc.org/articles/\1?pdf=render",
        "the old renderer was superseded",
        "https://europepmc.org/backend/ptpmcrender.fcgi?accid=PMC1&blobtype=pdf",
        "https://europepmc.org/articles/PMC1?pdf=render",
    ),
    _route(
        r"(?:www\.)?figshare\.com/ndownloader/files/([0-9]+)",
        r"https://ndownloader.figshare.com/files/\1",
        "the address on figshare.com stands behind a firewall challenge",
        "https://figshare.com/ndownloader/files/7",
        "https://ndownloader.figshare.com/files/7",
        any_file=True,
    ),
    _route(
        r"(?:pmc\.ncbi\.nlm\.nih\.gov|www\.ncbi\.nlm\.nih\.gov/pmc)/.*",
        None,
        "walled; the pmc resolver asks its open bucket",
        "https://pmc.ncbi.nlm.nih.gov/articles/PMC1/pdf/main.pdf",
        None,
    ),
    _route(
        r"api\.(?:elsevier|wiley)\.com/.*",
        None,
        "needs a token of the publisher's",
        "https://api.elsevier.com/content/article/pii/S1",
        None,
    ),
    _route(
        rf"([a-z.]*onlinelibrary\.wiley\.com)/doi/(?:e?pdf|full|abs|pdfdirect)/{_DOI}{_TAIL}",
        r"https://\1/doi/pdfdirect/\2",
        _READER,
        "https://onlinelibrary.wiley.com/doi/pdf/10.1002/abc.123",
        "https://onlinelibrary.wiley.com/doi/pdfdirect/10.1002/abc.123",
    ),
    _route(
        rf"([^/?#]+)/doi/(?:epdf|pdfplus|reader|full|abs)/{_DOI}{_TAIL}",
        r"https://\1/doi/pdf/\2",
        _READER,
        "https://journals.press.example/doi/epdf/10.1080/00.1?needAccess=true",
        "https://journals.press.example/doi/pdf/10.1080/00.1",
    ),
    _route(
        r"reader\.elsevier\.com/reader/sd/pii/(S[0-9X]+).*",
        r"https://www.sciencedirect.com/science/article/pii/\1/pdfft",
        _READER,
        "https://reader.elsevier.com/reader/sd/pii/S0001?token=1",
        "https://www.sciencedirect.com/science/article/pii/S0001/pdfft",
    ),
    _route(
        r"([^?#]+/article)/view(?:File)?/([0-9]+)/([0-9]+)",
        r"https://\1/download/\2/\3",
        "OJS shows a galley under `view` and sends it under `download`",
        "https://ojs.example/index.php/j/article/view/12/34",
        "https://ojs.example/index.php/j/article/download/12/34",
        any_file=True,
    ),
    _route(
        rf"link\.springer\.com/(?:article|chapter)/(10\.[0-9]{{4,9}}/[^/?#]+?)(?:\.pdf)?{_TAIL}",
        r"https://link.springer.com/content/pdf/\1.pdf",
        _PAGE,
        "https://link.springer.com/article/10.1007/s1-2",
        "https://link.springer.com/content/pdf/10.1007/s1-2.pdf",
    ),
    _route(
        rf"www\.nature\.com/articles/([\w-]+){_TAIL}",
        r"https://www.nature.com/articles/\1.pdf",
        _PAGE,
        "https://www.nature.com/articles/s41586-1",
        "https://www.nature.com/articles/s41586-1.pdf",
    ),
    _route(
        rf"www\.(bio|med)rxiv\.org/content/(10\.[0-9]+/[0-9.]+v[0-9]+)(?:\.full|\.abstract|\.full-text)?{_TAIL}",
        r"https://www.\1rxiv.org/content/\2.full.pdf",
        _PAGE,
        "https://www.biorxiv.org/content/10.1101/2020.01.01.123456v2.full",
        "https://www.biorxiv.org/content/10.1101/2020.01.01.123456v2.full.pdf",
    ),
    _route(
        rf"www\.mdpi\.com/([0-9-]+(?:/[0-9]+){{3}})(?:/html?)?{_TAIL}",
        r"https://www.mdpi.com/\1/pdf",
        _PAGE,
        "https://www.mdpi.com/1420-3049/28/1/5/htm",
        "https://www.mdpi.com/1420-3049/28/1/5/pdf",
    ),
    _route(
        r"journals\.plos\.org/(\w+)/article\?id=(10\.1371/[\w.]+)",
        r"https://journals.plos.org/\1/article/file?id=\2&type=printable",
        _PAGE,
        "https://journals.plos.org/plosone/article?id=10.1371/journal.pone.1",
        "https://journals.plos.org/plosone/article/file?id=10.1371/journal.pone.1&type=printable",
    ),
    _route(
        rf"www\.frontiersin\.org/((?:journals/[\w-]+/)?articles/10\.3389/[\w.]+)/(?:full|abstract){_TAIL}",
        r"https://www.frontiersin.org/\1/pdf",
        _PAGE,
        "https://www.frontiersin.org/articles/10.3389/fpsyg.1/full",
        "https://www.frontiersin.org/articles/10.3389/fpsyg.1/pdf",
    ),
    _route(
        rf"iopscience\.iop\.org/article/(10\.[0-9]{{4,9}}(?:/[\w.()-]*[0-9][\w.()-]*){{1,4}})(?:/(?:meta|pdf))?{_TAIL}",
        r"https://iopscience.iop.org/article/\1/pdf",
        _PAGE,
        "https://iopscience.iop.org/article/10.1088/1-1/1/1/meta",
        "https://iopscience.iop.org/article/10.1088/1-1/1/1/pdf",
    ),
    _route(
        rf"pubs\.rsc\.org/([a-z-]+)/content/articlelanding/([\w/]+){_TAIL}",
        r"https://pubs.rsc.org/\1/content/articlepdf/\2",
        _PAGE,
        "https://pubs.rsc.org/en/content/articlelanding/2024/sc/d4sc1",
        "https://pubs.rsc.org/en/content/articlepdf/2024/sc/d4sc1",
    ),
    _route(
        rf"(hal\.science|[\w-]+\.hal\.science|hal\.archives-ouvertes\.fr)/([a-z]+-[0-9]{{8}}(?:v[0-9]+)?){_TAIL}",
        r"https://\1/\2/document",
        _PAGE,
        "https://hal.science/hal-01234567v2",
        "https://hal.science/hal-01234567v2/document",
    ),
    _route(
        r"openreview\.net/forum\?id=([\w-]+)",
        r"https://openreview.net/pdf?id=\1",
        _PAGE,
        "https://openreview.net/forum?id=Abc_1",
        "https://openreview.net/pdf?id=Abc_1",
    ),
    _route(
        rf"aclanthology\.org/([A-Z0-9][\w.-]+?)(?:\.pdf)?{_TAIL}",
        r"https://aclanthology.org/\1.pdf",
        _PAGE,
        "https://aclanthology.org/2024.acl-long.1/",
        "https://aclanthology.org/2024.acl-long.1.pdf",
    ),
    _route(
        rf"(elifesciences\.org|peerj\.com)/articles/([\w-]+){_TAIL}",
        r"https://\1/articles/\2.pdf",
        _PAGE,
        "https://peerj.com/articles/99001/",
        "https://peerj.com/articles/99001.pdf",
    ),
    _route(
        rf"osf\.io/preprints/\w+/(\w{{5}}(?:_v[0-9]+)?){_TAIL}",
        r"https://osf.io/download/\1/",
        _PAGE,
        "https://osf.io/preprints/psyarxiv/abcd5_v2",
        "https://osf.io/download/abcd5_v2/",
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
    for route in FILE_ROUTES:
        if (target is Target.PDF or route.any_file) and (match := route.pattern.fullmatch(url)):
            return match.expand(route.to) if route.to else None
    return url


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
