"""Figshare: the files of the item that the work's DOI or one of its pages names, from the API.

Files are fetched from ndownloader.figshare.com; the same path on figshare.com answers programs with a challenge (202).
"""

from __future__ import annotations

import re

import docstokg_assets.resolvers as kit

_WORK = kit.Work("W1", doi="10.6084/m9.figshare.29999999.v2")
_URL = "https://ndownloader.figshare.com/files/58999999"
_FILE = {"name": "paper.pdf", "mimetype": "application/pdf", "is_link_only": False, "download_url": _URL}
_MOVED = {**_FILE, "download_url": "https://figshare.com/ndownloader/files/58999999"}
_ORDINARY = {
    "is_embargoed": False,
    "download_disabled": False,
    "license": {"name": "CC BY 4.0", "url": "https://creativecommons.org/licenses/by/4.0/"},
    "files": [_FILE, {**_FILE, "name": "table.xlsx", "mimetype": "application/vnd.ms-excel"}],
}
_PAGE = kit.Location("https://figshare.com/articles/preprint/A_title/29999999/2", is_oa=True)


@kit.register("figshare")
class FigshareResolver(kit.DepositResolver):
    default_rank = 24
    api_host = "api.figshare.com"
    doi_pattern = re.compile(r"(?i)10\.[0-9]{4,9}/(?:\w+\.)?figshare\.([0-9]+)(?:\.v[0-9]+)?")
    page_pattern = re.compile(r"(?i)https?://(?:[\w-]+\.)?figshare\.com/articles/(?:[^/]+/)+?([0-9]+)(?:/[0-9]+)?/?")
    record_url = "https://api.figshare.com/v2/articles/{}"
    needed = "files"
    EXAMPLES = (
        kit.Example(_WORK, [_ORDINARY], [_URL]),
        kit.Example(kit.Work("W2", locations=(_PAGE,)), [{**_ORDINARY, "files": [_MOVED]}], [_URL]),
        kit.Example(_WORK, [{**_ORDINARY, "is_embargoed": True}]),
        kit.Example(_WORK, [[]], reason=kit.Reason.BAD_ANSWER),
        kit.Example(kit.Work("W3", doi="10.5555/1")),
    )

    def copies(self, record: kit.JsonObject) -> kit.Candidates:
        if any(record.get(name) is True for name in ("is_embargoed", "download_disabled", "is_metadata_record")):
            return
        for file in kit.objects(record["files"]):
            is_pdf = file.get("mimetype") == "application/pdf" or str(file.get("name")).lower().endswith(".pdf")
            if is_pdf and file.get("is_link_only") is not True:
                yield from self.file(file.get("download_url"), license_=kit.dig(record, "license", "url"))
