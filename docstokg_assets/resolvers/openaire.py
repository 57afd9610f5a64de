"""OpenAIRE: where its graph knows open instances of a product. Asked when known copies failed.

Without a token it answers 60 requests an hour, for which a run would wait for days, so it is off until there is one.
"""

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
class OpenAireResolver(Resolver):
    tier = Tier.DIRECT_OA
    default_rank = 64
    api_host = "api.openaire.eu"
    needs_key = True
    head_precheck = False
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

    def applies(self, work: Work) -> bool:
        return indexed_doi(work) is not None

    def ask_tier(self, work: Work) -> Tier:
        return Tier.LANDING_SCRAPE

    def resolve(self, work: Work, context: ResolverContext) -> Resolution:
        doi, token = work.doi or "", context.api_keys.get(self.name)
        url = f"https://api.openaire.eu/graph/v3/research-products?{urlencode({'pid': doi, 'pageSize': 5})}"
        response = yield api_request(url, secret_headers={"Authorization": f"Bearer {token}"} if token else {})
        if failed := failure(response):
            return failed
        products = mapping(json_of(response)).get("results")
        if not isinstance(products, list):
            return bad_answer("OpenAIRE's answer has no results")
        own = [product for product in map(mapping, products) if _names(product, doi)]
        found = {c.key: c for product in own for c in self._candidates(product)}
        return ResolverResult(tuple(found.values())) if found else nothing()

    def _candidates(self, product: Mapping[str, Any]) -> Iterator[Candidate]:
        for instance in map(mapping, items(product.get("instances"))):
            if mapping(instance.get("accessRight")).get("label") == "OPEN":
                version, license_ = _VERSIONS.get(str(instance.get("type"))), license_name(instance.get("license"))
                yield from copies_at(self, items(instance.get("urls")), version=version, license=license_)


def _names(product: Mapping[str, Any], doi: str) -> bool:
    return any(names_doi(mapping(pid).get("value"), doi) for pid in items(product.get("pids")))
