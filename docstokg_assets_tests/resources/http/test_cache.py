"""What is answered without asking, what is asked again with conditions, and what is never kept: over real sockets and files."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import stat
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from docstokg_assets.config import ContentDownloadConfig
from docstokg_assets.lake.views import open_lake
from docstokg_assets.reporting.metrics import compute_slis
from docstokg_assets.runs.run import DownloadRun
from docstokg_assets.runs.services import open_services
from docstokg_assets.sandbox import Sandbox
from docstokg_assets_tests.support.servers import Valkey
from resources.http.cache import HttpCache
from resources.http.cache_stores import CacheUnavailable, RedisStore, SqliteStore
from resources.http.exchange import Send
from resources.http.messages import Request, ResponseHead, Role
from resources.http.settings import CacheTtlSettings, HttpSettings
from resources.records import Reason, Status
from resources.scope import WorkScope
from resources.settings import SettingsError

CANARY = "canary-c0ffee-c0ffee"
TTL = CacheTtlSettings()
HIT, MISS = True, False


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "http-cache.sqlite3"


@pytest.fixture
def cache(file: Path) -> Iterator[HttpCache]:
    opened = HttpCache(SqliteStore(file, 64 << 20), TTL)
    yield opened
    opened.close()


def page(server: Any, path: str = "/", role: Role = Role.METADATA, **options: Any) -> Request:
    return Request(server.url + path, role, **options)


def hits(client: Any) -> list[bool]:
    return [record.cache_hit for record in client.attempts]


def kept(file: Path) -> int:
    with sqlite3.connect(file) as connection:
        return int(connection.execute("SELECT count(*) FROM entries").fetchone()[0])


def bytes_of(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("http-cache*") if path.is_file())


# -- fresh answers ----------------------------------------------------------------------------------------------------


@pytest.mark.requirement("HTTP-7")
@pytest.mark.parametrize("role", [Role.METADATA, Role.LANDING])
def test_a_hit_asks_nothing_of_the_host_and_of_the_limiter(
    serve: Callable[..., Any], polite: Callable[..., Any], answers: Any, cache: HttpCache, role: Role
) -> None:
    server = serve(answers.ok(b'{"a": 1}', Content_Type="application/json", X_Kept="yes"))
    # one token: a second request would wait for an hour
    client = polite(cache=cache, robots=False, limits={"policies": {"*": "1/hour burst 1"}})
    first = client.ask(page(server, role=role))
    first.keep()
    second = client.ask(page(server, role=role))
    assert first.body == second.body and second.headers["x-kept"] == "yes" and second.status == 200
    assert len(server.requests) == 1 and hits(client) == [MISS, HIT]
    record = client.attempts[1]
    assert (record.status, record.reason, record.elapsed_ms, record.http_status) == (Status.HTTP_GET, Reason.OK, 0, 200)
    assert record.content_type == "application/json" and record.role == role


@pytest.mark.requirement("HTTP-7")
def test_a_fresh_answer_is_given_while_the_host_is_closed(
    serve: Callable[..., Any], polite: Callable[..., Any], answers: Any, cache: HttpCache
) -> None:
    server = serve(answers.ok())
    client = polite(cache=cache)
    client.ask(page(server))
    client.client.hosts.close(server.host, time.time() + 3600, "retry-after")
    assert client.ask(page(server)).body == b"fine"


@pytest.mark.requirement("HTTP-7")
@pytest.mark.parametrize(
    ("headers", "status", "hit"),
    [
        ({}, "200 OK", HIT),
        ({"Cache_Control": "max-age=60"}, "200 OK", HIT),
        ({"Cache_Control": "private, max-age=60"}, "200 OK", HIT),
        ({"Cache_Control": "public"}, "200 OK", HIT),
        ({"Cache_Control": "max-age=60", "Age": "59"}, "200 OK", HIT),
        ({"Expires": formatdate(time.time() + 3600, usegmt=True)}, "200 OK", HIT),
        ({"Set_Cookie": "id=1"}, "200 OK", HIT),
        ({}, "404 Not Found", HIT),
        ({}, "410 Gone", HIT),
        ({}, "301 Moved Permanently", HIT),
        ({"Cache_Control": "max-age=60"}, "302 Found", HIT),
        ({"Cache_Control": "no-store"}, "200 OK", MISS),
        ({"Cache_Control": "private, no-cache, no-store"}, "200 OK", MISS),
        ({"Cache_Control": "no-cache"}, "200 OK", MISS),
        ({"Cache_Control": "max-age=0"}, "200 OK", MISS),
        ({"Cache_Control": "s-maxage=60"}, "200 OK", MISS),
        ({"Cache_Control": "max-age=60", "Age": "61"}, "200 OK", MISS),
        ({"Cache_Control": "max-age=60", "Date": formatdate(time.time() - 90, usegmt=True)}, "200 OK", MISS),
        ({"Date": formatdate(time.time() - 90_000, usegmt=True)}, "200 OK", MISS),
        ({"Expires": formatdate(time.time() - 3600, usegmt=True)}, "200 OK", MISS),
        ({"Expires": "0"}, "200 OK", MISS),
        ({"Vary": "*"}, "200 OK", MISS),
        ({}, "302 Found", MISS),
        ({"Set_Cookie": "id=1", "Cache_Control": "max-age=60"}, "301 Moved Permanently", MISS),
        ({"Cache_Control": "max-age=60"}, "403 Forbidden", MISS),
        ({"Cache_Control": "max-age=60"}, "429 Too Many Requests", MISS),
        ({"Cache_Control": "max-age=60"}, "500 Oh", MISS),
    ],
)
def test_how_long_an_answer_counts(
    serve: Callable[..., Any],
    polite: Callable[..., Any],
    answers: Any,
    cache: HttpCache,
    headers: dict[str, str],
    status: str,
    hit: bool,
) -> None:
    server = serve(answers.ok(b"text", status, **headers))
    client = polite(cache=cache, http={"retry": {"max_attempts": 1}})
    for _ in range(2):
        assert client.ask(page(server, follow_redirects=False)).body == b"text"
    assert hits(client) == [MISS, hit] and len(server.requests) == (1 if hit else 2)


@pytest.mark.requirement("HTTP-7")
def test_answers_without_a_lifetime_expire_by_role_and_those_that_say_no_sooner(
    serve: Callable[..., Any], polite: Callable[..., Any], answers: Any, file: Path
) -> None:
    ttl = CacheTtlSettings(metadata_s=100, landing_s=200, negative_s=50)
    cache = HttpCache(SqliteStore(file, 64 << 20), ttl)
    server = serve(
        lambda request: answers.ok(b"", "404 No" if "404" in request.path else "200 OK", Age=request.path[1:4])
    )
    client = polite(cache=cache)
    for path, role in (("/099/", "metadata"), ("/101/", "metadata"), ("/199/", "landing"), ("/201/", "landing")):
        for _ in range(2):
            client.ask(page(server, path, Role(role))).keep()
    for path in ("/049/404", "/051/404"):
        for _ in range(2):
            client.ask(page(server, path))
    assert hits(client) == [MISS, HIT, MISS, MISS] * 3


@pytest.mark.requirement("HTTP-7")
def test_an_answer_expires_when_its_time_has_passed(
    serve: Callable[..., Any],
    polite: Callable[..., Any],
    answers: Any,
    cache: HttpCache,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = serve(answers.ok(Cache_Control="max-age=600"))
    client = polite(cache=cache)
    client.ask(page(server))
    client.ask(page(server))
    later = time.time() + 601
    monkeypatch.setattr(time, "time", lambda: later)
    client.ask(page(server))
    assert hits(client) == [MISS, HIT, MISS]


@pytest.mark.requirement("HTTP-7")
def test_each_hop_of_a_redirect_is_an_entry_of_its_own(
    serve: Callable[..., Any], polite: Callable[..., Any], answers: Any, cache: HttpCache
) -> None:
    def answer(request: Any) -> bytes:
        if request.path == "/a":
            return bytes(answers.ok(b"", "301 Moved", Location="/a/"))
        return bytes(answers.ok(b"there"))

    server = serve(answer)
    client = polite(cache=cache)
    for _ in range(2):
        response = client.ask(page(server, "/a", Role.LANDING))
        response.keep()
        assert (response.body, response.url, response.hops) == (b"there", server.url + "/a/", (server.url + "/a",))
    assert hits(client) == [MISS, MISS, HIT, HIT] and len(server.requests) == 2


@pytest.mark.requirement("HTTP-7")
def test_a_page_to_which_a_cookie_led_is_not_kept_and_whoever_has_been_there_before_has_a_cache(
    serve: Callable[..., Any], polite: Callable[..., Any], answers: Any, cache: HttpCache
) -> None:
    def answer(request: Any) -> bytes:
        if "cookie" in request.headers:
            return bytes(answers.ok(b"yours"))
        return bytes(answers.ok(b"", "301 Moved", Location="/", Set_Cookie="id=1"))

    server = serve(answer)
    client = polite(cache=cache)
    for _ in range(3):
        response = client.ask(page(server, "/", Role.LANDING))
        response.keep()
        assert response.body == b"yours"
    assert hits(client) == [MISS, MISS, MISS, HIT]
    assert ["cookie" in request.headers for request in server.requests] == [False, True, True]


@pytest.mark.requirement("HTTP-7")
def test_an_api_that_sets_cookies_is_shown_none_and_its_answers_are_kept(
    serve: Callable[..., Any], polite: Callable[..., Any], answers: Any, cache: HttpCache
) -> None:
    server = serve(lambda request: answers.ok(b"{}", Content_Type="application/json", Set_Cookie="id=1; Path=/"))
    client = polite(cache=cache)
    for path in ("/1", "/2", "/1", "/2"):
        client.ask(page(server, path))
    assert hits(client) == [MISS, MISS, HIT, HIT]
    assert not any("cookie" in request.headers for request in server.requests)


# -- answers that are asked for again ---------------------------------------------------------------------------------


@pytest.mark.requirement("HTTP-7")
@pytest.mark.parametrize(
    ("validator", "condition"),
    [("ETag", "if-none-match"), ("Last_Modified", "if-modified-since")],
)
def test_a_stale_answer_is_confirmed_by_the_host_and_fresh_again(
    serve: Callable[..., Any],
    polite: Callable[..., Any],
    answers: Any,
    cache: HttpCache,
    validator: str,
    condition: str,
) -> None:
    value = '"v1"' if validator == "ETag" else formatdate(1_700_000_000, usegmt=True)

    def answer(request: Any) -> bytes:
        if request.headers.get(condition) == value:
            return b"HTTP/1.1 304 Not Modified\r\nCache-Control: max-age=60\r\n\r\n"
        old = {"Cache_Control": "max-age=60", "Age": "100", "Content_Type": "application/json"}
        return bytes(answers.ok(b'{"a": 1}', **old, **{validator: value}))

    server = serve(answer)
    client = polite(cache=cache)
    for _ in range(3):
        response = client.ask(page(server))
        assert (response.status, response.body, response.content_type) == (200, b'{"a": 1}', "application/json")
    assert len(server.requests) == 2 and hits(client) == [MISS, HIT, HIT]
    assert client.told("status", "reason", "http_status")[1:] == [
        (Status.HTTP_304, Reason.NOT_MODIFIED, 304),
        (Status.HTTP_GET, Reason.OK, 200),
    ]


@pytest.mark.requirement("HTTP-7")
def test_a_changed_answer_replaces_the_stale_one(
    serve: Callable[..., Any], polite: Callable[..., Any], answers: Any, cache: HttpCache, file: Path
) -> None:
    def answer(request: Any) -> bytes:
        age = {"Age": "100"} if request.number == 1 else {}
        return bytes(answers.ok(b"%d" % request.number, ETag=f'"{request.number}"', Cache_Control="max-age=60", **age))

    server = serve(answer)
    client = polite(cache=cache)
    assert [client.ask(page(server)).body for _ in range(3)] == [b"1", b"2", b"2"]
    assert server.requests[1].headers["if-none-match"] == '"1"' and kept(file) == 1


@pytest.mark.requirement("HTTP-7")
def test_a_304_about_something_else_is_asked_again_without_condition(
    serve: Callable[..., Any], polite: Callable[..., Any], answers: Any, cache: HttpCache
) -> None:
    def answer(request: Any) -> bytes:
        if "if-none-match" in request.headers:
            return b'HTTP/1.1 304 Not Modified\r\nETag: "other"\r\n\r\n'
        return bytes(answers.ok(b"%d" % request.number, ETag='"mine"', Cache_Control="max-age=60", Age="100"))

    server = serve(answer)
    client = polite(cache=cache)
    assert [client.ask(page(server)).body for _ in range(2)] == [b"1", b"3"]


@pytest.mark.requirement("HTTP-7")
def test_the_conditions_survive_the_retries(
    serve: Callable[..., Any], polite: Callable[..., Any], answers: Any, cache: HttpCache
) -> None:
    def answer(request: Any) -> bytes:
        if request.number == 1:
            return bytes(answers.ok(b"old", ETag='"1"', Cache_Control="no-cache"))
        if request.number == 2:
            return bytes(answers.ok(b"", "503 Oh"))
        return b"HTTP/1.1 304 Not Modified\r\n\r\n"

    server = serve(answer)
    client = polite(cache=cache)
    assert [client.ask(page(server)).body for _ in range(2)] == [b"old", b"old"]
    assert [r.headers.get("if-none-match") for r in server.requests] == [None, '"1"', '"1"']


@pytest.mark.requirement("HTTP-7")
def test_variants_are_told_apart_by_what_vary_names(
    serve: Callable[..., Any], polite: Callable[..., Any], answers: Any, cache: HttpCache, file: Path
) -> None:
    server = serve(
        lambda request: answers.ok(request.headers.get("accept-language", "-").encode(), Vary="Accept-Language")
    )
    client = polite(cache=cache)
    for language in ("en", "de", "en", "de"):
        response = client.ask(page(server, headers={"Accept-Language": language, "X-Other": language}))
        assert response.body == language.encode()
    assert hits(client) == [MISS, MISS, HIT, HIT] and kept(file) == 2


@pytest.mark.requirement("HTTP-7")
def test_what_is_accepted_is_part_of_the_question(
    serve: Callable[..., Any], polite: Callable[..., Any], answers: Any, cache: HttpCache
) -> None:
    server = serve(lambda request: answers.ok(request.headers["accept"].encode()))
    client = polite(cache=cache)
    bodies = [client.ask(page(server, role=role)).body for role in (Role.METADATA, Role.LANDING)]
    assert bodies == [b"application/json", b"text/html"]


# -- what is never kept -----------------------------------------------------------------------------------------------


class Sink:
    def write(self, chunk: bytes) -> None: ...
    def finish(self) -> str:
        return "whole"

    def abort(self) -> None: ...


@pytest.mark.requirement("HTTP-7")
@pytest.mark.parametrize(
    "options",
    [
        {"role": Role.ARTIFACT},
        {"role": Role.ARTIFACT, "sink": lambda head: Sink()},
        {"verb": "HEAD"},
        {"beginning_only": True, "max_bytes": 2},
        {"cache": False},
        {"path": "/?api_key=abc"},
    ],
    ids=["artifact", "file", "head", "beginning", "fresh", "key in the URL"],
)
def test_files_and_whoever_wants_it_fresh_always_ask(
    serve: Callable[..., Any],
    polite: Callable[..., Any],
    answers: Any,
    cache: HttpCache,
    file: Path,
    options: dict[str, Any],
) -> None:
    server = serve(lambda request: answers.ok(b"" if request.line.startswith("HEAD") else b"fine", ETag='"1"'))
    client = polite(cache=cache)
    for _ in range(2):
        client.ask(page(server, **options))
    assert len(server.requests) == 2 and not any("if-none-match" in r.headers for r in server.requests)
    assert not file.exists()


@pytest.mark.requirement("HTTP-7")
def test_a_broken_answer_of_an_api_is_not_kept(
    serve: Callable[..., Any], polite: Callable[..., Any], answers: Any, cache: HttpCache
) -> None:
    server = serve(lambda r: answers.ok(b'{"cut' if r.number == 1 else b"{}", Content_Type="application/json"))
    client = polite(cache=cache)
    assert [client.ask(page(server)).body for _ in range(3)] == [b'{"cut', b"{}", b"{}"]


@pytest.mark.requirement("TRU-5", "HTTP-7")
@pytest.mark.parametrize("kind", ["text/html", "text/plain"])
def test_a_page_or_a_refusal_in_the_place_of_an_apis_answer_is_not_kept(
    serve: Callable[..., Any], polite: Callable[..., Any], answers: Any, cache: HttpCache, kind: str
) -> None:
    server = serve(lambda r: answers.ok(b"Access denied" if r.number == 1 else b"{}", Content_Type=kind))
    client = polite(cache=cache)
    assert [client.ask(page(server)).body for _ in range(3)] == [b"Access denied", b"{}", b"{}"]


@pytest.mark.requirement("TRU-5", "HTTP-7")
def test_a_landing_page_is_kept_with_its_redirects_when_its_reader_says_so_and_a_landing_error_never(
    serve: Callable[..., Any], polite: Callable[..., Any], answers: Any, cache: HttpCache
) -> None:
    def answer(request: Any) -> bytes:
        moved = request.path == "/moved"
        status = "301 Moved" if moved else "404 Gone" if request.path == "/gone" else "200 OK"
        return bytes(answers.ok(b"page", status, Cache_Control="max-age=600", **({"Location": "/"} if moved else {})))

    server = serve(answer)
    client = polite(cache=cache)
    for _ in range(2):
        unread = client.ask(page(server, "/moved", Role.LANDING))
    assert len(server.requests) == 4, "neither the page nor the redirect was kept"
    unread.keep()
    assert client.ask(page(server, "/moved", Role.LANDING)).body == b"page" and len(server.requests) == 4
    for _ in range(2):
        client.ask(page(server, "/gone", Role.LANDING)).keep()
    assert len(server.requests) == 6


@pytest.mark.requirement("TRU-5", "HTTP-7")
def test_a_fresh_answer_is_asked_for_and_replaces_the_one_that_was_kept(
    serve: Callable[..., Any], polite: Callable[..., Any], answers: Any, cache: HttpCache
) -> None:
    server = serve(lambda request: answers.ok(str(request.number).encode(), ETag=f'"{request.number}"'))
    client = polite(cache=cache)
    client.ask(page(server))
    exchange = client.client.exchange(page(server), client.log, fresh=True)
    step = next(exchange)
    assert isinstance(step, Send) and "If-None-Match" not in step.headers
    allowance = client.client.limiter.policy_for(step.host, str(step.role), None, None)
    with pytest.raises(StopIteration) as done:
        exchange.send(client.client.send(step, allowance))
    assert done.value.value.body == client.ask(page(server)).body == b"2" and len(server.requests) == 2


@pytest.mark.requirement("HTTP-14")
@pytest.mark.requirement("HTTP-7")
def test_the_cache_holds_no_credentials(
    serve: Callable[..., Any], polite: Callable[..., Any], answers: Any, cache: HttpCache, file: Path, tmp_path: Path
) -> None:
    def answer(request: Any) -> bytes:
        headers = {"Vary": "Authorization, X-Api-Key, Cookie", "Set_Cookie": f"s={CANARY}", "X_Session_Token": CANARY}
        if request.path.startswith("/echo"):
            return bytes(answers.ok(f"your key is {CANARY}".encode()))
        if request.path.startswith("/header"):
            return bytes(answers.ok(X_Trace=f"key={CANARY}"))
        if request.path.startswith("/moved"):
            return bytes(answers.ok(b"", "301 Moved", Location=f"/there?token={CANARY}"))
        return bytes(answers.ok(b"public", **headers))

    server = serve(answer)
    client = polite(cache=cache)
    secret: dict[str, Any] = {
        "secret_headers": {"Authorization": CANARY, "X-Api-Key": CANARY},
        "secret_params": {"api_key": CANARY},
    }
    for path in ("/plain", "/echo", "/header", "/moved", f"/mine?api_key={CANARY}"):
        for _ in range(2):
            client.ask(page(server, path, follow_redirects=False, **secret))
    assert all(CANARY in request.line for request in server.requests)  # they were sent
    assert hits(client) == [MISS, HIT] + [MISS] * 8 and kept(file) == 1
    cache.close()
    stored = bytes_of(tmp_path)
    with sqlite3.connect(file) as connection:
        stored += b"".join(zlib.decompress(row[0]) for row in connection.execute("SELECT entry FROM entries"))
    assert b"public" in stored and CANARY.encode() not in stored and b"cookie" not in stored.replace(b", Cookie", b"")


@pytest.mark.requirement("HTTP-7")
def test_an_answer_to_a_key_is_not_given_to_whoever_has_none(
    serve: Callable[..., Any], polite: Callable[..., Any], answers: Any, cache: HttpCache
) -> None:
    server = serve(lambda request: answers.ok(b"with" if "api_key" in request.path else b"without"))
    client = polite(cache=cache)
    bodies = [
        client.ask(page(server, secret_params=params)).body for params in ({"api_key": CANARY}, {}, {"api_key": "2"})
    ]
    assert bodies == [b"with", b"without", b"with"] and hits(client) == [MISS, MISS, HIT]


# -- the file ---------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("HTTP-7")
def test_the_file_is_private_to_the_user(cache: HttpCache, file: Path) -> None:
    old = os.umask(0)
    try:
        store(cache, "https://a.org/")
    finally:
        os.umask(old)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in file.parent.glob("http-cache*")}
    assert set(modes) >= {file.name, f"{file.name}-wal", f"{file.name}-shm"} and set(modes.values()) == {0o600}


@pytest.mark.requirement("HTTP-7")
def test_a_file_that_was_open_to_others_is_closed_to_them(cache: HttpCache, file: Path) -> None:
    file.touch(0o644)
    store(cache, "https://a.org/")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def visit(cache: HttpCache, url: str) -> Any:
    found = cache.visit(Request(url, Role.METADATA), url, {"Accept": "application/json"}, {})
    assert found is not None
    return found


def store(cache: HttpCache, url: str, body: bytes = b"x") -> None:
    cache.settle(visit(cache, url), ResponseHead(200, url, {}), body)


def knows(cache: HttpCache, url: str) -> bool:
    return visit(cache, url).answer is not None


@pytest.mark.requirement("HTTP-7")
def test_its_size_is_bounded_and_what_was_not_used_for_longest_goes_first(file: Path) -> None:
    cache = HttpCache(SqliteStore(file, 1 << 20), TTL)
    for n in range(300):
        store(cache, f"https://a.org/{n}", os.urandom(10_000))
    assert knows(cache, "https://a.org/299") and not knows(cache, "https://a.org/0")
    cache.close()
    assert file.stat().st_size < 2 << 20


@pytest.mark.requirement("HTTP-7")
@pytest.mark.parametrize("where", ["head", "middle"])
def test_a_damaged_file_is_moved_aside(file: Path, where: str, caplog: pytest.LogCaptureFixture) -> None:
    cache = HttpCache(SqliteStore(file, 64 << 20), TTL)
    for n in range(50):
        store(cache, f"https://a.org/{n}", os.urandom(3000))
    cache.close()
    with file.open("r+b") as damaged:
        damaged.seek(0 if where == "head" else 4096)
        damaged.write(b"\xa5" * (100 if where == "head" else 60_000))
    again = HttpCache(SqliteStore(file, 64 << 20), TTL)
    for n in range(50):
        knows(again, f"https://a.org/{n}")
    store(again, "https://a.org/new")
    assert knows(again, "https://a.org/new")
    again.close()
    assert [record.levelname for record in caplog.records] == ["WARNING"] and "damaged" in caplog.text
    assert len([path for path in file.parent.iterdir() if ".damaged-" in path.name and path.name[-1] != "m"]) == 1


@pytest.mark.requirement("HTTP-7")
def test_a_cache_that_cannot_be_used_is_one_that_knows_nothing(
    serve: Callable[..., Any],
    polite: Callable[..., Any],
    answers: Any,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (tmp_path / "blocked").write_text("a file where the folder should be")
    cache = HttpCache(SqliteStore(tmp_path / "blocked" / "http-cache.sqlite3", 64 << 20), TTL)
    server = serve(answers.ok())
    client = polite(cache=cache)
    assert [client.ask(page(server)).body for _ in range(3)] == [b"fine"] * 3
    assert len(server.requests) == 3 and len(caplog.records) == 1 and "cannot be used" in caplog.text
    assert caplog.records[0].exc_info is None


@pytest.mark.requirement("HTTP-7")
def test_a_cache_that_is_locked_costs_a_moment_not_the_request(cache: HttpCache, file: Path) -> None:
    store(cache, "https://a.org/")
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    began = time.monotonic()
    for n in range(20):
        store(cache, f"https://a.org/{n}")
    assert time.monotonic() - began < 12, "were it waited for each time, twenty seconds"
    other.execute("ROLLBACK")
    other.close()


@pytest.mark.requirement("HTTP-7")
def test_a_link_in_the_place_of_the_file_is_not_followed(file: Path, tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_bytes(b"precious")
    file.symlink_to(target)
    with pytest.raises(CacheUnavailable):
        SqliteStore(file, 64 << 20).read("key")
    assert target.read_bytes() == b"precious"


def fill(path: Path, who: int, ready: Any) -> None:
    cache = HttpCache(SqliteStore(path, 64 << 20), TTL)
    ready.wait()
    for n in range(100):
        store(cache, f"https://a.org/{who}/{n}")
    cache.close()


@pytest.mark.requirement("HTTP-7")
def test_processes_share_a_cache(file: Path) -> None:
    context = multiprocessing.get_context("fork")
    ready = context.Barrier(3)
    others = [context.Process(target=fill, args=(file, who, ready)) for who in range(3)]
    for process in others:
        process.start()
    for process in others:
        process.join(20)
        assert process.exitcode == 0
    cache = HttpCache(SqliteStore(file, 64 << 20), TTL)
    assert all(knows(cache, f"https://a.org/{who}/{n}") for who in range(3) for n in range(100))


@pytest.mark.requirement("HTTP-7")
def test_threads_share_a_cache(cache: HttpCache) -> None:
    def work(who: int) -> None:
        for n in range(40):
            store(cache, f"https://a.org/{who}/{n}")
            knows(cache, f"https://a.org/{(who + 1) % 8}/{n}")

    threads = [threading.Thread(target=work, args=(who,)) for who in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(knows(cache, f"https://a.org/{who}/{n}") for who in range(8) for n in range(40))


# -- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("HTTP-7")
def test_it_lies_in_the_data_root_or_where_it_is_told_and_can_be_switched_off(tmp_path: Path) -> None:
    for settings, folder in (
        (HttpSettings(), tmp_path / "a"),
        (HttpSettings(cache_dir=tmp_path / "b"), tmp_path / "b"),
    ):
        cache = HttpCache.open(settings, tmp_path / "a")
        assert cache is not None
        store(cache, "https://a.org/")
        assert (folder / "http-cache.sqlite3").exists()
    assert HttpCache.open(HttpSettings(cache_enabled=False), tmp_path) is None


@pytest.mark.requirement("HTTP-7")
def test_a_network_file_system_is_refused_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resources.mounts.network_filesystem", lambda path, mounts: "nfs4")
    with pytest.raises(SettingsError, match=r"http-cache\.sqlite3 lies on a network.*http\.cache_dir"):
        HttpCache.open(HttpSettings(), tmp_path)


# -- Redis ------------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("HTTP-7")
def test_redis_keeps_the_answers_for_several_machines(
    serve: Callable[..., Any], polite: Callable[..., Any], answers: Any, valkey: Valkey, tmp_path: Path
) -> None:
    settings = HttpSettings.model_validate({"cache_backend": "redis", "cache_url": valkey.url})
    server = serve(lambda request: answers.ok(request.headers["accept-language"].encode(), Vary="Accept-Language"))
    one, other = (polite(cache=HttpCache.open(settings, tmp_path)) for _ in range(2))
    for client in (one, other):
        for language in ("en", "de"):
            assert client.ask(page(server, headers={"Accept-Language": language})).body == language.encode()
    assert hits(one) == [MISS, MISS] and hits(other) == [HIT, HIT] and len(server.requests) == 2


@pytest.mark.requirement("HTTP-7")
def test_a_redis_that_went_away_is_a_cache_that_knows_nothing(
    serve: Callable[..., Any], polite: Callable[..., Any], answers: Any, caplog: pytest.LogCaptureFixture
) -> None:
    server = serve(answers.ok())
    client = polite(cache=HttpCache(RedisStore(f"redis://:{CANARY}@127.0.0.1:1/0"), TTL))
    assert [client.ask(page(server)).body for _ in range(2)] == [b"fine"] * 2
    assert len(caplog.records) == 1 and CANARY not in caplog.text


@pytest.mark.requirement("HTTP-7")
def test_redis_needs_its_address() -> None:
    with pytest.raises(ValueError, match="cache_backend redis needs cache_url"):
        HttpSettings(cache_backend="redis")


# -- artifacts --------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("HTTP-7")
def test_a_file_that_has_not_changed_is_not_sent_again(sandbox: Sandbox, polite: Callable[..., Any]) -> None:
    client = polite()
    url = f"{sandbox.base_url}/bench/pdf/1"
    first = client.ask(Request(url, Role.ARTIFACT, sink=lambda head: Sink()))
    condition = {"If-None-Match": first.headers["etag"]}
    again = client.ask(Request(url, Role.ARTIFACT, headers=condition, sink=lambda head: Sink()))
    assert (first.payload, again.status, again.payload) == ("whole", 304, None)
    record = client.attempts[-1]
    assert (record.status, record.reason, record.cache_hit) == (Status.HTTP_304, Reason.NOT_MODIFIED, False)


# -- a second run -----------------------------------------------------------------------------------------------------


@pytest.mark.requirement("HTTP-7")
@pytest.mark.requirement("TEL-7")
def test_a_second_run_on_a_new_catalog_asks_little_again(
    sandbox: Sandbox, config_for: Callable[..., ContentDownloadConfig], tmp_path: Path
) -> None:
    shares, asked = [], []
    for name in ("one", "two"):
        sandbox.reset()
        config = config_for(
            sandbox,
            data_root=str(tmp_path / name),
            http__cache_dir=str(tmp_path),
            http__retry__max_attempts=1,
        )
        with open_services(config) as services:
            with DownloadRun(services) as run:
                run.store_and_enqueue(run.collect("publication_year:2024"))
                run.drain(run.own_works)
            services.export_lake()
        with open_lake(config.lake_files()) as con:
            shares.append(compute_slis(con, WorkScope(run_id=run.run_id)).cache_hit_ratio)
        asked.append(len(sandbox.arrivals()))
    assert shares[1] is not None and shares[1] >= 0.4 and asked[1] < asked[0]
    assert (tmp_path / "two" / "PDF").is_dir()
