"""Semantic Scholar: the open PDF that it knows of a paper. Up to 500 papers are asked for in one request.

Without a key it answers 429 to nearly everybody, so it is off until there is one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from docstokg_assets.domain.json_access import mapping
from docstokg_assets.domain.plans import Candidate, Tier
from docstokg_assets.domain.works import Work
from docstokg_assets.resolvers.answers import (
    answer,
    api_request,
    bad_answer,
    batchable_request,
    failure,
    json_of,
    license_name,
    named,
    nothing,
)
from docstokg_assets.resolvers.registry import (
    Example,
    KeyedSettings,
    Resolution,
    Resolver,
    ResolverContext,
    register,
)
from docstokg_assets.resolvers.routes import file_url, is_sanctioned, page_url
from resources.http.messages import Request, Response
from resources.records import Reason

_URL = "https://api.semanticscholar.org/graph/v1/paper/batch?fields=isOpenAccess,openAccessPdf"
_MOST = 500
_PUBLISHED = frozenset({"GOLD", "HYBRID", "BRONZE"})

_WORK = Work("W1", doi="10.5555/peerj.99001")


def _paper(url: str, status: str = "GOLD", license_: str | None = "CCBY") -> dict[str, Any]:
    return {"paperId": "01", "isOpenAccess": True, "openAccessPdf": {"url": url, "status": status, "license": license_}}


@register("semantic_scholar")
class SemanticScholarResolver(Resolver):
    tier = Tier.DIRECT_OA
    default_rank = 48
    api_host = "api.semanticscholar.org"
    needs_key = True
    aliases = ("s2",)
    head_precheck = False
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
        Example(_WORK, [answer({"message": "Too Many Requests.", "code": "429"}, 429)], reason=Reason.RATE_LIMITED),
        Example(_WORK, [answer({"message": "Forbidden"}, 403)], reason=Reason.HTTP_4XX),
        Example(_WORK, [answer({"paperId": "01"})], reason=Reason.BAD_ANSWER),
        Example(Work("W3")),
    )

    def applies(self, work: Work) -> bool:
        return _item(work) is not None

    def resolve(self, work: Work, context: ResolverContext) -> Resolution:
        item = _item(work) or ""
        batch = _Batch(context.api_keys.get(self.name, ""))
        response = yield batchable_request(item, _MOST, batch, is_for_all=_none_is_known)
        if _none_is_known(response):
            return nothing("none of the papers is known")
        if failed := failure(response):
            return failed
        said = json_of(response)
        asked = response.items or (item,)
        if not isinstance(said, list) or len(said) != len(asked):
            return bad_answer("Semantic Scholar's answer is no list of the papers asked for")
        return named(self._candidates(mapping(mapping(said[asked.index(item)]).get("openAccessPdf"))))

    def _candidates(self, pdf: Mapping[str, Any]) -> Iterator[Candidate]:
        url = file_url(pdf.get("url"))
        if url and (is_sanctioned(url) or page_url(url)):  # often it is just the address of the DOI
            version = "publishedVersion" if pdf.get("status") in _PUBLISHED else None
            license_ = license_name(pdf.get("license"))
            yield Candidate(url, self.name, self.tier, rank=self.rank, version=version, license=license_)


@dataclass(frozen=True, slots=True)
class _Batch:
    key: str = field(repr=False)

    def __call__(self, ids: Sequence[str]) -> Request:
        return api_request(
            _URL,
            verb="POST",
            body=orjson.dumps({"ids": list(ids)}),
            headers={"Content-Type": "application/json"},
            secret_headers={"x-api-key": self.key} if self.key else {},
            follow_redirects=False,
        )


def _none_is_known(response: Response) -> bool:
    return response.status == 400 and "No valid paper ids" in str(mapping(json_of(response)).get("error"))


def _item(work: Work) -> str | None:
    if work.doi:
        return f"DOI:{work.doi}"
    if work.arxiv_id:
        return f"ARXIV:{work.arxiv_id}"
    return f"PMID:{work.pmid}" if work.pmid else None
