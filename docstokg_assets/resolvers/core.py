"""CORE: copies that it harvested from repositories, and their sources. Needs a key; queried when known copies failed."""

from __future__ import annotations

from collections.abc import Sequence

import docstokg_assets.resolvers as kit

_MOST = 20  # works in one query: it answers with 100 results at most

_WORK = kit.Work("W1", doi="10.5555/peerj.99001")
_PAGE = "https://repository.example.ac.uk/id/eprint/1/"
_COPY = "https://core.ac.uk/download/600000001.pdf"
_URLS = [_COPY, f"{_PAGE}1/paper.pdf", _PAGE, "https://export.arxiv.org/pdf/2601.00001"]
_RESULTS = [
    {"doi": "10.5555/PEERJ.99001", "downloadUrl": _COPY, "sourceFulltextUrls": [f"{_PAGE}1/paper.pdf", _PAGE]},
    {"doi": "10.5555/peerj.99001", "downloadUrl": "http://arxiv.org/abs/2601.00001", "sourceFulltextUrls": None},
    {"doi": "10.5555/other", "downloadUrl": "https://core.ac.uk/download/7.pdf"},
]


@kit.register("core")
class CoreResolver(kit.IndexResolver):
    default_rank = 62
    api_host = "api.core.ac.uk"
    needs_key = True
    Settings = kit.KeyedSettings
    EXAMPLES = (
        kit.Example(_WORK, [{"totalHits": 3, "results": _RESULTS}], _URLS),
        kit.Example(_WORK, [{"totalHits": 0, "results": []}]),
        kit.Example(_WORK, [kit.answer({"message": "Unauthorized"}, 401)], reason=kit.Reason.HTTP_4XX),
        kit.Example(kit.Work("W2")),
    )

    def search(self, doi: str, context: kit.ResolverContext) -> kit.Request:
        return kit.batchable_request(doi, _MOST, _search, context.api_keys.get(self.name))

    def copies(self, record: kit.JsonObject) -> kit.Candidates:
        """CORE's own copy, then the repository's."""
        yield from self.file(record.get("downloadUrl"))
        yield from self.copies_at(kit.items(record.get("sourceFulltextUrls")))


def _search(dois: Sequence[str], key: str | None) -> kit.Request:
    query = {"q": " OR ".join(f"doi:{kit.phrase(doi)}" for doi in dois), "limit": 5 * len(dois)}
    secret = {"Authorization": f"Bearer {key}"} if key else {}
    return kit.api_request("https://api.core.ac.uk/v3/search/works/", query, secret_headers=secret)
