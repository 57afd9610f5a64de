"""DOAJ: files that open-access journals deposited with their articles; their pages are those to which the DOI leads.

Queried only for articles whose own file at the journal OpenAlex does not list.
"""

from __future__ import annotations

from urllib.parse import quote

import docstokg_assets.resolvers as kit

_LISTED = frozenset({None, "gold", "diamond"})  # open-access status of articles that the directory may hold
_TARGETS = {"pdf": kit.Target.PDF, "xml": kit.Target.XML}

_WORK = kit.Work("W1", doi="10.5555/peerj.99001")
_LINKS = [
    {"type": "fulltext", "content_type": "HTML", "url": "https://press.example/articles/99001/"},
    {"type": "fulltext", "content_type": "PDF", "url": "https://peerj.com/articles/99001.pdf"},
    {"type": "fulltext", "url": "https://doi.org/10.5555/peerj.99001"},
]
_IDS = [{"type": "eissn", "id": "2167-8359"}, {"type": "doi", "id": "10.5555/PeerJ.99001"}]
_FOUND = {"results": [{"bibjson": {"identifier": _IDS, "link": _LINKS}}]}
_OTHER = {"results": [{"bibjson": {"identifier": _IDS[:1], "link": _LINKS}}]}
_AT_JOURNAL = kit.Location(None, "https://peerj.com/articles/3.pdf", True, source_type="journal")


@kit.register("doaj")
class DoajResolver(kit.IndexResolver):
    asked_in = None
    default_rank = 46
    api_host = "doaj.org"
    doi_key = "bibjson.identifier.id"
    EXAMPLES = (
        kit.Example(_WORK, [_FOUND], ["https://peerj.com/articles/99001.pdf"]),
        kit.Example(_WORK, [_OTHER]),
        kit.Example(_WORK, [{"total": 0, "results": []}]),
        kit.Example(_WORK, [kit.answer({"status": "bad_request", "error": "…"}, 400)], reason=kit.Reason.HTTP_4XX),
        kit.Example(kit.Work("W2", doi="10.5555/2", oa_status="closed")),
        kit.Example(kit.Work("W3", doi="10.5555/3", oa_status="gold", locations=(_AT_JOURNAL,))),
    )

    def applies(self, work: kit.Work) -> bool:
        known = any(place.is_oa and place.pdf_url and place.source_type == "journal" for place in work.locations)
        return super().applies(work) and work.oa_status in _LISTED and not known

    def search(self, doi: str, context: kit.ResolverContext) -> kit.Request:
        query = quote(f"bibjson.identifier.id:{kit.phrase(doi)}", safe="")
        return kit.api_request(f"https://doaj.org/api/v4/search/articles/{query}?pageSize=5")

    def copies(self, record: kit.JsonObject) -> kit.Candidates:
        for link in kit.objects(kit.dig(record, "bibjson", "link")):
            target = _TARGETS.get(str(link.get("content_type")).lower())
            url = kit.file_url(link.get("url"), target or kit.Target.PDF)
            if url and link.get("type") == "fulltext" and (target or kit.looks_like_pdf(url)):
                yield self.candidate(url, target or kit.Target.PDF, version="publishedVersion")
