"""HAL: files that authors deposited in the French open archive. Queried when known copies failed, for many works at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import urlencode

from docstokg_assets.resolvers import (
    Candidates,
    Example,
    IndexResolver,
    JsonObject,
    Reason,
    Request,
    ResolverContext,
    Work,
    answer,
    api_request,
    batchable_request,
    dig,
    file_url,
    items,
    looks_like_pdf,
    phrase,
    register,
)

_MOST = 40  # DOIs in one query; it is part of the URL
_FIELDS = "halId_s,doiId_s,fileMain_s,files_s,licence_s,openAccess_bool"

_WORK = Work("W1", doi="10.5555/peerj.99001")
_HAL = "https://hal.science/hal-04999999v1"
_DEPOSIT = {
    "doiId_s": "10.5555/peerj.99001",
    "openAccess_bool": True,
    "licence_s": "http://creativecommons.org/licenses/by/",
    "fileMain_s": f"{_HAL}/document",
    "files_s": [f"{_HAL}/file/paper.pdf", f"{_HAL}/file/data.csv"],
}


def _found(*deposits: JsonObject) -> JsonObject:
    return {"response": {"numFound": len(deposits), "start": 0, "docs": list(deposits)}}


@register("hal")
class HalResolver(IndexResolver):
    default_rank = 60
    api_host = "api.archives-ouvertes.fr"
    EXAMPLES = (
        Example(_WORK, [answer(_found(_DEPOSIT))], [f"{_HAL}/document"]),
        Example(_WORK, [answer(_found(_DEPOSIT | {"fileMain_s": None}))], [f"{_HAL}/file/paper.pdf"]),
        Example(_WORK, [answer(_found({"doiId_s": _WORK.doi, "openAccess_bool": False}))], reason=Reason.NO_CANDIDATE),
        Example(_WORK, [answer(_found(_DEPOSIT | {"doiId_s": "10.5555/other"}))], reason=Reason.NO_CANDIDATE),
        Example(_WORK, [answer(_found())], reason=Reason.NO_CANDIDATE),
        Example(_WORK, [answer({"error": {"msg": "undefined field", "code": 400}})], reason=Reason.BAD_ANSWER),
        Example(Work("W2")),
    )

    def search(self, doi: str, context: ResolverContext) -> Request:
        return batchable_request(doi, _MOST, _search)

    def records(self, data: JsonObject) -> Any:
        return dig(data, "response", "docs")

    def dois(self, record: JsonObject) -> Iterable[Any]:
        return [record.get("doiId_s")]

    def copies(self, record: JsonObject) -> Candidates:
        """The main file, or the first PDF where none is marked as such; a deposit may have no files, or an embargo."""
        if record.get("openAccess_bool") is not True:
            return
        files = [url for url in map(file_url, items(record.get("files_s"))) if url and looks_like_pdf(url)]
        main = file_url(record.get("fileMain_s")) or next(iter(files), None)
        yield from self.file(main, license_=record.get("licence_s"))


def _search(dois: Sequence[str]) -> Request:
    query = f"doiId_s:({' OR '.join(map(phrase, dois))})"
    parameters = urlencode({"q": query, "wt": "json", "fl": _FIELDS, "rows": 5 * len(dois)})
    return api_request(f"https://api.archives-ouvertes.fr/search/?{parameters}")
