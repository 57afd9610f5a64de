"""Europe PMC: the open PDF and the full-text XML of articles that it holds, found by PMCID, PMID or DOI."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from docstokg_assets.domain.identifiers import normalize_pmcid
from docstokg_assets.domain.json_access import items, mapping
from docstokg_assets.domain.plans import Candidate, Target, Tier
from docstokg_assets.domain.works import Work
from docstokg_assets.resolvers.answers import (
    answer,
    api_request,
    bad_answer,
    batchable_request,
    failure,
    json_of,
    license_name,
    named,
    names_doi,
    phrase,
)
from docstokg_assets.resolvers.registry import Example, Resolution, Resolver, ResolverContext, register
from docstokg_assets.resolvers.routes import file_url
from resources.http.messages import Request
from resources.records import Reason

_REST = "https://www.ebi.ac.uk/europepmc/webservices/rest"
_MOST = 40  # works in one query; it is part of the URL
_OPEN = frozenset({"OA", "F"})  # open access, free
_MANUSCRIPT = ("authMan", "epmcAuthMan", "nihAuthMan")

_WORK = Work("W1", pmcid="PMC9900001")
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
            {"availabilityCode": "OA", "documentStyle": "html", "url": "https://europepmc.org/articles/PMC9900001"},
            {
                "availabilityCode": "OA",
                "documentStyle": "pdf",
                "url": "https://europepmc.org/articles/PMC9900001?pdf=render",
            },
            {"availabilityCode": "S", "documentStyle": "pdf", "url": "https://press.example/99001.pdf"},
        ]
    },
}


def _results(*results: Mapping[str, Any]) -> dict[str, Any]:
    return {"hitCount": len(results), "resultList": {"result": list(results)}}


@register("europe_pmc")
class EuropePmcResolver(Resolver):
    tier = Tier.DIRECT_OA
    default_rank = 25
    api_host = "www.ebi.ac.uk"
    head_precheck = False
    EXAMPLES = (
        Example(
            _WORK,
            [answer(_results(_RESULT))],
            [
                "https://europepmc.org/articles/PMC9900001?pdf=render",
                "https://www.ebi.ac.uk/europepmc/webservices/rest/PMC9900001/fullTextXML",
            ],
        ),
        Example(_WORK, [answer(_results(_RESULT | {"pmcid": "PMC1"}))], reason=Reason.NO_CANDIDATE),  # another article
        Example(_WORK, [answer(_results())], reason=Reason.NO_CANDIDATE),
        Example(_WORK, [answer({"errCode": 404, "errMsg": "Invalid page size"})], reason=Reason.BAD_ANSWER),
        Example(_WORK, [answer(b"Service Unavailable", 503)], reason=Reason.HTTP_5XX),
        Example(_WORK, [answer(b"<html>")], reason=Reason.BAD_ANSWER),
        Example(Work("W2", doi="10.5555/1", oa_status="closed")),
    )

    def applies(self, work: Work) -> bool:
        return _query(work) is not None

    def resolve(self, work: Work, context: ResolverContext) -> Resolution:
        response = yield batchable_request(_query(work) or "", _MOST, _search)
        if failed := failure(response):
            return failed
        record = mapping(json_of(response))
        if "resultList" not in record:
            return bad_answer(f"Europe PMC did not answer with results: {record.get('errMsg')}")
        results = [mapping(raw) for raw in items(mapping(record["resultList"]).get("result"))]
        return named(c for result in results if _is(result, work) for c in self._candidates(result))

    def _candidates(self, result: Mapping[str, Any]) -> Iterator[Candidate]:
        version, license_ = _version(result), license_name(result.get("license"))
        for place in map(mapping, items(mapping(result.get("fullTextUrlList")).get("fullTextUrl"))):
            pdf = place.get("documentStyle") == "pdf" and place.get("availabilityCode") in _OPEN
            if pdf and (url := file_url(place.get("url"))):
                yield Candidate(url, self.name, self.tier, rank=self.rank, version=version, license=license_)
        pmcid = normalize_pmcid(result.get("pmcid"))
        if pmcid and result.get("isOpenAccess") == "Y" and result.get("inEPMC") == "Y":
            url = f"{_REST}/{pmcid}/fullTextXML"
            rank = self.rank + 1
            yield Candidate(url, self.name, self.tier, Target.XML, rank, version=version, license=license_)


def _search(queries: Sequence[str]) -> Request:
    asked = {"query": " OR ".join(queries), "resultType": "core", "format": "json", "pageSize": 5 * len(queries)}
    return api_request(f"{_REST}/search?{urlencode(asked)}")


def _query(work: Work) -> str | None:
    if work.pmcid:
        return f"PMCID:{work.pmcid}"
    if work.pmid:
        return f"(EXT_ID:{work.pmid} AND SRC:MED)"
    # OpenAlex names the PMID of what PubMed has; for what OpenAlex has not, the DOI may be known here
    return f"DOI:{phrase(work.doi)}" if work.doi and work.oa_status is None else None


def _is(result: Mapping[str, Any], work: Work) -> bool:
    if work.pmcid:
        return normalize_pmcid(result.get("pmcid")) == work.pmcid
    return result.get("pmid") == work.pmid if work.pmid else names_doi(result.get("doi"), work.doi or "")


def _version(result: Mapping[str, Any]) -> str:
    if result.get("source") == "PPR":
        return "submittedVersion"
    return "acceptedVersion" if any(result.get(name) == "Y" for name in _MANUSCRIPT) else "publishedVersion"
