"""OpenAIRE: open instances that its graph lists for a product. Queried when known copies failed.

Without a token it allows 60 requests an hour, for which a run would wait for days, so it is off until there is one.
"""

from __future__ import annotations

import docstokg_assets.resolvers as kit

_GRAPH = "https://api.openaire.eu/graph/v3"
_VERSIONS = {"Preprint": "submittedVersion"}

_WORK = kit.Work("W1", doi="10.5555/peerj.99001")
_PAGE = "https://repository.example.ac.uk/id/eprint/1/"


def _product(*instances: kit.JsonObject, doi: str = "10.5555/PeerJ.99001") -> kit.JsonObject:
    return {"header": {}, "results": [{"pids": [{"scheme": "doi", "value": doi}], "instances": [*instances]}]}


def _instance(url: str, access: str = "OPEN", license_: str | None = None) -> kit.JsonObject:
    return {"license": license_, "accessRight": {"label": access}, "type": "Article", "urls": [url]}


_OPEN = [_instance("https://doi.org/10.5555/1", license_="CC BY"), _instance(f"{_PAGE}1/paper.pdf"), _instance(_PAGE)]
_INSTANCES = (*_OPEN, _instance("https://press.example/1.pdf", "CLOSED"))


@kit.register("openaire")
class OpenAireResolver(kit.IndexResolver):
    default_rank = 64
    api_host = "api.openaire.eu"
    doi_key = "pids.value"
    needs_key = True
    Settings = kit.KeyedSettings
    EXAMPLES = (
        kit.Example(_WORK, [_product(*_INSTANCES)], [f"{_PAGE}1/paper.pdf", _PAGE]),
        kit.Example(_WORK, [_product(*_INSTANCES, doi="10.1/x")], reason=kit.Reason.NO_CANDIDATE),
        kit.Example(_WORK, [{"header": {"numFound": 0}, "results": []}], reason=kit.Reason.NO_CANDIDATE),
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
