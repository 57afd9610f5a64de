"""api.core.ac.uk (search, needs a key) and core.ac.uk (copies of files, no key)."""

from __future__ import annotations

import datetime as dt
from typing import Any

from ..indexes import bearer, is_good_key, quoted_works, repository_copies
from ..records import author
from ..state import SandboxState
from ..universe import Work
from ..wire import Handler, Request, Response, json_response, not_found, redirect, text


def hosts(state: SandboxState) -> dict[str, Handler]:
    def search(request: Request) -> Response:
        if not request.path.startswith("/v3/search/works"):
            return json_response({"message": "Not found"}, 404)
        if not request.path.endswith("/"):
            return redirect(f"https://{request.host}{request.raw_path}/?{request.query}", 301)
        key = bearer(request)
        if key and not is_good_key(key):
            return json_response({"message": "Unauthorized"}, 401)
        # without a key the shared quota is always used up
        if not key or not state.windows.check("core", 5, 10.0, request):
            later = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=10)
            told = [("X-RateLimitRemaining", "0"), ("X-RateLimit-Retry-After", later.isoformat(timespec="seconds"))]
            return json_response({"message": "Too many requests"}, 429, told)
        if int(request.param("limit", "10")) > 100:
            return text("<html><head><title>504 Gateway Time-out</title></head></html>", 504, "text/html")
        works = quoted_works(state.universe, request.param("q"))
        results = [_result(work, sources) for work in works if (sources := _sources(state, work))]
        results = results[: int(request.param("limit", "10"))]
        return json_response(
            {"totalHits": len(results), "limit": 10, "offset": 0, "scrollId": None, "results": results}
        )

    def download(request: Request) -> Response:
        if request.headers.get("authorization"):
            return text("Bad Request: only one auth mechanism allowed", 400)
        work = state.universe.find(request.path) if request.path.startswith("/download/") else None
        return state.pdf(work) if work and _sources(state, work) else not_found()

    return {"api.core.ac.uk": search, "core.ac.uk": download}


def _sources(state: SandboxState, work: Work) -> list[str]:
    return [copy.pdf for copy in repository_copies(state.scenario_for(work)) if copy.pdf]


def _result(work: Work, sources: list[str]) -> dict[str, Any]:
    download = f"https://core.ac.uk/download/{work.code}.pdf"
    return {
        "id": work.number, "title": work.title, "doi": work.doi, "arxivId": work.arxiv,
        "authors": [{"name": author(work)}], "yearPublished": work.year, "documentType": "research",
        "downloadUrl": download, "sourceFulltextUrls": sources, "fullText": "Not available for public API users.",
        "identifiers": [{"identifier": work.doi, "type": "DOI"}], "links": [{"type": "download", "url": download}],
    }  # fmt: skip
