"""OpenAlex: the PDFs of all open locations in the record itself, not only of the best one. Sends no request."""

from __future__ import annotations

from collections.abc import Sequence

from docstokg_assets.resolvers import (
    Candidate,
    Example,
    Location,
    Resolver,
    Tier,
    Work,
    file_url,
    is_sanctioned,
    register,
)

# Added to the resolver's rank. Hosts that invite harvesters come right after their own resolvers, before all others.
# Repositories answer programs; publishers often answer them with a bot wall.
_SANCTIONED, _REPOSITORY, _PUBLISHER = -9, 0, 1


@register("openalex")
class OpenAlexResolver(Resolver):
    tier = Tier.DIRECT_OA
    default_rank = 20
    head_precheck = False  # `pdf_url` is a file; a HEAD tells nothing that the GET does not
    EXAMPLES = (
        Example(
            Work(
                "W1",
                locations=(
                    Location("https://doi.org/10.5555/1", "https://peerj.com/articles/1.pdf", True, license="cc-by"),
                    Location(None, "https://press.example/a.pdf", True, source_type="journal"),
                    Location(None, "https://repo.example/bitstream/1/a.pdf", True, source_type="repository"),
                    Location(None, "http://arxiv.org/pdf/2401.00001v2.pdf", True, source_type="repository"),
                    Location(None, "https://pmc.ncbi.nlm.nih.gov/articles/PMC1/pdf/a.pdf", True),
                    Location(None, "https://closed.example/a.pdf", False),
                ),
            ),
            urls=[
                "https://export.arxiv.org/pdf/2401.00001v2",
                "https://repo.example/bitstream/1/a.pdf",
                "https://peerj.com/articles/1.pdf",
                "https://press.example/a.pdf",
            ],
        ),
        Example(Work("W2", locations=(Location("https://doi.org/10.5555/2", None, True),))),
        Example(Work("W3")),
    )

    def applies(self, work: Work) -> bool:
        return any(location.is_oa and location.pdf_url for location in work.locations)

    def candidates(self, work: Work) -> Sequence[Candidate]:
        found = []
        for location in work.locations:  # OpenAlex's best location stays first among equals
            if location.is_oa and (url := file_url(location.pdf_url)):
                rank = self.rank + _offset(url, location)
                found.append(self.candidate(url, rank=rank, version=location.version, license=location.license))
        return sorted(found, key=lambda candidate: candidate.rank)


def _offset(url: str, location: Location) -> int:
    if is_sanctioned(url):
        return _SANCTIONED
    return _REPOSITORY if location.source_type == "repository" else _PUBLISHER
