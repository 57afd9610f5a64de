"""Where a work can be found on the web: one small function per archetype.

A scenario holds the pages that exist for a work (address -> what is there), the locations that OpenAlex and Unpaywall
know, the links that Crossref knows, where the DOI leads, and what the archive captured. Metadata and pages are made
together, so the ground truth always matches what is served. `hosts/` renders the pages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

from . import venues
from .deposits import BEHIND_KEYS, DEPOSITS, address
from .venues import Venue

if TYPE_CHECKING:
    from .universe import Work


@dataclass(frozen=True, slots=True)
class Page:
    kind: str  # pdf | landing | fulltext | jats | redirect | hop | status | wall | corrupt
    to: str = ""  # where a redirect or hop leads, or which file a landing page links to
    status: int = 200
    style: str = "meta"  # link style of a landing page, or the variant of a wall, a corruption or a PDF


@dataclass(frozen=True, slots=True)
class Location:
    venue: Venue | None  # None: PubMed Central or arXiv, named by `source`
    source: str
    landing: str
    pdf: str | None
    is_oa: bool = True
    license: str | None = None
    version: str = "publishedVersion"
    id: str = ""


@dataclass(frozen=True, slots=True)
class Capture:
    timestamp: str
    url: str
    mimetype: str
    status: str
    kind: str  # pdf | gone | revisit


@dataclass(slots=True)
class Scenario:
    pages: dict[str, Page] = field(default_factory=dict)  # host + unquoted path -> page
    locations: list[Location] = field(default_factory=list)  # as OpenAlex lists them
    unpaywall: list[Location] = field(default_factory=list)  # what Unpaywall knows beyond that
    links: list[tuple[str, str]] = field(default_factory=list)  # Crossref: (URL, content type)
    doi_url: str = ""  # where doi.org sends the DOI; "" when there is none
    captures: list[Capture] = field(default_factory=list)
    good_url: str | None = None
    good_kind: str = ""
    also: list[str] = field(default_factory=list)


def page_key(url: str) -> str:
    """Return the key of a page: host and unquoted path, without the query."""
    parts = urlsplit(url)
    return f"{parts.netloc.lower()}{unquote(parts.path)}"


class _Stage:
    """A scenario under construction, with the steps from which archetypes are composed."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.scenario = Scenario()
        self.variant = work.rolls[11]

    def put(self, url: str, page: Page) -> str:
        self.scenario.pages[page_key(url)] = page
        return url

    def address(self, venue: Venue, template: str) -> str:
        return venue.url(template, self.work.code, quote(self.work.doi or "", safe="/():;"))

    def pdf(self, venue: Venue) -> str:
        """Add a good PDF at a venue, behind its CDN where the venue has one."""
        url = self.address(venue, venue.pdf)
        if "token-cdn" not in venue.manners:
            return self.put(url, Page("pdf"))
        target = f"https://{venues.CDN}/pdf/{self.work.code}.pdf?token={self.work.rolls[9]:08x}"
        self.put(target, Page("pdf"))
        return self.put(url, Page("redirect", target))

    def landing(self, venue: Venue, file: str = "", style: str = "") -> str:
        """Add a landing page that links to a file in one of four styles, or has no link."""
        url = self.address(venue, venue.landing)
        page = Page("landing", file, style=style or venue.link)
        if "hop-page" not in venue.manners:
            return self.put(url, page)
        article = self.put(f"https://{venue.host}/science/article/{self.work.code}", page)
        return self.put(url, Page("hop", article))

    def chain(self, target: str, hops: int) -> str:
        """Add a redirect chain over several hosts and return its first URL."""
        for step in range(hops - 1, -1, -1):
            host = venues.HUB if step % 2 == 0 else venues.LINKOUT
            target = self.put(f"https://{host}/r/{step}/{self.work.code}", Page("redirect", target))
        return target

    def primary(self, pdf: str | None, *, is_oa: bool = True, landing: str = "", license: str | None = None) -> None:
        doi = self.work.doi
        where = landing or (
            f"https://doi.org/{doi}" if doi else self.address(self.work.publisher, self.work.publisher.landing)
        )
        self.scenario.locations.append(Location(self.work.publisher, self.work.publisher.name, where, pdf, is_oa,
                                             license if is_oa else None, id=f"doi:{doi}" if doi else ""))  # fmt: skip

    def repository(self, *, pdf: str | None, version: str = "acceptedVersion") -> Location:
        venue = self.work.repository
        landing = self.landing(venue, pdf or "")
        return Location(venue, venue.name, landing, pdf, license="cc-by-nc" if self.variant % 3 else None,
                        version=version,
                        id=f"pmh:oai:{venue.host}:{self.work.code}")  # fmt: skip

    def arxiv_location(self) -> Location:
        arxiv = self.work.arxiv
        return Location(None, "arXiv", f"https://arxiv.org/abs/{arxiv}", f"https://arxiv.org/pdf/{arxiv}",
                        version="submittedVersion", id=f"pmh:oai:arXiv.org:{arxiv}")  # fmt: skip

    def good(self, url: str, kind: str = "pdf") -> None:
        self.scenario.good_url, self.scenario.good_kind = url, kind

    def license(self) -> str:
        return ("cc-by", "cc-by", "cc-by-nc", "cc-by-nc-nd", "cc0")[self.work.rolls[10] % 5]


def _gold(s: _Stage) -> None:
    pdf = s.pdf(s.work.publisher)
    s.scenario.doi_url = s.landing(s.work.publisher, pdf)
    s.primary(pdf, license=s.license())
    s.scenario.links.append((pdf, "application/pdf"))
    if s.work.arxiv:
        s.scenario.locations.append(s.arxiv_location())
    if s.variant % 4 == 0:
        s.scenario.captures.append(Capture(f"{s.work.year + 1}0401120000", pdf, "application/pdf", "200", "pdf"))
    s.good(pdf)


def _repository(s: _Stage) -> None:
    pdf = s.pdf(s.work.repository)
    s.scenario.doi_url = s.landing(s.work.publisher)
    s.primary(None, is_oa=False)
    s.scenario.locations.append(s.repository(pdf=pdf))
    if s.work.arxiv:
        s.scenario.locations.append(s.arxiv_location())
    s.good(pdf)


def _later_location(s: _Stage) -> None:
    dead = s.put(s.address(s.work.publisher, s.work.publisher.pdf), Page("status", status=(404, 403)[s.variant % 2]))
    s.scenario.doi_url = s.landing(s.work.publisher)
    pdf = s.pdf(s.work.repository)
    s.primary(dead, license=s.license())
    s.scenario.locations.append(s.repository(pdf=pdf))
    s.good(pdf)


def _arxiv_only(s: _Stage) -> None:
    s.scenario.locations.append(s.arxiv_location())
    s.scenario.doi_url = f"https://arxiv.org/abs/{s.work.arxiv}"
    s.scenario.also.append(f"https://export.arxiv.org/pdf/{s.work.arxiv}")
    s.good(f"https://arxiv.org/pdf/{s.work.arxiv}")


def _unpaywall_only(s: _Stage) -> None:
    pdf = s.pdf(s.work.repository)
    s.scenario.doi_url = s.landing(s.work.publisher)
    s.primary(None, is_oa=False)
    s.scenario.unpaywall.append(s.repository(pdf=pdf))
    s.good(pdf)


def _crossref_link(s: _Stage) -> None:
    pdf = s.pdf(s.work.publisher)
    s.scenario.doi_url = s.landing(s.work.publisher)
    s.primary(None, is_oa=False)
    s.scenario.links.append((pdf, "application/pdf" if s.variant % 3 else "unspecified"))
    s.good(pdf)


def _doi_redirect(s: _Stage) -> None:
    pdf = s.pdf(s.work.publisher)
    s.scenario.doi_url = s.chain(s.landing(s.work.publisher, pdf, "meta"), 1 + s.variant % 4)
    s.primary(None, is_oa=False)
    s.good(pdf)


def _landing(s: _Stage) -> None:
    pdf = s.pdf(s.work.publisher)
    style = ("meta", "alternate", "anchor", "base")[s.variant % 4]
    landing = s.landing(s.work.publisher, pdf, style)
    s.scenario.doi_url = landing
    s.primary(None, landing=landing)
    s.good(pdf)


def _pmc(s: _Stage) -> None:
    _gold(s)
    pmcid = s.work.pmcid
    s.scenario.locations.append(Location(None, "PubMed Central", f"https://pmc.ncbi.nlm.nih.gov/articles/{pmcid}", None,
                                      id=f"pmh:oai:pubmedcentral.nih.gov:{s.work.pmid}"))  # fmt: skip
    s.scenario.also += [f"https://pmc-oa-opendata.s3.amazonaws.com/{pmcid}.1/{pmcid}.1.pdf",
                     f"https://europepmc.org/articles/{pmcid}?pdf=render"]  # fmt: skip


def _html_only(s: _Stage) -> None:
    landing = s.put(s.address(s.work.publisher, "/html/{code}"), Page("fulltext"))
    s.scenario.doi_url = landing
    s.primary(None, landing=landing, license=s.license())
    s.good(landing, "html")


def _jats_only(s: _Stage) -> None:
    xml = s.put(s.address(s.work.publisher, "/jats/{code}.xml"), Page("jats"))
    s.scenario.doi_url = s.landing(s.work.publisher, xml, "xml")
    s.primary(None, license=s.license())
    s.scenario.links.append((xml, "text/xml"))
    s.good(xml, "xml")


def _wayback_only(s: _Stage) -> None:
    dead = s.put(s.address(s.work.publisher, s.work.publisher.pdf), Page("status", status=(404, 410)[s.variant % 2]))
    s.scenario.doi_url = s.put(s.address(s.work.publisher, s.work.publisher.landing), Page("status", status=404))
    s.primary(dead)
    after = s.work.year + 1
    stamp = f"{after}0401120000"
    s.scenario.captures += [
        Capture(f"{s.work.year}1224080000", dead, "text/html", "404", "gone"),
        Capture(stamp, dead, "application/pdf", "200", "pdf"),
        Capture(f"{after}0927204213", dead, "warc/revisit", "-", "revisit"),
    ]
    s.good(f"https://web.archive.org/web/{stamp}id_/{dead}")


def _loop(s: _Stage, template: str) -> str:
    """Two URLs on two hosts that redirect to each other."""
    first = s.address(s.work.publisher, template)
    second = f"https://{venues.LOOPS}{template.format(code=s.work.code)}"
    s.put(second, Page("redirect", first))
    return s.put(first, Page("redirect", second))


def _loop_pdf(s: _Stage) -> None:
    s.scenario.doi_url = _loop(s, s.work.publisher.landing)
    s.primary(_loop(s, s.work.publisher.pdf), license=s.license())


def _loop_doi(s: _Stage) -> None:
    s.scenario.doi_url = s.chain(_loop(s, s.work.publisher.landing), s.variant % 2)
    s.primary(None, is_oa=False)


def _nothing_closed(s: _Stage) -> None:
    s.scenario.doi_url = s.put(s.address(s.work.publisher, s.work.publisher.landing), Page("status", status=404))
    s.primary(None, is_oa=False)


def _nothing_404(s: _Stage) -> None:
    dead = s.put(s.address(s.work.publisher, s.work.publisher.pdf), Page("status", status=404))
    s.scenario.doi_url = s.put(s.address(s.work.publisher, s.work.publisher.landing), Page("status", status=404))
    s.primary(dead)


def _bad_status(s: _Stage) -> None:
    page = Page("status", status=(403, 500, 503, 410)[s.variant % 4])
    s.scenario.doi_url = s.put(s.address(s.work.publisher, s.work.publisher.landing), page)
    s.primary(s.put(s.address(s.work.publisher, s.work.publisher.pdf), page), license=s.license())


def _no_pdf_link(s: _Stage) -> None:
    s.scenario.doi_url = s.landing(s.work.publisher)
    s.primary(None, landing=s.scenario.doi_url)


def _no_pdf_link_closed(s: _Stage) -> None:
    s.scenario.doi_url = s.landing(s.work.publisher)
    s.primary(None, is_oa=False)


def _wall(s: _Stage) -> None:
    page = Page("wall", style=("cookie", "captcha", "login", "pow")[s.variant % 4])
    s.scenario.doi_url = s.put(s.address(s.work.publisher, s.work.publisher.landing), page)
    s.primary(s.put(s.address(s.work.publisher, s.work.publisher.pdf), page), license=s.license())


CORRUPTIONS = ("html", "truncated", "cut", "tiny", "type")


def _corrupt(s: _Stage) -> None:
    page = Page("corrupt", style=CORRUPTIONS[s.variant % len(CORRUPTIONS)])
    pdf = s.put(s.address(s.work.publisher, s.work.publisher.pdf), page)
    s.scenario.doi_url = s.landing(s.work.publisher, pdf)
    s.primary(pdf, license=s.license())


def _robots(s: _Stage) -> None:
    pdf = s.pdf(s.work.publisher)
    s.scenario.doi_url = s.landing(s.work.publisher, pdf)
    s.primary(pdf, license=s.license())


def _wrong_pdf(s: _Stage, venue: Venue) -> str:
    """The venue's PDF URL serves another paper or the supplement."""
    style = ("other", "supplement")[s.variant % 2]
    return s.put(s.address(venue, venue.pdf), Page("pdf", style=style))


def _wrong_paper(s: _Stage) -> None:
    """The repository, which comes first, has the wrong file; the publisher has the right one."""
    pdf = s.pdf(s.work.publisher)
    s.scenario.doi_url = s.landing(s.work.publisher, pdf)
    s.primary(pdf, license=s.license())
    s.scenario.locations.append(s.repository(pdf=_wrong_pdf(s, s.work.repository)))
    s.good(pdf)


def _wrong_only(s: _Stage) -> None:
    wrong = _wrong_pdf(s, s.work.publisher)
    s.scenario.doi_url = s.landing(s.work.publisher, wrong)
    s.primary(wrong, license=s.license())


def _abstract_only(s: _Stage) -> None:
    pdf = s.put(s.address(s.work.publisher, s.work.publisher.pdf), Page("pdf", style="abstract"))
    s.scenario.doi_url = s.landing(s.work.publisher, pdf)
    s.primary(pdf, license=s.license())
    s.good(pdf)


def _deposit(s: _Stage) -> None:
    """OpenAlex knows the page; only the repository knows the file."""
    deposit = DEPOSITS[s.work.archetype]
    page = address(s.work, deposit.page)
    s.scenario.doi_url = page
    s.scenario.locations.append(Location(None, deposit.source, page, None, id=f"doi:{s.work.doi}"))
    s.good(address(s.work, deposit.file))


def _behind_key(s: _Stage) -> None:
    """Closed at the publisher; a paid or keyed interface, or an archive, has the file."""
    s.scenario.doi_url = s.landing(s.work.publisher)
    s.primary(None, is_oa=False)
    file = address(s.work, DEPOSITS[s.work.archetype].file)
    if s.work.archetype == "preserved":
        dead = f"https://www.defunct-letters.example/letters/{s.work.code}.pdf"
        s.scenario.captures.append(Capture("20190101000000", dead, "application/pdf", "200", "pdf"))
    if file:
        s.good(file, "xml" if s.work.archetype == "springer" else "pdf")


def _embargoed(s: _Stage) -> None:
    _deposit(s)
    s.scenario.good_url, s.scenario.good_kind = None, ""


_BUILDERS: dict[str, Callable[[_Stage], None]] = {
    "gold": _gold, "repository": _repository, "later_location": _later_location, "arxiv_only": _arxiv_only,
    "unpaywall_only": _unpaywall_only, "crossref_link": _crossref_link, "doi_redirect": _doi_redirect,
    "landing": _landing, "pmc": _pmc, "html_only": _html_only, "jats_only": _jats_only, "wayback_only": _wayback_only,
    "loop_pdf": _loop_pdf, "loop_doi": _loop_doi, "nothing_closed": _nothing_closed, "nothing_404": _nothing_404,
    "bad_status": _bad_status, "no_pdf_link": _no_pdf_link, "no_pdf_link_closed": _no_pdf_link_closed, "wall": _wall,
    "corrupt": _corrupt, "robots": _robots, "wrong_paper": _wrong_paper, "wrong_only": _wrong_only,
    "abstract_only": _abstract_only, **dict.fromkeys(DEPOSITS, _deposit),
    **dict.fromkeys(BEHIND_KEYS, _behind_key), "embargoed": _embargoed,
}  # fmt: skip


def build(work: Work) -> Scenario:
    """Return the scenario of a work (a pure function)."""
    stage = _Stage(work)
    _BUILDERS[work.archetype](stage)
    if work.doi is None:
        stage.scenario.doi_url = ""
    return stage.scenario


__all__ = ["CORRUPTIONS", "Capture", "Location", "Page", "Scenario", "build", "page_key"]
