"""Zenodo, Figshare, OSF, bioRxiv with medRxiv, DataCite, and the paid files of OpenAlex: their APIs, pages and files.

Each answers for the works that `deposits.py` assigns to it, with the response shapes and errors of the real service.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from .. import files
from ..deposits import DATACITE, DEPOSITS, address
from ..state import SandboxState
from ..universe import Work
from ..wire import Handler, Request, Response, json_response, not_found, redirect

_CONTENT_CREDITS = 100
_LAST = re.compile(r"/([^/]+)/?$")
Json = dict[str, Any]


def hosts(state: SandboxState) -> dict[str, Handler]:
    deposits = _Deposits(state)
    content = _Content(state)
    return {
        "zenodo.org": deposits.zenodo,
        "api.figshare.com": deposits.figshare,
        "ndownloader.figshare.com": deposits.files_of("figshare"),
        "figshare.com": _challenge,
        "api.osf.io": deposits.osf,
        "osf.io": deposits.files_of("osf"),
        "api.biorxiv.org": deposits.biorxiv,
        "www.biorxiv.org": deposits.files_of("biorxiv"),
        "www.medrxiv.org": deposits.files_of("medrxiv"),
        "api.datacite.org": deposits.datacite,
        "theses.northlake-university.example": deposits.files_of("datacite"),
        "content.openalex.org": content.sell,
        "sandbox.r2.cloudflarestorage.com": deposits.files_of("sold"),
    }


def _challenge(request: Request) -> Response:
    """Answer programs as figshare.com's firewall does: 202 with an empty body."""
    return Response(202, b"", "text/html", [("x-amzn-waf-action", "challenge")])


class _Deposits:
    def __init__(self, state: SandboxState) -> None:
        self._state = state

    def _find(self, text: str, *archetypes: str) -> Work | None:
        work = self._state.universe.find(text)
        return work if work is not None and work.archetype in archetypes else None

    def files_of(self, archetype: str) -> Callable[[Request], Response]:
        """Answer for the host that has the pages (which link to no file) and the files."""

        def answer(request: Request) -> Response:
            work = self._find(request.path, archetype)
            if work is None:
                return not_found()
            here = f"https://{request.host}{request.path}"
            if here == address(work, DEPOSITS[archetype].file):
                return self._state.pdf(work)
            return Response(200, files.landing(work, "", "meta"))

        return answer

    def zenodo(self, request: Request) -> Response:
        if not request.path.startswith("/api/records/"):
            return self.files_of("zenodo")(request)
        work = self._find(request.path, "zenodo")
        if work is None:
            return json_response({"status": 404, "message": "The persistent identifier does not exist."}, 404)
        file = address(work, DEPOSITS["zenodo"].file)
        if f"https://{request.host}{request.path}" == file:
            return self._state.pdf(work)
        if not self._state.windows.check("zenodo", 60, 60.0, request):
            return json_response({"status": 429, "message": "60 per 1 minute"}, 429, [("Retry-After", "30")])
        about = {
            "title": work.title,
            "access_right": "open",
            "license": {"id": "cc-by-4.0"},
            "resource_type": {"type": "publication", "subtype": "preprint"},
        }
        listed = [{"key": "paper.pdf", "size": len(self._state.pdf_bytes(work)), "links": {"self": file}}]
        return json_response({"id": int(work.code), "doi": work.doi, "metadata": about, "files": listed})

    def figshare(self, request: Request) -> Response:
        work = self._find(request.path, "figshare")
        if work is None or not request.path.startswith("/v2/articles/"):
            gone = {"message": "Entity not found: ArticlePublic", "code": "EntityNotFound", "data": None}
            return json_response(gone, 404)
        file = {
            "id": int(work.code),
            "name": "paper.pdf",
            "is_link_only": False,
            "mimetype": "application/pdf",
            "download_url": address(work, DEPOSITS["figshare"].file),
        }
        return json_response(
            {
                "id": int(work.code),
                "title": work.title,
                "doi": work.doi,
                "is_embargoed": False,
                "is_metadata_record": False,
                "download_disabled": False,
                "license": {"value": 1, "name": "CC BY 4.0", "url": "https://creativecommons.org/licenses/by/4.0/"},
                "files": [file],
            }
        )

    def osf(self, request: Request) -> Response:
        work = self._find(request.path, "osf")
        if work is None or not request.path.startswith("/v2/preprints/"):
            return json_response({"errors": [{"detail": "Not found."}]}, 404)
        if not self._state.windows.check("osf", 100, 3600.0, request):
            wait = [{"detail": "Request was throttled. Expected available in 3528 seconds."}]
            return json_response({"errors": wait}, 429, [("Retry-After", "3528")])
        file = {"data": {"id": f"{work.code:a>24}", "type": "files"}}
        data = {
            "id": _last(request),
            "type": "preprints",
            "attributes": {"title": work.title, "public": True, "date_withdrawn": None, "version": 2},
            "relationships": {"primary_file": file},
        }
        return json_response({"data": data})

    def biorxiv(self, request: Request) -> Response:
        _, area, server, *_ = (*request.path.split("/"), "", "")
        work = self._find(request.path, server) if area == "details" else None
        if work is None:
            return json_response({"messages": [{"status": "no posts found"}], "collection": []})
        name = DEPOSITS[server].source
        posts = [{"doi": work.doi, "version": v, "license": "cc_by", "server": name, "jatsxml": ""} for v in ("1", "2")]
        return json_response({"messages": [{"status": "ok", "category": "all"}], "collection": posts})

    def datacite(self, request: Request) -> Response:
        doi = request.path.removeprefix("/dois/")
        work = self._state.universe.by_doi(doi)
        if work is None or not doi.startswith(DATACITE):
            return json_response({"errors": [{"status": "404", "title": "The resource does not exist."}]}, 404)
        attributes: Json = {
            "doi": doi,
            "url": self._state.scenario_for(work).doi_url,
            "contentUrl": None,
            "formats": [],
        }
        attributes["rightsList"] = [{"rightsUri": "https://creativecommons.org/licenses/by/4.0/legalcode"}]
        if work.archetype == "datacite":
            attributes |= {"contentUrl": address(work, DEPOSITS["datacite"].file), "formats": ["application/pdf"]}
        return json_response({"data": {"id": doi, "type": "dois", "attributes": attributes}})


class _Content:
    """content.openalex.org: with a key, 100 credits per file and 1 credit for a missing file."""

    def __init__(self, state: SandboxState) -> None:
        self._state = state
        self._credits: dict[str, int] = {}

    def sell(self, request: Request) -> Response:
        key = request.param("api_key")
        if not key.startswith("sandbox-"):
            message = "Content downloads require an API key. Get one free at https://openalex.org/users"
            return json_response({"error": "API key required", "message": message}, 401)
        work = self._state.universe.by_openalex(_last(request).partition(".")[0])
        sold = work is not None and work.archetype == "sold"
        cost = _CONTENT_CREDITS if sold else 1
        self._credits[key] = self._credits.get(key, 0) + cost
        headers = [("X-RateLimit-Credits-Used", str(cost))]
        if work is None or not sold:
            return json_response({"error": "Not found"}, 404, headers)
        return redirect(f"{address(work, DEPOSITS['sold'].file)}?X-Amz-Signature={work.rolls[9]:08x}", headers=headers)


def _last(request: Request) -> str:
    found = _LAST.search(request.path)
    return found[1] if found else ""
