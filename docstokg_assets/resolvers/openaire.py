"""OpenAIRE: where its graph knows open instances of a product. Asked when known copies failed.

Without a token it answers 60 requests an hour, for which a run would wait for days, so it is off until there is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from docstokg_assets.domain.json_access import items, mapping
from docstokg_assets.domain.plans import Candidate
from docstokg_assets.domain.works import Work
from docstokg_assets.resolvers.answers import IndexResolver, answer, api_request, copies_at, license_name
from docstokg_assets.resolvers.registry import Example, KeyedSettings, ResolverContext, register
from resources.http.messages import Request
from resources.records import Reason

_VERSIONS = {"Preprint": "submittedVersion"}

_WORK = Work("W1", doi="10.5555/peerj.99001")


def _product(*instances: Mapping[str, Any], doi: str = "10.5555/PeerJ.99001") -> dict[str, Any]:
    return {
        "header": {"numFound": 1},
        "results": [{"pids": [{"scheme": "doi", "value": doi}], "instances": [*instances]}],
    }


def _instance(url: str, access: str = "OPEN", license_: str | None = None) -> dict[str, Any]:
    return {"license": license_, "accessRight": {"label": access}, "type": "Article", "urls": [url]}


@register("openaire")
class OpenAireResolver(IndexResolver):
    default_rank = 64
    api_host = "api.openaire.eu"
    needs_key = True
    Settings = KeyedSettings
    EXAMPLES = (
        Example(
            _WORK,
            [
                answer(
                    _product(
                        _instance("https://doi.org/10.5555/peerj.99001", license_="CC BY"),
                        _instance("https://repository.example.ac.uk/id/eprint/1/1/paper.pdf"),
                        _instance("https://repository.example.ac.uk/id/eprint/1/"),
                        _instance("https://press.example/1.pdf", "CLOSED"),
                    )
                )
            ],
            [
                "https://repository.example.ac.uk/id/eprint/1/1/paper.pdf",
                "https://repository.example.ac.uk/id/eprint/1/",
            ],
        ),
        Example(
            _WORK, [answer(_product(_instance("https://a.example/1.pdf"), doi="10.1/x"))], reason=Reason.NO_CANDIDATE
        ),
        Example(_WORK, [answer({"header": {"numFound": 0}, "results": []})], reason=Reason.NO_CANDIDATE),
        Example(_WORK, [answer({"error": "Too many requests"}, 429)], reason=Reason.RATE_LIMITED),
        Example(_WORK, [answer({"error": "Unauthorized"}, 401)], reason=Reason.HTTP_4XX),
        Example(_WORK, [answer(b"<html>")], reason=Reason.BAD_ANSWER),
        Example(Work("W2")),
    )

    def question(self, doi: str, context: ResolverContext) -> Request:
        token = context.api_keys.get(self.name)
        url = f"https://api.openaire.eu/graph/v3/research-products?{urlencode({'pid': doi, 'pageSize': 5})}"
        return api_request(url, secret_headers={"Authorization": f"Bearer {token}"} if token else {})

    def dois(self, record: Mapping[str, Any]) -> Iterable[Any]:
        return [mapping(pid).get("value") for pid in items(record.get("pids"))]

    def copies(self, record: Mapping[str, Any]) -> Iterator[Candidate]:
        for instance in map(mapping, items(record.get("instances"))):
            if mapping(instance.get("accessRight")).get("label") == "OPEN":
                version, license_ = _VERSIONS.get(str(instance.get("type"))), license_name(instance.get("license"))
                yield from copies_at(self, items(instance.get("urls")), version=version, license=license_)
