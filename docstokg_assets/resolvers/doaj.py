"""DOAJ: the files that open-access journals deposited with their articles; their pages are those to which the DOI leads.

Asked only about articles of which OpenAlex does not know the journal's own file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

from docstokg_assets.domain.json_access import items, mapping
from docstokg_assets.domain.plans import Candidate, Target, Tier
from docstokg_assets.domain.works import Location, Work
from docstokg_assets.resolvers.answers import IndexResolver, answer, api_request, indexed_doi, phrase
from docstokg_assets.resolvers.registry import Example, ResolverContext, register
from docstokg_assets.resolvers.routes import file_url, looks_like_pdf
from resources.http.messages import Request
from resources.records import Reason

_LISTED = frozenset({None, "gold", "diamond"})  # open-access status of what can be in the directory
_TARGETS = {"pdf": Target.PDF, "xml": Target.XML}

_WORK = Work("W1", doi="10.5555/peerj.99001")


def _article(*links: Mapping[str, str], doi: str = "10.5555/PeerJ.99001") -> dict[str, Any]:
    identifiers = [{"type": "eissn", "id": "2167-8359"}, {"type": "doi", "id": doi}]
    return {"total": 1, "results": [{"bibjson": {"identifier": identifiers, "link": list(links)}}]}


@register("doaj")
class DoajResolver(IndexResolver):
    default_rank = 45
    api_host = "doaj.org"
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

    def ask_tier(self, work: Work) -> Tier:
        return self.tier

    def question(self, doi: str, context: ResolverContext) -> Request:
        query = quote(f"bibjson.identifier.id:{phrase(doi)}", safe="")
        return api_request(f"https://doaj.org/api/v4/search/articles/{query}?pageSize=5")

    def dois(self, record: Mapping[str, Any]) -> Iterable[Any]:
        return [mapping(i).get("id") for i in items(mapping(record.get("bibjson")).get("identifier"))]

    def copies(self, record: Mapping[str, Any]) -> Iterator[Candidate]:
        for link in map(mapping, items(mapping(record.get("bibjson")).get("link"))):
            target = _TARGETS.get(str(link.get("content_type")).lower())
            url = file_url(link.get("url"), target or Target.PDF)
            if url and target is None and looks_like_pdf(url):
                target = Target.PDF
            if url and target and link.get("type") == "fulltext":
                yield Candidate(url, self.name, self.tier, target, self.rank, version="publishedVersion")
