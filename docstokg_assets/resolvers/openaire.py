"""OpenAIRE: open instances that its graph lists for a product. Queried when known copies failed.

Without a token it allows 60 requests an hour, for which a run would wait for days, so it is off until there is one.
"""

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
    Work,
    answer,
    api_request,
    dig,
    items,
    objects,
    register,
)

_VERSIONS = {"Preprint": "submittedVersion"}

_WORK = Work("W1", doi="10.5555/peerj.99001")
_PAGE = "https://repository.example.ac.uk/id/eprint/1/"


def _product(*instances: JsonObject, doi: str = "10.5555/PeerJ.99001") -> JsonObject:
    product = {"pids": [{"scheme": "doi", "value": doi}], "instances": [*instances]}
    return {"header": {"numFound": 1}, "results": [product]}


def _instance(url: str, access: str = "OPEN", license_: str | None = None) -> JsonObject:
    return {"license": license_, "accessRight": {"label": access}, "type": "Article", "urls": [url]}


_INSTANCES = (
    _instance("https://doi.org/10.5555/peerj.99001", license_="CC BY"),
    _instance(f"{_PAGE}1/paper.pdf"),
    _instance(_PAGE),
    _instance("https://press.example/1.pdf", "CLOSED"),
)


@register("openaire")
class OpenAireResolver(IndexResolver):
    default_rank = 64
    api_host = "api.openaire.eu"
    needs_key = True
    Settings = KeyedSettings
    EXAMPLES = (
        Example(_WORK, [answer(_product(*_INSTANCES))], [f"{_PAGE}1/paper.pdf", _PAGE]),
        Example(_WORK, [answer(_product(*_INSTANCES, doi="10.1/x"))], reason=Reason.NO_CANDIDATE),
        Example(_WORK, [answer({"header": {"numFound": 0}, "results": []})], reason=Reason.NO_CANDIDATE),
        Example(_WORK, [answer({"error": "Unauthorized"}, 401)], reason=Reason.HTTP_4XX),
        Example(Work("W2")),
    )

    def search(self, doi: str, context: ResolverContext) -> Request:
        token = context.api_keys.get(self.name)
        url = f"https://api.openaire.eu/graph/v3/research-products?{urlencode({'pid': doi, 'pageSize': 5})}"
        return api_request(url, secret_headers={"Authorization": f"Bearer {token}"} if token else {})

    def dois(self, record: JsonObject) -> Iterable[Any]:
        return [pid.get("value") for pid in objects(record.get("pids"))]

    def copies(self, record: JsonObject) -> Candidates:
        for instance in objects(record.get("instances")):
            if dig(instance, "accessRight", "label") == "OPEN":
                version = _VERSIONS.get(str(instance.get("type")))
                yield from self.copies_at(items(instance.get("urls")), instance.get("license"), version=version)
