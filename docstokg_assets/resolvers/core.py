"""CORE: copies that it harvested from repositories, and where it found them. Needs a key; asked when known copies failed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from docstokg_assets.domain.json_access import items
from docstokg_assets.domain.plans import Candidate
from docstokg_assets.domain.works import Work
from docstokg_assets.resolvers.answers import IndexResolver, answer, api_request, batchable_request, copies_at, phrase
from docstokg_assets.resolvers.registry import Example, KeyedSettings, ResolverContext, register
from docstokg_assets.resolvers.routes import file_url
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
class CoreResolver(IndexResolver):
    default_rank = 62
    api_host = "api.core.ac.uk"
    needs_key = True
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

    def question(self, doi: str, context: ResolverContext) -> Request:
        return batchable_request(doi, _MOST, _Search(context.api_keys.get(self.name, "")))

    def dois(self, record: Mapping[str, Any]) -> Iterable[Any]:
        return [record.get("doi")]

    def copies(self, record: Mapping[str, Any]) -> Iterator[Candidate]:
        """CORE's own copy, then the repository's."""
        if url := file_url(record.get("downloadUrl")):
            yield Candidate(url, self.name, self.tier, rank=self.rank)
        yield from copies_at(self, items(record.get("sourceFulltextUrls")))


@dataclass(frozen=True, slots=True)
class _Search:
    key: str = field(repr=False)

    def __call__(self, dois: Sequence[str]) -> Request:
        asked = {"q": " OR ".join(f"doi:{phrase(doi)}" for doi in dois), "limit": 5 * len(dois)}
        url = f"https://api.core.ac.uk/v3/search/works/?{urlencode(asked)}"
        return api_request(url, secret_headers={"Authorization": f"Bearer {self.key}"} if self.key else {})
