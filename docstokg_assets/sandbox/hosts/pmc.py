"""PubMed Central and Europe PMC: the cloud bucket, the id converter, article pages behind proof of work, search, PDFs,
XML.
"""

from __future__ import annotations

import re
from hashlib import md5
from typing import Any

from .. import files
from ..records import author
from ..state import SandboxState
from ..universe import Work
from ..wire import Handler, Request, Response, json_response, not_found, redirect, text

_S3 = '<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
_PMCID = re.compile(r"PMC\d+")


def hosts(state: SandboxState) -> dict[str, Handler]:
    return {
        "pmc-oa-opendata.s3.amazonaws.com": _Bucket(state).answer,
        "pmc.ncbi.nlm.nih.gov": _Ncbi(state).answer,
        "www.ncbi.nlm.nih.gov": _Ncbi(state).legacy,
        "www.ebi.ac.uk": _EuropePmc(state).rest,
        "europepmc.org": _EuropePmc(state).site,
    }


class _Bucket:
    """pmc-oa-opendata: list of versions, metadata, files."""

    def __init__(self, state: SandboxState) -> None:
        self._state = state

    def answer(self, request: Request) -> Response:
        if request.path == "/":
            return self._list(request)
        name = _PMCID.search(request.path)
        work = self._state.universe.by_pmcid(name[0]) if name else None
        if work is None or f"{work.pmcid}.1" not in request.path:
            return self._missing()
        if request.path == f"/metadata/{work.pmcid}.1.json":
            return json_response(self._metadata(work))
        if request.path.endswith(".pdf"):
            return self._state.pdf(work, "binary/octet-stream")
        if request.path.endswith(".xml"):
            return self._state.jats(work)
        return self._missing()

    def _missing(self) -> Response:
        return text('<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>NoSuchKey</Code><Message>The specified '
                    'key does not '
                    "exist.</Message></Error>", 404, "application/xml")  # fmt: skip

    def _list(self, request: Request) -> Response:
        prefix = request.param("prefix")
        work = self._state.universe.by_pmcid(prefix.split(".")[0].rstrip("/")) if prefix else None
        keys = [f"<CommonPrefixes><Prefix>{work.pmcid}.1/</Prefix></CommonPrefixes>"] if work else []
        if keys and not f"{work.pmcid if work else ''}.1/".startswith(prefix):
            keys = []
        return text(
            f"{_S3}<Name>pmc-oa-opendata</Name><Prefix>{prefix}</Prefix><KeyCount>{len(keys)}</KeyCount><MaxKeys>1000</MaxKeys>"
            f"<Delimiter>/</Delimiter><IsTruncated>false</IsTruncated>{''.join(keys)}</ListBucketResult>",
            kind="application/xml",
        )

    def _metadata(self, work: Work) -> dict[str, Any]:
        stem = f"s3://pmc-oa-opendata/{work.pmcid}.1/{work.pmcid}.1"
        return {
            "pmcid": work.pmcid, "version": 1, "pmid": work.pmid, "doi": work.doi, "title": work.title,
            "citation": f"{work.publisher.name}. {work.date:%Y %b %d}. doi: {work.doi}", "is_pmc_openaccess": True,
            "is_manuscript": False, "is_historical_ocr": False, "is_retracted": False, "license_code": "CC BY",
            "pdf_url": f"{stem}.pdf?md5={md5(self._state.pdf_bytes(work)).hexdigest()}",
            "xml_url": f"{stem}.xml?md5={md5(files.jats(work)).hexdigest()}", "media_urls": [],
        }  # fmt: skip


class _Ncbi:
    """pmc.ncbi.nlm.nih.gov: article pages, PDFs behind a proof of work, and the id converter."""

    def __init__(self, state: SandboxState) -> None:
        self._state = state

    def answer(self, request: Request) -> Response:
        if request.path.startswith("/tools/idconv/"):
            return self._idconv(request)
        name = _PMCID.search(request.path)
        work = self._state.universe.by_pmcid(name[0]) if name else None
        if work is None:
            return not_found("Page not found")
        if "/pdf" in request.path:
            status, page = files.WALLS["pow"]
            return Response(status, page.encode())
        return Response(
            200, files.landing(work, f"https://pmc.ncbi.nlm.nih.gov/articles/{work.pmcid}/pdf/main.pdf", "meta")
        )

    def legacy(self, request: Request) -> Response:
        if request.path.startswith("/pmc/articles/"):
            name = request.path.removeprefix("/pmc/articles/")
            return redirect(
                f"https://pmc.ncbi.nlm.nih.gov/articles/{'' if name.startswith('PMC') else 'PMC'}{name}", 301
            )
        if request.path.startswith("/pmc/utils/idconv/"):
            return redirect(f"https://pmc.ncbi.nlm.nih.gov/tools/idconv/api/v1/articles/?{request.query}", 301)
        return not_found()

    def _idconv(self, request: Request) -> Response:
        ids = [i for i in request.param("ids").split(",") if i]
        kind = request.param("idtype") or (
            "pmcid" if ids and ids[0].upper().startswith("PMC") else "doi" if "/" in "".join(ids) else "pmid"
        )
        if len(ids) > 200 or (kind == "pmid" and not all(i.isdigit() for i in ids)):
            return self._bad("All values of query param `ids` must be PubMed IDs (Positive Integers).", "invalid_pmids")
        if kind == "doi" and not all("/" in i for i in ids):
            return self._bad("All values of query param `ids` must be DOIs.", "invalid_dois")
        return json_response(
            {"status": "ok", "response-date": "2026-11-16 00:00:00", "records": [self._record(i, kind) for i in ids]}
        )

    def _bad(self, message: str, code: str) -> Response:
        return json_response({"status": "error", "http_status": "400", "http_status_reason": "Bad Request",
                              "errors": [{"message": message, "code": code}]}, 400)  # fmt: skip

    def _record(self, ident: str, kind: str) -> dict[str, Any]:
        universe = self._state.universe
        work = universe.by_doi(ident) if kind == "doi" else universe.by_pmcid(ident)
        if work is None or not work.pmcid:
            return {kind: ident, "requested-id": ident, "status": "error", "errmsg": "Identifier not found in PMC"}
        return {"doi": work.doi, "pmcid": work.pmcid, "pmid": work.pmid, "requested-id": ident}


class _EuropePmc:
    """www.ebi.ac.uk/europepmc (REST) and europepmc.org (PDF rendering)."""

    def __init__(self, state: SandboxState) -> None:
        self._state = state

    def rest(self, request: Request) -> Response:
        path = request.path.removeprefix("/europepmc/webservices/rest/")
        if path == request.path:
            return not_found()
        if path == "search":
            return self._search(request)
        name = _PMCID.match(path)
        work = self._state.universe.by_pmcid(name[0]) if name else None
        if work is None or not path.endswith("/fullTextXML"):
            return Response(404, b"", "application/xml")
        return self._state.jats(work)

    def _search(self, request: Request) -> Response:
        size = request.param("pageSize", "25")
        if not size.isdigit() or not 1 <= int(size) <= 1000:
            return json_response(
                {"errCode": 404, "errMsg": "Invalid page size provided. Valid size is between 1 and 1000"}
            )
        query, mark = request.param("query"), request.param("cursorMark", "*")
        works = self._find(query) if mark == "*" else []
        next_mark = "AoIIP4AAACg0MTk5MDAwMQ=="
        return json_response({
            "version": "6.9", "hitCount": len(works), "nextCursorMark": next_mark,
            "nextPageUrl": f"https://www.ebi.ac.uk/europepmc/webservices/rest/search?query={query}&cursorMark={next_mark}"
                           f"&resultType=core&pageSize={size}&format=json",
            "request": {"queryString": query, "resultType": request.param("resultType", "lite"), "cursorMark": mark,
                        "pageSize": int(size), "sort": "", "synonym": False},
            "resultList": {"result": [self._result(w) for w in works]},
        })  # fmt: skip

    def _find(self, query: str) -> list[Work]:
        universe = self._state.universe
        dois = re.findall(r'DOI:"?([^"\s]+)"?', query, re.IGNORECASE)
        others = re.findall(r'(?:PMCID|EXT_ID|PMID):"?([\w.]+)"?', query, re.IGNORECASE)
        works = [*map(universe.by_doi, dois), *map(universe.by_pmcid, others)]
        return [work for work in works if work and work.pmcid]

    def _result(self, work: Work) -> dict[str, Any]:
        def link(style: str, site: str, url: str, code: str = "OA") -> dict[str, str]:
            return {"availability": "Open access" if code == "OA" else "Subscription required",
                    "availabilityCode": code,
                    "documentStyle": style, "site": site, "url": url}  # fmt: skip

        page = f"https://europepmc.org/articles/{work.pmcid}"
        return {
            "id": str(work.pmid), "source": "MED", "pmid": str(work.pmid), "pmcid": work.pmcid,
            "fullTextIdList": {"fullTextId": [work.pmcid]}, "doi": work.doi, "title": f"{work.title}.",
            "authorString": f"{author(work)}.", "pubYear": str(work.year), "isOpenAccess": "Y", "inEPMC": "Y",
            "inPMC": "Y",
            "hasPDF": "Y", "hasBook": "N", "hasSuppl": "N", "license": "cc by", "authMan": "N", "epmcAuthMan": "N",
            "nihAuthMan": "N", "firstPublicationDate": work.date.isoformat(),
            "fullTextUrlList": {"fullTextUrl": [
                link("html", "Europe_PMC", page), link("pdf", "Europe_PMC", f"{page}?pdf=render"),
                link("doi", "DOI", f"https://doi.org/{work.doi}", "S")]},
        }  # fmt: skip

    def site(self, request: Request) -> Response:
        if request.path == "/api/getPdf":
            work = self._state.universe.by_pmcid(request.param("pmcid"))
            return self._state.pdf(work) if work else not_found()
        name = _PMCID.search(request.path)
        work = self._state.universe.by_pmcid(name[0]) if name else None
        if work is None:
            return not_found()
        if request.param("pdf") == "render":
            return redirect(f"https://europepmc.org/api/getPdf?pmcid={work.pmcid}")
        return Response(200, files.landing(work, f"https://europepmc.org/articles/{work.pmcid}?pdf=render", "meta"))
