"""DataCite: the file that a repository registered with a DOI (`contentUrl`, often none), and the page that the DOI leads to."""

from __future__ import annotations

from urllib.parse import quote

import docstokg_assets.resolvers as kit

# Prefixes of the large repositories, for DOIs whose registration agency is unknown.
_PREFIXES = frozenset(
    {"10.5281", "10.6084", "10.17605", "10.17632", "10.5061", "10.7910", "10.3929", "10.18154", "10.13140", "10.5445"}
)

_WORK = kit.Work("W1", doi="10.18154/RWTH-2024-01", agency="datacite")
_PAGE = "https://repo.example/record/1"
_ATTRIBUTES = {
    "url": _PAGE,
    "contentUrl": [f"{_PAGE}/files/data.csv", f"{_PAGE}/files/1.pdf"],
    "formats": ["text/csv", "application/pdf"],
    "rightsList": [{"rightsUri": "https://creativecommons.org/licenses/by/4.0/legalcode"}],
}


@kit.register("datacite")
class DataciteResolver(kit.ApiResolver):
    default_rank = 45
    api_host = "api.datacite.org"
    EXAMPLES = (
        kit.Example(_WORK, [{"data": {"attributes": _ATTRIBUTES}}], [f"{_PAGE}/files/1.pdf", _PAGE]),
        kit.Example(kit.Work("W2", doi="10.5281/1"), [{"data": {"attributes": {"url": _PAGE}}}], [_PAGE]),
        kit.Example(_WORK, [{"data": {"attributes": {"url": None}}}]),
        kit.Example(_WORK, [{"data": []}], reason=kit.Reason.BAD_ANSWER),
        kit.Example(kit.Work("W3", doi="10.5555/1", agency="crossref")),
    )

    def applies(self, work: kit.Work) -> bool:
        prefix = (kit.indexed_doi(work) or "").partition("/")[0]
        return bool(prefix) and (work.agency == "datacite" or (work.agency is None and prefix in _PREFIXES))

    def request(self, work: kit.Work, context: kit.ResolverContext) -> kit.Request:
        return kit.api_request(f"https://api.datacite.org/dois/{quote(work.doi or '', safe='')}")

    def read(self, data: object, work: kit.Work, response: kit.Response) -> kit.Candidates | None:
        attributes = kit.dig(data, "data", "attributes")
        return self._candidates(attributes, work.doi or "") if isinstance(attributes, dict) else None

    def _candidates(self, attributes: kit.JsonObject, doi: str) -> kit.Candidates:
        rights = next(kit.objects(attributes.get("rightsList")), {})
        license_ = kit.license_name(rights.get("rightsUri") or rights.get("rightsIdentifier"))
        all_pdf = kit.items(attributes.get("formats")) == ["application/pdf"]
        for url in map(kit.file_url, kit.values_at(attributes, "contentUrl")):
            if url and (all_pdf or kit.looks_like_pdf(url)):
                yield self.candidate(url, license=license_)
        if page := kit.page_url(attributes.get("url")):
            fields = {"tier": kit.Tier.DOI_REDIRECT, "license": license_, "instead_of": kit.doi_url(doi)}
            yield self.candidate(page, kit.Target.LANDING, **fields)
