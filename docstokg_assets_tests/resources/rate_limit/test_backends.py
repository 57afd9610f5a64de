"""One contract for all backends: pace, burst, tokens given back, processes together, and what happens when a server is gone.

Redis and PostgreSQL are real servers, and time is real, because they go by their own.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import traceback
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psycopg
import pytest
from redis import Redis

from docstokg_assets_tests.support.servers import Postgres, Valkey
from resources.rate_limit.limiter import Allowance, Limiter
from resources.rate_limit.postgres_limits import PostgresLimits
from resources.rate_limit.settings import Rate, RateLimitSettings
from resources.rate_limit.stores import LimiterUnavailable

PROJECT = Path(__file__).resolve().parents[3]
ALL = ["memory", "multiprocess", "sqlite", "redis", "postgres"]
SHARED = ["multiprocess", "sqlite", "redis", "postgres"]
SERVERS = ["redis", "postgres"]
Open = Callable[..., Limiter]


def demand(per_second: float, burst: int = 1) -> tuple[str, Rate]:
    """Of a bucket that no other test uses: a server outlives the tests."""
    return uuid.uuid4().hex, Rate(per_second, burst)


def only(*demands: tuple[str, Rate]) -> Allowance:
    return Allowance("g", demands, None)


@pytest.fixture
def server(request: pytest.FixtureRequest, backend: str) -> Valkey | Postgres:
    found: Valkey | Postgres = request.getfixturevalue("valkey" if backend == "redis" else "postgres")
    return found


# -- one process ------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("HTTP-11")
@pytest.mark.parametrize("backend", ALL)
def test_requests_are_evenly_spaced(open_limiter: Open, backend: str) -> None:
    limiter, allowance = open_limiter(backend), only(demand(20))
    times, end = list[float](), time.monotonic() + 0.5
    while time.monotonic() < end:
        wait = limiter.enter(allowance)
        assert wait is not None and wait <= 0.056
        if wait == 0.0:
            times.append(time.monotonic())
        time.sleep(wait)
    assert 5 <= len(times) <= 11
    assert times[-1] - times[0] >= 0.05 * (len(times) - 1)


@pytest.mark.requirement("HTTP-11")
@pytest.mark.parametrize("backend", ALL)
def test_a_burst_goes_at_once_and_then_waits(open_limiter: Open, backend: str) -> None:
    limiter, allowance = open_limiter(backend), only(demand(1, 4))
    assert [limiter.enter(allowance) for _ in range(4)] == [0.0] * 4
    assert limiter.enter(allowance) == pytest.approx(1.0, abs=0.3)
    assert limiter.enter(only(demand(1))) == 0.0  # other buckets know nothing of it


@pytest.mark.requirement("HTTP-11")
@pytest.mark.parametrize("backend", ALL)
def test_a_token_is_given_back_when_another_limit_refuses(open_limiter: Open, backend: str) -> None:
    limiter = open_limiter(backend)
    scarce, used_up = demand(0.01, 2), demand(0.01)
    assert limiter.enter(only(used_up)) == 0.0
    for _ in range(5):
        assert limiter.enter(only(scarce, used_up)) not in (0.0, None)
    assert [limiter.enter(only(scarce)) == 0.0 for _ in range(3)] == [True, True, False]


@pytest.mark.requirement("HTTP-11")
@pytest.mark.parametrize("backend", SHARED)
def test_what_one_spends_another_does_not_have(open_limiter: Open, backend: str) -> None:
    one, other = open_limiter(backend), open_limiter(backend)
    allowance = only(demand(0.1))
    assert one.enter(allowance) == 0.0
    assert other.enter(allowance) == pytest.approx(10.2, abs=0.3)


@pytest.mark.requirement("HTTP-11")
@pytest.mark.parametrize("backend", ["multiprocess", "sqlite"])
def test_a_forked_child_counts_with_its_parent(open_limiter: Open, backend: str) -> None:
    limiter, allowance = open_limiter(backend), only(demand(0.01, 10))
    assert limiter.enter(allowance) == 0.0
    children = []
    for _ in range(4):
        child = os.fork()
        if child == 0:
            granted = sum(limiter.enter(allowance) == 0.0 for _ in range(10))
            os._exit(granted)
        children.append(child)
    shares = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert sum(shares) == 9


# -- processes together -----------------------------------------------------------------------------------------------

# A process that says when it is ready, and then asks the server on the given port as often as it may, by two limits.
GREEDY = """
import http.client, json, sys, threading, time
from pathlib import Path
from resources.rate_limit.limiter import Allowance, Limiter
from resources.rate_limit.settings import Rate, RateLimitSettings

given = json.loads(sys.argv[1])
limiter = Limiter.open(RateLimitSettings.model_validate(given["settings"]), Path(given["path"]))

def go(key, rate, end):
    allowance = Allowance(key, ((key, Rate(*rate)),), None)
    connection = http.client.HTTPConnection("127.0.0.1", given["port"])
    connection.connect()
    while time.monotonic() < end:
        wait = limiter.enter(allowance)
        if wait == 0.0:
            connection.request("GET", "/" + key)
            connection.getresponse().read()
        else:
            time.sleep(min(wait, 0.01))

print("ready", flush=True)
end = float(sys.stdin.readline())
threads = [threading.Thread(target=go, args=(key, rate, end)) for key, rate in given["limits"].items() for _ in range(2)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""


@pytest.fixture
def arrivals() -> Iterator[tuple[int, dict[str, list[float]]]]:
    """A server that notes when who arrived: (port, times by path)."""
    seen: dict[str, list[float]] = defaultdict(list)

    class Host(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            seen[self.path].append(time.monotonic())
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Host)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1], seen
    server.shutdown()
    server.server_close()


@pytest.mark.requirement("HTTP-11")
@pytest.mark.parametrize("backend", SHARED)
def test_two_processes_together_stay_within_the_limit(
    settings_of: Callable[[str], RateLimitSettings],
    path: Path,
    backend: str,
    arrivals: tuple[int, dict[str, list[float]]],
) -> None:
    """They open the new store at the same time, and each wants all of it. What counts is what arrives."""
    seconds = 1.6
    (even, burst), (port, seen) = (demand(20), demand(10, 5)), arrivals
    limits = {key: [rate.per_second, rate.burst] for key, rate in (even, burst)}
    settings = settings_of(backend)
    secrets = {"redis_url": settings.redis_url, "connection_string": settings.connection_string}
    told = {"backend": backend} | {key: value.get_secret_value() for key, value in secrets.items() if value}
    running = [_start(GREEDY, {"settings": told, "path": str(path), "port": port, "limits": limits}) for _ in range(2)]
    end = time.monotonic() + seconds
    for process in running:
        process.communicate(f"{end}\n", timeout=30) if process is running[-1] else _say(process, f"{end}\n")
    assert [process.wait(30) for process in running] == [0, 0]
    for (key, rate), most in ((even, 20), (burst, 15)):
        times = sorted(seen[f"/{key}"])
        in_a_second = [sum(start <= t < start + 1.0 for t in times) for start in times]
        assert max(in_a_second) <= most
        assert len(times) >= rate.per_second * seconds * 0.4  # and they do not stand in each other's way


def _start(script: str, given: dict[str, Any]) -> subprocess.Popen[str]:
    import json

    command = [sys.executable, "-c", script, json.dumps(given)]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, text=True, cwd=PROJECT, stdin=pipe, stdout=pipe)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


def _say(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(line)
    process.stdin.flush()


# -- servers ----------------------------------------------------------------------------------------------------------


def assert_comes_back(limiter: Limiter) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            assert limiter.enter(only(demand(1))) == 0.0
            return
        except LimiterUnavailable:
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.mark.requirement("HTTP-11")
@pytest.mark.parametrize("backend", SERVERS)
def test_a_server_that_is_gone_stops_requests_until_it_is_back(
    open_limiter: Open, backend: str, server: Valkey | Postgres
) -> None:
    limiter = open_limiter(backend)
    assert limiter.enter(only(demand(1))) == 0.0
    server.stop()
    try:
        for _ in range(5):
            began = time.monotonic()
            with pytest.raises(LimiterUnavailable, match=r"on 127\.0\.0\.1 cannot be used"):
                limiter.enter(only(demand(1)))
            assert time.monotonic() - began < 10
        with pytest.raises(LimiterUnavailable):
            open_limiter(backend)
    finally:
        server.start()
    assert_comes_back(limiter)


@pytest.mark.requirement("HTTP-11")
@pytest.mark.parametrize("backend", SERVERS)
def test_a_server_that_does_not_answer_stops_requests_and_is_not_waited_for_by_each(
    open_limiter: Open, backend: str, server: Valkey | Postgres
) -> None:
    limiter = open_limiter(backend)
    assert limiter.enter(only(demand(1))) == 0.0
    server.freeze(True)
    try:
        began = time.monotonic()
        for _ in range(20):
            with pytest.raises(LimiterUnavailable):
                limiter.enter(only(demand(1)))
        assert time.monotonic() - began < 12, "were each to wait for it, twenty seconds and more"
    finally:
        server.freeze(False)
    assert_comes_back(limiter)


@pytest.mark.requirement("HTTP-11")
@pytest.mark.parametrize("backend", SERVERS)
def test_machines_with_wrong_clocks_agree_by_the_servers_clock(open_limiter: Open, backend: str) -> None:
    class Wrong:
        def __init__(self, ahead: float) -> None:
            self.ahead = ahead

        def monotonic(self) -> float:
            return time.monotonic() + self.ahead

        def wall(self) -> float:
            return time.time() + self.ahead

        def sleep(self, seconds: float) -> None:
            raise AssertionError

    fast, slow = open_limiter(backend, clock=Wrong(7200)), open_limiter(backend, clock=Wrong(-50))
    allowance = only(demand(0.1))
    assert fast.enter(allowance) == 0.0
    assert slow.enter(allowance) == pytest.approx(10.2, abs=0.3)
    assert fast.enter(allowance) == pytest.approx(10.2, abs=0.3)


@pytest.mark.requirement("HTTP-11")
def test_keys_in_redis_are_ours_and_disappear_by_themselves(open_limiter: Open, valkey: Valkey) -> None:
    key, rate = demand(0.5)
    assert open_limiter("redis").enter(only((key, rate))) == 0.0
    with Redis.from_url(valkey.url) as client:
        assert 2_000 < client.pttl(f"docstokg:limit:{key}") <= 5_000


@pytest.mark.requirement("HTTP-11")
def test_many_may_make_the_table_at_the_same_time(postgres: Postgres) -> None:
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS docstokg_limits")
    settings = RateLimitSettings.model_validate({"backend": "postgres", "connection_string": postgres.url})
    assert settings.connection_string is not None
    with ThreadPoolExecutor(6) as pool:
        for opened in list(pool.map(PostgresLimits, [settings.connection_string] * 6)):
            opened.close()


@pytest.mark.requirement("HTTP-11")
def test_a_row_from_a_clock_that_was_set_back_does_not_block(open_limiter: Open, postgres: Postgres) -> None:
    limiter, (key, rate) = open_limiter("postgres"), demand(10)
    assert limiter.enter(only((key, rate))) == 0.0
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("UPDATE docstokg_limits SET tat = tat + 3600000000 WHERE key = %s", (key,))
    assert limiter.enter(only((key, rate))) == pytest.approx(0.11, abs=0.05)


@pytest.mark.requirement("HTTP-14")
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("connection_string", "postgresql://tester:canary@127.0.0.1:{postgres}/postgres"),
        ("connection_string", "postgresql://tester:canary@127.0.0.1:99999999/postgres"),
        ("connection_string", "host=127.0.0.1 port={postgres} user=tester password='canary"),
        ("redis_url", "redis://tester:canary@127.0.0.1:{valkey}/0"),
        ("redis_url", "redis://tester:canary@127.0.0.1:99999999/0"),
    ],
)
def test_a_password_appears_in_no_message(path: Path, valkey: Valkey, postgres: Postgres, key: str, value: str) -> None:
    backend = "redis" if key == "redis_url" else "postgres"
    secret = value.format(postgres=postgres.port, valkey=valkey.port)
    settings = RateLimitSettings.model_validate({"backend": backend, key: secret})
    with pytest.raises(LimiterUnavailable, match=f"check the server and rate_limit.{key}") as caught:
        Limiter.open(settings, path)
    shown = "".join(traceback.format_exception(caught.value)) + repr(settings)
    assert "canary" not in shown


# -- memory, which must be alone --------------------------------------------------------------------------------------

HOLDER = """
import json, sys, time
from pathlib import Path
from resources.rate_limit.limiter import Limiter
from resources.rate_limit.settings import RateLimitSettings

given = json.loads(sys.argv[1])
limiter = Limiter.open(RateLimitSettings(backend=given["backend"]), Path(given["path"]))
print("ready", flush=True)
sys.stdin.readline()
"""


@pytest.mark.requirement("HTTP-11")
@pytest.mark.parametrize(("there", "here"), [("memory", "memory"), ("memory", "sqlite"), ("sqlite", "memory")])
def test_a_process_that_counts_alone_has_the_data_root_to_itself(
    open_limiter: Open, path: Path, there: str, here: str
) -> None:
    holder = _start(HOLDER, {"backend": there, "path": str(path)})
    try:
        with pytest.raises(LimiterUnavailable, match=r"set rate_limit\.backend to sqlite") as caught:
            open_limiter(here)
        assert str(path.parent) in str(caught.value)
        Limiter.open(RateLimitSettings(backend="memory"), path.parent / "other" / "limits.sqlite3").close()
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.communicate()
    assert open_limiter(here).enter(only(demand(1))) == 0.0  # however it ended


@pytest.mark.requirement("HTTP-11")
def test_a_limiter_that_was_closed_leaves_the_data_root_to_others(open_limiter: Open) -> None:
    open_limiter("memory").close()
    open_limiter("sqlite").close()
    open_limiter("memory")


# -- multiprocess -----------------------------------------------------------------------------------------------------


@pytest.mark.requirement("HTTP-11")
def test_a_folder_that_is_gone_or_a_lock_that_is_kept_stops_requests(
    open_limiter: Open, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    monkeypatch.setattr("resources.rate_limit.file_limits._BUSY_S", 0.05)
    limiter, allowance = open_limiter("multiprocess"), only(demand(1000))
    assert limiter.enter(allowance) == 0.0
    folder = path.with_suffix(".d")
    [state] = [file for file in folder.iterdir() if file.name != "writable"]
    with state.open("r+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(LimiterUnavailable, match="locked for more than"):
            limiter.enter(allowance)
    time.sleep(0.15)
    assert limiter.enter(allowance) == 0.0
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    with pytest.raises(LimiterUnavailable, match=str(folder)):
        limiter.enter(allowance)
    folder.mkdir()
    assert limiter.enter(allowance) == 0.0
