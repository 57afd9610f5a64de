"""The ASGI application: endpoints, pages, and how errors are answered."""

from __future__ import annotations

import logging
from http import HTTPStatus
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Scope

from docstokg_assets import __version__
from docstokg_assets.ingest.records import InvalidRequest
from docstokg_assets.serve import api, pages
from docstokg_assets.serve.access import Refused
from docstokg_assets.serve.gate import Gate
from docstokg_assets.serve.parts import Parts, problem_response, refusal
from resources.errors import ExplainedError

log = logging.getLogger(__name__)

_ABOUT = "Save the file behind a URL or an identifier, and learn what happened to a work."


def build_app(parts: Parts) -> ASGIApp:
    app = FastAPI(title="DocsToKG content", version=__version__, description=_ABOUT, docs_url=None, redoc_url=None)
    app.state.parts = parts
    app.include_router(api.router)
    app.include_router(pages.router)
    app.mount("/static", StaticFiles(directory=Path(__file__).parent / "static"))
    app.add_exception_handler(Refused, _on_refused)
    app.add_exception_handler(ExplainedError, _on_explained)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(ClientDisconnect, _on_disconnect)
    app.add_exception_handler(Exception, _on_bug)
    return Gate(app, parts.access, parts.metrics, _explain)


def _explain(
    scope: Scope, status: int, detail: str, problems: list[str] | None = None, retry_after: int | None = None
) -> Response:
    """A page for a browser, JSON for a program."""
    accepts = next((value for name, value in scope["headers"] if name == b"accept"), b"")
    if b"text/html" in accepts:
        return pages.error_page(status, detail)
    return problem_response(status, detail, problems, retry_after)


def _on_refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return _explain(request.scope, error.status, error.detail, retry_after=error.retry_after_s)


def _on_explained(request: Request, error: Exception) -> Response:
    assert isinstance(error, ExplainedError)
    refused, problems = refusal(error), error.problems if isinstance(error, InvalidRequest) else None
    if refused.status == HTTPStatus.SERVICE_UNAVAILABLE:
        log.warning("%s %s: %s", request.method, request.url.path, error)
    return _explain(request.scope, refused.status, refused.detail, problems, refused.retry_after_s)


def _on_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    problems = [f"{'.'.join(str(part) for part in each['loc'])}: {each['msg']}" for each in error.errors()]
    return _explain(request.scope, HTTPStatus.UNPROCESSABLE_ENTITY, "; ".join(problems), problems)


def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    response = _explain(request.scope, error.status_code, f"{error.detail}: {request.method} {request.url.path}.")
    for name, value in (error.headers or {}).items():
        response.headers[name] = value
    return response


def _on_disconnect(request: Request, error: Exception) -> Response:
    """The client went away while it sent its request; nobody reads the answer."""
    return Response(status_code=400)


def _on_bug(request: Request, error: Exception) -> Response:
    return _explain(request.scope, HTTPStatus.INTERNAL_SERVER_ERROR, "A fault of the server; its log has the details.")
