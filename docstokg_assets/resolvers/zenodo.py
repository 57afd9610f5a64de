"""Zenodo: the files of a record, by asking its API for the record that the work's DOI or one of its pages names.

Zenodo is not searched for other people's DOIs: that costs a request for every work and finds hardly any.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from docstokg_assets.domain.json_access import items, mapping
from docstokg_assets.domain.plans import Candidate
from docstokg_assets.domain.works import Location, Work
from docstokg_assets.resolvers.answers import DepositResolver, answer, license_name
from docstokg_assets.resolvers.registry import Example, register
from docstokg_assets.resolvers.routes import file_url
from resources.records import Reason

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


@register("zenodo")
class ZenodoResolver(DepositResolver):
    default_rank = 22
    api_host = "zenodo.org"
    doi = re.compile(r"(?i)10\.5281/zenodo\.([0-9]+)")
    page = re.compile(r"(?i)https?://(?:www\.)?zenodo\.org/(?:api/)?records?/([0-9]+).*")
    record_url = "https://zenodo.org/api/records/{}"
    needed = "metadata"
    EXAMPLES = (
        Example(_WORK, [answer(_ORDINARY)], [f"{_FILES}/paper.pdf/content"]),
        Example(
            Work("W2", locations=(Location("https://zenodo.org/records/14999999", is_oa=True),)),
            [answer(_ORDINARY)],
            [f"{_FILES}/paper.pdf/content"],
        ),
        Example(
            _WORK,
            [answer({"metadata": {"access_right": "restricted"}, "files": _ORDINARY["files"]})],
            reason=Reason.NO_CANDIDATE,
        ),
        Example(_WORK, [answer({"status": 410, "message": "Record deleted"}, 410)], reason=Reason.NO_CANDIDATE),
        Example(_WORK, [answer({"status": 429, "message": "30 per 1 minute"}, 429)], reason=Reason.RATE_LIMITED),
        Example(_WORK, [answer(b"<html>maintenance</html>")], reason=Reason.BAD_ANSWER),
        Example(Work("W3", doi="10.5555/1")),
    )

    def copies(self, record: Mapping[str, Any]) -> Iterator[Candidate]:
        about = mapping(record.get("metadata"))
        if about.get("access_right") != "open":
            return
        license_ = license_name(mapping(about.get("license")).get("id"))
        version = _VERSIONS.get(str(mapping(about.get("resource_type")).get("subtype")))
        for file in map(mapping, items(record.get("files"))):
            url = file_url(mapping(file.get("links")).get("self"))
            if url and str(file.get("key")).lower().endswith(".pdf"):
                yield Candidate(url, self.name, self.tier, rank=self.rank, version=version, license=license_)
