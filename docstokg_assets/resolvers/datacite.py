"""DataCite: the file that a repository registered with a DOI (`contentUrl`, often none), and the page that the DOI leads to."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from docstokg_assets.resolvers import (
    ApiResolver,
    Candidates,
    Example,
    JsonObject,
    Reason,
    Request,
    ResolverContext,
    Response,
    Target,
    Tier,
    Work,
    answer,
    api_request,
    dig,
    doi_url,
    file_url,
    items,
    license_name,
    looks_like_pdf,
    objects,
    page_url,
    register,
)

# Prefixes of the large repositories, for DOIs whose registration agency is unknown.
_PREFIXES = frozenset(
    {"10.5281", "10.6084", "10.17605", "10.17632", "10.5061", "10.7910", "10.3929", "10.18154", "10.13140", "10.5445"}
)

_WORK = Work("W1", doi="10.18154/RWTH-2024-01", agency="datacite")
_PAGE = "https://repo.example/record/1"
_ATTRIBUTES = {
    "url": _PAGE,
    "contentUrl": [f"{_PAGE}/files/data.csv", f"{_PAGE}/files/1.pdf"],
    "formats": ["text/csv", "application/pdf"],
    "rightsList": [{"rightsUri": "https://creativecommons.org/licenses/by/4.0/legalcode"}],
}


@register("datacite")
class DataciteResolver(ApiResolver):
    default_rank = 45
    api_host = "api.datacite.org"
    EXAMPLES = (
        Example(_WORK, [answer({"data": {"attributes": _ATTRIBUTES}})], [f"{_PAGE}/files/1.pdf", _PAGE]),
        Example(
            Work("W2", doi="10.5281/zenodo.1"),
            [answer({"data": {"attributes": {"url": "https://zenodo.org/records/1", "contentUrl": None}}})],
            ["https://zenodo.org/records/1"],
        ),
        Example(_WORK, [answer({"data": {"attributes": {"url": None}}})], reason=Reason.NO_CANDIDATE),
        Example(_WORK, [answer({"errors": [{"status": "404"}]}, 404)], reason=Reason.NO_CANDIDATE),
        Example(_WORK, [answer({"data": []})], reason=Reason.BAD_ANSWER),
        Example(Work("W3", doi="10.5555/1", agency="crossref")),
    )

    def applies(self, work: Work) -> bool:
        # the arxiv resolver derives the file of an arXiv DOI without a record
        if work.doi is None or work.doi.startswith("10.48550/"):
            return False
        return work.agency == "datacite" or (work.agency is None and work.doi.partition("/")[0] in _PREFIXES)

    def request(self, work: Work, context: ResolverContext) -> Request:
        return api_request(f"https://api.datacite.org/dois/{quote(work.doi or '', safe='')}")

    def read(self, data: Any, work: Work, response: Response) -> Candidates | None:
        attributes = dig(data, "data", "attributes")
        return self._candidates(attributes, work.doi or "") if isinstance(attributes, dict) else None

    def _candidates(self, attributes: JsonObject, doi: str) -> Candidates:
        rights = objects(attributes.get("rightsList"))
        license_ = next((license_name(one.get("rightsUri") or one.get("rightsIdentifier")) for one in rights), None)
        content = attributes.get("contentUrl")
        all_pdf = items(attributes.get("formats")) == ["application/pdf"]
        for url in map(file_url, items(content) if isinstance(content, list) else [content]):
            if url and (all_pdf or looks_like_pdf(url)):
                yield self.candidate(url, license=license_)
        if page := page_url(attributes.get("url")):
            tier, leads_here = Tier.DOI_REDIRECT, doi_url(doi)
            yield self.candidate(page, Target.LANDING, tier=tier, license=license_, instead_of=leads_here)
