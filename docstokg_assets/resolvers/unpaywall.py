"""Unpaywall: every open location of a DOI, from its API. Knows Crossref DOIs only.

It is served from OpenAlex's tables, so it is not queried for a work whose OpenAlex record lists open locations.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from docstokg_assets.resolvers import (
    ApiResolver,
    Candidates,
    Example,
    JsonObject,
    Location,
    Reason,
    Request,
    ResolverContext,
    ResolverResult,
    Response,
    Target,
    Tier,
    Work,
    answer,
    api_request,
    bad_answer,
    dig,
    file_url,
    json_of,
    mapping,
    nothing,
    objects,
    page_url,
    register,
    text,
)

_WORK = Work("W1", doi="10.5555/peerj.99001")
_CONTACT = ResolverContext(contact_email="us@docs.test")
_PDF, _PMC = "https://peerj.com/articles/99001.pdf", "https://pmc.ncbi.nlm.nih.gov/articles/PMC9900001"
_ORDINARY = {
    "doi": "10.5555/peerj.99001",
    "is_oa": True,
    "oa_locations": [
        {
            "host_type": "publisher",
            "license": "cc-by",
            "url": _PDF,
            "url_for_landing_page": "https://doi.org/10.5555/peerj.99001",
            "url_for_pdf": _PDF,
            "version": "publishedVersion",
        },
        {"host_type": "repository", "license": None, "url": _PMC, "url_for_landing_page": _PMC, "url_for_pdf": None},
        {"url": "https://repo.example/handle/1", "url_for_landing_page": "https://repo.example/handle/1"},
        {"url_for_pdf": "https://arxiv.org/pdf/2401.00001", "version": "submittedVersion"},
    ],
}


@register("unpaywall")
class UnpaywallResolver(ApiResolver):
    default_rank = 40
    api_host = "api.unpaywall.org"
    EXAMPLES = (
        Example(
            _WORK,
            [answer(_ORDINARY)],
            [_PDF, "https://repo.example/handle/1", "https://export.arxiv.org/pdf/2401.00001"],
            _CONTACT,
        ),
        Example(_WORK, [answer(b"<h1>Not Found</h1>", 404)], (), _CONTACT, Reason.NO_CANDIDATE),
        Example(_WORK, [answer({"is_oa": False, "oa_locations": []})], (), _CONTACT, Reason.NO_CANDIDATE),
        Example(_WORK, [answer({"message": "Please use your own email"}, 422)], (), _CONTACT, Reason.BAD_ANSWER),
        Example(replace(_WORK, locations=(Location("https://repo.example/1", is_oa=True),))),  # OpenAlex lists it
        Example(replace(_WORK, agency="datacite")),
        Example(_WORK, reason=Reason.NO_CANDIDATE),  # without a contact address no request is sent
    )

    def applies(self, work: Work) -> bool:
        return work.doi is not None and work.agency != "datacite" and not work.has_open_location

    def request(self, work: Work, context: ResolverContext) -> Request | ResolverResult:
        if not work.doi or not context.contact_email:
            return nothing("Unpaywall needs a contact address: set http.contact_email")
        url = f"https://api.unpaywall.org/v2/{quote(work.doi)}?email={quote(context.contact_email)}"
        return api_request(url)

    def failure(self, response: Response) -> ResolverResult | None:
        if response.status == 422:
            message = dig(json_of(response), "message")
            return bad_answer(f"Unpaywall refused the contact address (http.contact_email): {message}")
        return super().failure(response)

    def read(self, data: Any, work: Work, response: Response) -> Candidates | None:
        locations = objects(dig(data, "oa_locations"))
        return self._candidates(locations) if "oa_locations" in mapping(data) else None

    def _candidates(self, locations: Iterable[JsonObject]) -> Candidates:
        """A PDF where one is listed, else its landing page, which is for a later tier."""
        for location in locations:
            target, tier, url = Target.PDF, self.tier, file_url(location.get("url_for_pdf"))
            if not location.get("url_for_pdf"):
                page = location.get("url_for_landing_page") or location.get("url")
                target, tier, url = Target.LANDING, Tier.LANDING_SCRAPE, page_url(page)
            if url:
                version, license_ = text(location.get("version"), 32), text(location.get("license"), 64)
                yield self.candidate(url, target, tier=tier, version=version, license=license_)
