"""The gRPC service on a real server: the answers of HTTP, deadlines, cancellation, health, reflection, tokens and TLS."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from docstokg_assets.sandbox import Sandbox
from docstokg_assets.serve.grpc_server import MAX_LONG_CALLS, SERVICE
from docstokg_assets.serve.proto import ingest_pb2 as pb
from docstokg_assets.serve.proto.ingest_pb2_grpc import IngestStub
from docstokg_assets.serve.server import Running
from docstokg_assets_tests.serve.conftest import Start

URL = "https://journal.press.org/article/1.pdf"
TOKEN = "a-token-of-thirty-two-characters"
Connect = Callable[..., IngestStub]


@pytest.fixture
def connect() -> Iterator[Connect]:
    with ExitStack() as stack:

        def opened(running: Running) -> IngestStub:
            assert running.grpc is not None
            return IngestStub(stack.enter_context(grpc.insecure_channel(f"127.0.0.1:{running.grpc.port}")))

        yield opened


def code_of(call: Callable[[], Any]) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.RpcError) as caught:
        call()
    return caught.value.code(), caught.value.details()


def wait_for_no_watchers(running: Running) -> None:
    deadline = time.monotonic() + 20
    while running.parts.hub.count:
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.requirement("ING-8")
@pytest.mark.requirement("ORC-7")
def test_a_request_is_submitted_watched_and_answered_as_over_http(
    start: Start, connect: Connect, small_sandbox: Sandbox
) -> None:
    small_sandbox.place({"url": URL, "pdf": 1})
    running = start(with_grpc=True)
    stub = connect(running)
    extra = '{"evidence": {"n": 1, "big": 9007199254740993}}'
    reply = stub.Submit(pb.SubmitRequest(base_url=URL, ext_ids={"doi": "10.5555/1"}, edit_extra_json=extra), timeout=30)
    assert reply.new
    events = list(stub.Watch(pb.RequestId(id=reply.id), timeout=60))
    assert {event.request.host for event in events if event.HasField("request")} >= {"journal.press.org"}
    final = events[-1].result
    assert (final.status, final.hit, final.mimetype) == ("success", True, "application/pdf")
    same = httpx.get(f"{running.url}/ingest/{reply.id}", trust_env=False)
    assert json.loads(final.json) == same.json()
    assert same.json()["request"]["edit_extra"] == json.loads(extra)
    assert stub.GetResult(pb.RequestId(id=reply.id), timeout=30) == final
    again = httpx.post(f"{running.url}/ingest", json=same.json()["request"], trust_env=False).json()
    assert (again["id"], again["new"]) == (reply.id, False)
    story = stub.GetStory(pb.WorkId(id=reply.id), timeout=30)
    assert "downloaded" in story.ending
    assert story.tries


@pytest.mark.requirement("ING-8")
def test_bad_requests_get_a_status_code_and_the_problems(start: Start, connect: Connect) -> None:
    stub = connect(start(work=False, with_grpc=True, ingest__max_open=1))
    invalid = grpc.StatusCode.INVALID_ARGUMENT
    for wrong, said in (
        (pb.SubmitRequest(), "base_url"),
        (pb.SubmitRequest(base_url="http://127.0.0.1/"), "base_url"),
        (pb.SubmitRequest(base_url=URL, max_age_days=-1), "max_age_days"),
        (pb.SubmitRequest(base_url=URL, edit_extra_json="{"), "edit_extra_json"),
        (pb.SubmitRequest(base_url=URL, extra_json="[1]"), "extra_json"),
    ):
        code, detail = code_of(lambda wrong=wrong: stub.Submit(wrong, timeout=30))
        assert (code, said in detail) == (invalid, True), detail
    for ask in (stub.GetResult, lambda each, timeout: next(stub.Watch(each, timeout=timeout))):
        assert code_of(lambda ask=ask: ask(pb.RequestId(id="ingest-0-0"), timeout=30))[0] == grpc.StatusCode.NOT_FOUND
    assert code_of(lambda: stub.GetStory(pb.WorkId(id="W1"), timeout=30))[0] == grpc.StatusCode.NOT_FOUND
    huge = pb.SubmitRequest(base_url=URL, edit_extra_json=json.dumps({"x": "y" * 10_000_000}))
    assert code_of(lambda: stub.Submit(huge, timeout=30))[0] == grpc.StatusCode.RESOURCE_EXHAUSTED
    stub.Submit(pb.SubmitRequest(base_url=URL), timeout=30)
    code, detail = code_of(lambda: stub.Submit(pb.SubmitRequest(base_url=f"{URL}?2"), timeout=30))
    assert code == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "ingest.max_open" in detail


@pytest.mark.requirement("ING-8")
def test_a_stream_of_many_requests_is_stored_and_bad_ones_are_named(start: Start, connect: Connect) -> None:
    running, count = start(work=False, with_grpc=True), 10_000
    stub = connect(running)

    def requests() -> Iterator[pb.SubmitRequest]:
        for number in range(count):
            wrong = {5: "ftp://x", 6: URL}.get(number)
            broken = "{" if number == 6 else None
            url = wrong or f"https://bulk.example.org/{number}.pdf"
            yield pb.SubmitRequest(base_url=url, edit_extra_json=broken)

    reply = stub.SubmitStream(requests(), timeout=120)
    assert (reply.requests, reply.new, reply.refused) == (count - 2, count - 2, 2)
    assert [problem.number for problem in reply.problems] == [6, 7]
    assert "edit_extra_json" in reply.problems[1].problems[0]
    assert running.parts.service.catalog.open_ingest_items(100_000) == count - 2


def test_a_deadline_ends_a_watch_and_a_cancelled_one_is_forgotten(start: Start, connect: Connect) -> None:
    running = start(work=False, with_grpc=True)
    stub = connect(running)
    id = stub.Submit(pb.SubmitRequest(base_url=URL), timeout=30).id
    code, _ = code_of(lambda: list(stub.Watch(pb.RequestId(id=id), timeout=1)))
    assert code == grpc.StatusCode.DEADLINE_EXCEEDED
    wait_for_no_watchers(running)
    watches = [stub.Watch(pb.RequestId(id=id), timeout=60) for _ in range(MAX_LONG_CALLS)]
    for watch in watches:
        assert next(watch).result.status == "pending"
    code, detail = code_of(lambda: next(stub.Watch(pb.RequestId(id=id), timeout=60)))
    assert (code, "watches" in detail) == (grpc.StatusCode.RESOURCE_EXHAUSTED, True)
    assert stub.GetResult(pb.RequestId(id=id), timeout=30).status == "pending"  # others are answered meanwhile
    for watch in watches:
        watch.cancel()
    wait_for_no_watchers(running)


def test_health_and_reflection_answer(start: Start) -> None:
    running = start(work=False, with_grpc=True)
    assert running.grpc is not None
    with grpc.insecure_channel(f"127.0.0.1:{running.grpc.port}") as channel:
        for name in ("", SERVICE):
            answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service=name), timeout=30)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        asked = iter([reflection_pb2.ServerReflectionRequest(list_services="")])
        listed = next(reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(asked, timeout=30))
        assert SERVICE in {service.name for service in listed.list_services_response.service}


@pytest.mark.requirement("ING-8")
def test_with_tokens_and_tls_only_callers_with_a_token_are_served(
    start: Start, small_sandbox: Sandbox, tmp_path: Path
) -> None:
    from docstokg_assets_tests.support.certificates import self_signed

    cert, key = self_signed(tmp_path, "localhost")
    given = {"serve__tls_cert": str(cert), "serve__tls_key": str(key), "serve__hostnames": ["localhost"]}
    running = start(work=False, with_grpc=True, serve__tokens=[TOKEN], serve__requests_per_minute=3, **given)
    assert running.grpc is not None
    assert running.url.startswith("https://")
    trusted = grpc.ssl_channel_credentials(cert.read_bytes())
    with grpc.secure_channel(f"localhost:{running.grpc.port}", trusted) as channel:
        stub = IngestStub(channel)
        health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=30)
        denied = grpc.StatusCode.UNAUTHENTICATED
        assert code_of(lambda: stub.Submit(pb.SubmitRequest(base_url=URL), timeout=30))[0] == denied
        wrong = (("authorization", "Bearer some-wrong-token-of-length"),)
        assert code_of(lambda: next(stub.Watch(pb.RequestId(id="x"), metadata=wrong, timeout=30)))[0] == denied
        right = (("authorization", f"Bearer {TOKEN}"),)
        for _ in range(3):
            stub.Submit(pb.SubmitRequest(base_url=URL), metadata=right, timeout=30)
        exhausted = grpc.StatusCode.RESOURCE_EXHAUSTED
        assert code_of(lambda: stub.Submit(pb.SubmitRequest(base_url=URL), metadata=right, timeout=30))[0] == exhausted
    answer = httpx.get(
        f"https://localhost:{running.http.port}/healthz",
        verify=ssl.create_default_context(cafile=str(cert)),
        trust_env=False,
    )
    assert answer.text == "ok"
