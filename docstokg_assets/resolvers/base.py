"""BASE: where the Bielefeld search engine found open documents in repositories. Needs a key; asked when known copies failed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from docstokg_assets.domain.json_access import items, mapping
from docstokg_assets.domain.plans import Candidate
from docstokg_assets.domain.works import Work
from docstokg_assets.resolvers.answers import IndexResolver, answer, api_request, copies_at, license_name, phrase
from docstokg_assets.resolvers.registry import Example, KeyedSettings, ResolverContext, ResolverResult, register
from resources.http.messages import Request, Response
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
class BaseSearchResolver(IndexResolver):
    default_rank = 66
    api_host = "api.base-search.net"
    needs_key = True
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

    def question(self, doi: str, context: ResolverContext) -> Request:
        asked = {"func": "PerformSearch", "query": f"dcdoi:{phrase(doi)}", "format": "json", "hits": 5}
        url = f"https://api.base-search.net/cgi-bin/BaseHttpSearchInterface.fcgi?{urlencode(asked)}"
        key = context.api_keys.get(self.name)
        return api_request(url, secret_params={"apikey": key} if key else {})

    def records(self, said: Mapping[str, Any]) -> Any:
        return mapping(said.get("response")).get("docs")

    def without_records(self, response: Response) -> ResolverResult:
        """A refusal comes as plain text, and with status 200."""
        if b"Access denied" not in response.body[:1000]:
            return super().without_records(response)
        return ResolverResult(reason=Reason.HTTP_4XX, note="access denied, as for a key that is missing or wrong")

    def dois(self, record: Mapping[str, Any]) -> Iterable[Any]:
        named = record.get("dcdoi")
        return named if isinstance(named, list) else [named]

    def copies(self, record: Mapping[str, Any]) -> Iterator[Candidate]:
        """What an open document is called by; its page is mostly among that."""
        if record.get("dcoa") == _OPEN:
            license_ = license_name(record.get("dcrightsnorm"))
            yield from copies_at(self, items(record.get("dcidentifier")), license=license_)
