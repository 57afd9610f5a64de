"""OpenAlex: the PDFs of all open locations in the record itself, not only of the best one. Sends no request."""

from __future__ import annotations

import docstokg_assets.resolvers as kit

# Added to the resolver's rank. Hosts that invite harvesters come right after their own resolvers, before all others.
# Repositories answer programs; publishers often answer them with a bot wall.
_SANCTIONED, _REPOSITORY, _PUBLISHER = -9, 0, 1

_PDF, _REPOSITORY_PDF = "https://peerj.com/articles/1.pdf", "https://repo.example/bitstream/1/a.pdf"
_LOCATIONS = (
    kit.Location("https://doi.org/10.5555/1", _PDF, True, license="cc-by"),
    kit.Location(None, "https://press.example/a.pdf", True, source_type="journal"),
    kit.Location(None, _REPOSITORY_PDF, True, source_type="repository"),
    kit.Location(None, "http://arxiv.org/pdf/2401.00001v2.pdf", True, source_type="repository"),
    kit.Location(None, "https://pmc.ncbi.nlm.nih.gov/articles/PMC1/pdf/a.pdf", True),
    kit.Location(None, "https://closed.example/a.pdf", False),
)
_URLS = ["https://export.arxiv.org/pdf/2401.00001v2", _REPOSITORY_PDF, _PDF, "https://press.example/a.pdf"]


@kit.register("openalex")
class OpenAlexResolver(kit.Resolver):
    tier = kit.Tier.DIRECT_OA
    default_rank = 20
    head_precheck = False  # `pdf_url` is a file; a HEAD adds nothing to the GET
    EXAMPLES = (
        kit.Example(kit.Work("W1", locations=_LOCATIONS), urls=_URLS),
        kit.Example(kit.Work("W2", locations=(kit.Location("https://doi.org/10.5555/2", None, True),))),
        kit.Example(kit.Work("W3")),
    )

    def applies(self, work: kit.Work) -> bool:
        return any(location.is_oa and location.pdf_url for location in work.locations)

    def candidates(self, work: kit.Work) -> list[kit.Candidate]:
        found = []
        for location in work.locations:  # OpenAlex's best location stays first among equals
            if location.is_oa and (url := kit.file_url(location.pdf_url)):
                kind = _REPOSITORY if location.source_type == "repository" else _PUBLISHER
                rank = self.rank + (_SANCTIONED if kit.is_sanctioned(url) else kind)
                found.append(self.candidate(url, rank=rank, version=location.version, license=location.license))
        return sorted(found, key=lambda candidate: candidate.rank)
