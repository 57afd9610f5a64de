"""The HTTP API: submit requests, read results, follow events, the history of a work, files, health and metrics."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import PlainTextResponse, Response
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

from docstokg_assets.ingest.history import PREFIX, history_of_request
from docstokg_assets.ingest.records import MAX_REQUEST_BYTES, FileIngestResult, IngestRequest, InvalidRequest
from docstokg_assets.ingest.service import QueueFull
from docstokg_assets.reporting.explain_work import WorkHistory
from docstokg_assets.runs.work_history import TooManyWorks, find_works, history_of
from docstokg_assets.serve import events
from docstokg_assets.serve.access import Refused
from docstokg_assets.serve.bodies import read_body, read_lines
from docstokg_assets.serve.files import file_response
from docstokg_assets.serve.intake import Accepted, LineProblem, StreamAnswer
from docstokg_assets.serve.parts import Parts, parts_of, problem_response
from resources.scope import Lane

router = APIRouter()
MAX_ARRAY = 100
MAX_STREAM_LINES = 1_000_000
_NDJSON = ("application/x-ndjson", "application/jsonl", "application/json-lines")
LaneName = Literal["priority", "daily", "bulk"]
Id = Annotated[str, Path(max_length=200, description="the id of a request, from `POST /ingest`")]


class Problem(BaseModel):
    """An error (RFC 9457)."""

    status: int
    title: str
    detail: str
    problems: list[str] | None = None


def _errors(*codes: int) -> dict[int | str, dict[str, Any]]:
    return {code: {"model": Problem, "description": HTTPStatus(code).phrase} for code in codes}


_BODY = {
    "requestBody": {
        "required": True,
        "description": f"One request; or an array of at most {MAX_ARRAY}; or, as application/x-ndjson, a request on each line, "
        f"up to {MAX_STREAM_LINES:,}.",
        "content": {
            "application/json": {
                "schema": IngestRequest.model_json_schema(),
                "example": {"base_url": "https://doi.org/10.5555/12345678", "ingest_type": "pdf"},
            },
            "application/x-ndjson": {"schema": {"type": "string"}},
        },
    }
}


@router.post(
    "/ingest",
    status_code=202,
    summary="Submit requests",
    response_model=Accepted | list[Accepted | LineProblem] | StreamAnswer,
    responses=_errors(400, 401, 403, 408, 413, 415, 422, 429, 503),
    openapi_extra=_BODY,
)
async def submit(
    request: Request,
    queue: Annotated[LaneName | None, Query(description="default: priority; for a stream bulk")] = None,
) -> Response:
    parts, kind = parts_of(request), request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind in _NDJSON:
        return await _submit_stream(request, parts, Lane[(queue or "bulk").upper()])
    if kind != "application/json":
        detail = "Send application/json, or application/x-ndjson for many requests."
        raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, detail)
    body, lane = await read_body(request, MAX_REQUEST_BYTES), Lane[(queue or "priority").upper()]
    try:
        raw = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Refused(HTTPStatus.BAD_REQUEST, f"The body is not JSON: {error}.") from None
    if isinstance(raw, list):
        return await run_in_threadpool(_submit_array, parts, raw, lane)
    accepted = await run_in_threadpool(parts.intake.submit, raw if isinstance(raw, dict) else body, lane, "http")
    return _accepted(accepted.model_dump(), accepted.id)


def _submit_array(parts: Parts, raw: list[Any], lane: Lane) -> Response:
    if len(raw) > MAX_ARRAY:
        detail = f"An array has at most {MAX_ARRAY} requests; send more as application/x-ndjson."
        raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, detail)
    answers: list[dict[str, Any]] = []
    for number, each in enumerate(raw, 1):
        try:
            answers.append(parts.intake.submit(each, lane, "http").model_dump())
        except InvalidRequest as error:
            answers.append({"line": number, "problems": error.problems})
        except QueueFull as error:
            detail = f"{len(answers)} of {len(raw)} requests were taken. {error}"
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, detail, 60) from None
    return Response(orjson.dumps(answers), HTTPStatus.ACCEPTED, media_type="application/json")


async def _submit_stream(request: Request, parts: Parts, lane: Lane) -> Response:
    stream = parts.intake.begin_stream(lane, "http")
    stored = "{:,} of the requests are stored; send the rest again."
    try:
        async for portion in read_lines(request):
            if stream.lines + len(portion) > MAX_STREAM_LINES:
                detail = f"More than {MAX_STREAM_LINES:,} lines. {stored.format(stream.counts.requests)}"
                raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, detail)
            await run_in_threadpool(stream.add, portion)
    except QueueFull as error:
        detail = f"{error} {stored.format(stream.counts.requests)}"
        raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, detail, 60) from None
    answer = stream.answer()
    if answer.refused and not answer.requests:
        first = [f"line {each.line}: {'; '.join(each.problems)}" for each in answer.problems]
        return problem_response(HTTPStatus.UNPROCESSABLE_ENTITY, "No line is a valid request.", first)
    return _accepted(answer.model_dump())


def _accepted(answer: dict[str, Any], id: str | None = None) -> Response:
    headers = {"location": f"/ingest/{id}"} if id else None
    return Response(orjson.dumps(answer), HTTPStatus.ACCEPTED, headers, media_type="application/json")


@router.get("/ingest/{id}", summary="Read a result", response_model=FileIngestResult, responses=_errors(401, 404))
def result(request: Request, id: Id) -> Response:
    """`status` is `pending` until there is an answer."""
    found = parts_of(request).service.result(id)
    if found is None:
        raise Refused(HTTPStatus.NOT_FOUND, f"There is no ingest request {id[:80]!r}. Submit it first.")
    return Response(found.model_dump_json(), media_type="application/json")


@router.get(
    "/ingest/{id}/events",
    summary="Follow a request",
    response_class=Response,
    responses={200: {"content": {"text/event-stream": {}}}, **_errors(401, 404, 503)},
)
def follow(
    request: Request,
    id: Id,
    after: Annotated[float | None, Query(description="an answer older than this does not count")] = None,
) -> Response:
    """Server-sent events: `request` for each request to a host, with its answer; `result` for each change; `end`."""
    return events.event_stream(parts_of(request), [id], after, events.as_json)


@router.get("/works/{id:path}", summary="Tell the history of a work", responses=_errors(401, 404, 409, 422))
def work(request: Request, id: Annotated[str, Path(max_length=500)]) -> WorkHistory:
    """Every request that was sent for it, the answers, why it ended so, and what one can do, as `content why`. `id`: an OpenAlex
    id, a DOI, an arXiv id, a PMCID, a part of the title, or the id of an ingest request."""
    return find_history(parts_of(request), id)


def find_history(parts: Parts, id: str) -> WorkHistory:
    if id.startswith(PREFIX) and (history := history_of_request(parts.service, id)) is not None:
        return history
    try:
        found = find_works(parts.service.catalog, id)
    except TooManyWorks:
        raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, "This collection is large: give the OpenAlex id.") from None
    if len(found) > 1:
        ids = ", ".join(each.work_id for each in found[:20])
        raise Refused(HTTPStatus.CONFLICT, f"{len(found)} works match; give one of these ids: {ids}.")
    if not found:
        raise Refused(HTTPStatus.NOT_FOUND, f"{id[:80]!r} is not in this collection.")
    return history_of(parts.service.catalog, parts.loaded, found[0])


@router.head("/files/{id}", include_in_schema=False)
@router.get(
    "/files/{id}",
    summary="Download a stored file",
    response_class=Response,
    responses={200: {"content": {"application/pdf": {}, "application/octet-stream": {}}}, **_errors(401, 404, 410)},
)
async def file(request: Request, id: Id) -> Response:
    """The file of an ingest request or of a work, by id, as an attachment."""
    return await file_response(parts_of(request), id, head=request.method == "HEAD")


@router.get("/healthz", summary="Health", response_class=PlainTextResponse)
def health(request: Request) -> PlainTextResponse:
    """`ok`, or 503. Needs no token."""
    return PlainTextResponse("ok") if parts_of(request).is_healthy() else PlainTextResponse("unavailable", 503)


@router.get("/metrics", summary="Metrics for Prometheus", response_class=PlainTextResponse)
def metrics(request: Request) -> PlainTextResponse:
    return PlainTextResponse(parts_of(request).metrics.text(), media_type="text/plain; version=0.0.4")
