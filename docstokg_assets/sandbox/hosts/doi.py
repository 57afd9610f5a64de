"""doi.org: resolution, the handle API, the registration agency, and content negotiation for clients that do not accept HTML."""

from __future__ import annotations

import datetime as dt
from urllib.parse import quote

from ..state import SandboxState
from ..wire import Handler, Request, Response, http_date, json_response, redirect, text

_NOT_FOUND = ("<!DOCTYPE html><html><head><title>Error: DOI Not Found</title></head><body><h1>DOI Not Found</h1>"
              "<p>This DOI "
              "cannot be found in the DOI System.</p></body></html>")  # fmt: skip


def _wants_metadata(accept: str) -> bool:
    first = accept.split(",")[0].split(";")[0].strip().lower()
    return first.startswith("application/") and first not in ("application/xhtml+xml",)


def hosts(state: SandboxState) -> dict[str, Handler]:
    universe = state.universe

    def agency(doi: str) -> Response:
        work = universe.by_doi(doi)
        if work is None:
            return json_response([{"DOI": doi, "status": "DOI does not exist"}])
        return json_response([{"DOI": doi, "RA": "DataCite" if work.is_datacite else "Crossref"}])

    def handle(doi: str) -> Response:
        work = universe.by_doi(doi)
        if work is None:
            return json_response({"responseCode": 100, "handle": doi}, 404)
        value = {"index": 1, "type": "URL", "data": {"format": "string", "value": state.scenario_for(work).doi_url},
                 "ttl": 86400,
                 "timestamp": f"{work.date}T09:00:00Z"}  # fmt: skip
        return json_response({"responseCode": 1, "handle": doi, "values": [value]})

    def answer(request: Request) -> Response:
        path = request.path.lstrip("/")
        if path.startswith("doiRA/"):
            return agency(path.removeprefix("doiRA/"))
        if path.startswith("api/handles/"):
            return handle(path.removeprefix("api/handles/"))
        work = universe.by_doi(path)
        if work is None or not state.scenario_for(work).doi_url:
            return text(_NOT_FOUND, 404, "text/html;charset=utf-8")
        if _wants_metadata(request.headers.get("accept", "")):
            if work.is_datacite:
                return text("", 406)
            return redirect(f"https://api.crossref.org/v1/works/{quote(work.doi or '', safe='')}/transform",
                            headers=[("Vary", "Accept")])  # fmt: skip
        url = state.scenario_for(work).doi_url
        return redirect(url, headers=[("Vary", "Accept"), ("Expires", http_date(_noon(work.year)))])

    def to_https(request: Request) -> Response:
        return redirect(f"https://doi.org{request.raw_path}", 301)

    return {"doi.org": answer, "www.doi.org": to_https, "dx.doi.org": to_https}


def _noon(year: int) -> dt.datetime:
    return dt.datetime(year + 1, 1, 1, 12)
