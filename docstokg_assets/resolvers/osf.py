"""OSF preprints (PsyArXiv, SocArXiv and others): the primary file of the preprint that the work's DOI or a page names.

One request: the preprint names its file, which gives the file's URL. Anonymous callers have a hundred requests an hour.
"""

from __future__ import annotations

import re

import docstokg_assets.resolvers as kit

_FILE_ID = re.compile(r"[0-9a-f]{24}|[0-9a-z]{5}")

_WORK = kit.Work("W1", doi="10.31234/osf.io/abcd5_v2")
_DATA = {
    "id": "abcd5_v2",
    "attributes": {"public": True, "date_withdrawn": None, "version": 2},
    "relationships": {"primary_file": {"data": {"id": "666cadbf65e1de5b1b000000", "type": "files"}}},
}
_WITHDRAWN = {**_DATA, "attributes": {"date_withdrawn": "2026-01-01T00:00:00"}}
_BY_PAGE = kit.Work("W2", locations=(kit.Location("https://osf.io/preprints/psyarxiv/abcd5", is_oa=True),))
_FILE = "https://osf.io/download/666cadbf65e1de5b1b000000/"


@kit.register("osf")
class OsfResolver(kit.DepositResolver):
    default_rank = 26
    api_host = "api.osf.io"
    # since 2025 a guid carries the version of the preprint, and so does its DOI
    doi_pattern = re.compile(r"(?i)10\.[0-9]{4,9}/osf\.io/(\w{5}(?:_v[0-9]+)?)")
    page_pattern = re.compile(r"(?i)https?://osf\.io/(?:preprints/(?:\w+/)?)?(\w{5}(?:_v[0-9]+)?)/?(?:download/?)?")
    record_url = "https://api.osf.io/v2/preprints/{}/"
    record_at = ("data",)
    needed = "relationships"
    EXAMPLES = (
        kit.Example(_WORK, [{"data": _DATA}], [_FILE]),
        kit.Example(_BY_PAGE, [{"data": _DATA}], [_FILE]),
        kit.Example(_WORK, [{"data": _WITHDRAWN}]),
        kit.Example(_WORK, [{"data": None}], reason=kit.Reason.BAD_ANSWER),
        kit.Example(kit.Work("W3", doi="10.5555/1")),
    )

    def copies(self, record: kit.JsonObject) -> kit.Candidates:
        attributes = kit.mapping(record.get("attributes"))
        file_id = kit.text(kit.dig(record, "relationships", "primary_file", "data", "id"), 40)
        withheld = attributes.get("date_withdrawn") or attributes.get("public") is False
        if file_id and _FILE_ID.fullmatch(file_id) and not withheld:
            yield self.candidate(f"https://osf.io/download/{file_id}/", version="submittedVersion")
