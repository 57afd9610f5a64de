"""The HTTP API on a real server: answers and status codes, events, files, and callers who behave badly."""

from __future__ import annotations

import concurrent.futures
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from docstokg_assets.sandbox import Sandbox
from docstokg_assets.serve.server import Running
from docstokg_assets_tests.serve.conftest import Start
from resources.scope import Lane

URL = "https://journal.press.org/article/1.pdf"
Client = Callable[..., httpx.Client]


def wait_for_result(http: httpx.Client, id: str, seconds: float = 60) -> dict[str, Any]:
    end = time.monotonic() + seconds
    while True:
        found: dict[str, Any] = http.get(f"/ingest/{id}").raise_for_status().json()
        if found["status"] != "pending" or time.monotonic() > end:
            return found
        time.sleep(0.05)


def events_of(lines: Iterator[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    name = ""
    for line in lines:
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


# -- the way of a request ----------------------------------------------------------------------------------------------


@pytest.mark.requirement("ING-8")
@pytest.mark.requirement("ING-4")
def test_a_request_is_accepted_followed_answered_and_its_file_downloaded(
    start: Start, client: Client, small_sandbox: Sandbox
) -> None:
    small_sandbox.place({"url": URL, "pdf": 1})
    running = start()
    http = client(running)
    answer = http.post("/ingest", json={"base_url": URL, "ext_ids": {"doi": "10.5555/1"}})
    assert answer.status_code == 202
    accepted = answer.json()
    assert (accepted["new"], accepted["reopened"]) == (True, False)
    assert answer.headers["location"] == f"/ingest/{accepted['id']}"
    with http.stream("GET", f"/ingest/{accepted['id']}/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        seen = list(events_of(stream.iter_lines()))
    assert seen[-1][0] == "end"
    results = [data for name, data in seen if name == "result"]
    assert (results[-1]["status"], results[-1]["hit"]) == ("success", True)
    hosts = {data["host"] for name, data in seen if name == "request"}
    assert {"web.archive.org", "journal.press.org"} <= hosts
    result = wait_for_result(http, accepted["id"])
    assert result == results[-1]
    assert result["request"]["ext_ids"] == {"doi": "10.5555/1"}

    file = http.get(f"/files/{accepted['id']}")
    assert file.content.startswith(b"%PDF")
    assert len(file.content) == result["file_meta"]["size_bytes"]
    assert file.headers["content-disposition"].startswith("attachment; filename=")
    assert file.headers["content-security-policy"] == "sandbox; default-src 'none'"
    assert file.headers["x-content-type-options"] == "nosniff"
    assert http.head(f"/files/{accepted['id']}").headers["content-length"] == str(len(file.content))
    story = http.get(f"/works/{accepted['id']}").json()
    assert "downloaded" in story["ending"]
    assert {each["host"] for each in story["tries"]} >= {"journal.press.org"}
    metrics = http.get("/metrics").text
    assert 'docstokg_ingest_submitted_total{way="http"} 1' in metrics
    assert 'docstokg_ingest_requests{status="success"} 1' in metrics
    assert "docstokg_engine_up 1" in metrics


@pytest.mark.requirement("ING-9")
def test_two_callers_with_the_same_url_cause_one_download(start: Start, client: Client, small_sandbox: Sandbox) -> None:
    small_sandbox.place({"url": URL, "pdf": 1})
    running = start()

    def ask(number: int) -> dict[str, Any]:
        http = httpx.Client(base_url=running.url, trust_env=False, timeout=60)
        with http:
            given = {"base_url": URL, "link_source": "caller", "link_source_id": str(number)}
            id = http.post("/ingest", json=given).raise_for_status().json()["id"]
            return wait_for_result(http, id)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        results = list(pool.map(ask, range(8)))
    assert {result["status"] for result in results} == {"success"}
    assert len({result["id"] for result in results}) == 8
    fetched = [row for row in small_sandbox.arrivals("journal.press.org") if row["path"] == "/article/1.pdf"]
    assert len(fetched) == 1


def test_a_forced_request_is_fetched_again_and_its_events_wait_for_the_new_answer(
    start: Start, client: Client, small_sandbox: Sandbox
) -> None:
    small_sandbox.place({"url": URL, "pdf": 1})
    http = client(start())
    first = http.post("/ingest", json={"base_url": URL}).json()
    before = wait_for_result(http, first["id"])
    again = http.post("/ingest", json={"base_url": URL, "force_recrawl": True}).json()
    assert (again["id"], again["reopened"]) == (first["id"], True)
    with http.stream("GET", f"/ingest/{again['id']}/events", params={"after": again["after"]}) as stream:
        final = [data for name, data in events_of(stream.iter_lines()) if name == "result"][-1]
    assert final["hit"]
    assert final["updated"] > before["updated"]


# -- bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("ING-8")
@pytest.mark.parametrize(
    ("body", "kind", "status", "said"),
    [
        (b'{"base_url": ', "application/json", 400, "not JSON"),
        (b"\xff\xfe", "application/json", 400, "not JSON"),
        (b"[1, 2]", "application/json", 202, ""),
        (b'"text"', "application/json", 422, "JSON object"),
        (b"{}", "application/json", 422, "base_url"),
        (b'{"base_url": 7}', "application/json", 422, "base_url"),
        (b'{"base_url": "https://a.org/", "max_age_days": -1}', "application/json", 422, "max_age_days"),
        (b'{"base_url": "ftp://a.org/x"}', "application/json", 422, "base_url"),
        (b'{"base_url": "http://127.0.0.1/x"}', "application/json", 422, "base_url"),
        (b'{"base_url": "http://169.254.169.254/latest"}', "application/json", 422, "base_url"),
        (b'{"base_url": "http://[::ffff:10.0.0.1]/"}', "application/json", 422, "base_url"),
        (b'{"base_url": "https://a.org/"}', "text/plain", 415, "application/json"),
        (b"wanted=1", "application/x-www-form-urlencoded", 415, "application/json"),
        (b'{"base_url": "x"}\n{"base_url"', "application/x-ndjson", 422, "line 1"),
    ],
)
def test_bad_requests_get_a_clear_answer(quiet: httpx.Client, body: bytes, kind: str, status: int, said: str) -> None:
    answer = quiet.post("/ingest", content=body, headers={"content-type": kind})
    assert answer.status_code == status
    assert said in answer.text
    assert "Traceback" not in answer.text
    if status >= 400:
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["status"] == status


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, small_sandbox: Sandbox) -> Iterator[Running]:
    from docstokg_assets.serve.server import serving
    from docstokg_assets_tests.support.configs import config_for_sandbox
    from resources.settings import Loaded

    config = config_for_sandbox(
        small_sandbox, tmp_path_factory.mktemp("serve"), serve__port=0, ingest__max_open=500_000
    )
    with serving(Loaded(config, {}), work=False) as running:
        yield running


@pytest.fixture
def quiet(shared: Running) -> Iterator[httpx.Client]:
    """A client of a server that only accepts."""
    with httpx.Client(base_url=shared.url, trust_env=False, timeout=60) as http:
        yield http


def test_unknown_types_get_a_result_at_once(quiet: httpx.Client) -> None:
    id = quiet.post("/ingest", json={"base_url": "https://a.example.org/d", "ingest_type": "dataset"}).json()["id"]
    found = quiet.get(f"/ingest/{id}").json()
    assert (found["status"], found["hit"]) == ("not-implemented", False)


@pytest.mark.requirement("ING-8")
def test_a_body_of_ten_megabytes_is_refused_whether_declared_or_not(quiet: httpx.Client) -> None:
    body = json.dumps({"base_url": "https://a.example.org/", "edit_extra": {"x": "y" * 10_000_000}}).encode()

    def chunks() -> Iterator[bytes]:
        for at in range(0, len(body), 65_536):
            yield body[at : at + 65_536]

    for content in (body, chunks()):
        try:
            answer = quiet.post("/ingest", content=content, headers={"content-type": "application/json"})
        except (httpx.WriteError, httpx.ReadError, httpx.RemoteProtocolError):
            continue  # the server closed the connection before all was sent
        assert answer.status_code == 413
    assert quiet.get("/healthz").text == "ok"
    raw = socket.create_connection(("127.0.0.1", quiet.base_url.port or 0))
    raw.sendall(
        b"POST /ingest HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 10000000\r\n\r\n{"
    )
    assert raw.recv(100).startswith(b"HTTP/1.1 413 ")
    raw.close()


@pytest.mark.requirement("ING-8")
def test_a_hundred_thousand_requests_in_one_stream_are_stored_and_bad_lines_named(
    quiet: httpx.Client, shared: Running
) -> None:
    count = 100_000

    def lines() -> Iterator[bytes]:
        for start in range(0, count, 500):
            yield b"".join(
                b"{oops\n" if n == 777 else b'{"base_url": "https://bulk.example.org/%d.pdf"}\n' % n
                for n in range(start, start + 500)
            )

    before = shared.parts.service.catalog.open_ingest_items(1_000_000)
    answer = quiet.post("/ingest", content=lines(), headers={"content-type": "application/x-ndjson"}, timeout=120)
    assert answer.status_code == 202
    told = answer.json()
    assert (told["requests"], told["new"], told["refused"]) == (count - 1, count - 1, 1)
    assert [each["line"] for each in told["problems"]] == [778]
    assert shared.parts.service.catalog.open_ingest_items(1_000_000) - before == count - 1
    assert shared.parts.service.catalog.ingest_due(Lane.BULK) == 10_000


def test_a_line_without_end_is_refused(quiet: httpx.Client) -> None:
    endless = (b"x" * 65_536 for _ in range(40))
    try:
        answer = quiet.post("/ingest", content=endless, headers={"content-type": "application/x-ndjson"})
        assert answer.status_code == 413
    except (httpx.WriteError, httpx.ReadError, httpx.RemoteProtocolError):
        pass
    assert quiet.get("/healthz").text == "ok"


def test_a_client_that_goes_away_in_the_middle_loses_only_its_last_portion(
    quiet: httpx.Client, shared: Running
) -> None:
    before = shared.parts.service.catalog.open_ingest_items(1_000_000)
    body = b"".join(b'{"base_url": "https://gone.example.org/%d.pdf"}\n' % n for n in range(5_000))
    raw = socket.create_connection(("127.0.0.1", quiet.base_url.port or 0))
    head = b"POST /ingest HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-ndjson\r\nContent-Length: 99999999\r\n\r\n"
    raw.sendall(head + body)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        stored = shared.parts.service.catalog.open_ingest_items(1_000_000) - before
        if stored >= 4_000:
            break
        time.sleep(0.05)
    raw.close()
    assert stored == 4_000  # two portions; the third was never whole
    assert quiet.get("/healthz").text == "ok"


def test_a_watcher_that_goes_away_is_forgotten(quiet: httpx.Client, shared: Running) -> None:
    id = quiet.post("/ingest", json={"base_url": "https://watched.example.org/1.pdf"}).json()["id"]
    with quiet.stream("GET", f"/ingest/{id}/events") as stream:
        name, data = next(events_of(stream.iter_lines()))
        assert (name, data["status"]) == ("result", "pending")
        deadline = time.monotonic() + 20
        while not shared.parts.hub.count and time.monotonic() < deadline:  # others that watched may still be leaving
            time.sleep(0.05)
    deadline = time.monotonic() + 20
    while shared.parts.hub.count and time.monotonic() < deadline:
        time.sleep(0.05)
    assert shared.parts.hub.count == 0


def test_headers_that_do_not_come_close_the_connection(quiet: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("docstokg_assets.serve.http_server.HEADERS_S", 0.3)
    raw = socket.create_connection(("127.0.0.1", quiet.base_url.port or 0))
    raw.settimeout(20)
    raw.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127")
    assert raw.recv(100) == b""
    raw.close()
    assert quiet.get("/healthz").text == "ok"


def test_a_full_queue_is_said_with_a_time(start: Start, client: Client) -> None:
    http = client(start(work=False, ingest__max_open=2))
    for number in range(2):
        assert http.post("/ingest", json={"base_url": f"https://a.example.org/{number}"}).status_code == 202
    answer = http.post("/ingest", json={"base_url": "https://a.example.org/3"})
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "60")
    assert "ingest.max_open" in answer.json()["detail"]
    stream = http.post(
        "/ingest", content=b'{"base_url": "https://a.example.org/4"}', headers={"content-type": "application/jsonl"}
    )
    assert stream.status_code == 503
    assert 'cause="queue-full"' in http.get("/metrics").text


@pytest.mark.requirement("ING-8")
def test_a_token_is_needed_and_never_told(start: Start, client: Client) -> None:
    token = "a-token-of-thirty-two-characters"
    http = client(start(work=False, serve__tokens=[token], serve__requests_per_minute=5))
    assert http.get("/healthz").text == "ok"
    for path in ("/metrics", "/docs", "/openapi.json", "/ingest/x", "/works/W1", "/files/x", "/saved?id=x"):
        answer = http.get(path)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, 'Bearer realm="content"'), path
    headers = {"authorization": f"Bearer {token}"}
    answers = [http.post("/ingest", json={"base_url": URL}, headers=headers) for _ in range(6)]
    assert [answer.status_code for answer in answers] == [202] * 5 + [429]
    assert int(answers[-1].headers["retry-after"]) >= 1
    assert all(token not in answer.text for answer in answers)


def test_unknown_ids_paths_and_methods(quiet: httpx.Client) -> None:
    for path in (
        "/ingest/ingest-0-0",
        "/ingest/x/events",
        "/works/W123",
        "/files/ingest-0",
        "/files/..%2F..%2Fetc%2Fpasswd",
        "/nothing",
    ):
        answer = quiet.get(path)
        assert answer.status_code == 404, path
        assert answer.json()["title"] == "Not Found"
    assert quiet.delete("/ingest/x").status_code == 405
    assert quiet.get("/ingest/" + "x" * 300).status_code == 422
    assert quiet.get("/static/../app.py").status_code == 404


def test_answers_carry_the_security_headers_and_the_description_is_whole(quiet: httpx.Client) -> None:
    page = quiet.get("/docs", headers={"accept": "text/html"})
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert page.headers["x-frame-options"] == "DENY"
    described = quiet.get("/openapi.json").json()
    assert {
        "/ingest",
        "/ingest/{id}",
        "/ingest/{id}/events",
        "/works/{id}",
        "/files/{id}",
        "/healthz",
        "/metrics",
    } == set(described["paths"])
    for path in described["paths"]:
        assert path in page.text
    assert "http://" not in page.text.replace("http://localhost:8080", "").replace("http or https", "")


def test_the_database_being_away_is_a_503_and_the_server_goes_on(start: Start, client: Client, tmp_path: Path) -> None:
    running = start(work=False)
    http, catalog = client(running), running.parts.service.catalog
    assert http.get("/healthz").text == "ok"
    original, lock = catalog.now, threading.Lock()
    from resources.catalog.errors import CatalogError

    def fail() -> float:
        raise CatalogError("the catalog does not answer. Check the server.")

    with lock:
        catalog.now = fail  # type: ignore[method-assign]
        assert http.get("/healthz").status_code == 503
        catalog.now = original  # type: ignore[method-assign]
    assert http.get("/healthz").text == "ok"
