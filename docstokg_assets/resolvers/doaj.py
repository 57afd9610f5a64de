"""DOAJ: the files that open-access journals deposited with their articles; their pages are those to which the DOI leads.

Asked only about articles of which OpenAlex does not know the journal's own file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from docstokg_assets.loose_json import items, mapping
from docstokg_assets.plans import Candidate, Target, Tier
from docstokg_assets.resolvers.answers import (
    answer,
    api_request,
    bad_answer,
    failure,
    indexed_doi,
    json_of,
    names_doi,
    nothing,
    phrase,
)
from docstokg_assets.resolvers.registry import Example, Resolution, Resolver, ResolverContext, ResolverResult, register
from docstokg_assets.resolvers.routes import file_url, looks_like_pdf
from docstokg_assets.works import Location, Work
from resources.records import Reason

_LISTED = frozenset({None, "gold", "diamond"})  # open-access status of what can be in the directory
_TARGETS = {"pdf": Target.PDF, "xml": Target.XML}

_WORK = Work("W1", doi="10.5555/peerj.99001")


def _article(*links: Mapping[str, str], doi: str = "10.5555/PeerJ.99001") -> dict[str, Any]:
    identifiers = [{"type": "eissn", "id": "2167-8359"}, {"type": "doi", "id": doi}]
    return {"total": 1, "results": [{"bibjson": {"identifier": identifiers, "link": list(links)}}]}


@register("doaj")
class DoajResolver(Resolver):
    tier = Tier.DIRECT_OA
    default_rank = 45
    api_host = "doaj.org"
    head_precheck = False
    EXAMPLES = (
        Example(
            _WORK,
            [
                answer(
                    _article(
                        {"type": "fulltext", "content_type": "HTML", "url": "https://press.example/articles/99001/"},
                        {"type": "fulltext", "content_type": "PDF", "url": "https://peerj.com/articles/99001.pdf"},
                        {"type": "fulltext", "url": "https://doi.org/10.5555/peerj.99001"},
                    )
                )
            ],
            ["https://peerj.com/articles/99001.pdf"],
        ),
        Example(
            _WORK,
            [answer(_article({"type": "fulltext", "url": "https://a.example/1.pdf"}, doi="10.5555/other"))],
            reason=Reason.NO_CANDIDATE,
        ),
        Example(_WORK, [answer({"total": 0, "results": []})], reason=Reason.NO_CANDIDATE),
        Example(_WORK, [answer({"status": "bad_request", "error": "…"}, 400)], reason=Reason.HTTP_4XX),
        Example(_WORK, [answer(b"<html>slow down</html>", 429)], reason=Reason.RATE_LIMITED),
        Example(_WORK, [answer(b"<html>")], reason=Reason.BAD_ANSWER),
        Example(Work("W2", doi="10.5555/2", oa_status="closed")),
        Example(
            Work(
                "W3",
                doi="10.5555/3",
                oa_status="gold",
                locations=(Location(None, "https://peerj.com/articles/3.pdf", True, source_type="journal"),),
            )
        ),
    )

    def applies(self, work: Work) -> bool:
        named = any(place.is_oa and place.pdf_url and place.source_type == "journal" for place in work.locations)
        return indexed_doi(work) is not None and work.oa_status in _LISTED and not named

    def resolve(self, work: Work, context: ResolverContext) -> Resolution:
        doi = work.doi or ""
        query = quote(f"bibjson.identifier.id:{phrase(doi)}", safe="")
        response = yield api_request(f"https://doaj.org/api/v4/search/articles/{query}?pageSize=5")
        if failed := failure(response):
            return failed
        results = mapping(json_of(response)).get("results")
        if not isinstance(results, list):
            return bad_answer("DOAJ's answer has no results")
        articles = [mapping(mapping(raw).get("bibjson")) for raw in results]
        candidates = tuple(c for article in articles if _names(article, doi) for c in self._candidates(article))
        return ResolverResult(candidates) if candidates else nothing()

    def _candidates(self, article: Mapping[str, Any]) -> Iterator[Candidate]:
        for link in map(mapping, items(article.get("link"))):
            target = _TARGETS.get(str(link.get("content_type")).lower())
            url = file_url(link.get("url"), target or Target.PDF)
            if url and target is None and looks_like_pdf(url):
                target = Target.PDF
            if url and target and link.get("type") == "fulltext":
                yield Candidate(url, self.name, self.tier, target, self.rank, version="publishedVersion")


def _names(article: Mapping[str, Any], doi: str) -> bool:
    return any(names_doi(mapping(i).get("id"), doi) for i in items(article.get("identifier")))
