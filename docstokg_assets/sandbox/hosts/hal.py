"""api.archives-ouvertes.fr and hal.science: deposits in the open archive and their files.

The invented Harbor Institute deposits all its papers here. Every second deposit lists its files but no main file.
"""

from __future__ import annotations

from typing import Any

from ..indexes import quoted_works, repository_copies
from ..records import LICENSE_URLS
from ..state import SandboxState
from ..universe import Work
from ..wire import Handler, Request, Response, json_response, not_found


def hosts(state: SandboxState) -> dict[str, Handler]:
    def is_deposited(work: Work) -> bool:
        return any(copy.venue and copy.venue.key == "harbor" for copy in repository_copies(state.scenario_for(work)))

    def search(request: Request) -> Response:
        query = request.param("q")
        name = query.partition(":")[0]
        if request.path != "/search/" or name != "doiId_s":
            return json_response({"error": {"msg": f"undefined field {name}", "code": 400}}, 400)
        deposits = [_deposit(state, work) for work in quoted_works(state.universe, query) if is_deposited(work)]
        deposits = deposits[: int(request.param("rows", "30"))]
        return json_response({"response": {"numFound": len(deposits), "start": 0, "docs": deposits}})

    def files(request: Request) -> Response:
        work = state.universe.find(request.path)
        return state.pdf(work) if work and is_deposited(work) and request.path in _paths(work) else not_found()

    return {"api.archives-ouvertes.fr": search, "hal.science": files}


def _paths(work: Work) -> tuple[str, str]:
    return f"/hal-{work.code}v1/document", f"/hal-{work.code}v1/file/paper.pdf"


def _deposit(state: SandboxState, work: Work) -> dict[str, Any]:
    main, file = (f"https://hal.science{path}" for path in _paths(work))
    deposit: dict[str, Any] = {
        "halId_s": f"hal-{work.code}", "version_i": 1, "uri_s": f"https://hal.science/hal-{work.code}v1",
        "doiId_s": work.doi, "title_s": [work.title], "docType_s": "ART", "openAccess_bool": True, "files_s": [file],
        "submitType_s": "file",
    }  # fmt: skip
    license_ = LICENSE_URLS.get(repository_copies(state.scenario_for(work))[0].license or "")
    if license_:
        deposit["licence_s"] = f"http://creativecommons.org/licenses/{license_.partition('/')[0]}/"
    return deposit | ({"fileMain_s": main} if work.index % 2 else {})
