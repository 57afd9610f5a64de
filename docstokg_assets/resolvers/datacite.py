"""DataCite: the file that a repository registered with a DOI (`contentUrl`, often none), and the page that the DOI leads to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from docstokg_assets.domain.json_access import items, mapping
from docstokg_assets.domain.plans import Candidate, Target, Tier
from docstokg_assets.domain.works import Work
from docstokg_assets.resolvers.answers import (
    answer,
    api_request,
    bad_answer,
    failure,
    json_of,
    license_name,
    named,
    nothing,
)
from docstokg_assets.resolvers.registry import Example, Resolution, Resolver, ResolverContext, register
from docstokg_assets.resolvers.routes import doi_url, file_url, looks_like_pdf, page_url
from resources.records import Reason

# Where nobody says who registered a DOI: prefixes of the large repositories.
_PREFIXES = frozenset(
    {"10.5281", "10.6084", "10.17605", "10.17632", "10.5061", "10.7910", "10.3929", "10.18154", "10.13140", "10.5445"}
)

_WORK = Work("W1", doi="10.18154/RWTH-2024-01", agency="datacite")
_ATTRIBUTES = {
    "url": "https://repo.example/record/1",
    "contentUrl": ["https://repo.example/record/1/files/data.csv", "https://repo.example/record/1/files/1.pdf"],
    "formats": ["text/csv", "application/pdf"],
    "rightsList": [{"rightsUri": "https://creativecommons.org/licenses/by/4.0/legalcode"}],
}


@register("datacite")
class DataciteResolver(Resolver):
    tier = Tier.DIRECT_OA
    default_rank = 45
    api_host = "api.datacite.org"
    head_precheck = False
    EXAMPLES = (
        Example(
            _WORK,
            [answer({"data": {"attributes": _ATTRIBUTES}})],
            ["https://repo.example/record/1/files/1.pdf", "https://repo.example/record/1"],
        ),
        Example(
            Work("W2", doi="10.5281/zenodo.1"),
            [answer({"data": {"attributes": {"url": "https://zenodo.org/records/1", "contentUrl": None}}})],
            ["https://zenodo.org/records/1"],
        ),
        Example(_WORK, [answer({"data": {"attributes": {"url": None}}})], reason=Reason.NO_CANDIDATE),
        Example(_WORK, [answer({"errors": [{"status": "404"}]}, 404)], reason=Reason.NO_CANDIDATE),
        Example(_WORK, [answer(b"busy", 503)], reason=Reason.HTTP_5XX),
        Example(_WORK, [answer({"data": []})], reason=Reason.BAD_ANSWER),
        Example(Work("W3", doi="10.5555/1", agency="crossref")),
    )

    def applies(self, work: Work) -> bool:
        # arXiv's own resolver needs no record to know the file of an arXiv DOI
        if work.doi is None or work.doi.startswith("10.48550/"):
            return False
        return work.agency == "datacite" or (work.agency is None and work.doi.partition("/")[0] in _PREFIXES)

    def resolve(self, work: Work, context: ResolverContext) -> Resolution:
        if not work.doi:
            return nothing()
        response = yield api_request(f"https://api.datacite.org/dois/{quote(work.doi, safe='')}")
        if failed := failure(response):
            return failed
        attributes = mapping(mapping(json_of(response)).get("data")).get("attributes")
        if not isinstance(attributes, dict):
            return bad_answer("DataCite's answer has no attributes")
        return named(self._candidates(attributes, work.doi))

    def _candidates(self, attributes: Mapping[str, Any], doi: str) -> Iterator[Candidate]:
        rights = [mapping(item) for item in items(attributes.get("rightsList"))]
        license_ = next((license_name(one.get("rightsUri") or one.get("rightsIdentifier")) for one in rights), None)
        content = attributes.get("contentUrl")
        all_pdf = items(attributes.get("formats")) == ["application/pdf"]
        for url in map(file_url, items(content) if isinstance(content, list) else [content]):
            if url and (all_pdf or looks_like_pdf(url)):
                yield Candidate(url, self.name, self.tier, rank=self.rank, license=license_)
        if page := page_url(attributes.get("url")):
            leads_there = doi_url(doi)
            yield Candidate(
                page, self.name, Tier.DOI_REDIRECT, Target.LANDING, self.rank, license=license_, instead_of=leads_there
            )
