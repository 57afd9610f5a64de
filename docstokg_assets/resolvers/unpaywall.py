"""Unpaywall: every open location of a DOI, from its API. Knows Crossref DOIs only.

It is served from OpenAlex's tables, so it is not queried for a work whose OpenAlex record lists open locations.
"""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import quote

import docstokg_assets.resolvers as kit

_WORK = kit.Work("W1", doi="10.5555/peerj.99001")
_CONTACT = kit.ResolverContext(contact_email="us@docs.test")
_PDF, _PMC = "https://peerj.com/articles/99001.pdf", "https://pmc.ncbi.nlm.nih.gov/articles/PMC9900001"
_DOI_PAGE, _REPOSITORY = "https://doi.org/10.5555/peerj.99001", "https://repo.example/handle/1"
_PUBLISHED = {"url_for_landing_page": _DOI_PAGE, "url_for_pdf": _PDF, "license": "cc-by", "version": "publishedVersion"}
_LOCATIONS = [
    _PUBLISHED,
    {"license": None, "url": _PMC, "url_for_landing_page": _PMC, "url_for_pdf": None},
    {"url": _REPOSITORY, "url_for_landing_page": _REPOSITORY},
    {"url_for_pdf": "https://arxiv.org/pdf/2401.00001", "version": "submittedVersion"},
]
_URLS = [_PDF, _REPOSITORY, "https://export.arxiv.org/pdf/2401.00001"]
_LISTED = replace(_WORK, locations=(kit.Location("https://repo.example/1", is_oa=True),))


@kit.register("unpaywall")
class UnpaywallResolver(kit.ApiResolver):
    default_rank = 40
    api_host = "api.unpaywall.org"
    EXAMPLES = (
        kit.Example(_WORK, [{"is_oa": True, "oa_locations": _LOCATIONS}], _URLS, _CONTACT),
        kit.Example(_WORK, [{"is_oa": False, "oa_locations": []}], context=_CONTACT),
        kit.Example(_WORK, [kit.answer({"message": "Use your own email"}, 422)], (), _CONTACT, kit.Reason.BAD_ANSWER),
        kit.Example(_LISTED),  # by OpenAlex
        kit.Example(replace(_WORK, agency="datacite")),
        kit.Example(_WORK, reason=kit.Reason.NO_CANDIDATE),  # without a contact address no request is sent
    )

    def applies(self, work: kit.Work) -> bool:
        return work.doi is not None and work.agency != "datacite" and not work.has_open_location

    def request(self, work: kit.Work, context: kit.ResolverContext) -> kit.Request | kit.ResolverResult:
        if not work.doi or not context.contact_email:
            return kit.nothing("Unpaywall needs a contact address: set http.contact_email")
        return kit.api_request(f"https://api.unpaywall.org/v2/{quote(work.doi)}", {"email": context.contact_email})

    def failure(self, response: kit.Response) -> kit.ResolverResult | None:
        if response.status == 422:
            message = kit.dig(kit.json_of(response), "message")
            return kit.bad_answer(f"Unpaywall refused the contact address (http.contact_email): {message}")
        return super().failure(response)

    def read(self, data: object, work: kit.Work, response: kit.Response) -> kit.Candidates | None:
        answer = kit.mapping(data)
        return self._candidates(answer["oa_locations"]) if "oa_locations" in answer else None

    def _candidates(self, locations: object) -> kit.Candidates:
        """A PDF where one is listed, else its landing page, which is for a later tier."""
        for location in kit.objects(locations):
            target, tier, url = kit.Target.PDF, self.tier, kit.file_url(location.get("url_for_pdf"))
            if not location.get("url_for_pdf"):
                page = location.get("url_for_landing_page") or location.get("url")
                target, tier, url = kit.Target.LANDING, kit.Tier.LANDING_SCRAPE, kit.page_url(page)
            if url:
                version, license_ = kit.text(location.get("version"), 32), kit.text(location.get("license"), 64)
                yield self.candidate(url, target, tier=tier, version=version, license=license_)
