"""Crossref: the full-text links that a publisher deposited with a DOI, but not those made for similarity checks, and the page
that the DOI is registered for, which saves the redirect through doi.org.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, urlencode

from docstokg_assets.resolvers import (
    ApiResolver,
    Candidates,
    Example,
    JsonObject,
    Reason,
    Request,
    ResolverContext,
    Response,
    Target,
    Tier,
    Work,
    answer,
    api_request,
    batchable_request,
    dig,
    doi_url,
    indexed_doi,
    looks_like_pdf,
    names_doi,
    objects,
    page_url,
    register,
)

_MOST = 50  # DOIs in one request
_FIELDS = "DOI,link,license,resource"
_PLAIN = re.compile(r"10\.[0-9.]+/[\w.()/-]+")
_USES = frozenset({"text-mining", "unspecified", "syndication"})
_VERSIONS = {"vor": "publishedVersion", "am": "acceptedVersion"}
_TARGETS = {"application/pdf": Target.PDF, "application/xml": Target.XML, "text/xml": Target.XML}

_WORK = Work("W1", doi="10.5555/12345678")
_PDF, _PAGE = "https://press.example/doi/pdf/10.5555/12345678", "https://press.example/doi/10.5555/12345678"
_XML = "https://api.press.example/10.5555/12345678?httpAccept=text/xml"


def _link(url: str, content_type: str, use: str = "text-mining") -> JsonObject:
    return {"URL": url, "content-type": content_type, "content-version": "vor", "intended-application": use}


_RECORD = {
    "license": [{"URL": "https://creativecommons.org/licenses/by/4.0/", "content-version": "vor"}],
    "link": [
        _link(_XML, "text/xml"),
        _link(_PDF, "application/pdf"),
        _link("https://press.example/check/12345678.pdf", "unspecified", "similarity-checking"),
    ],
    "resource": {"primary": {"URL": _PAGE}},
}
_LIST = [{"DOI": "10.5555/OTHER"}, {**_RECORD, "DOI": _WORK.doi}]


@register("crossref")
class CrossrefResolver(ApiResolver):
    default_rank = 30
    api_host = "api.crossref.org"
    EXAMPLES = (
        Example(_WORK, [answer({"message": _RECORD})], [_PDF, _XML, _PAGE]),
        Example(_WORK, [answer({"message": {"items": _LIST}})], [_PDF, _XML, _PAGE]),
        Example(_WORK, [answer({"message": {"DOI": "10.5555/12345678"}})], reason=Reason.NO_CANDIDATE),
        Example(_WORK, [answer({"message": {"items": []}})], reason=Reason.NO_CANDIDATE),
        Example(_WORK, [answer(b"Resource not found.", 404)], reason=Reason.NO_CANDIDATE),
        Example(_WORK, [answer({"status": "ok"})], reason=Reason.BAD_ANSWER),
    )

    def applies(self, work: Work) -> bool:
        return indexed_doi(work) is not None and work.agency != "datacite"

    def request(self, work: Work, context: ResolverContext) -> Request:
        doi, contact = work.doi or "", context.contact_email
        # a DOI with characters that would end an entry of the list is requested alone
        return batchable_request(doi, _MOST, _records, contact) if _PLAIN.fullmatch(doi) else _records([doi], contact)

    def read(self, data: Any, work: Work, response: Response) -> Candidates | None:
        message, doi = dig(data, "message"), work.doi or ""
        if not isinstance(message, dict):
            return None
        if "items" in message:
            message = next((record for record in objects(message["items"]) if names_doi(record.get("DOI"), doi)), {})
        return self._candidates(message, doi)

    def _candidates(self, message: JsonObject, doi: str) -> Candidates:
        """The PDFs first, then other files, then the page, to which doi.org would redirect."""
        licenses = {one.get("content-version"): one.get("URL") for one in reversed([*objects(message.get("license"))])}
        for pdf in (True, False):
            for link in objects(message.get("link")):
                made_for, target = link.get("content-version"), _target(link)
                version = _VERSIONS.get(str(made_for))
                if target and (target is Target.PDF) is pdf and version and link.get("intended-application") in _USES:
                    license_ = licenses.get(made_for) or licenses.get("unspecified")
                    yield from self.file(link.get("URL"), target, license_, version=version)
        if url := page_url(dig(message, "resource", "primary", "URL")):
            yield self.candidate(url, Target.LANDING, tier=Tier.DOI_REDIRECT, instead_of=doi_url(doi))


def _records(dois: Sequence[str], contact: str | None) -> Request:
    """The request for one record, or for the needed fields of several."""
    contact_parameter = {"mailto": contact} if contact else {}
    if len(dois) == 1:
        query = f"?{urlencode(contact_parameter)}" if contact else ""
        return api_request(f"https://api.crossref.org/works/{quote(dois[0], safe='')}{query}")
    wanted = {"filter": ",".join(f"doi:{doi}" for doi in dois), "rows": len(dois), "select": _FIELDS}
    return api_request(f"https://api.crossref.org/works?{urlencode({**wanted, **contact_parameter})}")


def _target(link: JsonObject) -> Target | None:
    """What a link leads to; where the publisher does not say, only a URL that looks like a PDF counts."""
    declared = str(link.get("content-type")).lower()
    if declared == "unspecified":
        return Target.PDF if looks_like_pdf(str(link.get("URL"))) else None
    return _TARGETS.get(declared)
