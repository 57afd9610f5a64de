"""Zenodo: the files of the record that the work's DOI or one of its pages names, from the API.

Zenodo is not searched for DOIs of others: that costs a request for every work and finds hardly any.
"""

from __future__ import annotations

import re

from docstokg_assets.resolvers import (
    Candidates,
    DepositResolver,
    Example,
    JsonObject,
    Location,
    Reason,
    Work,
    answer,
    dig,
    objects,
    register,
)

_VERSIONS = {"preprint": "submittedVersion", "article": "publishedVersion"}

_WORK = Work("W1", doi="10.5281/zenodo.14999999")
_FILES = "https://zenodo.org/api/records/14999999/files"
_ORDINARY = {
    "id": 14999999,
    "metadata": {
        "access_right": "open",
        "resource_type": {"type": "publication", "subtype": "preprint"},
        "license": {"id": "cc-by-4.0"},
    },
    "files": [
        {"key": "data.csv", "links": {"self": f"{_FILES}/data.csv/content"}},
        {"key": "paper.pdf", "links": {"self": f"{_FILES}/paper.pdf/content"}},
    ],
}
_RESTRICTED = {**_ORDINARY, "metadata": {"access_right": "restricted"}}


@register("zenodo")
class ZenodoResolver(DepositResolver):
    default_rank = 22
    api_host = "zenodo.org"
    doi_pattern = re.compile(r"(?i)10\.5281/zenodo\.([0-9]+)")
    page_pattern = re.compile(r"(?i)https?://(?:www\.)?zenodo\.org/(?:api/)?records?/([0-9]+).*")
    record_url = "https://zenodo.org/api/records/{}"
    needed = "metadata"
    EXAMPLES = (
        Example(_WORK, [answer(_ORDINARY)], [f"{_FILES}/paper.pdf/content"]),
        Example(
            Work("W2", locations=(Location("https://zenodo.org/records/14999999", is_oa=True),)),
            [answer(_ORDINARY)],
            [f"{_FILES}/paper.pdf/content"],
        ),
        Example(_WORK, [answer(_RESTRICTED)], reason=Reason.NO_CANDIDATE),
        Example(_WORK, [answer({"status": 410, "message": "Record deleted"}, 410)], reason=Reason.NO_CANDIDATE),
        Example(_WORK, [answer({"status": 429, "message": "30 per 1 minute"}, 429)], reason=Reason.RATE_LIMITED),
        Example(Work("W3", doi="10.5555/1")),
    )

    def copies(self, record: JsonObject) -> Candidates:
        if dig(record, "metadata", "access_right") != "open":
            return
        license_ = dig(record, "metadata", "license", "id")
        version = _VERSIONS.get(str(dig(record, "metadata", "resource_type", "subtype")))
        for file in objects(record.get("files")):
            if str(file.get("key")).lower().endswith(".pdf"):
                yield from self.file(dig(file, "links", "self"), license_=license_, version=version)
