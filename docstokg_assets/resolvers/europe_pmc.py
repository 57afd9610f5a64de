"""Europe PMC: the open PDF and the full-text XML of articles that it holds, found by PMCID, PMID or DOI."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from docstokg_assets.resolvers import (
    ApiResolver,
    Candidates,
    Example,
    JsonObject,
    Reason,
    Request,
    ResolverContext,
    ResolverResult,
    Response,
    Target,
    Work,
    answer,
    api_request,
    bad_answer,
    batchable_request,
    dig,
    json_of,
    mapping,
    names_doi,
    normalize_pmcid,
    objects,
    phrase,
    register,
)

_REST = "https://www.ebi.ac.uk/europepmc/webservices/rest"
_MOST = 40  # works in one query; it is part of the URL
_OPEN = frozenset({"OA", "F"})  # open access, free
_MANUSCRIPT = ("authMan", "epmcAuthMan", "nihAuthMan")

_WORK = Work("W1", pmcid="PMC9900001")
_PAGE = "https://europepmc.org/articles/PMC9900001"
_RESULT = {
    "id": "41990001",
    "source": "MED",
    "pmid": "41990001",
    "pmcid": "PMC9900001",
    "doi": "10.5555/peerj.99001",
    "isOpenAccess": "Y",
    "inEPMC": "Y",
    "license": "cc by",
    "authMan": "N",
    "fullTextUrlList": {
        "fullTextUrl": [
            {"availabilityCode": "OA", "documentStyle": "html", "url": _PAGE},
            {"availabilityCode": "OA", "documentStyle": "pdf", "url": f"{_PAGE}?pdf=render"},
            {"availabilityCode": "S", "documentStyle": "pdf", "url": "https://press.example/99001.pdf"},
        ]
    },
}


def _results(*results: JsonObject) -> JsonObject:
    return {"hitCount": len(results), "resultList": {"result": list(results)}}


@register("europe_pmc")
class EuropePmcResolver(ApiResolver):
    default_rank = 28
    api_host = "www.ebi.ac.uk"
    EXAMPLES = (
        Example(_WORK, [answer(_results(_RESULT))], [f"{_PAGE}?pdf=render", f"{_REST}/PMC9900001/fullTextXML"]),
        Example(_WORK, [answer(_results(_RESULT | {"pmcid": "PMC1"}))], reason=Reason.NO_CANDIDATE),  # another article
        Example(_WORK, [answer(_results())], reason=Reason.NO_CANDIDATE),
        Example(_WORK, [answer({"errCode": 404, "errMsg": "Invalid page size"})], reason=Reason.BAD_ANSWER),
        Example(Work("W2", doi="10.5555/1", oa_status="closed")),
    )

    def applies(self, work: Work) -> bool:
        return _query(work) is not None

    def request(self, work: Work, context: ResolverContext) -> Request:
        return batchable_request(_query(work) or "", _MOST, _search)

    def failure(self, response: Response) -> ResolverResult | None:
        """An error may come with status 200."""
        message = dig(json_of(response), "errMsg") if response.ok else None
        return bad_answer(f"Europe PMC: {message}") if message else super().failure(response)

    def read(self, data: Any, work: Work, response: Response) -> Candidates | None:
        if "resultList" not in mapping(data):
            return None
        results = objects(dig(data, "resultList", "result"))
        return (candidate for result in results if _is(result, work) for candidate in self._candidates(result))

    def _candidates(self, result: JsonObject) -> Candidates:
        version, license_ = _version(result), result.get("license")
        for place in objects(dig(result, "fullTextUrlList", "fullTextUrl")):
            if place.get("documentStyle") == "pdf" and place.get("availabilityCode") in _OPEN:
                yield from self.file(place.get("url"), license_=license_, version=version)
        pmcid = normalize_pmcid(result.get("pmcid"))
        if pmcid and result.get("isOpenAccess") == "Y" and result.get("inEPMC") == "Y":
            url = f"{_REST}/{pmcid}/fullTextXML"
            yield from self.file(url, Target.XML, license_, version=version, rank=self.rank + 1)


def _search(queries: Sequence[str]) -> Request:
    query = {"query": " OR ".join(queries), "resultType": "core", "format": "json", "pageSize": 5 * len(queries)}
    return api_request(f"{_REST}/search?{urlencode(query)}")


def _query(work: Work) -> str | None:
    if work.pmcid:
        return f"PMCID:{work.pmcid}"
    if work.pmid:
        return f"(EXT_ID:{work.pmid} AND SRC:MED)"
    # OpenAlex lists the PMID of what PubMed holds; for works that are not in OpenAlex, the DOI may be known here
    return f"DOI:{phrase(work.doi)}" if work.doi and work.oa_status is None else None


def _is(result: JsonObject, work: Work) -> bool:
    if work.pmcid:
        return normalize_pmcid(result.get("pmcid")) == work.pmcid
    return result.get("pmid") == work.pmid if work.pmid else names_doi(result.get("doi"), work.doi or "")


def _version(result: JsonObject) -> str:
    if result.get("source") == "PPR":
        return "submittedVersion"
    return "acceptedVersion" if any(result.get(name) == "Y" for name in _MANUSCRIPT) else "publishedVersion"
