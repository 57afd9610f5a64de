"""api.base-search.net: repository documents for registered callers; others get a plain-text refusal."""

from __future__ import annotations

from typing import Any

from ..indexes import is_good_key, quoted_works, repository_copies
from ..scenario import Location
from ..state import SandboxState
from ..universe import Work
from ..wire import Handler, Request, Response, json_response, not_found, text


def hosts(state: SandboxState) -> dict[str, Handler]:
    def answer(request: Request) -> Response:
        if request.path != "/cgi-bin/BaseHttpSearchInterface.fcgi":
            return not_found()
        if not is_good_key(request.param("apikey")):
            return text("Access denied for IP address 192.0.2.1\n")
        works = quoted_works(state.universe, request.param("query"))
        documents = [_document(work, copy) for work in works for copy in repository_copies(state.scenario_for(work))]
        found = {"numFound": len(documents), "start": 0, "docs": documents}
        return json_response({"responseHeader": {"status": 0, "QTime": 21}, "response": found})

    return {"api.base-search.net": answer}


def _document(work: Work, copy: Location) -> dict[str, Any]:
    return {
        "dcdocid": f"{work.number:x}", "dctitle": work.title, "dcyear": str(work.year), "dcdoi": [work.doi],
        "dclink": copy.landing, "dcoa": 1, "dcprovider": copy.source, "dctypenorm": ["121"],
        "dcidentifier": [u for u in (copy.landing, copy.pdf, f"https://doi.org/{work.doi}") if u],
        **({"dcrightsnorm": copy.license.upper()} if copy.license else {}),
    }  # fmt: skip
