"""arXiv: the PDF of a paper whose arXiv id is known, from the host that arXiv offers to harvesters. Sends no request."""

from __future__ import annotations

import docstokg_assets.resolvers as kit


@kit.register("arxiv")
class ArxivResolver(kit.Resolver):
    tier = kit.Tier.DIRECT_OA
    default_rank = 10
    # export.arxiv.org exists for harvesting, under arXiv's terms of use (one request in three seconds, one connection);
    # its robots.txt is written for search engines.
    robots = False
    head_precheck = False
    EXAMPLES = (
        kit.Example(kit.Work("W1", arxiv_id="2401.00001v2"), urls=["https://export.arxiv.org/pdf/2401.00001v2"]),
        kit.Example(kit.Work("W2", arxiv_id="hep-th/9901001"), urls=["https://export.arxiv.org/pdf/hep-th/9901001"]),
        kit.Example(kit.Work("W3")),
    )

    def applies(self, work: kit.Work) -> bool:
        return work.arxiv_id is not None

    def candidates(self, work: kit.Work) -> kit.Candidates:
        yield self.candidate(f"https://export.arxiv.org/pdf/{work.arxiv_id}", version="submittedVersion")
