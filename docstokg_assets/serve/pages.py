"""The pages: "Save a paper", what became of requests, the history of a work, the API, and the log-in with a token.

They work without script; with it, `static/serve.js` replaces the parts that change as events come.
"""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qs, urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.concurrency import run_in_threadpool

from docstokg_assets.ingest.records import SEARCHED_TYPES, FileIngestResult, InvalidRequest, request_for
from docstokg_assets.ingest.service import QueueFull
from docstokg_assets.ingest.statuses import STATUSES
from docstokg_assets.serve import events
from docstokg_assets.serve.access import SESSION_COOKIE, VISIT_COOKIE, Caller, Refused
from docstokg_assets.serve.api import find_history
from docstokg_assets.serve.bodies import read_body
from docstokg_assets.serve.parts import Parts, parts_of
from docstokg_assets.serve.progress import UnknownRequest, Watched
from resources.scope import Lane

router = APIRouter(include_in_schema=False)
MAX_FORM_BYTES = 100_000
_SESSION_S = 12 * 3600
_Ids = Annotated[list[str], Query(alias="id", max_length=events.MAX_IDS)]


def _time(moment: float | None) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M UTC") if moment else ""


def _size(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{max(1, round(size / 1e3))} kB"


_templates = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.filters |= {"time": _time, "size": _size}


def _page(name: str, status: int = 200, **values: Any) -> HTMLResponse:
    return HTMLResponse(_templates.get_template(name).render(**values), status)


def error_page(status: int, detail: str) -> HTMLResponse:
    return _page("error.html", status, title=HTTPStatus(status).phrase, detail=detail)


# -- save a paper ------------------------------------------------------------------------------------------------------


@router.get("/")
def form(request: Request) -> Response:
    return _form(request)


def _form(request: Request, status: int = 200, text: str = "", problems: list[str] | None = None) -> Response:
    """The form, with a cookie that ties it to this browser."""
    parts, visit = parts_of(request), request.state.cookies.get(VISIT_COOKIE) or secrets.token_urlsafe(16)
    works = parts.worker is not None
    csrf = parts.access.csrf_token(visit)
    response = _page(
        "save.html", status, csrf=csrf, text=text, problems=problems or [], works=works, types=SEARCHED_TYPES
    )
    _set_cookie(request, response, VISIT_COOKIE, visit)
    return response


def _set_cookie(request: Request, response: Response, name: str, value: str, seconds: int | None = None) -> None:
    caller: Caller = request.state.caller
    response.set_cookie(name, value, seconds, httponly=True, samesite="strict", secure=caller.https)


@router.post("/")
async def save(request: Request) -> Response:
    """Take the lines of the form: all of them, or, where one is wrong, none."""
    parts, given = parts_of(request), await _form_fields(request)
    lines = [line.strip() for line in given.get("wanted", "").splitlines() if line.strip()]
    if not lines:
        return _form(request, 422, problems=["Paste at least one DOI or URL."])
    if len(lines) > events.MAX_IDS:
        most = f"At most {events.MAX_IDS} lines at once; for more use the API."
        return _form(request, 422, given["wanted"], [most])
    try:
        ids, after = await run_in_threadpool(_submit_lines, parts, lines, given)
    except InvalidRequest as error:
        return _form(request, 422, given["wanted"], error.problems)
    except QueueFull as error:
        return _form(request, 503, given["wanted"], [str(error)])
    query = [("id", id) for id in ids] + ([("after", str(after))] if after else [])
    return RedirectResponse(f"/saved?{urlencode(query)}", 303)


def _submit_lines(parts: Parts, lines: list[str], given: dict[str, str]) -> tuple[list[str], float | None]:
    fields: dict[str, Any] = {"ingest_type": given.get("type", "pdf"), "ingest_request_source": "savepapernow-web"}
    if given.get("again"):
        fields["force_recrawl"] = True
    problems, requests = [], []
    for line in lines:
        try:
            wanted = request_for(line, **fields)
            parts.service.validate(wanted)
            requests.append(wanted)
        except InvalidRequest as error:
            problems.append(f"{line[:80]}: {'; '.join(error.problems)}")
    if problems:
        raise InvalidRequest(problems)
    accepted = [parts.intake.submit(wanted, Lane.PRIORITY, "page") for wanted in requests]
    return list(dict.fromkeys(each.id for each in accepted)), min((a.after for a in accepted if a.after), default=None)


async def _form_fields(request: Request) -> dict[str, str]:
    """The fields of a form that this server made for this browser."""
    if not request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Send the form as application/x-www-form-urlencoded.")
    body = await read_body(request, MAX_FORM_BYTES)
    fields = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=20)
    given = {name: values[0] for name, values in fields.items()}
    parts_of(request).access.check_csrf(request.state.cookies.get(VISIT_COOKIE, ""), given.get("csrf", ""))
    return given


# -- what became of it -------------------------------------------------------------------------------------------------


@router.get("/saved")
def saved(request: Request, ids: _Ids, after: float | None = None) -> Response:
    """The requests with these ids, as they are now. Without script the page reloads itself while one is open."""
    parts, cards = parts_of(request), []
    for id in dict.fromkeys(ids):
        try:
            with parts.hub.watch(id, after) as watched:
                cards.append(_card(watched))
        except UnknownRequest:
            raise Refused(HTTPStatus.NOT_FOUND, f"There is no ingest request {id[:80]!r}.") from None
    query = [("id", id) for id in ids] + ([("after", str(after))] if after else [])
    is_open = any(not card["result"].is_final for card in cards)
    return _page("saved.html", cards=cards, is_open=is_open, events=f"/saved/events?{urlencode(query)}")


@router.get("/saved/events")
def saved_events(request: Request, ids: _Ids, after: float | None = None) -> Response:
    return events.event_stream(parts_of(request), ids, after, _as_html)


def _as_html(watched: Watched, sent: int) -> list[tuple[str, str]]:
    return [("card", _templates.get_template("card.html").render(card=_card(watched)))]


def _card(watched: Watched) -> dict[str, Any]:
    result = watched.result
    rule = STATUSES.get(result.status)
    meaning = rule.meaning if rule else ""
    detail = (result.error_message or "").removeprefix(meaning.rstrip(".")).lstrip(".; ")  # the page says that already
    return {
        "result": result,
        "name": _name(result),
        "tries": watched.requests,
        "meaning": meaning,
        "detail": detail,
    }


def _name(result: FileIngestResult) -> str:
    """The identifier that was asked for, or the URL."""
    request = result.request
    known = request.get("ext_ids") or {}
    first = next((str(known[kind]) for kind in ("doi", "arxiv", "pmcid") if known.get(kind)), None)
    return first or str(request["base_url"])


@router.get("/story/{id:path}")
def story(request: Request, id: str) -> Response:
    return _page("story.html", history=find_history(parts_of(request), id))


# -- log in, and the API -----------------------------------------------------------------------------------------------


@router.get("/login")
def login(request: Request, next: str = "/") -> Response:
    return _login(request, next)


def _login(request: Request, next: str, status: int = 200, problem: str = "") -> Response:
    visit = request.state.cookies.get(VISIT_COOKIE) or secrets.token_urlsafe(16)
    csrf = parts_of(request).access.csrf_token(visit)
    response = _page("login.html", status, csrf=csrf, next=_local(next), problem=problem)
    _set_cookie(request, response, VISIT_COOKIE, visit)
    return response


@router.post("/login")
async def log_in(request: Request) -> Response:
    given = await _form_fields(request)
    caller: Caller = request.state.caller
    try:
        session = parts_of(request).access.new_session(given.get("token", ""), caller.address)
    except Refused as refused:
        return _login(request, given.get("next", "/"), refused.status, refused.detail)
    response = RedirectResponse(_local(given.get("next", "/")), 303)
    _set_cookie(request, response, SESSION_COOKIE, session, _SESSION_S)
    return response


def _local(target: str) -> str:
    """A path of this server; anything else becomes the start page."""
    return target if target.startswith("/") and not target.startswith(("//", "/\\")) else "/"


@router.get("/docs")
def docs(request: Request) -> Response:
    """The OpenAPI description as a page of our own: the usual viewers load script from other sites."""
    described = request.app.openapi()
    calls = [
        {"path": path, "method": method.upper(), **call}
        for path, methods in described["paths"].items()
        for method, call in methods.items()
    ]
    return _page("docs.html", calls=calls, schemas=described["components"]["schemas"], about=described["info"])
