"""Figshare: the files of the item that the work's DOI or one of its pages names, from the API.

Files are fetched from ndownloader.figshare.com; the same path on figshare.com answers programs with a challenge (202).
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


@register("figshare")
class FigshareResolver(DepositResolver):
    default_rank = 24
    api_host = "api.figshare.com"
    doi_pattern = re.compile(r"(?i)10\.[0-9]{4,9}/(?:\w+\.)?figshare\.([0-9]+)(?:\.v[0-9]+)?")
    page_pattern = re.compile(r"(?i)https?://(?:[\w-]+\.)?figshare\.com/articles/(?:[^/]+/)+?([0-9]+)(?:/[0-9]+)?/?")
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
        Example(_WORK, [answer([])], reason=Reason.BAD_ANSWER),
        Example(Work("W3", doi="10.5555/1")),
    )

    def copies(self, record: JsonObject) -> Candidates:
        if any(record.get(name) is True for name in ("is_embargoed", "download_disabled", "is_metadata_record")):
            return
        for file in objects(record["files"]):
            is_pdf = file.get("mimetype") == "application/pdf" or str(file.get("name")).lower().endswith(".pdf")
            if is_pdf and file.get("is_link_only") is not True:
                yield from self.file(file.get("download_url"), license_=dig(record, "license", "url"))
