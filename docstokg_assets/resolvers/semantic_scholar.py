"""Semantic Scholar: the open PDF that it lists for a paper. Up to 500 papers are requested at once.

Without a key it answers 429 to nearly everybody, so it is off until there is one.
"""

from __future__ import annotations

from collections.abc import Sequence

import orjson

import docstokg_assets.resolvers as kit

_URL = "https://api.semanticscholar.org/graph/v1/paper/batch?fields=isOpenAccess,openAccessPdf"
_MOST = 500
_PUBLISHED = frozenset({"GOLD", "HYBRID", "BRONZE"})

_WORK, _PREPRINT = kit.Work("W1", doi="10.5555/peerj.99001"), kit.Work("W2", arxiv_id="2601.00001")
_FILE = "https://peerj.com/articles/1.pdf"
_GOLD = {"url": _FILE, "status": "GOLD", "license": "CCBY"}
_AT_ARXIV = {"url": "https://arxiv.org/pdf/2601.00001", "status": "GREEN", "license": None}
_AT_DOI = _GOLD | {"url": "https://doi.org/10.5555/peerj.99001"}


@kit.register("semantic_scholar")
class SemanticScholarResolver(kit.ApiResolver):
    default_rank = 48
    api_host = "api.semanticscholar.org"
    needs_key = True
    aliases = ("s2",)
    Settings = kit.KeyedSettings
    EXAMPLES = (
        kit.Example(_WORK, [[{"paperId": "01", "openAccessPdf": _GOLD}]], [_FILE]),
        kit.Example(_PREPRINT, [[{"openAccessPdf": _AT_ARXIV}]], ["https://export.arxiv.org/pdf/2601.00001"]),
        kit.Example(_WORK, [[{"openAccessPdf": _AT_DOI}]]),
        kit.Example(_WORK, [[{"openAccessPdf": {"url": "", "status": "CLOSED"}}]]),
        kit.Example(_WORK, [[None]]),
        kit.Example(_WORK, [kit.answer({"error": "No valid paper ids given"}, 400)]),
        kit.Example(_WORK, [{"paperId": "01"}], reason=kit.Reason.BAD_ANSWER),
        kit.Example(kit.Work("W3")),
    )

    def item(self, work: kit.Work) -> str | None:
        known = {"DOI": work.doi, "ARXIV": work.arxiv_id, "PMID": work.pmid}
        return next((f"{kind}:{value}" for kind, value in known.items() if value), None)

    def request(self, work: kit.Work, context: kit.ResolverContext) -> kit.Request:
        key = context.api_keys.get(self.name)
        return kit.batchable_request(self.item(work) or "", _MOST, _papers, key, is_for_all=_none_is_known)

    def failure(self, response: kit.Response) -> kit.ResolverResult | None:
        return kit.nothing("none of the papers is known") if _none_is_known(response) else super().failure(response)

    def read(self, data: object, work: kit.Work, response: kit.Response) -> kit.Candidates | None:
        item = self.item(work) or ""
        requested = response.items or (item,)
        if not isinstance(data, list) or len(data) != len(requested):
            return None
        return self._candidates(kit.mapping(kit.dig(data[requested.index(item)], "openAccessPdf")))

    def _candidates(self, pdf: kit.JsonObject) -> kit.Candidates:
        url = kit.file_url(pdf.get("url"))
        if url and (kit.is_sanctioned(url) or kit.page_url(url)):  # often it is just the DOI's URL
            version = "publishedVersion" if pdf.get("status") in _PUBLISHED else None
            yield from self.file(url, license_=pdf.get("license"), version=version)


def _papers(ids: Sequence[str], key: str | None) -> kit.Request:
    sent = {"verb": "POST", "body": orjson.dumps({"ids": list(ids)}), "headers": {"Content-Type": "application/json"}}
    return kit.api_request(_URL, **sent, secret_headers={"x-api-key": key} if key else {}, follow_redirects=False)


def _none_is_known(response: kit.Response) -> bool:
    return response.status == 400 and "No valid paper ids" in str(kit.dig(kit.json_of(response), "error"))
