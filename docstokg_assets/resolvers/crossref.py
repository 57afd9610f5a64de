"""Crossref: the full-text links that a publisher deposited with a DOI, but not those made for similarity checks, and the page
that the DOI is registered for, which saves the redirect through doi.org.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import quote

import docstokg_assets.resolvers as kit

_MOST = 50  # DOIs in one request
_FIELDS = "DOI,link,license,resource"
_PLAIN = re.compile(r"10\.[0-9.]+/[\w.()/-]+")
_USES = frozenset({"text-mining", "unspecified", "syndication"})
_VERSIONS = {"vor": "publishedVersion", "am": "acceptedVersion"}
_TARGETS = {"application/pdf": kit.Target.PDF, "application/xml": kit.Target.XML, "text/xml": kit.Target.XML}

_WORK = kit.Work("W1", doi="10.5555/12345678")
_PDF, _PAGE = "https://press.example/doi/pdf/10.5555/12345678", "https://press.example/doi/10.5555/12345678"
_XML = "https://api.press.example/10.5555/12345678?httpAccept=text/xml"
_LINK = {"content-version": "vor", "intended-application": "text-mining"}
_CHECK = {**_LINK, "URL": "https://press.example/1.pdf", "intended-application": "similarity-checking"}
_RECORD = {
    "license": [{"URL": "https://creativecommons.org/licenses/by/4.0/", "content-version": "vor"}],
    "link": [
        {**_LINK, "URL": _XML, "content-type": "text/xml"},
        {**_LINK, "URL": _PDF, "content-type": "application/pdf"},
        {**_CHECK, "content-type": "unspecified"},
    ],
    "resource": {"primary": {"URL": _PAGE}},
}
_LIST = [{"DOI": "10.5555/OTHER"}, {**_RECORD, "DOI": _WORK.doi}]


@kit.register("crossref")
class CrossrefResolver(kit.ApiResolver):
    default_rank = 30
    api_host = "api.crossref.org"
    EXAMPLES = (
        kit.Example(_WORK, [{"message": _RECORD}], [_PDF, _XML, _PAGE]),
        kit.Example(_WORK, [{"message": {"items": _LIST}}], [_PDF, _XML, _PAGE]),
        kit.Example(_WORK, [{"message": {"DOI": "10.5555/12345678"}}]),
        kit.Example(_WORK, [{"message": {"items": []}}]),
        kit.Example(_WORK, [{"status": "ok"}], reason=kit.Reason.BAD_ANSWER),
    )

    def item(self, work: kit.Work) -> str | None:
        return kit.indexed_doi(work) if work.agency != "datacite" else None

    def request(self, work: kit.Work, context: kit.ResolverContext) -> kit.Request:
        doi, contact = work.doi or "", context.contact_email
        if _PLAIN.fullmatch(doi):
            return kit.batchable_request(doi, _MOST, _records, contact)
        return _records([doi], contact)  # alone: it has characters that would end an entry of the list

    def read(self, data: object, work: kit.Work, response: kit.Response) -> kit.Candidates | None:
        message, doi = kit.dig(data, "message"), work.doi or ""
        if not isinstance(message, dict):
            return None
        if "items" in message:
            message = next((one for one in kit.objects(message["items"]) if kit.names_doi(one.get("DOI"), doi)), {})
        return self._candidates(message, doi)

    def _candidates(self, message: kit.JsonObject, doi: str) -> kit.Candidates:
        """The PDFs first, then other files, then the page, to which doi.org would redirect."""
        given = reversed([*kit.objects(message.get("license"))])
        licenses = {one.get("content-version"): one.get("URL") for one in given}
        usable = (one for one in kit.objects(message.get("link")) if str(one.get("intended-application")) in _USES)
        links = sorted(((_target(one), one) for one in usable), key=lambda pair: pair[0] is not kit.Target.PDF)
        for target, link in links:
            made_for = link.get("content-version")
            if target and (version := _VERSIONS.get(str(made_for))):
                license_ = licenses.get(made_for) or licenses.get("unspecified")
                yield from self.file(link.get("URL"), target, license_, version=version)
        if url := kit.page_url(kit.dig(message, "resource", "primary", "URL")):
            yield self.candidate(url, kit.Target.LANDING, tier=kit.Tier.DOI_REDIRECT, instead_of=kit.doi_url(doi))


def _records(dois: Sequence[str], contact: str | None) -> kit.Request:
    """The request for one record, or for the needed fields of several."""
    sender = {"mailto": contact} if contact else {}
    if len(dois) == 1:
        return kit.api_request(f"https://api.crossref.org/works/{quote(dois[0], safe='')}", sender)
    wanted = {"filter": ",".join(f"doi:{doi}" for doi in dois), "rows": len(dois), "select": _FIELDS}
    return kit.api_request("https://api.crossref.org/works", wanted | sender)


def _target(link: kit.JsonObject) -> kit.Target | None:
    """What a link leads to; where the publisher does not say, only a URL that looks like a PDF counts."""
    declared = str(link.get("content-type")).lower()
    if declared == "unspecified":
        return kit.Target.PDF if kit.looks_like_pdf(str(link.get("URL"))) else None
    return _TARGETS.get(declared)
