"""doaj.org: article search of the Directory of Open Access Journals. robots.txt allows programs only the API."""

from __future__ import annotations

from typing import Any

from ..indexes import journal_copy, quoted_works
from ..records import author
from ..state import SandboxState
from ..universe import Work
from ..wire import Handler, Request, Response, json_response, not_found, text

_SEARCH = "/api/v4/search/articles/"


def hosts(state: SandboxState) -> dict[str, Handler]:
    def article(work: Work) -> dict[str, Any] | None:
        scenario = state.scenario_for(work)
        copy = journal_copy(scenario)
        if copy is None:
            return None
        links = [{"type": "fulltext", "content_type": "HTML", "url": scenario.doi_url}]
        if copy.pdf:
            links.append({"type": "fulltext", "content_type": "PDF", "url": copy.pdf})
        return {
            "id": f"{work.number:032x}", "created_date": f"{work.date}T00:00:00Z",
            "bibjson": {
                "title": work.title, "year": str(work.year), "author": [{"name": author(work)}], "link": links,
                "journal": {"title": work.publisher.name, "publisher": work.publisher.publisher},
                "identifier": [{"type": "doi", "id": work.doi}]},
        }  # fmt: skip

    def answer(request: Request) -> Response:
        if request.path.startswith("/search"):
            return text("<html><head><title>403 Forbidden</title></head></html>", 403, "text/html")
        if not request.path.startswith(_SEARCH):
            return not_found()
        size = request.param("pageSize", "10")
        if not size.isdigit() or int(size) > 100:
            return json_response({"status": "bad_request", "error": "Page size must be between 1 and 100"}, 400)
        query = request.path.removeprefix(_SEARCH)
        results = [found for work in quoted_works(state.universe, query) if (found := article(work))][: int(size)]
        return json_response(
            {"total": len(results), "page": 1, "pageSize": int(size), "query": query, "results": results}
        )

    return {"doaj.org": answer}
