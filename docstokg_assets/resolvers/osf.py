"""OSF preprints (PsyArXiv, SocArXiv and others): the primary file of the preprint that the work's DOI or a page names.

One request: the preprint names its file, and the file's address follows from that. Anonymous callers have a hundred an hour.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from docstokg_assets.domain.json_access import mapping, text
from docstokg_assets.domain.plans import Candidate
from docstokg_assets.domain.works import Location, Work
from docstokg_assets.resolvers.answers import DepositResolver, answer
from docstokg_assets.resolvers.registry import Example, register
from resources.records import Reason

_FILE_ID = re.compile(r"[0-9a-f]{24}|[0-9a-z]{5}")

_WORK = Work("W1", doi="10.31234/osf.io/abcd5_v2")
_DATA = {
    "id": "abcd5_v2",
    "attributes": {"public": True, "date_withdrawn": None, "version": 2},
    "relationships": {"primary_file": {"data": {"id": "666cadbf65e1de5b1b000000", "type": "files"}}},
}
_THROTTLED = {"errors": [{"detail": "Request was throttled. Expected available in 3528 seconds."}]}


@register("osf")
class OsfResolver(DepositResolver):
    default_rank = 26
    api_host = "api.osf.io"
    # since 2025 a guid carries the version of the preprint, and so does its DOI
    doi = re.compile(r"(?i)10\.[0-9]{4,9}/osf\.io/(\w{5}(?:_v[0-9]+)?)")
    page = re.compile(r"(?i)https?://osf\.io/(?:preprints/(?:\w+/)?)?(\w{5}(?:_v[0-9]+)?)/?(?:download/?)?")
    record_url = "https://api.osf.io/v2/preprints/{}/"
    needed = "relationships"
    EXAMPLES = (
        Example(_WORK, [answer({"data": _DATA})], ["https://osf.io/download/666cadbf65e1de5b1b000000/"]),
        Example(
            Work("W2", locations=(Location("https://osf.io/preprints/psyarxiv/abcd5", is_oa=True),)),
            [answer({"data": _DATA})],
            ["https://osf.io/download/666cadbf65e1de5b1b000000/"],
        ),
        Example(
            _WORK,
            [answer({"data": {**_DATA, "attributes": {"date_withdrawn": "2026-01-01T00:00:00"}}})],
            reason=Reason.NO_CANDIDATE,
        ),
        Example(_WORK, [answer({"errors": [{"detail": "Not found."}]}, 404)], reason=Reason.NO_CANDIDATE),
        Example(_WORK, [answer({"errors": [{"detail": "Gone."}]}, 410)], reason=Reason.NO_CANDIDATE),
        Example(_WORK, [answer(_THROTTLED, 429)], reason=Reason.RATE_LIMITED),
        Example(_WORK, [answer({"data": None})], reason=Reason.BAD_ANSWER),
        Example(Work("W3", doi="10.5555/1")),
    )

    def record(self, said: Mapping[str, Any]) -> Mapping[str, Any]:
        return mapping(said.get("data"))

    def copies(self, record: Mapping[str, Any]) -> Iterator[Candidate]:
        about = mapping(record.get("attributes"))
        file = mapping(mapping(mapping(record["relationships"]).get("primary_file")).get("data"))
        ident = text(file.get("id"), 40)
        withheld = about.get("date_withdrawn") or about.get("public") is False
        if ident and _FILE_ID.fullmatch(ident) and not withheld:
            url = f"https://osf.io/download/{ident}/"
            yield Candidate(url, self.name, self.tier, rank=self.rank, version="submittedVersion")
