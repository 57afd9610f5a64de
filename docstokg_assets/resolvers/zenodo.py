"""Zenodo: the files of the record that the work's DOI or one of its pages names, from the API.

Zenodo is not searched for DOIs of others: that costs a request for every work and finds hardly any.
"""

from __future__ import annotations

import re

import docstokg_assets.resolvers as kit

_VERSIONS = {"preprint": "submittedVersion", "article": "publishedVersion"}

_WORK = kit.Work("W1", doi="10.5281/zenodo.14999999")
_FILES = "https://zenodo.org/api/records/14999999/files"
_TYPE = {"type": "publication", "subtype": "preprint"}
_ORDINARY = {
    "metadata": {"access_right": "open", "resource_type": _TYPE, "license": {"id": "cc-by-4.0"}},
    "files": [{"key": name, "links": {"self": f"{_FILES}/{name}/content"}} for name in ("data.csv", "paper.pdf")],
}
_RESTRICTED = {**_ORDINARY, "metadata": {"access_right": "restricted"}}
_BY_PAGE = kit.Work("W2", locations=(kit.Location("https://zenodo.org/records/14999999", is_oa=True),))


@kit.register("zenodo")
class ZenodoResolver(kit.DepositResolver):
    default_rank = 22
    api_host = "zenodo.org"
    doi_pattern = re.compile(r"(?i)10\.5281/zenodo\.([0-9]+)")
    page_pattern = re.compile(r"(?i)https?://(?:www\.)?zenodo\.org/(?:api/)?records?/([0-9]+).*")
    record_url = "https://zenodo.org/api/records/{}"
    needed = "metadata"
    EXAMPLES = (
        kit.Example(_WORK, [_ORDINARY], [f"{_FILES}/paper.pdf/content"]),
        kit.Example(_BY_PAGE, [_ORDINARY], [f"{_FILES}/paper.pdf/content"]),
        kit.Example(_WORK, [_RESTRICTED]),
        kit.Example(_WORK, [kit.answer({"message": "30 per 1 minute"}, 429)], reason=kit.Reason.RATE_LIMITED),
        kit.Example(kit.Work("W3", doi="10.5555/1")),
    )

    def copies(self, record: kit.JsonObject) -> kit.Candidates:
        if kit.dig(record, "metadata", "access_right") != "open":
            return
        license_ = kit.dig(record, "metadata", "license", "id")
        version = _VERSIONS.get(str(kit.dig(record, "metadata", "resource_type", "subtype")))
        for file in kit.objects(record.get("files")):
            if str(file.get("key")).lower().endswith(".pdf"):
                yield from self.file(kit.dig(file, "links", "self"), license_=license_, version=version)
