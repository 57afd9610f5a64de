"""The gRPC service: the same requests, results, events and histories as over HTTP. `proto/ingest.proto` describes it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from http import HTTPStatus
from itertools import islice
from threading import BoundedSemaphore
from typing import Any, NoReturn
from urllib.parse import unquote

import grpc
import orjson
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from docstokg_assets.config.serve import ServeSettings
from docstokg_assets.ingest.records import MAX_REQUEST_BYTES, FileIngestResult, InvalidRequest
from docstokg_assets.reporting.explain_work import RequestSummary
from docstokg_assets.serve.access import Refused
from docstokg_assets.serve.api import MAX_STREAM_LINES, find_history
from docstokg_assets.serve.http_server import ServerError
from docstokg_assets.serve.parts import Parts, refusal
from docstokg_assets.serve.progress import UnknownRequest
from docstokg_assets.serve.proto import ingest_pb2 as pb
from docstokg_assets.serve.proto import ingest_pb2_grpc
from resources.errors import ExplainedError
from resources.scope import Lane

SERVICE = pb.DESCRIPTOR.services_by_name["Ingest"].full_name
_THREADS = 48
MAX_LONG_CALLS = 32  # watches and streams at once; each holds a thread
_PORTION = 2_000
_LOOK_S = 0.5
_LANES: Mapping[int, Lane] = {pb.QUEUE_PRIORITY: Lane.PRIORITY, pb.QUEUE_DAILY: Lane.DAILY, pb.QUEUE_BULK: Lane.BULK}
_PLAIN = ("ingest_type", "link_source", "link_source_id", "ingest_request_source", "release_stage", "rel", "oa_status")
_CODES = {
    HTTPStatus.UNAUTHORIZED: grpc.StatusCode.UNAUTHENTICATED,
    HTTPStatus.FORBIDDEN: grpc.StatusCode.PERMISSION_DENIED,
    HTTPStatus.NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    HTTPStatus.CONFLICT: grpc.StatusCode.FAILED_PRECONDITION,
    HTTPStatus.UNPROCESSABLE_ENTITY: grpc.StatusCode.INVALID_ARGUMENT,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: grpc.StatusCode.INVALID_ARGUMENT,
    HTTPStatus.TOO_MANY_REQUESTS: grpc.StatusCode.RESOURCE_EXHAUSTED,
}


class GrpcServer:
    def __init__(self, parts: Parts, settings: ServeSettings) -> None:
        """ServerError when the port or the certificate cannot be used."""
        self._server = grpc.server(
            ThreadPoolExecutor(_THREADS, "grpc"),
            interceptors=[_Gate(parts)],
            maximum_concurrent_rpcs=4 * _THREADS,
            options=[
                ("grpc.so_reuseport", 0),  # two servers must not share a port unnoticed
                ("grpc.max_receive_message_length", MAX_REQUEST_BYTES + 100_000),
            ],
        )
        ingest_pb2_grpc.add_IngestServicer_to_server(IngestServicer(parts), self._server)  # type: ignore[no-untyped-call]
        health_pb2_grpc.add_HealthServicer_to_server(_Health(parts), self._server)
        reflection.enable_server_reflection((SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME), self._server)
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        self.port = self._bind(f"{host}:{settings.grpc_port}", settings)

    def _bind(self, address: str, settings: ServeSettings) -> int:
        try:
            if settings.tls_cert is None or settings.tls_key is None:
                return int(self._server.add_insecure_port(address))
            pair = settings.tls_key.read_bytes(), settings.tls_cert.read_bytes()
            return int(self._server.add_secure_port(address, grpc.ssl_server_credentials([pair])))
        except (RuntimeError, OSError) as error:
            remedy = "Choose another serve.grpc_port, and check serve.tls_cert"
            raise ServerError(f"gRPC cannot listen on {address}: {error}. {remedy}.") from None

    def start(self) -> None:
        self._server.start()

    def stop(self) -> None:
        self._server.stop(grace=2).wait(10)


class IngestServicer(ingest_pb2_grpc.IngestServicer):
    def __init__(self, parts: Parts) -> None:
        self._parts, self._long_calls = parts, BoundedSemaphore(MAX_LONG_CALLS)

    def Submit(self, request: pb.SubmitRequest, context: grpc.ServicerContext) -> pb.SubmitReply:
        lane = _LANES.get(request.queue, Lane.PRIORITY)
        accepted = self._parts.intake.submit(request_of(request), lane, "grpc")
        return pb.SubmitReply(**accepted.model_dump(exclude_none=True))

    def SubmitStream(self, requests: Iterator[pb.SubmitRequest], context: grpc.ServicerContext) -> pb.SubmitStreamReply:
        with _held(self._long_calls):
            first = next(requests, None)
            lane = _LANES.get(first.queue if first is not None else 0, Lane.BULK)
            stream = self._parts.intake.begin_stream(lane, "grpc")
            portion = [first] if first is not None else []
            while portion:
                portion += islice(requests, _PORTION - len(portion))
                if not context.is_active():  # the client went away: the last portion may lack its end
                    break
                if stream.lines + len(portion) > MAX_STREAM_LINES:
                    detail = f"More than {MAX_STREAM_LINES:,} requests; {stream.counts.requests:,} are stored."
                    raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, detail)
                stream.add([_mapping_or_problem(each) for each in portion])
                portion = list(islice(requests, 1))
        answer = stream.answer().model_dump()
        problems = [pb.Problem(number=each["line"], problems=each["problems"]) for each in answer.pop("problems")]
        return pb.SubmitStreamReply(**answer, problems=problems)

    def GetResult(self, request: pb.RequestId, context: grpc.ServicerContext) -> pb.Result:
        found = self._parts.service.result(request.id[:200])
        if found is None:
            raise UnknownRequest(f"There is no ingest request {request.id[:80]!r}. Submit it first.")
        return _result(found)

    def Watch(self, request: pb.RequestId, context: grpc.ServicerContext) -> Iterator[pb.Event]:
        hub, after = self._parts.hub, request.after if request.HasField("after") else None
        with _held(self._long_calls), hub.watch(request.id[:200], after) as watched:
            version = sent = 0
            while context.is_active() and not hub.is_stopping:
                if watched.version > version:
                    version, result, requests = watched.version, watched.result, watched.requests
                    for each in requests[sent:]:
                        yield pb.Event(request=_host_request(each))
                    sent = len(requests)
                    yield pb.Event(result=_result(result))
                    if result.is_final:
                        return
                hub.wait(watched, version, _LOOK_S, lambda: not context.is_active())

    def GetStory(self, request: pb.WorkId, context: grpc.ServicerContext) -> pb.Story:
        history = find_history(self._parts, request.id[:500])
        fields = {name: getattr(history, name) for name in ("work_id", "title", "ending", "reason")}
        tries = [_host_request(each) for each in history.tries]
        return pb.Story(**fields, tries=tries, why=history.why, help=history.help)


def request_of(message: pb.SubmitRequest) -> dict[str, Any]:
    """The message as a JSON object, for the validation that all ways in share. Refused for text that is no JSON object."""
    raw: dict[str, Any] = _object(message, "extra_json") or {}
    raw["base_url"] = message.base_url
    for name in (*_PLAIN, "force_recrawl", "max_age_days"):
        if message.HasField(name):
            raw[name] = getattr(message, name)
    for name in ("edit_extra", "fatcat"):
        if (given := _object(message, f"{name}_json")) is not None:
            raw[name] = given
    if message.ext_ids:
        raw["ext_ids"] = dict(message.ext_ids)
    return raw


def _object(message: pb.SubmitRequest, field: str) -> dict[str, Any] | None:
    if not message.HasField(field):
        return None
    try:
        value = orjson.loads(getattr(message, field))
    except orjson.JSONDecodeError as error:
        raise InvalidRequest([f"{field}: not JSON: {error}"]) from None
    if not isinstance(value, dict):
        raise InvalidRequest([f"{field}: not a JSON object"])
    return value


def _mapping_or_problem(message: pb.SubmitRequest) -> Any:
    """As `request_of`; what is no request becomes one that validation refuses, in its place in the stream."""
    try:
        return request_of(message)
    except InvalidRequest as error:
        return error


def _result(result: FileIngestResult) -> pb.Result:
    fields: dict[str, Any] = {name: getattr(result, name) for name in ("id", "status", "hit", "error_message")}
    fields |= {"archive_url": result.archive_url, "next_try": result.next_try}
    if result.terminal is not None:
        fields |= {"terminal_url": result.terminal.terminal_url, "terminal_dt": result.terminal.terminal_dt}
    if (meta := result.file_meta) is not None:
        fields |= {"sha256hex": meta.sha256hex, "size_bytes": meta.size_bytes, "mimetype": meta.mimetype}
    return pb.Result(**fields, json=result.model_dump_json())


def _host_request(summary: RequestSummary) -> pb.HostRequest:
    return pb.HostRequest(**asdict(summary))


class _held:
    """One of the long calls that may run at once; Refused when there are too many."""

    def __init__(self, places: BoundedSemaphore) -> None:
        self._places = places

    def __enter__(self) -> None:
        if not self._places.acquire(blocking=False):
            detail = f"{MAX_LONG_CALLS} watches and streams are open. Try again later, or ask for the result."
            raise Refused(HTTPStatus.TOO_MANY_REQUESTS, detail)

    def __exit__(self, *_: object) -> None:
        self._places.release()


class _Health(health.HealthServicer):  # type: ignore[misc]
    """Says at each question whether the catalog answers and the engine runs."""

    def __init__(self, parts: Parts) -> None:
        super().__init__()
        self._parts = parts

    def Check(self, request: Any, context: grpc.ServicerContext) -> Any:
        status = health_pb2.HealthCheckResponse
        now = status.SERVING if self._parts.is_healthy() else status.NOT_SERVING
        for name in ("", SERVICE):
            self.set(name, now)
        return super().Check(request, context)


class _Gate(grpc.ServerInterceptor):  # type: ignore[misc]
    """Checks the caller of everything but the health service, and turns errors into status codes."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def intercept_service(self, continuation: Callable[[Any], Any], details: Any) -> Any:
        handler = continuation(details)
        if handler is None or details.method.startswith(f"/{health.SERVICE_NAME}/"):
            return handler
        kinds = (handler.request_streaming, handler.response_streaming)
        make = {
            (False, False): grpc.unary_unary_rpc_method_handler,
            (False, True): grpc.unary_stream_rpc_method_handler,
            (True, False): grpc.stream_unary_rpc_method_handler,
            (True, True): grpc.stream_stream_rpc_method_handler,
        }[kinds]
        names = ("unary_unary", "unary_stream", "stream_unary", "stream_stream")
        inner = next(found for name in names if (found := getattr(handler, name)) is not None)
        wrapped = self._streaming(inner) if handler.response_streaming else self._unary(inner)
        return make(wrapped, handler.request_deserializer, handler.response_serializer)

    def _unary(self, inner: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(inner)
        def answer(request: Any, context: grpc.ServicerContext) -> Any:
            try:
                self._admit(context)
                return inner(request, context)
            except (Refused, ExplainedError) as error:
                _abort(context, error)

        return answer

    def _streaming(self, inner: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(inner)
        def answer(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
            try:
                self._admit(context)
                yield from inner(request, context)
            except (Refused, ExplainedError) as error:
                _abort(context, error)

        return answer

    def _admit(self, context: grpc.ServicerContext) -> None:
        metadata = {name: value for name, value in context.invocation_metadata() if isinstance(value, str)}
        self._parts.access.admit_grpc(_address(context.peer()), metadata.get("authorization", ""))


def _abort(context: grpc.ServicerContext, error: Refused | ExplainedError) -> NoReturn:
    if isinstance(error, ExplainedError):
        full = refusal(error).retry_after_s == 60  # a full queue is the caller's to wait for; other faults are ours
        error = Refused(HTTPStatus.TOO_MANY_REQUESTS, str(error)) if full else refusal(error)
    context.abort(_CODES.get(error.status, grpc.StatusCode.UNAVAILABLE), error.detail)
    raise AssertionError("abort raises")


def _address(peer: str) -> str:
    """The address in `ipv4:127.0.0.1:5000` or `ipv6:[::1]:5000`."""
    return unquote(peer).partition(":")[2].rpartition(":")[0].strip("[]")
