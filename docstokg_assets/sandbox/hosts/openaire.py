"""api.openaire.eu: the graph of research products. The limit is low without a token and high with one."""

from __future__ import annotations

from typing import Any

from ..indexes import bearer, is_good_key, open_copies
from ..state import SandboxState
from ..universe import Work
from ..wire import Handler, Request, Response, json_response

_COARS = "http://vocabularies.coar-repositories.org/documentation/access_rights/"
_OPEN = {"code": "c_abf2", "label": "OPEN", "scheme": _COARS}
_LICENSES = {"cc-by": "CC BY", "cc-by-nc": "CC BY-NC", "cc-by-nc-nd": "CC BY-NC-ND", "cc0": "CC0"}
_TOO_MANY = "Request rate exceeded. Please use authentication to increase the rate limit."


def hosts(state: SandboxState) -> dict[str, Handler]:
    def answer(request: Request) -> Response:
        token = bearer(request)
        if token and not is_good_key(token):
            return json_response({"error": "Unauthorized", "description": "The token is not valid."}, 401)
        name, most = ("openaire-token", 7200) if token else ("openaire-anonymous", 60)
        if not state.windows.check(name, most, 3600.0, request):
            return json_response({"error": "Too many requests", "description": _TOO_MANY}, 429)
        if request.path != "/graph/v3/research-products":
            return json_response({"error": "Not found"}, 404)
        work = state.universe.by_doi(request.param("pid"))
        results = [_product(state, work)] if work else []
        return json_response(
            {"header": {"numFound": len(results), "queryTime": 44, "page": 1, "pageSize": 10}, "results": results}
        )

    return {"api.openaire.eu": answer}


def _product(state: SandboxState, work: Work) -> dict[str, Any]:
    copies = open_copies(state.scenario_for(work))
    instances = [{
        "pids": None, "license": _LICENSES.get(copy.license or ""), "accessRight": _OPEN,
        "type": "Preprint" if copy.version == "submittedVersion" else "Article", "urls": [copy.pdf or copy.landing],
        "refereed": "nonPeerReviewed", "hostedBy": {"key": "opendoar____::01", "value": copy.source},
    } for copy in copies]  # fmt: skip
    return {
        "id": f"doi_dedup___::{work.number:032x}", "type": "publication", "mainTitle": work.title,
        "publicationDate": work.date.isoformat(), "pids": [{"scheme": "doi", "value": work.doi}],
        "bestAccessRight": _OPEN if copies else {"code": "c_14cb", "label": "CLOSED", "scheme": _COARS},
        "instances": instances,
    }  # fmt: skip
