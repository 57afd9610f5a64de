"""The interfaces of Elsevier, Wiley and Springer Nature for those with a key: entitled, not entitled, wrong key, quota spent.

Keys of the sandbox begin with `sandbox-`. Elsevier's weekly quota is counted for each key.
"""

from __future__ import annotations

import time
from collections import Counter
from urllib.parse import unquote

from ..files import jats
from ..state import SandboxState
from ..wire import Handler, Request, Response, json_response, not_found, redirect, text

ELSEVIER_QUOTA = 20_000  # requests of a key in a week
_WEEK_S = 7 * 86_400
_CDN = "download.wiley-cdn.example"


def hosts(state: SandboxState) -> dict[str, Handler]:
    return {
        "api.elsevier.com": _Elsevier(state).answer,
        "api.wiley.com": _wiley(state),
        _CDN: _wiley_file(state),
        "api.springernature.com": _springer(state),
    }


def _error(code: str, message: str, status: int, headers: list[tuple[str, str]]) -> Response:
    body = {"service-error": {"status": {"statusCode": code, "statusText": message}}}
    return json_response(body, status, [*headers, ("X-ELS-Status", f"{code} - {message}")])


class _Elsevier:
    def __init__(self, state: SandboxState) -> None:
        self._state = state
        self._used: Counter[str] = Counter()
        self._reset = int(time.time()) + _WEEK_S

    def answer(self, request: Request) -> Response:
        key = request.headers.get("x-els-apikey", "")
        if not key.startswith("sandbox-"):
            return _error("APIKEY_INVALID", "API Key is missing or invalid", 401, [])
        self._used[key] += 1
        left = max(0, (1 if key.endswith("-spent") else ELSEVIER_QUOTA) - self._used[key])
        quota = [("X-RateLimit-Limit", str(ELSEVIER_QUOTA)), ("X-RateLimit-Remaining", str(left))]
        quota.append(("X-RateLimit-Reset", str(self._reset)))
        if key.endswith("-spent") and self._used[key] > 1:
            return _error("QUOTA_EXCEEDED", "Quota Exceeded", 429, quota)
        work = self._state.universe.find(unquote(request.path))
        if work is None or not work.archetype.startswith("elsevier"):
            return _error("RESOURCE_NOT_FOUND", "The resource specified cannot be found.", 404, quota)
        if work.archetype == "elsevier_closed":
            if request.param("view") == "FULL":
                return _error("INVALID_INPUT", "View parameter specified in request is not valid", 400, quota)
            return _error("AUTHORIZATION_ERROR", "NOT_ENTITLED", 403, quota)
        if "xml" in request.headers.get("accept", ""):
            eid = f"<xocs:attachment-eid>1-s2.0-S{work.code}-main.pdf</xocs:attachment-eid>"
            body = f'<full-text-retrieval-response xmlns:xocs="x">{eid}<originalText/></full-text-retrieval-response>'
            return text(body, kind="text/xml", headers=quota)
        preview = work.archetype == "elsevier_preview" and request.path.startswith("/content/article/")
        pdf = self._state.files.odd_pdf(work, "abstract") if preview else self._state.files.whole_pdf(work)
        return Response(200, pdf, "application/pdf", quota)


def _wiley(state: SandboxState) -> Handler:
    def answer(request: Request) -> Response:
        if not request.headers.get("wiley-tdm-client-token", "").startswith("sandbox-"):
            return json_response({"fault": "the token is missing or invalid"}, 401)
        work = state.universe.find(unquote(request.path))
        if work is None or work.archetype != "wiley":
            return json_response({"fault": "no such article, or no access to it"}, 404)
        return redirect(f"https://{_CDN}/{work.code}.pdf")

    return answer


def _wiley_file(state: SandboxState) -> Handler:
    def answer(request: Request) -> Response:
        if "wiley-tdm-client-token" in request.headers:
            return text("sandbox: the token came to another host\n", 599)
        work = state.universe.find(request.path)
        return state.pdf(work) if work is not None else not_found()

    return answer


def _springer(state: SandboxState) -> Handler:
    def answer(request: Request) -> Response:
        if not request.param("api_key").startswith("sandbox-"):
            return json_response({"status": "Fail", "message": "Authentication failed. API key is invalid"}, 401)
        work = state.universe.by_doi(request.param("q").removeprefix("doi:"))
        found = jats(work).decode() if work is not None and work.archetype == "springer" else ""
        article = found[found.find("<article") :] if found else ""
        total = f"<result><total>{1 if article else 0}</total></result>"
        return text(f"<response>{total}<records>{article}</records></response>", kind="application/xml")

    return answer
