"""HAL: the file that authors deposited in the French open archive. Asked when known copies failed, for many works at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from docstokg_assets.domain.json_access import items, mapping
from docstokg_assets.domain.plans import Candidate
from docstokg_assets.domain.works import Work
from docstokg_assets.resolvers.answers import (
    IndexResolver,
    answer,
    api_request,
    batchable_request,
    license_name,
    phrase,
)
from docstokg_assets.resolvers.registry import Example, ResolverContext, register
from docstokg_assets.resolvers.routes import file_url, looks_like_pdf
from resources.http.messages import Request
from resources.records import Reason

_MOST = 40  # DOIs in one query; it is part of the URL
_FIELDS = "halId_s,doiId_s,fileMain_s,files_s,licence_s,openAccess_bool"

_WORK = Work("W1", doi="10.5555/peerj.99001")
_DEPOSIT = {
    "doiId_s": "10.5555/peerj.99001",
    "openAccess_bool": True,
    "licence_s": "http://creativecommons.org/licenses/by/",
    "fileMain_s": "https://hal.science/hal-04999999v1/document",
    "files_s": [
        "https://hal.science/hal-04999999v1/file/paper.pdf",
        "https://hal.science/hal-04999999v1/file/data.csv",
    ],
}


def _found(*deposits: Mapping[str, Any]) -> dict[str, Any]:
    return {"response": {"numFound": len(deposits), "start": 0, "docs": list(deposits)}}


@register("hal")
class HalResolver(IndexResolver):
    default_rank = 60
    api_host = "api.archives-ouvertes.fr"
    EXAMPLES = (
        Example(_WORK, [answer(_found(_DEPOSIT))], ["https://hal.science/hal-04999999v1/document"]),
        Example(
            _WORK,
            [answer(_found(_DEPOSIT | {"fileMain_s": None}))],
            ["https://hal.science/hal-04999999v1/file/paper.pdf"],
        ),
        Example(_WORK, [answer(_found({"doiId_s": _WORK.doi, "openAccess_bool": False}))], reason=Reason.NO_CANDIDATE),
        Example(_WORK, [answer(_found(_DEPOSIT | {"doiId_s": "10.5555/other"}))], reason=Reason.NO_CANDIDATE),
        Example(_WORK, [answer(_found())], reason=Reason.NO_CANDIDATE),
        Example(_WORK, [answer({"error": {"msg": "undefined field", "code": 400}}, 400)], reason=Reason.HTTP_4XX),
        Example(_WORK, [answer(b"<html>503</html>", 503)], reason=Reason.HTTP_5XX),
        Example(_WORK, [answer({"error": {"msg": "undefined field", "code": 400}})], reason=Reason.BAD_ANSWER),
        Example(Work("W2")),
    )

    def question(self, doi: str, context: ResolverContext) -> Request:
        return batchable_request(doi, _MOST, _search)

    def records(self, said: Mapping[str, Any]) -> Any:
        return mapping(said.get("response")).get("docs")

    def dois(self, record: Mapping[str, Any]) -> Iterable[Any]:
        return [record.get("doiId_s")]

    def copies(self, record: Mapping[str, Any]) -> Iterator[Candidate]:
        """The main file, or the first PDF where none is called so; a deposit may be without files, or under an embargo."""
        if record.get("openAccess_bool") is not True:
            return
        files = [url for url in map(file_url, items(record.get("files_s"))) if url and looks_like_pdf(url)]
        if url := file_url(record.get("fileMain_s")) or next(iter(files), None):
            license_ = license_name(record.get("licence_s"))
            yield Candidate(url, self.name, self.tier, rank=self.rank, license=license_)


def _search(dois: Sequence[str]) -> Request:
    query = f"doiId_s:({' OR '.join(map(phrase, dois))})"
    asked = urlencode({"q": query, "wt": "json", "fl": _FIELDS, "rows": 5 * len(dois)})
    return api_request(f"https://api.archives-ouvertes.fr/search/?{asked}")
