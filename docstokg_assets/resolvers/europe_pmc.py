"""Europe PMC: the open PDF and the full-text XML of articles that it holds, found by PMCID, PMID or DOI."""

from __future__ import annotations

from collections.abc import Sequence

import docstokg_assets.resolvers as kit

_REST = "https://www.ebi.ac.uk/europepmc/webservices/rest"
_MOST = 40  # works in one query; it is part of the URL
_OPEN = frozenset({"OA", "F"})  # open access, free
_MANUSCRIPT = ("authMan", "epmcAuthMan", "nihAuthMan")

_WORK = kit.Work("W1", pmcid="PMC9900001")
_PAGE = "https://europepmc.org/articles/PMC9900001"
_PLACES = [
    {"availabilityCode": "OA", "documentStyle": "html", "url": _PAGE},
    {"availabilityCode": "OA", "documentStyle": "pdf", "url": f"{_PAGE}?pdf=render"},
    {"availabilityCode": "S", "documentStyle": "pdf", "url": "https://press.example/99001.pdf"},
]
_IDS = {"pmid": "41990001", "pmcid": "PMC9900001", "doi": "10.5555/peerj.99001"}
_SAID = {"source": "MED", "license": "cc by", "isOpenAccess": "Y", "inEPMC": "Y", "authMan": "N"}
_URLS = [f"{_PAGE}?pdf=render", f"{_REST}/PMC9900001/fullTextXML"]
_RESULT = {**_IDS, **_SAID, "fullTextUrlList": {"fullTextUrl": _PLACES}}


@kit.register("europe_pmc")
class EuropePmcResolver(kit.ApiResolver):
    default_rank = 28
    api_host = "www.ebi.ac.uk"
    EXAMPLES = (
        kit.Example(_WORK, [{"resultList": {"result": [_RESULT]}}], _URLS),
        kit.Example(_WORK, [{"resultList": {"result": [_RESULT | {"pmcid": "PMC1"}]}}]),  # another article
        kit.Example(_WORK, [{"hitCount": 0, "resultList": {"result": []}}]),
        kit.Example(_WORK, [{"errCode": 404, "errMsg": "Invalid page size"}], reason=kit.Reason.BAD_ANSWER),
        kit.Example(kit.Work("W2", doi="10.5555/1", oa_status="closed")),
    )

    def item(self, work: kit.Work) -> str | None:
        """The query for a work."""
        if work.pmcid:
            return f"PMCID:{work.pmcid}"
        if work.pmid:
            return f"(EXT_ID:{work.pmid} AND SRC:MED)"
        # OpenAlex lists the PMID of what PubMed holds; for works that are not in OpenAlex, the DOI may be known here
        return f"DOI:{kit.phrase(work.doi)}" if work.doi and work.oa_status is None else None

    def request(self, work: kit.Work, context: kit.ResolverContext) -> kit.Request:
        return kit.batchable_request(self.item(work) or "", _MOST, _search)

    def failure(self, response: kit.Response) -> kit.ResolverResult | None:
        """An error may come with status 200."""
        message = kit.dig(kit.json_of(response), "errMsg") if response.ok else None
        return kit.bad_answer(f"Europe PMC: {message}") if message else super().failure(response)

    def read(self, data: object, work: kit.Work, response: kit.Response) -> kit.Candidates | None:
        if "resultList" not in kit.mapping(data):
            return None
        results = kit.objects(kit.dig(data, "resultList", "result"))
        return (candidate for result in results if _is(result, work) for candidate in self._candidates(result))

    def _candidates(self, result: kit.JsonObject) -> kit.Candidates:
        manuscript = any(result.get(name) == "Y" for name in _MANUSCRIPT)
        version, license_ = "acceptedVersion" if manuscript else "publishedVersion", result.get("license")
        version = "submittedVersion" if result.get("source") == "PPR" else version
        for place in kit.objects(kit.dig(result, "fullTextUrlList", "fullTextUrl")):
            if place.get("documentStyle") == "pdf" and place.get("availabilityCode") in _OPEN:
                yield from self.file(place.get("url"), license_=license_, version=version)
        pmcid = kit.normalize_pmcid(result.get("pmcid"))
        if pmcid and result.get("isOpenAccess") == "Y" and result.get("inEPMC") == "Y":
            url = f"{_REST}/{pmcid}/fullTextXML"
            yield from self.file(url, kit.Target.XML, license_, version=version, rank=self.rank + 1)


def _search(queries: Sequence[str]) -> kit.Request:
    query = {"query": " OR ".join(queries), "resultType": "core", "format": "json", "pageSize": 5 * len(queries)}
    return kit.api_request(f"{_REST}/search", query)


def _is(result: kit.JsonObject, work: kit.Work) -> bool:
    if work.pmcid:
        return kit.normalize_pmcid(result.get("pmcid")) == work.pmcid
    return result.get("pmid") == work.pmid if work.pmid else kit.names_doi(result.get("doi"), work.doi or "")
