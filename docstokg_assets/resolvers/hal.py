"""HAL: files that authors deposited in the French open archive. Queried when known copies failed, for many works at once."""

from __future__ import annotations

from collections.abc import Sequence

import docstokg_assets.resolvers as kit

_MOST = 40  # DOIs in one query; it is part of the URL
_FIELDS = "halId_s,doiId_s,fileMain_s,files_s,licence_s,openAccess_bool"

_WORK = kit.Work("W1", doi="10.5555/peerj.99001")
_HAL = "https://hal.science/hal-04999999v1"
_RIGHTS = {"openAccess_bool": True, "licence_s": "http://creativecommons.org/licenses/by/"}
_FILES = {"fileMain_s": f"{_HAL}/document", "files_s": [f"{_HAL}/file/paper.pdf", f"{_HAL}/file/data.csv"]}
_DEPOSIT = {"doiId_s": "10.5555/peerj.99001", **_RIGHTS, **_FILES}


@kit.register("hal")
class HalResolver(kit.IndexResolver):
    default_rank = 60
    api_host = "api.archives-ouvertes.fr"
    records_at = ("response", "docs")
    doi_key = "doiId_s"
    EXAMPLES = (
        kit.Example(_WORK, [{"response": {"docs": [_DEPOSIT]}}], [f"{_HAL}/document"]),
        kit.Example(_WORK, [{"response": {"docs": [_DEPOSIT | {"fileMain_s": None}]}}], [f"{_HAL}/file/paper.pdf"]),
        kit.Example(_WORK, [{"response": {"docs": [_DEPOSIT | {"openAccess_bool": False}]}}]),
        kit.Example(_WORK, [{"response": {"docs": [_DEPOSIT | {"doiId_s": "10.1/x"}]}}]),
        kit.Example(_WORK, [{"response": {"numFound": 0, "docs": []}}]),
        kit.Example(_WORK, [{"error": {"msg": "undefined field", "code": 400}}], reason=kit.Reason.BAD_ANSWER),
        kit.Example(kit.Work("W2")),
    )

    def search(self, doi: str, context: kit.ResolverContext) -> kit.Request:
        return kit.batchable_request(doi, _MOST, _search)

    def copies(self, record: kit.JsonObject) -> kit.Candidates:
        """The main file, or the first PDF where none is marked as such; a deposit may have no files, or an embargo."""
        if record.get("openAccess_bool") is not True:
            return
        files = [url for url in map(kit.file_url, kit.items(record.get("files_s"))) if url and kit.looks_like_pdf(url)]
        main = kit.file_url(record.get("fileMain_s")) or next(iter(files), None)
        yield from self.file(main, license_=record.get("licence_s"))


def _search(dois: Sequence[str]) -> kit.Request:
    query = {"q": f"doiId_s:({' OR '.join(map(kit.phrase, dois))})", "wt": "json", "fl": _FIELDS, "rows": 5 * len(dois)}
    return kit.api_request("https://api.archives-ouvertes.fr/search/", query)
