"""CORE: copies that it harvested from repositories, and their sources. Needs a key; queried when known copies failed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
    batchable_request,
    items,
    phrase,
    register,
)

_MOST = 20  # works in one query: it answers with 100 results at most

_WORK = Work("W1", doi="10.5555/peerj.99001")
_PAGE = "https://repository.example.ac.uk/id/eprint/1/"
_COPY = "https://core.ac.uk/download/600000001.pdf"
_RESULTS = [
    {"doi": "10.5555/PEERJ.99001", "downloadUrl": _COPY, "sourceFulltextUrls": [f"{_PAGE}1/paper.pdf", _PAGE]},
    {"doi": "10.5555/peerj.99001", "downloadUrl": "http://arxiv.org/abs/2601.00001", "sourceFulltextUrls": None},
    {"doi": "10.5555/other", "downloadUrl": "https://core.ac.uk/download/7.pdf"},
]


@register("core")
class CoreResolver(IndexResolver):
    default_rank = 62
    api_host = "api.core.ac.uk"
    needs_key = True
    Settings = KeyedSettings
    EXAMPLES = (
        Example(
            _WORK,
            [answer({"totalHits": 3, "results": _RESULTS})],
            [_COPY, f"{_PAGE}1/paper.pdf", _PAGE, "https://export.arxiv.org/pdf/2601.00001"],
        ),
        Example(_WORK, [answer({"totalHits": 0, "results": []})], reason=Reason.NO_CANDIDATE),
        Example(_WORK, [answer({"message": "Unauthorized"}, 401)], reason=Reason.HTTP_4XX),
        Example(Work("W2")),
    )

    def search(self, doi: str, context: ResolverContext) -> Request:
        return batchable_request(doi, _MOST, _search, context.api_keys.get(self.name))

    def dois(self, record: JsonObject) -> Iterable[Any]:
        return [record.get("doi")]

    def copies(self, record: JsonObject) -> Candidates:
        """CORE's own copy, then the repository's."""
        yield from self.file(record.get("downloadUrl"))
        yield from self.copies_at(items(record.get("sourceFulltextUrls")))


def _search(dois: Sequence[str], key: str | None) -> Request:
    query = {"q": " OR ".join(f"doi:{phrase(doi)}" for doi in dois), "limit": 5 * len(dois)}
    url = f"https://api.core.ac.uk/v3/search/works/?{urlencode(query)}"
    return api_request(url, secret_headers={"Authorization": f"Bearer {key}"} if key else {})
