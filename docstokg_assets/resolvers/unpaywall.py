"""Unpaywall: every open location of a DOI, by asking its API. Knows Crossref DOIs only.

It is served from the tables of OpenAlex, so a work whose record names open locations is not asked about again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from docstokg_assets.domain.json_access import items, mapping, text
from docstokg_assets.domain.plans import Candidate, Target, Tier
from docstokg_assets.domain.works import Location, Work
from docstokg_assets.resolvers.answers import answer, api_request, bad_answer, failure, json_of, named, nothing
from docstokg_assets.resolvers.registry import Example, Resolution, Resolver, ResolverContext, register
from docstokg_assets.resolvers.routes import file_url, page_url
from resources.records import Reason

_WORK = Work("W1", doi="10.5555/peerj.99001")
_CONTACT = ResolverContext(contact_email="us@docs.test")
_ORDINARY = {
    "doi": "10.5555/peerj.99001",
    "is_oa": True,
    "oa_locations": [
        {
            "host_type": "publisher",
            "license": "cc-by",
            "url": "https://peerj.com/articles/99001.pdf",
            "url_for_landing_page": "https://doi.org/10.5555/peerj.99001",
            "url_for_pdf": "https://peerj.com/articles/99001.pdf",
            "version": "publishedVersion",
        },
        {
            "host_type": "repository",
            "license": None,
            "url": "https://pmc.ncbi.nlm.nih.gov/articles/PMC9900001",
            "url_for_landing_page": "https://pmc.ncbi.nlm.nih.gov/articles/PMC9900001",
            "url_for_pdf": None,
        },
        {"url": "https://repo.example/handle/1", "url_for_landing_page": "https://repo.example/handle/1"},
        {"url_for_pdf": "https://arxiv.org/pdf/2401.00001", "version": "submittedVersion"},
    ],
}


@register("unpaywall")
class UnpaywallResolver(Resolver):
    tier = Tier.DIRECT_OA
    default_rank = 40
    head_precheck = False  # `url_for_pdf` names a file, and a GET tells a page from a file as well
    api_host = "api.unpaywall.org"
    EXAMPLES = (
        Example(
            _WORK,
            [answer(_ORDINARY)],
            [
                "https://peerj.com/articles/99001.pdf",
                "https://repo.example/handle/1",
                "https://export.arxiv.org/pdf/2401.00001",
            ],
            _CONTACT,
        ),
        Example(_WORK, [answer(b"<h1>Not Found</h1>", 404)], (), _CONTACT, Reason.NO_CANDIDATE),
        Example(_WORK, [answer({"is_oa": False, "oa_locations": []})], (), _CONTACT, Reason.NO_CANDIDATE),
        Example(_WORK, [answer({"message": "Please use your own email"}, 422)], (), _CONTACT, Reason.BAD_ANSWER),
        Example(_WORK, [answer(b"<html>maintenance</html>")], (), _CONTACT, Reason.BAD_ANSWER),
        Example(
            replace(_WORK, locations=(Location("https://repo.example/1", is_oa=True),))
        ),  # OpenAlex said it already
        Example(replace(_WORK, agency="datacite")),
        Example(_WORK, reason=Reason.NO_CANDIDATE),  # nobody to name as contact: it is not asked
    )

    def applies(self, work: Work) -> bool:
        return work.doi is not None and work.agency != "datacite" and not work.has_open_location

    def resolve(self, work: Work, context: ResolverContext) -> Resolution:
        if not work.doi or not context.contact_email:
            return nothing("Unpaywall wants a contact address: set http.contact_email")
        url = f"https://api.unpaywall.org/v2/{quote(work.doi)}?email={quote(context.contact_email)}"
        response = yield api_request(url)
        if response.status == 422:
            said = mapping(json_of(response)).get("message")
            return bad_answer(f"Unpaywall refused the contact address (http.contact_email): {said}")
        if failed := failure(response):
            return failed
        record = mapping(json_of(response))
        if "oa_locations" not in record:
            return bad_answer("Unpaywall's answer has no oa_locations")
        return named(self._candidates(record))

    def _candidates(self, record: Mapping[str, Any]) -> Iterator[Candidate]:
        """A PDF where one is named, else the page about it, which belongs to a later tier."""
        for raw in items(record["oa_locations"]):
            location = mapping(raw)
            version, license_ = text(location.get("version"), 32), text(location.get("license"), 64)
            if location.get("url_for_pdf"):
                target, tier, url = Target.PDF, self.tier, file_url(location["url_for_pdf"])
            else:
                page = location.get("url_for_landing_page") or location.get("url")
                target, tier, url = Target.LANDING, Tier.LANDING_SCRAPE, page_url(page)
            if url:
                yield Candidate(url, self.name, tier, target, self.rank, version=version, license=license_)
