"""The invented publishers and repositories: hosts, URLs and behaviour in one table.

A venue defines its URL patterns and how its server behaves; `hosts/venues.py` serves it and `scenario.py` decides
which work appears where. To add a publisher, add a row. All hosts end in `.example` (RFC 2606), so none exists.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Venue:
    key: str
    host: str
    name: str
    publisher: str
    prefix: str  # DOI prefix; "" for repositories
    landing: str  # path; {code} is the work's number, {doi} its DOI
    pdf: str
    kind: str = "journal"  # journal | repository
    link: str = "meta"  # how a landing page points at its PDF: meta | alternate | anchor | base
    doi: str = "{key}.{code}"  # DOI suffix
    weight: int = 10  # share among the good venues of its kind
    manners: frozenset[str] = frozenset()
    robots: str = "User-agent: *\nDisallow: /search\nDisallow: /admin/\n"
    robots_status: int = 200

    def url(self, template: str, code: str, doi: str) -> str:
        return f"https://{self.host}{template.format(code=code, doi=doi, year=code[:4], index=code[4:])}"


def _m(*names: str) -> frozenset[str]:
    return frozenset(names)


_SICI = "(SICI)1097-0142({year})12:3<{index}::AID-ATL5>3.0.CO;2-M"

# fmt: off
JOURNALS: tuple[Venue, ...] = (
    Venue("aurora", "journals.aurora-press.example", "Aurora Physical Journal", "Aurora Press", "10.55550",
          "/index.php/apj/article/view/{code}", "/index.php/apj/article/download/{code}/1", weight=24),
    Venue("atlas", "www.atlasonline.example", "Atlas of Materials", "Atlas Online", "10.55551",
          "/doi/{doi}", "/doi/pdf/{doi}", doi=_SICI, weight=14, manners=_m("head-403", "cookie-pass")),
    Venue("silverleaf", "academic.silverleaf.example", "Silverleaf Medicine", "Silverleaf Academic", "10.55552",
          "/slm/article/12/3/{code}", "/slm/article-pdf/12/3/{code}/paper.pdf", weight=14, manners=_m("token-cdn")),
    Venue("tortoise", "slow.tortoise-journals.example", "Annals of Patience", "Tortoise Journals", "10.55553",
          "/articles/{code}", "/articles/{code}.pdf", weight=8, manners=_m("slow")),
    Venue("headless", "www.headless-review.example", "Headless Review", "Headless Society", "10.55554",
          "/review/{code}", "/review/{code}/pdf", doi="s{year}-{code}(x)", weight=10, manners=_m("head-405"),
          link="anchor"),
    Venue("hopscotch", "link.hopscotch.example", "Hopscotch Letters", "Hopscotch", "10.55555",
          "/retrieve/{code}", "/science/{code}/pdfft", doi="j.hop.{code}", weight=8, manners=_m("hop-page")),
    Venue("cookiejar", "papers.cookiejar.example", "Journal of Small Crumbs", "Cookiejar Publishing", "10.55556",
          "/paper/{code}", "/paper/{code}/full.pdf", weight=8, manners=_m("cookie-pass"), link="alternate"),
    Venue("octavo", "data.octavo.example", "Octavo Studies", "Octavo Verlag", "10.55557",
          "/o/{code}", "/o/{code}/download", weight=10, manners=_m("octet-stream"), robots_status=404),
    Venue("lusitana", "revista.lusitana.example", "Revista Lusitana de Ciências", "Editora Lusitana", "10.55558",
          "/artigos/{code}/resumo.html", "/artigos/{code}/texto.pdf", weight=4, manners=_m("latin1-gzip"),
          link="base", robots="User-agent: *\nCrawl-delay: 1\nDisallow: /busca\n"),
)

REPOSITORIES: tuple[Venue, ...] = (
    Venue("northlake", "repository.northlake-university.example", "Northlake Repository", "Northlake University", "",
          "/handle/1887/{code}", "/bitstream/handle/1887/{code}/paper.pdf?sequence=1&isAllowed=y", "repository",
          weight=14),
    Venue("meridian", "eprints.meridian.example", "Meridian ePrints", "University of Meridian", "",
          "/id/eprint/{code}/", "/id/eprint/{code}/1/paper.pdf", "repository", link="alternate", weight=12,
          robots="User-agent: *\nCrawl-delay: 0.2\nDisallow: /cgi/\n"),
    Venue("harbor", "archive.harbor-institute.example", "Harbor Archive", "Harbor Institute", "",
          "/records/{code}", "/records/{code}/files/paper.pdf?download=1", "repository", link="anchor", weight=10),
)

# Venues that only their own archetype uses.
SAD: dict[str, Venue] = {
    v.key: v
    for v in (
        Venue("subscription", "closed.subscription-press.example", "Subscription Letters", "Subscription Press",
              "10.555590", "/doi/abs/{doi}", "/doi/pdf/{doi}"),
        Venue("defunct", "www.defunct-letters.example", "Defunct Letters", "Defunct Letters", "10.555591",
              "/letters/{code}", "/letters/{code}.pdf", robots_status=404),
        Venue("roundabout", "www.roundabout.example", "Roundabout Transactions", "Roundabout", "10.555592",
              "/turn/{code}", "/turn/{code}/pdf"),
        Venue("brokenstack", "www.brokenstack.example", "Broken Stack Bulletin", "Broken Stack", "10.555593",
              "/b/{code}", "/b/{code}/pdf"),
        Venue("gatehouse", "www.gatehouse.example", "Gatehouse Proceedings", "Gatehouse", "10.555594",
              "/content/{code}", "/content/{code}.full.pdf"),
        Venue("tatters", "www.tatters.example", "Tattered Pages", "Tatters", "10.555595",
              "/p/{code}", "/p/{code}.pdf"),
        Venue("keepout", "www.keepout.example", "Keep Out Quarterly", "Keep Out", "10.555596",
              "/private/{code}", "/private/{code}.pdf",
              robots="User-agent: *\nDisallow: /private/\n"),
        Venue("mute", "www.mute-robots.example", "Mute Robots", "Mute", "10.555597",
              "/private/{code}", "/private/{code}.pdf", robots_status=503),
        Venue("plain", "www.plainpages.example", "Plain Pages", "Plain Pages", "10.555598",
              "/abs/{code}", "/pdf/{code}"),
    )
}
# fmt: on

HUB = "resolver.handles-hub.example"
LINKOUT = "go.linkout.example"
LOOPS = "loops.roundabout.example"
CDN = "cdn.silverleaf.example"
HELPERS: tuple[str, ...] = (HUB, LINKOUT, LOOPS, CDN)

ALL: tuple[Venue, ...] = (*JOURNALS, *REPOSITORIES, *SAD.values())
BY_HOST: dict[str, Venue] = {v.host: v for v in ALL}
BY_KEY: dict[str, Venue] = {v.key: v for v in ALL}


def pick(pool: tuple[Venue, ...], roll: int) -> Venue:
    """Choose a venue by weight from a 32-bit number."""
    rest = roll % sum(v.weight for v in pool)
    for venue in pool:
        rest -= venue.weight
        if rest < 0:
            return venue
    raise AssertionError("weights are positive")
