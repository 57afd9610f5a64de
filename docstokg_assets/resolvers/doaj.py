"""DOAJ: files that open-access journals deposited with their articles; their pages are those to which the DOI leads.

Queried only for articles whose own file at the journal OpenAlex does not list.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from docstokg_assets.resolvers import (
    Candidates,
    Example,
    IndexResolver,
    JsonObject,
    Location,
    Reason,
    Request,
    ResolverContext,
    Target,
    Work,
    answer,
    api_request,
    dig,
    file_url,
    indexed_doi,
    looks_like_pdf,
    objects,
    phrase,
    register,
)

_LISTED = frozenset({None, "gold", "diamond"})  # open-access status of articles that the directory may hold
_TARGETS = {"pdf": Target.PDF, "xml": Target.XML}

_WORK = Work("W1", doi="10.5555/peerj.99001")
_LINKS = (
    {"type": "fulltext", "content_type": "HTML", "url": "https://press.example/articles/99001/"},
    {"type": "fulltext", "content_type": "PDF", "url": "https://peerj.com/articles/99001.pdf"},
    {"type": "fulltext", "url": "https://doi.org/10.5555/peerj.99001"},
)
_AT_JOURNAL = Location(None, "https://peerj.com/articles/3.pdf", True, source_type="journal")


def _articles(doi: str) -> JsonObject:
    identifiers = [{"type": "eissn", "id": "2167-8359"}, {"type": "doi", "id": doi}]
    return {"total": 1, "results": [{"bibjson": {"identifier": identifiers, "link": list(_LINKS)}}]}


@register("doaj")
class DoajResolver(IndexResolver):
    asked_in = None
    default_rank = 46
    api_host = "doaj.org"
    EXAMPLES = (
        Example(_WORK, [answer(_articles("10.5555/PeerJ.99001"))], ["https://peerj.com/articles/99001.pdf"]),
        Example(_WORK, [answer(_articles("10.5555/other"))], reason=Reason.NO_CANDIDATE),
        Example(_WORK, [answer({"total": 0, "results": []})], reason=Reason.NO_CANDIDATE),
        Example(_WORK, [answer({"status": "bad_request", "error": "…"}, 400)], reason=Reason.HTTP_4XX),
        Example(Work("W2", doi="10.5555/2", oa_status="closed")),
        Example(Work("W3", doi="10.5555/3", oa_status="gold", locations=(_AT_JOURNAL,))),
    )

    def applies(self, work: Work) -> bool:
        known = any(place.is_oa and place.pdf_url and place.source_type == "journal" for place in work.locations)
        return indexed_doi(work) is not None and work.oa_status in _LISTED and not known

    def search(self, doi: str, context: ResolverContext) -> Request:
        query = quote(f"bibjson.identifier.id:{phrase(doi)}", safe="")
        return api_request(f"https://doaj.org/api/v4/search/articles/{query}?pageSize=5")

    def dois(self, record: JsonObject) -> Iterable[Any]:
        return [identifier.get("id") for identifier in objects(dig(record, "bibjson", "identifier"))]

    def copies(self, record: JsonObject) -> Candidates:
        for link in objects(dig(record, "bibjson", "link")):
            target = _TARGETS.get(str(link.get("content_type")).lower())
            url = file_url(link.get("url"), target or Target.PDF)
            if url and target is None and looks_like_pdf(url):
                target = Target.PDF
            if url and target and link.get("type") == "fulltext":
                yield self.candidate(url, target, version="publishedVersion")
