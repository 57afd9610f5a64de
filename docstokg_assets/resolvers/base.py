"""BASE: where the Bielefeld search engine found open documents in repositories. Needs a key; asked when known copies failed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from docstokg_assets.loose_json import items, mapping
from docstokg_assets.plans import Candidate, Tier
from docstokg_assets.resolvers.answers import (
    answer,
    api_request,
    bad_answer,
    copies_at,
    failure,
    indexed_doi,
    json_of,
    license_name,
    names_doi,
    nothing,
    phrase,
)
from docstokg_assets.resolvers.registry import (
    Example,
    KeyedSettings,
    Resolution,
    Resolver,
    ResolverContext,
    ResolverResult,
    register,
)
from docstokg_assets.works import Work
from resources.http.messages import Response
from resources.records import Reason

_OPEN = 1

_WORK = Work("W1", doi="10.5555/peerj.99001")
_DOCUMENT = {
    "dcdoi": ["10.5555/peerj.99001"],
    "dcidentifier": [
        "https://repository.example.ac.uk/id/eprint/1/",
        "https://repository.example.ac.uk/id/eprint/1/1/paper.pdf",
        "https://doi.org/10.5555/peerj.99001",
        "oai:repository.example.ac.uk:1",
    ],
    "dcoa": 1,
    "dcrightsnorm": "CC-BY",
}


def _found(*documents: Mapping[str, Any]) -> dict[str, Any]:
    return {"responseHeader": {"status": 0}, "response": {"numFound": len(documents), "docs": list(documents)}}


@register("base")
class BaseSearchResolver(Resolver):
    tier = Tier.DIRECT_OA
    default_rank = 66
    api_host = "api.base-search.net"
    needs_key = True
    head_precheck = False
    Settings = KeyedSettings
    EXAMPLES = (
        Example(
            _WORK,
            [answer(_found(_DOCUMENT))],
            [
                "https://repository.example.ac.uk/id/eprint/1/",
                "https://repository.example.ac.uk/id/eprint/1/1/paper.pdf",
            ],
        ),
        Example(_WORK, [answer(_found(_DOCUMENT | {"dcoa": 0}))], reason=Reason.NO_CANDIDATE),
        Example(_WORK, [answer(_found(_DOCUMENT | {"dcdoi": ["10.5555/other"]}))], reason=Reason.NO_CANDIDATE),
        Example(_WORK, [answer(_found())], reason=Reason.NO_CANDIDATE),
        Example(_WORK, [answer(b"Access denied for IP address 192.0.2.1")], reason=Reason.HTTP_4XX),
        Example(_WORK, [answer(b"Access denied for IP address 192.0.2.1", 403)], reason=Reason.HTTP_4XX),
        Example(_WORK, [answer(b"<html>")], reason=Reason.BAD_ANSWER),
        Example(Work("W2")),
    )

    def applies(self, work: Work) -> bool:
        return indexed_doi(work) is not None

    def ask_tier(self, work: Work) -> Tier:
        return Tier.LANDING_SCRAPE

    def resolve(self, work: Work, context: ResolverContext) -> Resolution:
        doi, key = work.doi or "", context.api_keys.get(self.name)
        asked = {"func": "PerformSearch", "query": f"dcdoi:{phrase(doi)}", "format": "json", "hits": 5}
        url = f"https://api.base-search.net/cgi-bin/BaseHttpSearchInterface.fcgi?{urlencode(asked)}"
        response = yield api_request(url, secret_params={"apikey": key} if key else {})
        if failed := failure(response):
            return failed
        documents = mapping(mapping(json_of(response)).get("response")).get("docs")
        if not isinstance(documents, list):
            return _denied(response) or bad_answer("BASE's answer has no documents")
        own = [document for document in map(mapping, documents) if _names(document, doi)]
        candidates = tuple(c for document in own for c in self._candidates(document))
        return ResolverResult(candidates) if candidates else nothing()

    def _candidates(self, document: Mapping[str, Any]) -> Iterator[Candidate]:
        """What an open document is called by; its page is mostly among that."""
        if document.get("dcoa") == _OPEN:
            license_ = license_name(document.get("dcrightsnorm"))
            yield from copies_at(self, items(document.get("dcidentifier")), license=license_)


def _denied(response: Response) -> ResolverResult | None:
    """A refusal comes as plain text, and with status 200."""
    if b"Access denied" not in response.body[:1000]:
        return None
    return ResolverResult(reason=Reason.HTTP_4XX, note="access denied, as for a key that is missing or wrong")


def _names(document: Mapping[str, Any], doi: str) -> bool:
    named = document.get("dcdoi")
    return any(names_doi(value, doi) for value in (named if isinstance(named, list) else [named]))
