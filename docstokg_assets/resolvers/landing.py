"""Landing pages: those of a work's open locations, and the URLs that the user gave. `landing/` reads them."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from docstokg_assets.resolvers import (
    Candidate,
    Candidates,
    Example,
    Location,
    Resolver,
    ResolverSettings,
    Target,
    Tier,
    Work,
    file_url,
    looks_like_pdf,
    page_url,
    register,
)


class LandingSettings(ResolverSettings):
    max_pages: int = Field(default=3, ge=0, description="landing pages of open locations that are tried for one work")


@register("landing")
class LandingResolver(Resolver):
    tier = Tier.LANDING_SCRAPE
    head_precheck = False  # a page is read anyway
    Settings = LandingSettings
    EXAMPLES = (
        Example(
            Work(
                "W1",
                locations=(
                    Location("https://doi.org/10.5555/1", None, True),
                    Location("https://repo.example/handle/1", None, True, license="cc-by"),
                    Location("https://arxiv.org/abs/2401.00001", None, True),
                    Location("https://closed.example/1", None, False),
                    *(Location(f"https://repo{n}.example/", None, True) for n in range(5)),
                ),
            ),
            urls=["https://repo.example/handle/1", "https://repo0.example/", "https://repo1.example/"],
        ),
        Example(
            Work("url-1", urls=("https://press.example/a.pdf?download=1", "https://press.example/article/1")),
            urls=["https://press.example/a.pdf?download=1", "https://press.example/article/1"],
        ),
        Example(
            Work("url-2", urls=("https://link.springer.com/article/10.1007/s1-2", "https://arxiv.org/abs/2401.00001")),
            urls=[
                "https://link.springer.com/content/pdf/10.1007/s1-2.pdf",
                "https://link.springer.com/article/10.1007/s1-2",
                "https://export.arxiv.org/pdf/2401.00001",
            ],
        ),
        Example(Work("W3", locations=(Location("javascript:alert(1)", None, True),))),
    )

    settings: LandingSettings

    def applies(self, work: Work) -> bool:
        return bool(work.urls or work.locations)

    def candidates(self, work: Work) -> Sequence[Candidate]:
        return (*self._given(work), *list(self._pages(work))[: self.settings.max_pages])

    def _given(self, work: Work) -> Candidates:
        """URLs from the user come first; a file does not wait for the tier of the pages. Where a better URL is known, the given
        one is tried after it, unless its host asks harvesters to use another host."""
        for given in work.urls:
            file = file_url(given)
            if file and looks_like_pdf(file):
                yield self.candidate(file, tier=Tier.DIRECT_OA, rank=0)
            elif file:
                yield self.candidate(file, Target.LANDING, rank=0)
            if (page := page_url(given)) and page != file:
                yield self.candidate(page, Target.LANDING, rank=0)

    def _pages(self, work: Work) -> Candidates:
        for location in work.locations:
            if location.is_oa and (url := page_url(location.landing_url)):
                yield self.candidate(url, Target.LANDING, version=location.version, license=location.license)
