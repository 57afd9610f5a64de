"""Crossref: the full-text links that a publisher deposited with a DOI, but not those made for similarity checks, and the page
that the DOI is registered for, which spares the way through doi.org.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from docstokg_assets.domain.json_access import items, mapping
from docstokg_assets.domain.plans import Candidate, Target, Tier
from docstokg_assets.domain.works import Work
from docstokg_assets.resolvers.answers import (
    answer,
    api_request,
    bad_answer,
    batchable_request,
    failure,
    indexed_doi,
    json_of,
    license_name,
    names_doi,
    nothing,
)
from docstokg_assets.resolvers.registry import Example, Resolution, Resolver, ResolverContext, ResolverResult, register
from docstokg_assets.resolvers.routes import doi_url, file_url, looks_like_pdf, page_url
from resources.http.messages import Request
from resources.records import Reason

_MOST = 50  # DOIs in one request
_FIELDS = "DOI,link,license,resource"
_PLAIN = re.compile(r"10\.[0-9.]+/[\w.()/-]+")
_USES = frozenset({"text-mining", "unspecified", "syndication"})
_VERSIONS = {"vor": "publishedVersion", "am": "acceptedVersion"}
_TARGETS = {"application/pdf": Target.PDF, "application/xml": Target.XML, "text/xml": Target.XML}

_WORK = Work("W1", doi="10.5555/12345678")
_ORDINARY = {
    "message": {
        "license": [{"URL": "https://creativecommons.org/licenses/by/4.0/", "content-version": "vor"}],
        "link": [
            {
                "URL": "https://api.press.example/10.5555/12345678?httpAccept=text/xml",
                "content-type": "text/xml",
                "content-version": "vor",
                "intended-application": "text-mining",
            },
            {
                "URL": "https://press.example/doi/pdf/10.5555/12345678",
                "content-type": "application/pdf",
                "content-version": "vor",
                "intended-application": "text-mining",
            },
            {
                "URL": "https://press.example/check/12345678.pdf",
                "content-type": "unspecified",
                "content-version": "vor",
                "intended-application": "similarity-checking",
            },
        ],
        "resource": {"primary": {"URL": "https://press.example/doi/10.5555/12345678"}},
    }
}


@register("crossref")
class CrossrefResolver(Resolver):
    tier = Tier.DIRECT_OA
    default_rank = 30
    head_precheck = False  # the publisher said what its link leads to, and a GET tells a page from a file as well
    api_host = "api.crossref.org"
    EXAMPLES = (
        Example(
            _WORK,
            [answer(_ORDINARY)],
            [
                "https://press.example/doi/pdf/10.5555/12345678",
                "https://api.press.example/10.5555/12345678?httpAccept=text/xml",
                "https://press.example/doi/10.5555/12345678",
            ],
        ),
        Example(_WORK, [answer({"message": {"DOI": "10.5555/12345678"}})], reason=Reason.NO_CANDIDATE),
        Example(
            _WORK,
            [answer({"message": {"items": [{"DOI": "10.5555/OTHER"}, {**_ORDINARY["message"], "DOI": _WORK.doi}]}})],
            [
                "https://press.example/doi/pdf/10.5555/12345678",
                "https://api.press.example/10.5555/12345678?httpAccept=text/xml",
                "https://press.example/doi/10.5555/12345678",
            ],
        ),
        Example(_WORK, [answer({"message": {"items": []}})], reason=Reason.NO_CANDIDATE),
        Example(_WORK, [answer(b"Resource not found.", 404)], reason=Reason.NO_CANDIDATE),
        Example(_WORK, [answer(b"blocked", 403)], reason=Reason.HTTP_4XX),
        Example(_WORK, [answer(b"<html>")], reason=Reason.BAD_ANSWER),
    )

    def applies(self, work: Work) -> bool:
        return indexed_doi(work) is not None and work.agency != "datacite"

    def resolve(self, work: Work, context: ResolverContext) -> Resolution:
        if not work.doi:
            return nothing()
        build = _Batch(context.contact_email or "")
        # what would end an entry of the list is asked for alone
        joins = _PLAIN.fullmatch(work.doi) is not None
        response = yield batchable_request(work.doi, _MOST, build) if joins else build([work.doi])
        if failed := failure(response):
            return failed
        message = mapping(json_of(response)).get("message")
        if not isinstance(message, dict):
            return bad_answer("Crossref's answer has no message")
        if "items" in message:
            listed = map(mapping, items(message["items"]))
            message = next((one for one in listed if names_doi(one.get("DOI"), work.doi)), {})
        candidates = sorted(self._candidates(message), key=lambda candidate: candidate.target is not Target.PDF)
        candidates += self._page(message, work.doi)
        return ResolverResult(tuple(candidates)) if candidates else nothing()

    def _candidates(self, message: Mapping[str, Any]) -> Iterator[Candidate]:
        licenses = {
            mapping(item).get("content-version"): license_name(mapping(item).get("URL"))
            for item in reversed(items(message.get("license")))
        }
        for link in map(mapping, items(message.get("link"))):
            made_for, version = link.get("content-version"), _VERSIONS.get(str(link.get("content-version")))
            target = _target(link)
            url = file_url(link.get("URL"), target) if target else None
            if url and target and version and link.get("intended-application") in _USES:
                license_ = licenses.get(made_for) or licenses.get("unspecified")
                yield Candidate(url, self.name, self.tier, target, self.rank, version=version, license=license_)

    def _page(self, message: Mapping[str, Any], doi: str) -> Iterator[Candidate]:
        """Where doi.org would lead: Crossref holds the address that it sends visitors to."""
        if url := page_url(mapping(mapping(message.get("resource")).get("primary")).get("URL")):
            yield Candidate(url, self.name, Tier.DOI_REDIRECT, Target.LANDING, self.rank, instead_of=doi_url(doi))


@dataclass(frozen=True, slots=True)
class _Batch:
    """One record, or a list of several, of which only what is needed."""

    contact: str

    def __call__(self, dois: Sequence[str]) -> Request:
        contact = {"mailto": self.contact} if self.contact else {}
        if len(dois) == 1:
            query = f"?{urlencode(contact)}" if contact else ""
            return api_request(f"https://api.crossref.org/works/{quote(dois[0], safe='')}{query}")
        wanted = {"filter": ",".join(f"doi:{doi}" for doi in dois), "rows": len(dois), "select": _FIELDS}
        return api_request(f"https://api.crossref.org/works?{urlencode({**wanted, **contact})}")


def _target(link: Mapping[str, Any]) -> Target | None:
    """What a link leads to; where the publisher did not say, only the spelling of a PDF is believed."""
    declared = str(link.get("content-type")).lower()
    if declared == "unspecified":
        return Target.PDF if looks_like_pdf(str(link.get("URL"))) else None
    return _TARGETS.get(declared)
