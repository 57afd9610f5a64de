"""BASE: open documents that the Bielefeld search engine found in repositories. Needs a key; queried when known copies failed."""

from __future__ import annotations

import docstokg_assets.resolvers as kit

_SEARCH = "https://api.base-search.net/cgi-bin/BaseHttpSearchInterface.fcgi"
_OPEN = 1

_WORK = kit.Work("W1", doi="10.5555/peerj.99001")
_PAGE = "https://repository.example.ac.uk/id/eprint/1/"
_NAMES = [_PAGE, f"{_PAGE}1/paper.pdf", "https://doi.org/10.5555/peerj.99001", "oai:repository.example.ac.uk:1"]
_DOCUMENT = {"dcdoi": ["10.5555/peerj.99001"], "dcidentifier": _NAMES, "dcoa": 1, "dcrightsnorm": "CC-BY"}


@kit.register("base")
class BaseSearchResolver(kit.IndexResolver):
    default_rank = 66
    api_host = "api.base-search.net"
    needs_key = True
    records_at = ("response", "docs")
    doi_key = "dcdoi"
    Settings = kit.KeyedSettings
    EXAMPLES = (
        kit.Example(_WORK, [{"response": {"docs": [_DOCUMENT]}}], [_PAGE, f"{_PAGE}1/paper.pdf"]),
        kit.Example(_WORK, [{"response": {"docs": [_DOCUMENT | {"dcoa": 0}]}}]),
        kit.Example(_WORK, [{"response": {"docs": [_DOCUMENT | {"dcdoi": ["10.1/x"]}]}}]),
        kit.Example(_WORK, [{"response": {"numFound": 0, "docs": []}}]),
        kit.Example(_WORK, [b"Access denied for IP address 192.0.2.1"], reason=kit.Reason.HTTP_4XX),
        kit.Example(kit.Work("W2")),
    )

    def search(self, doi: str, context: kit.ResolverContext) -> kit.Request:
        query = {"func": "PerformSearch", "query": f"dcdoi:{kit.phrase(doi)}", "format": "json", "hits": 5}
        key = context.api_keys.get(self.name)
        return kit.api_request(_SEARCH, query, secret_params={"apikey": key} if key else {})

    def failure(self, response: kit.Response) -> kit.ResolverResult | None:
        """A refusal comes as plain text with status 200."""
        if response.ok and b"Access denied" in response.body[:1000]:
            return kit.ResolverResult((), kit.Reason.HTTP_4XX, "access denied, as for a key that is missing or wrong")
        return super().failure(response)

    def copies(self, record: kit.JsonObject) -> kit.Candidates:
        """The identifiers of an open document; its page is usually among them."""
        if record.get("dcoa") == _OPEN:
            yield from self.copies_at(kit.items(record.get("dcidentifier")), record.get("dcrightsnorm"))
