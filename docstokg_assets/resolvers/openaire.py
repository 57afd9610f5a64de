"""OpenAIRE: open instances that its graph lists for a product. Queried when known copies failed.

Without a token it allows 60 requests an hour, for which a run would wait for days, so it is off until there is one.
"""

from __future__ import annotations

import docstokg_assets.resolvers as kit

_GRAPH = "https://api.openaire.eu/graph/v3"
_VERSIONS = {"Preprint": "submittedVersion"}

_WORK = kit.Work("W1", doi="10.5555/peerj.99001")
_PAGE = "https://repository.example.ac.uk/id/eprint/1/"
_OPEN = {"label": "OPEN"}
_INSTANCES = [
    {"accessRight": _OPEN, "license": "CC BY", "type": "Article", "urls": ["https://doi.org/10.5555/1"]},
    {"accessRight": _OPEN, "license": None, "type": "Article", "urls": [f"{_PAGE}1/paper.pdf", _PAGE]},
    {"accessRight": {"label": "CLOSED"}, "urls": ["https://press.example/1.pdf"]},
]
_PRODUCT = {"pids": [{"scheme": "doi", "value": "10.5555/PeerJ.99001"}], "instances": _INSTANCES}


@kit.register("openaire")
class OpenAireResolver(kit.IndexResolver):
    default_rank = 64
    api_host = "api.openaire.eu"
    doi_key = "pids.value"
    needs_key = True
    Settings = kit.KeyedSettings
    EXAMPLES = (
        kit.Example(_WORK, [{"results": [_PRODUCT]}], [f"{_PAGE}1/paper.pdf", _PAGE]),
        kit.Example(_WORK, [{"results": [_PRODUCT | {"pids": [{"value": "10.1/x"}]}]}]),
        kit.Example(_WORK, [{"header": {"numFound": 0}, "results": []}]),
        kit.Example(_WORK, [kit.answer({"error": "Unauthorized"}, 401)], reason=kit.Reason.HTTP_4XX),
        kit.Example(kit.Work("W2")),
    )

    def search(self, doi: str, context: kit.ResolverContext) -> kit.Request:
        token = context.api_keys.get(self.name)
        secret = {"Authorization": f"Bearer {token}"} if token else {}
        return kit.api_request(f"{_GRAPH}/research-products", {"pid": doi, "pageSize": 5}, secret_headers=secret)

    def copies(self, record: kit.JsonObject) -> kit.Candidates:
        for instance in kit.objects(record.get("instances")):
            if kit.dig(instance, "accessRight", "label") == "OPEN":
                version = _VERSIONS.get(str(instance.get("type")))
                yield from self.copies_at(kit.items(instance.get("urls")), instance.get("license"), version=version)
