"""Semantic Scholar: the open PDF that it lists for a paper. Up to 500 papers are requested at once.

Without a key it answers 429 to nearly everybody, so it is off until there is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from docstokg_assets.resolvers import (
    ApiResolver,
    Candidates,
    Example,
    JsonObject,
    KeyedSettings,
    Reason,
    Request,
    ResolverContext,
    ResolverResult,
    Response,
    Work,
    answer,
    api_request,
    batchable_request,
    dig,
    file_url,
    is_sanctioned,
    json_of,
    mapping,
    nothing,
    page_url,
    register,
)

_URL = "https://api.semanticscholar.org/graph/v1/paper/batch?fields=isOpenAccess,openAccessPdf"
_MOST = 500
_PUBLISHED = frozenset({"GOLD", "HYBRID", "BRONZE"})

_WORK = Work("W1", doi="10.5555/peerj.99001")


def _paper(url: str, status: str = "GOLD", license_: str | None = "CCBY") -> JsonObject:
    return {"paperId": "01", "isOpenAccess": True, "openAccessPdf": {"url": url, "status": status, "license": license_}}


@register("semantic_scholar")
class SemanticScholarResolver(ApiResolver):
    default_rank = 48
    api_host = "api.semanticscholar.org"
    needs_key = True
    aliases = ("s2",)
    Settings = KeyedSettings
    EXAMPLES = (
        Example(_WORK, [answer([_paper("https://peerj.com/articles/1.pdf")])], ["https://peerj.com/articles/1.pdf"]),
        Example(
            Work("W2", arxiv_id="2601.00001"),
            [answer([_paper("https://arxiv.org/pdf/2601.00001", "GREEN", None)])],
            ["https://export.arxiv.org/pdf/2601.00001"],
        ),
        Example(_WORK, [answer([_paper("https://doi.org/10.5555/peerj.99001")])], reason=Reason.NO_CANDIDATE),
        Example(_WORK, [answer([_paper("", "CLOSED", None)])], reason=Reason.NO_CANDIDATE),
        Example(_WORK, [answer([None])], reason=Reason.NO_CANDIDATE),
        Example(_WORK, [answer({"error": "No valid paper ids given"}, 400)], reason=Reason.NO_CANDIDATE),
        Example(_WORK, [answer({"error": "Unrecognized or unsupported fields: [x]"}, 400)], reason=Reason.HTTP_4XX),
        Example(_WORK, [answer({"paperId": "01"})], reason=Reason.BAD_ANSWER),
        Example(Work("W3")),
    )

    def applies(self, work: Work) -> bool:
        return _paper_id(work) is not None

    def request(self, work: Work, context: ResolverContext) -> Request:
        key = context.api_keys.get(self.name)
        return batchable_request(_paper_id(work) or "", _MOST, _papers, key, is_for_all=_none_is_known)

    def failure(self, response: Response) -> ResolverResult | None:
        return nothing("none of the papers is known") if _none_is_known(response) else super().failure(response)

    def read(self, data: Any, work: Work, response: Response) -> Candidates | None:
        item = _paper_id(work) or ""
        requested = response.items or (item,)
        if not isinstance(data, list) or len(data) != len(requested):
            return None
        return self._candidates(mapping(dig(data[requested.index(item)], "openAccessPdf")))

    def _candidates(self, pdf: JsonObject) -> Candidates:
        url = file_url(pdf.get("url"))
        if url and (is_sanctioned(url) or page_url(url)):  # often it is just the DOI's URL
            version = "publishedVersion" if pdf.get("status") in _PUBLISHED else None
            yield from self.file(url, license_=pdf.get("license"), version=version)


def _papers(ids: Sequence[str], key: str | None) -> Request:
    return api_request(
        _URL,
        verb="POST",
        body=orjson.dumps({"ids": list(ids)}),
        headers={"Content-Type": "application/json"},
        secret_headers={"x-api-key": key} if key else {},
        follow_redirects=False,
    )


def _none_is_known(response: Response) -> bool:
    return response.status == 400 and "No valid paper ids" in str(dig(json_of(response), "error"))


def _paper_id(work: Work) -> str | None:
    if work.doi:
        return f"DOI:{work.doi}"
    if work.arxiv_id:
        return f"ARXIV:{work.arxiv_id}"
    return f"PMID:{work.pmid}" if work.pmid else None
