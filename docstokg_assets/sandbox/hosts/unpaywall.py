"""api.unpaywall.org: one DOI per request, with the caller's e-mail address; Crossref DOIs only, as in the real service."""

from __future__ import annotations

from ..records import unpaywall
from ..state import SandboxState
from ..wire import Handler, Request, Response, json_response, not_found

_EMAIL = "Please use your own email address in API calls. See http://unpaywall.org/products/api"


def hosts(state: SandboxState) -> dict[str, Handler]:
    def answer(request: Request) -> Response:
        if not request.path.startswith("/v2/"):
            return not_found()
        email = request.param("email")
        if "@" not in email or email.lower().endswith("@example.com"):
            return json_response({"HTTP_status_code": 422, "error": True, "message": _EMAIL}, 422)
        work = state.universe.by_doi(request.path.removeprefix("/v2/").strip().removeprefix("https://doi.org/"))
        if work is None or work.is_datacite:
            return not_found()
        return json_response(unpaywall(work, state.scenario_for(work)))

    return {"api.unpaywall.org": answer}
