"""api.semanticscholar.org: single papers and batches. Without a key nearly always 429, without Retry-After."""

from __future__ import annotations

from hashlib import sha1
from typing import Any

import orjson

from ..indexes import is_good_key, open_copies
from ..records import best_location, oa_status
from ..state import SandboxState
from ..universe import Work
from ..wire import Handler, Request, Response, json_response

_PAPER = "/graph/v1/paper/"
_FIELDS = frozenset({"isOpenAccess", "openAccessPdf", "externalIds", "title", "year"})
_MOST = 500
_TOO_MANY = "Too Many Requests. Please wait and try again or apply for a key for higher rate limits."


def hosts(state: SandboxState) -> dict[str, Handler]:
    def find(ident: str) -> Work | None:
        kind, _, value = ident.partition(":")
        lookup = {"DOI": state.universe.by_doi, "ARXIV": state.universe.by_arxiv,
                  "PMID": state.universe.by_pmcid, "PMCID": state.universe.by_pmcid}  # fmt: skip
        return lookup[kind.upper()](value) if kind.upper() in lookup else None

    def batch(request: Request, fields: list[str]) -> Response:
        try:
            ids = [str(ident) for ident in orjson.loads(request.body)["ids"]]
        except (ValueError, KeyError, TypeError):
            return json_response({"error": "Request body must be JSON with a list of ids"}, 400)
        if len(ids) > _MOST:
            return json_response({"error": f"Too many ids: {len(ids)}; at most {_MOST}"}, 400)
        works = [find(ident) for ident in ids]
        if not any(works):
            return json_response({"error": "No valid paper ids given"}, 400)
        return json_response([_paper(state, work, fields) if work else None for work in works])

    def answer(request: Request) -> Response:
        key = request.headers.get("x-api-key", "")
        if key and not is_good_key(key):
            return json_response({"message": "Forbidden"}, 403)
        if not key or not state.windows.check("semantic-scholar", 1, 1.0, request):
            return json_response({"message": _TOO_MANY, "code": "429"}, 429)
        fields = [name for name in request.param("fields").split(",") if name]
        wrong = [name for name in fields if name not in _FIELDS]
        if wrong:
            return json_response({"error": f"Unrecognized or unsupported fields: [{', '.join(wrong)}]"}, 400)
        if request.path == f"{_PAPER}batch":
            return (
                batch(request, fields) if request.method == "POST" else json_response({"message": "Not Allowed"}, 405)
            )
        ident = request.path.removeprefix(_PAPER)
        work = find(ident)
        if work is None:
            return json_response({"error": f"Paper with id {ident} not found"}, 404)
        return json_response(_paper(state, work, fields))

    return {"api.semanticscholar.org": answer}


def _paper(state: SandboxState, work: Work, fields: list[str]) -> dict[str, Any]:
    scenario = state.scenario_for(work)
    copies = open_copies(scenario)
    best = best_location([copy for copy in copies if copy.pdf])
    license_ = (best.license or "").upper().replace("-", "") if best else ""
    everything: dict[str, Any] = {
        "externalIds": {"DOI": work.doi, "CorpusId": work.number}, "title": work.title, "year": work.year,
        "isOpenAccess": bool(copies),
        "openAccessPdf": {"url": best.pdf if best else "", "status": oa_status(scenario, best).upper(),
                          "license": license_ or None, "disclaimer": "Notice: the license is that of the source."},
    }  # fmt: skip
    return {"paperId": sha1(work.id.encode()).hexdigest(), **{name: everything[name] for name in fields}}
