"""BASE: open documents that the Bielefeld search engine found in repositories. Needs a key; queried when known copies failed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import urlencode

from docstokg_assets.resolvers import (
    Candidates,
    Example,
    IndexResolver,
    JsonObject,
    KeyedSettings,
    Reason,
    Request,
    ResolverContext,
    ResolverResult,
    Response,
    Work,
    answer,
    api_request,
    dig,
    items,
    phrase,
    register,
)

_OPEN = 1

_WORK = Work("W1", doi="10.5555/peerj.99001")
_PAGE = "https://repository.example.ac.uk/id/eprint/1/"
_DOCUMENT = {
    "dcdoi": ["10.5555/peerj.99001"],
    "dcidentifier": [
        _PAGE,
        f"{_PAGE}1/paper.pdf",
        "https://doi.org/10.5555/peerj.99001",
        "oai:repository.example.ac.uk:1",
    ],
    "dcoa": 1,
    "dcrightsnorm": "CC-BY",
}


def _found(*documents: JsonObject) -> JsonObject:
    return {"responseHeader": {"status": 0}, "response": {"numFound": len(documents), "docs": list(documents)}}


@register("base")
class BaseSearchResolver(IndexResolver):
    default_rank = 66
    api_host = "api.base-search.net"
    needs_key = True
    Settings = KeyedSettings
    EXAMPLES = (
        Example(_WORK, [answer(_found(_DOCUMENT))], [_PAGE, f"{_PAGE}1/paper.pdf"]),
        Example(_WORK, [answer(_found(_DOCUMENT | {"dcoa": 0}))], reason=Reason.NO_CANDIDATE),
        Example(_WORK, [answer(_found(_DOCUMENT | {"dcdoi": ["10.5555/other"]}))], reason=Reason.NO_CANDIDATE),
        Example(_WORK, [answer(_found())], reason=Reason.NO_CANDIDATE),
        Example(_WORK, [answer(b"Access denied for IP address 192.0.2.1")], reason=Reason.HTTP_4XX),
        Example(Work("W2")),
    )

    def search(self, doi: str, context: ResolverContext) -> Request:
        query = {"func": "PerformSearch", "query": f"dcdoi:{phrase(doi)}", "format": "json", "hits": 5}
        url = f"https://api.base-search.net/cgi-bin/BaseHttpSearchInterface.fcgi?{urlencode(query)}"
        key = context.api_keys.get(self.name)
        return api_request(url, secret_params={"apikey": key} if key else {})

    def failure(self, response: Response) -> ResolverResult | None:
        """A refusal comes as plain text with status 200."""
        if response.ok and b"Access denied" in response.body[:1000]:
            return ResolverResult(reason=Reason.HTTP_4XX, note="access denied, as for a key that is missing or wrong")
        return super().failure(response)

    def records(self, data: JsonObject) -> Any:
        return dig(data, "response", "docs")

    def dois(self, record: JsonObject) -> Iterable[Any]:
        doi = record.get("dcdoi")
        return doi if isinstance(doi, list) else [doi]

    def copies(self, record: JsonObject) -> Candidates:
        """The identifiers of an open document; its page is usually among them."""
        if record.get("dcoa") == _OPEN:
            yield from self.copies_at(items(record.get("dcidentifier")), record.get("dcrightsnorm"))
