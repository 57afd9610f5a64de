"""api.crossref.org: single works, pools and their limits, and the transform behind DOI content negotiation."""

from __future__ import annotations

from ..records import author, crossref
from ..state import SandboxState
from ..universe import Work
from ..wire import Handler, Headers, Request, Response, json_response, redirect, text

_RIS = "application/x-research-info-systems"


def _pool(request: Request) -> tuple[str, int, int]:
    """Return (pool, requests per second, connections)."""
    polite = bool(request.param("mailto")) or "mailto:" in request.headers.get("user-agent", "").lower()
    return ("polite", 10, 3) if polite else ("public", 5, 1)


def hosts(state: SandboxState) -> dict[str, Handler]:
    def find(doi: str) -> Work | None:
        work = state.universe.by_doi(doi)
        return None if work is None or work.is_datacite else work

    def listed(request: Request, headers: Headers) -> Response:
        """Find works by DOI filters; repeated filters are alternatives."""
        filters = [part.partition(":") for part in request.param("filter").split(",") if part]
        rows = request.param("rows", "20")
        if not filters or any(name != "doi" for name, _, _ in filters) or not rows.isdigit() or int(rows) > 1000:
            failure = {
                "type": "filter-not-available",
                "value": request.param("filter"),
                "message": "Filter not available",
            }
            return json_response({"status": "failed", "message-type": "validation-failure", "message": [failure]}, 400)
        works = [work for _, _, doi in filters if (work := find(doi)) is not None][: int(rows)]
        wanted = request.param("select")
        items = [crossref(work, state.scenario_for(work)) for work in works]
        if wanted:
            items = [{name: item[name] for name in wanted.split(",") if name in item} for item in items]
        message = {"total-results": len(works), "items-per-page": int(rows), "items": items}
        return json_response(
            {"status": "ok", "message-type": "work-list", "message-version": "1.0.0", "message": message}, 200, headers
        )

    def answer(request: Request) -> Response:
        pool, rate, connections = _pool(request)
        headers: Headers = [("x-api-pool", f"{pool}-single")]
        if state.windows.enforce:  # announce a limit only when it is enforced
            headers += [("x-rate-limit-limit", str(rate)), ("x-rate-limit-interval", "1s"),
                        ("x-concurrency-limit", str(connections))]  # fmt: skip
        if not state.windows.check(f"crossref-{pool}", rate, 1.0, request):
            return text("Too many requests. Please slow down.", 429, headers=[*headers, ("Retry-After", "1")])
        path = request.path.removeprefix("/v1")
        if path == "/works":
            return listed(request, headers)
        if not path.startswith("/works/"):
            return text("Resource not found.", 404, headers=headers)
        doi, transform, kind = path.removeprefix("/works/").partition("/transform")
        work = find(doi)
        if work is None:
            return text("Resource not found.", 404, "text/plain", headers)
        if transform:
            return _transform(
                work, kind.strip("/") or request.headers.get("accept", ""), crossref(work, state.scenario_for(work))
            )
        message = crossref(work, state.scenario_for(work))
        return json_response(
            {"status": "ok", "message-type": "work", "message-version": "1.0.0", "message": message}, 200, headers
        )

    def chooser(request: Request) -> Response:
        return redirect(f"https://doi.org{request.raw_path}")

    return {"api.crossref.org": answer, "chooser.crossref.org": chooser}


def _transform(work: Work, kind: str, message: dict[str, object]) -> Response:
    if "json" in kind:
        return Response(200, json_response(message).body, "application/vnd.citationstyles.csl+json")
    if "research-info" in kind:
        return text(f"TY  - JOUR\nDO  - {work.doi}\nTI  - {work.title}\nAU  - {author(work)}\nER  - \n", kind=_RIS)
    if "bibtex" in kind:
        return text(
            f"@article{{{work.id}, title={{{work.title}}}, DOI={{{work.doi}}}, year={{{work.year}}}}}\n",
            kind="application/x-bibtex",
        )
    return text("", 406)
