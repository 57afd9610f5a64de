"""Figshare: the files of an item, by asking its API for the item that the work's DOI or one of its pages names.

Files are asked for at ndownloader.figshare.com; the same path on figshare.com answers programs with a challenge (202).
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

_WORK = Work("W1", doi="10.6084/m9.figshare.29999999.v2")
_FILE = {
    "name": "paper.pdf",
    "mimetype": "application/pdf",
    "is_link_only": False,
    "download_url": "https://ndownloader.figshare.com/files/58999999",
}
_ORDINARY = {
    "id": 29999999,
    "is_embargoed": False,
    "download_disabled": False,
    "license": {"name": "CC BY 4.0", "url": "https://creativecommons.org/licenses/by/4.0/"},
    "files": [_FILE, {**_FILE, "name": "table.xlsx", "mimetype": "application/vnd.ms-excel"}],
}
_GONE = {"message": "Entity not found: ArticlePublic", "code": "EntityNotFound"}


@register("figshare")
class FigshareResolver(DepositResolver):
    default_rank = 24
    api_host = "api.figshare.com"
    doi = re.compile(r"(?i)10\.[0-9]{4,9}/(?:\w+\.)?figshare\.([0-9]+)(?:\.v[0-9]+)?")
    page = re.compile(r"(?i)https?://(?:[\w-]+\.)?figshare\.com/articles/(?:[^/]+/)+?([0-9]+)(?:/[0-9]+)?/?")
    record_url = "https://api.figshare.com/v2/articles/{}"
    needed = "files"
    EXAMPLES = (
        Example(_WORK, [answer(_ORDINARY)], ["https://ndownloader.figshare.com/files/58999999"]),
        Example(
            Work("W2", locations=(Location("https://figshare.com/articles/preprint/A_title/29999999/2", is_oa=True),)),
            [answer({**_ORDINARY, "files": [{**_FILE, "download_url": "https://figshare.com/ndownloader/files/7"}]})],
            ["https://ndownloader.figshare.com/files/7"],
        ),
        Example(_WORK, [answer({**_ORDINARY, "is_embargoed": True})], reason=Reason.NO_CANDIDATE),
        Example(_WORK, [answer(_GONE, 404)], reason=Reason.NO_CANDIDATE),
        Example(_WORK, [answer({"message": "Forbidden"}, 403)], reason=Reason.HTTP_4XX),
        Example(_WORK, [answer([])], reason=Reason.BAD_ANSWER),
        Example(Work("W3", doi="10.5555/1")),
    )

    def copies(self, record: Mapping[str, Any]) -> Iterator[Candidate]:
        if any(record.get(name) is True for name in ("is_embargoed", "download_disabled", "is_metadata_record")):
            return
        license_ = license_name(mapping(record.get("license")).get("url"))
        for file in map(mapping, items(record["files"])):
            is_pdf = file.get("mimetype") == "application/pdf" or str(file.get("name")).lower().endswith(".pdf")
            url = file_url(file.get("download_url"))
            if url and is_pdf and file.get("is_link_only") is not True:
                yield Candidate(url, self.name, self.tier, rank=self.rank, license=license_)
