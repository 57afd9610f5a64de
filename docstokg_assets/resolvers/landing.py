"""Landing pages: those of a work's open locations, and the URLs that the user gave. `landing/` reads them."""

from __future__ import annotations

from pydantic import Field

import docstokg_assets.resolvers as kit


class LandingSettings(kit.ResolverSettings):
    max_pages: int = Field(default=3, ge=0, description="landing pages of open locations that are tried for one work")
    max_depth: int = Field(default=4, ge=1, le=10, description="pages on the way from a candidate to its file")


_LOCATIONS = (
    *(kit.Location(url, None, True) for url in ("https://doi.org/10.5555/1", "https://arxiv.org/abs/2401.00001")),
    kit.Location("https://closed.example/1", None, False),
    *(kit.Location(f"https://repo{n}.example/", None, True) for n in range(5)),
)
_GIVEN = ("https://press.example/a.pdf?download=1", "https://press.example/article/1")
_PAGE, _PREPRINT = "https://link.springer.com/article/10.1007/s1-2", "https://arxiv.org/abs/2401.00001"
_PDFS = ["https://link.springer.com/content/pdf/10.1007/s1-2.pdf", "https://export.arxiv.org/pdf/2401.00001"]


@kit.register("landing")
class LandingResolver(kit.Resolver):
    tier = kit.Tier.LANDING_SCRAPE
    head_precheck = False  # a page is read anyway
    Settings = LandingSettings
    EXAMPLES = (
        kit.Example(kit.Work("W1", locations=_LOCATIONS), urls=[f"https://repo{n}.example/" for n in range(3)]),
        kit.Example(kit.Work("url-1", urls=_GIVEN), urls=_GIVEN),
        kit.Example(kit.Work("url-2", urls=(_PAGE, _PREPRINT)), urls=[_PDFS[0], _PAGE, _PDFS[1]]),
        kit.Example(kit.Work("W3", locations=(kit.Location("javascript:alert(1)", None, True),))),
    )

    settings: LandingSettings

    def applies(self, work: kit.Work) -> bool:
        return bool(work.urls or work.locations)

    def candidates(self, work: kit.Work) -> kit.Candidates:
        """URLs from the user come first; a file does not wait for the tier of the pages. Where a better URL is known, the given
        one is tried after it, unless its host asks harvesters to use another host."""
        for given in work.urls:
            file = kit.file_url(given)
            if file and kit.looks_like_pdf(file):
                yield self.candidate(file, tier=kit.Tier.DIRECT_OA, rank=0)
            elif file:
                yield self.candidate(file, kit.Target.LANDING, rank=0)
            if (page := kit.page_url(given)) and page != file:
                yield self.candidate(page, kit.Target.LANDING, rank=0)
        pages = ((place, kit.page_url(place.landing_url)) for place in work.locations if place.is_oa)
        for place, url in [(place, url) for place, url in pages if url][: self.settings.max_pages]:
            yield self.candidate(url, kit.Target.LANDING, version=place.version, license=place.license)
