"""CORE: copies that it harvested from repositories, and where it found them. Needs a key; asked when known copies failed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
    joint_request,
    json_of,
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
from docstokg_assets.resolvers.routes import file_url
from docstokg_assets.works import Work
from resources.http.messages import Request
from resources.records import Reason

_MOST = 20  # works in one query: it answers with 100 results at most

_WORK = Work("W1", doi="10.5555/peerj.99001")
_ORDINARY = {
    "totalHits": 2,
    "results": [
        {
            "doi": "10.5555/PEERJ.99001",
            "downloadUrl": "https://core.ac.uk/download/600000001.pdf",
            "sourceFulltextUrls": [
                "https://repository.example.ac.uk/id/eprint/1/1/paper.pdf",
                "https://repository.example.ac.uk/id/eprint/1/",
            ],
        },
        {"doi": "10.5555/peerj.99001", "downloadUrl": "http://arxiv.org/abs/2601.00001", "sourceFulltextUrls": None},
        {"doi": "10.5555/other", "downloadUrl": "https://core.ac.uk/download/7.pdf"},
    ],
}


@register("core")
class CoreResolver(Resolver):
    tier = Tier.DIRECT_OA
    default_rank = 62
    api_host = "api.core.ac.uk"
    needs_key = True
    head_precheck = False
    Settings = KeyedSettings
    EXAMPLES = (
        Example(
            _WORK,
            [answer(_ORDINARY)],
            [
                "https://core.ac.uk/download/600000001.pdf",
                "https://repository.example.ac.uk/id/eprint/1/1/paper.pdf",
                "https://repository.example.ac.uk/id/eprint/1/",
                "https://export.arxiv.org/pdf/2601.00001",
            ],
        ),
        Example(_WORK, [answer({"totalHits": 0, "results": []})], reason=Reason.NO_CANDIDATE),
        Example(_WORK, [answer({"message": "Unauthorized"}, 401)], reason=Reason.HTTP_4XX),
        Example(_WORK, [answer({"message": "Too many requests"}, 429)], reason=Reason.RATE_LIMITED),
        Example(_WORK, [answer(b"<html>504 Gateway Time-out</html>", 504)], reason=Reason.HTTP_5XX),
        Example(_WORK, [answer(b"<html>")], reason=Reason.BAD_ANSWER),
        Example(Work("W2")),
    )

    def applies(self, work: Work) -> bool:
        return indexed_doi(work) is not None

    def ask_tier(self, work: Work) -> Tier:
        return Tier.LANDING_SCRAPE

    def resolve(self, work: Work, context: ResolverContext) -> Resolution:
        doi = work.doi or ""
        response = yield joint_request(doi, _MOST, _Search(context.api_keys.get(self.name, "")))
        if failed := failure(response):
            return failed
        results = mapping(json_of(response)).get("results")
        if not isinstance(results, list):
            return bad_answer("CORE's answer has no results")
        works = [result for result in map(mapping, results) if names_doi(result.get("doi"), doi)]
        candidates = tuple(c for result in works for c in self._candidates(result))
        return ResolverResult(candidates) if candidates else nothing()

    def _candidates(self, result: Mapping[str, Any]) -> Iterator[Candidate]:
        """CORE's own copy, then the repository's."""
        if url := file_url(result.get("downloadUrl")):
            yield Candidate(url, self.name, self.tier, rank=self.rank)
        yield from copies_at(self, items(result.get("sourceFulltextUrls")))


@dataclass(frozen=True, slots=True)
class _Search:
    key: str = field(repr=False)

    def __call__(self, dois: Sequence[str]) -> Request:
        asked = {"q": " OR ".join(f"doi:{phrase(doi)}" for doi in dois), "limit": 5 * len(dois)}
        url = f"https://api.core.ac.uk/v3/search/works/?{urlencode(asked)}"
        return api_request(url, secret_headers={"Authorization": f"Bearer {self.key}"} if self.key else {})
