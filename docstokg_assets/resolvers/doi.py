"""DOI: the page to which a DOI leads, as a landing page. Sends no request; redirects are followed when it is fetched."""

from __future__ import annotations

import docstokg_assets.resolvers as kit


@kit.register("doi")
class DoiResolver(kit.Resolver):
    tier = kit.Tier.DOI_REDIRECT
    head_precheck = False  # publishers refuse HEAD, and a landing page is read anyway
    EXAMPLES = (
        kit.Example(kit.Work("W1", doi="10.5555/12345678"), urls=["https://doi.org/10.5555/12345678"]),
        kit.Example(
            kit.Work("W2", doi="10.1002/(SICI)<::A>2-#"), urls=["https://doi.org/10.1002/(SICI)%3C::A%3E2-%23"]
        ),
        kit.Example(kit.Work("W3", doi="10.48550/arXiv.2401.00001", arxiv_id="2401.00001")),
        kit.Example(kit.Work("W4")),
    )

    def applies(self, work: kit.Work) -> bool:
        # The page of an arXiv DOI leads to the same PDF that the arxiv resolver names.
        return work.doi is not None and not work.doi.lower().startswith("10.48550/arxiv.")

    def candidates(self, work: kit.Work) -> kit.Candidates:
        yield self.candidate(kit.doi_url(work.doi or ""), kit.Target.LANDING)
