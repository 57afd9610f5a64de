"""What happens between us and a server: whole bodies or none, deadlines that hold, connections that are used again."""

from __future__ import annotations

import gzip
import socket
import threading
import time
import tracemalloc
import zlib
from collections.abc import Callable
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstokg_assets.sandbox import Sandbox
from resources.http.coding import decoded
from resources.http.errors import (
    BodyTooLarge,
    BodyTooShort,
    BodyTruncated,
    ConnectionFailed,
    DeadlineExceeded,
    HttpError,
    Interrupted,
    ProtocolViolation,
)
from resources.http.messages import Request, Role

HOST = "www.plainpages.example"
ONCE = {"retry": {"max_attempts": 1}}
TEXT = b"some text, said over and over. " * 4000
GZIPPED = gzip.compress(TEXT)


class Sink:
    """Remembers what it was told."""

    def __init__(self, fails: Exception | None = None, at: str = "write") -> None:
        self.body, self.calls, self._fails, self._at = b"", list[str](), fails, at

    def _told(self, what: str) -> None:
        self.calls.append(what)
        if self._fails is not None and what == self._at:
            raise self._fails

    def write(self, chunk: bytes) -> None:
        self.body += chunk
        self._told("write")

    def finish(self) -> bytes:
        self._told("finish")
        return self.body

    def abort(self) -> None:
        self.calls.append("abort")


def artifact(url: str, sink: Sink) -> Request:
    return Request(url, Role.ARTIFACT, sink=lambda head: sink)


def chunked(*pieces: bytes, end: bytes = b"0\r\n\r\n") -> bytes:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + end


# -- whole bodies or none ---------------------------------------------------------------------------------------------


@pytest.mark.requirement("DL-5")
def test_a_body_that_is_shorter_than_announced_is_given_up_without_traces(
    polite: Callable[..., Any], sandbox: Sandbox
) -> None:
    sandbox.add_fault(host=HOST, status=200, body="x", body_repeat=500_000, truncate=300_000)
    sink = Sink()
    with pytest.raises(BodyTooShort):
        polite(through=sandbox, http=ONCE).ask(artifact(f"https://{HOST}/x.pdf", sink))
    assert sink.calls[-1] == "abort" and "finish" not in sink.calls
    with pytest.raises(BodyTooShort):  # the same for a page
        polite(through=sandbox, http=ONCE).ask(Request(f"https://{HOST}/x", Role.LANDING))


@pytest.mark.requirement("DL-5")
def test_a_whole_body_goes_through_the_sink(polite: Callable[..., Any], sandbox: Sandbox) -> None:
    sandbox.add_fault(host=HOST, status=200, body="0123456789", body_repeat=50_000)
    sink = Sink()
    client = polite(through=sandbox)
    response = client.ask(artifact(f"https://{HOST}/x.pdf", sink))
    assert response.payload == b"0123456789" * 50_000
    assert response.body == b""
    assert sink.calls == ["write"] * (len(sink.calls) - 1) + ["finish"]
    assert client.told("bytes_written") == [(500_000,)]


def test_a_sink_is_for_good_answers_only(polite: Callable[..., Any], serve: Callable[..., Any], answers: Any) -> None:
    sink = Sink()
    server = serve(answers.ok(b"not here", "404 Not Found"))
    assert polite().ask(artifact(server.url, sink)).body == b"not here"
    assert sink.calls == []


@pytest.mark.parametrize(
    "spoiled",
    [
        chunked(b"some", end=b"zz\r\nbroken"),
        chunked(b"some", end=b"ff\r\nless than said") + b"\r\nConnection: close",
        chunked(b"some", end=b""),
    ],
)
def test_a_broken_chunk_is_asked_for_again(
    polite: Callable[..., Any], serve: Callable[..., Any], answers: Any, spoiled: bytes
) -> None:
    """Fault 7."""
    hang_up = b"HTTP/1.1 200 OK\r\nConnection: close\r\n"
    broken = spoiled.replace(b"HTTP/1.1 200 OK\r\n", hang_up)
    server = serve(lambda request: broken if request.number == 1 else chunked(b"all ", b"of it"))
    client = polite()
    assert client.ask(Request(server.url, Role.LANDING)).body == b"all of it"
    assert client.attempts[0].extra["cause"] == "truncated"


def test_a_connection_that_breaks_in_a_body_without_length_ends_it(
    polite: Callable[..., Any], serve: Callable[..., Any]
) -> None:
    """Fault 6: nobody can know here; whoever takes the file checks its end."""
    server = serve(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhalf of i")
    assert polite().ask(Request(server.url, Role.LANDING)).body == b"half of i"


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X-Much: 1\r\n" * 5000 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nX-Long: " + b"1" * 5_000_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
    ],
)
def test_an_answer_that_is_not_http_is_a_protocol_error(
    polite: Callable[..., Any], serve: Callable[..., Any], answer: bytes
) -> None:
    server = serve(answer)
    with pytest.raises(ProtocolViolation) as caught:
        polite(http=ONCE).ask(Request(server.url, Role.LANDING))
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("at", ["write", "finish"])
def test_what_a_sink_raises_reaches_the_caller_unchanged(
    polite: Callable[..., Any], serve: Callable[..., Any], answers: Any, at: str
) -> None:
    server = serve(answers.ok(b"body"))
    full = OSError(28, "No space left on device")
    sink = Sink(full, at)
    with pytest.raises(OSError) as caught:
        polite().ask(artifact(server.url, sink))
    assert caught.value is full
    assert sink.calls[-1] == "abort"
    assert len(server.requests) == 1


def test_a_page_has_a_largest_size(
    polite: Callable[..., Any], serve: Callable[..., Any], answers: Any, sandbox: Sandbox
) -> None:
    server = serve(answers.ok(b"x" * 2000))
    client = polite(http={"max_page_bytes": 1999})
    with pytest.raises(BodyTooLarge):
        client.ask(Request(server.url, Role.LANDING))
    assert len(server.requests) == 1
    assert len(client.ask(Request(server.url, Role.LANDING, max_bytes=2000)).body) == 2000
    assert client.ask(Request(server.url, Role.LANDING, max_bytes=10, beginning_only=True)).body == b"x" * 10
    sandbox.add_fault(host=HOST, status=200, body="x", body_repeat=65_536, endless=True)
    with pytest.raises(BodyTooLarge):
        polite(through=sandbox, http={"max_page_bytes": 1_000_000}).ask(Request(f"https://{HOST}/", Role.LANDING))


# -- codings ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip", GZIPPED),
        ("X-GZIP", GZIPPED + b"\0\0padding"),
        ("gzip", gzip.compress(TEXT[:99]) + gzip.compress(TEXT[99:])),
        ("deflate", zlib.compress(TEXT)),
        ("deflate", zlib.compress(TEXT)[2:-4]),
        ("gzip, gzip", gzip.compress(GZIPPED)),
        ("identity", TEXT),
        ("UTF-8", TEXT),
    ],
    ids=lambda value: value if isinstance(value, str) else "body",  # compressed bytes differ from second to second
)
def test_coded_bodies_are_decoded(
    polite: Callable[..., Any], serve: Callable[..., Any], answers: Any, coding: str, body: bytes
) -> None:
    server = serve(answers.ok(body, Content_Encoding=coding))
    sink = Sink()
    assert polite().ask(Request(server.url, Role.LANDING)).body == TEXT
    assert polite().ask(artifact(server.url, sink)).payload == TEXT
    assert len(server.requests) == 2


@pytest.mark.parametrize("cut", [1, 9, 30, len(GZIPPED) - 9, len(GZIPPED) - 1])
def test_a_coding_that_ends_early_is_no_body(
    polite: Callable[..., Any], serve: Callable[..., Any], answers: Any, cut: int
) -> None:
    """Fault 4: the Content-Length is right, and the libraries would take it."""
    server = serve(answers.ok(GZIPPED[:cut], Content_Encoding="gzip"))
    sink = Sink()
    with pytest.raises(BodyTruncated):
        polite(http=ONCE).ask(artifact(server.url, sink))
    assert sink.calls[-1] == "abort"
    with pytest.raises(BodyTruncated):
        polite(http=ONCE).ask(Request(server.url, Role.LANDING))


@pytest.mark.parametrize(("coding", "body"), [("gzip", b"no gzip at all"), ("gzip", GZIPPED[:50] + b"junk" * 99)])
def test_a_coding_that_is_none_is_no_body(
    polite: Callable[..., Any], serve: Callable[..., Any], answers: Any, coding: str, body: bytes
) -> None:
    server = serve(answers.ok(body, Content_Encoding=coding))
    with pytest.raises(BodyTruncated):
        polite(http=ONCE).ask(Request(server.url, Role.LANDING))


def test_a_coded_answer_without_a_body_is_whole(
    polite: Callable[..., Any], serve: Callable[..., Any], answers: Any
) -> None:
    server = serve(answers.ok(b"", "404 Not Found", Content_Encoding="gzip"))
    for verb in ("GET", "HEAD"):
        assert polite().ask(Request(server.url, Role.LANDING, verb=verb)).body == b""


def test_a_body_that_unfolds_without_end_is_stopped_at_the_cap(
    polite: Callable[..., Any], serve: Callable[..., Any], answers: Any
) -> None:
    bomb = gzip.compress(gzip.compress(b"\0" * 200_000_000))
    server = serve(answers.ok(bomb, Content_Encoding="gzip, gzip"))
    client = polite(http={"max_page_bytes": 100_000})
    tracemalloc.start()
    try:
        with pytest.raises(BodyTooLarge):
            client.ask(Request(server.url, Role.LANDING))
        assert tracemalloc.get_traced_memory()[1] < 20_000_000, "it was unfolded a piece at a time"
    finally:
        tracemalloc.stop()
    many = serve(answers.ok(b"x", Content_Encoding=", ".join(["gzip"] * 6)))
    with pytest.raises(ProtocolViolation):
        polite(http=ONCE).ask(Request(many.url, Role.LANDING))


@given(data=st.binary(max_size=2000), cuts=st.lists(st.integers(0, 2500), max_size=8), repeat=st.integers(1, 400))
def test_it_does_not_matter_how_a_coded_body_is_cut_into_pieces(data: bytes, cuts: list[int], repeat: int) -> None:
    whole = gzip.compress(data * repeat)
    edges = [0, *sorted(cut for cut in cuts if cut < len(whole)), len(whole)]
    pieces = [whole[start:end] for start, end in pairwise(edges)]
    assert b"".join(decoded(pieces, "gzip", lambda: None)) == data * repeat
    with pytest.raises(BodyTruncated):
        list(decoded([whole[:-1]], "gzip", lambda: None))


# -- deadlines and interruption ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault", [{"drip": 20.0}, {"header_drip": 4.0}, {"delay": 30.0}, {"drip": 20.0, "no_length": True}]
)
def test_the_deadline_holds_whatever_drips(polite: Callable[..., Any], sandbox: Sandbox, fault: dict[str, Any]) -> None:
    """Fault 9: within a tenth, over TLS, with a sink and without."""
    sandbox.add_fault(host=HOST, status=200, body="x", body_repeat=1000, **fault)
    client = polite(through=sandbox, http={"deadline_s": 5.0, **ONCE})
    client.ask(Request("https://www.gatehouse.example/", Role.LANDING))  # what takes time once is done
    sink = Sink()
    began = time.monotonic()
    with pytest.raises(DeadlineExceeded):
        client.ask(artifact(f"https://{HOST}/x", sink))
    assert 4.95 <= time.monotonic() - began <= 5.5
    assert "finish" not in sink.calls


def test_one_slow_answer_does_not_shorten_the_time_of_another(
    polite: Callable[..., Any], serve: Callable[..., Any], answers: Any
) -> None:
    server = serve(lambda request: [0.3, answers.ok()] if request.path == "/slow" else answers.ok())
    client = polite(http={"deadline_s": 0.8, **ONCE})
    for _ in range(3):  # 0.9 s together
        assert client.ask(Request(f"{server.url}/slow", Role.METADATA)).ok
    assert server.connections == 1


@pytest.mark.parametrize("where", ["head", "body"])
def test_interrupt_cuts_what_is_under_way_at_once(
    polite: Callable[..., Any], serve: Callable[..., Any], answers: Any, where: str
) -> None:
    head, body = answers.ok(b"x" * 10_000)[:-10_000], b"x" * 10_000
    server = serve(lambda request: [head, body[:5000], 30, body[5000:]] if where == "body" else [30, head + body])
    client = polite()
    sink, raised = Sink(), list[BaseException]()

    def transfer() -> None:
        try:
            client.ask(artifact(server.url, sink))
        except HttpError as error:
            raised.append(error)

    thread = threading.Thread(target=transfer)
    thread.start()
    while not server.requests:
        time.sleep(0.01)
    time.sleep(0.1)
    client.client.wire.watchdog.cut_all()
    thread.join(15)
    assert [type(error) for error in raised] == [Interrupted]
    assert len(server.requests) == 1  # and it is not tried again
    assert "finish" not in sink.calls
    server2 = serve(answers.ok())
    assert client.ask(Request(server2.url, Role.METADATA)).ok  # what begins later is not cut


@pytest.mark.parametrize("phase", ["connect", "handshake", "tunnel"])
def test_interrupt_cuts_a_connection_that_does_not_come_about(polite: Callable[..., Any], phase: str) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as silent, ExitStack() as others:
        port = silent.getsockname()[1]
        for _ in range(8 if phase == "connect" else 0):  # more than its queue holds: further ones are not answered
            other = others.enter_context(socket.socket())
            other.setblocking(False)
            other.connect_ex(("127.0.0.1", port))
        proxy = {"proxy": f"http://127.0.0.1:{port}"} if phase == "tunnel" else {}
        client = polite(http=ONCE | proxy | {"allow_http_hosts": []})
        url = "https://www.plainpages.example/" if phase == "tunnel" else f"https://127.0.0.1:{port}/"
        raised = list[BaseException]()

        def transfer() -> None:
            try:
                client.ask(Request(url, Role.METADATA))
            except HttpError as error:
                raised.append(error)

        thread = threading.Thread(target=transfer)
        thread.start()
        time.sleep(0.3)
        assert not raised
        client.client.wire.watchdog.cut_all()
        thread.join(15)
    assert [type(error) for error in raised] == [Interrupted]


def test_silence_is_a_timeout(polite: Callable[..., Any], serve: Callable[..., Any], answers: Any) -> None:
    server = serve(lambda request: [30, answers.ok()])
    began = time.monotonic()
    with pytest.raises(DeadlineExceeded):
        polite(http={"timeout": 0.2, **ONCE}).ask(Request(server.url, Role.METADATA))
    assert time.monotonic() - began < 15


# -- connections ------------------------------------------------------------------------------------------------------


def test_requests_of_a_group_one_after_another_use_one_connection(
    polite: Callable[..., Any], serve: Callable[..., Any], answers: Any
) -> None:
    """Redirects, empty answers, failures, HEAD and sinks included."""
    plan = {
        "/moved": answers.moved("/end"),
        "/busy": answers.ok(b"later", "503 Busy"),
        "/missing": answers.ok(b"no", "404 Not Found"),
        "/head": answers.ok(b""),
        "/chunked": chunked(b"some", b"pieces"),
        "/coded": answers.ok(GZIPPED, Content_Encoding="gzip"),
    }
    server = serve(lambda request: plan.get(request.path, answers.ok(b"end")))
    client = polite()
    for path in plan:
        client.ask(Request(f"{server.url}{path}", Role.METADATA, verb="HEAD" if path == "/head" else "GET"))
    client.ask(artifact(f"{server.url}/file", Sink()))
    assert len(server.requests) >= 11
    assert server.connections == 1


def test_an_answer_that_was_not_read_to_its_end_is_not_followed_by_another(
    polite: Callable[..., Any], serve: Callable[..., Any], answers: Any
) -> None:
    server = serve(lambda request: answers.ok(b"y" * 500_000 if request.path == "/long" else b"short"))
    client = polite(http={"max_page_bytes": 100_000})
    with pytest.raises(BodyTooLarge):
        client.ask(Request(f"{server.url}/long", Role.METADATA))
    with pytest.raises(OSError):
        client.ask(artifact(f"{server.url}/long", Sink(OSError("full"))))
    assert client.ask(Request(f"{server.url}/short", Role.METADATA)).body == b"short"
    assert server.connections == 3


def test_a_group_has_one_connection_at_a_time_even_over_several_hosts(
    polite: Callable[..., Any], serve: Callable[..., Any], answers: Any
) -> None:
    one, other = serve(answers.ok()), serve(answers.ok(), "127.0.0.2")
    client = polite()
    for server in (one, other):
        step = next(client.client.exchange(Request(server.url, Role.METADATA), client.log))
        client.client.wire.send(step, "shared")
    assert one.gone.wait(2)
    assert not other.gone.is_set()


def test_a_server_that_closes_idle_connections_is_asked_over_a_new_one(
    polite: Callable[..., Any], serve: Callable[..., Any], answers: Any
) -> None:
    server = serve(answers.ok(b"bye", Connection="close"))
    client = polite()
    for _ in range(3):
        assert client.ask(Request(server.url, Role.METADATA)).ok
    assert len(client.attempts) == 3
    assert server.connections == 3


def test_only_so_many_idle_connections_are_kept_and_the_oldest_go(
    polite: Callable[..., Any], serve: Callable[..., Any], answers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resources.http.wire._IDLE_ADAPTERS", 2)
    server = serve(answers.ok())
    client = polite()
    step = next(client.client.exchange(Request(server.url, Role.METADATA), client.log))
    for group in ("a", "b", "c", "c", "b", "a"):
        client.client.wire.send(step, group)
    assert server.connections == 4  # a, b, c, and a again


def test_closing_ends_all_connections(polite: Callable[..., Any], serve: Callable[..., Any], answers: Any) -> None:
    server = serve(answers.ok())
    client = polite()
    client.ask(Request(server.url, Role.METADATA))
    client.client.close()
    assert server.gone.wait(2)


# -- what is around us ------------------------------------------------------------------------------------------------


def test_netrc_and_proxy_variables_are_not_read(
    polite: Callable[..., Any], serve: Callable[..., Any], answers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault 18."""
    server, proxy = serve(answers.ok()), serve(answers.ok(b"proxied"))
    (tmp_path / ".netrc").write_text("default login me password CANARY\n")
    (tmp_path / ".netrc").chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, proxy.url)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "none.pem"))
    assert polite().ask(Request(server.url, Role.METADATA)).body == b"fine"
    assert proxy.connections == 0
    assert "authorization" not in server.requests[0].headers


def test_environment_certificates_are_not_trusted(
    polite: Callable[..., Any], sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.setenv(name, str(sandbox.ca_bundle))
    with pytest.raises(HttpError, match="TLS failed"):
        polite(through=sandbox, http={"ca_bundle": None}).ask(Request(f"https://{HOST}/", Role.LANDING))


def test_a_host_that_a_proxy_does_not_reach_is_a_connection_error(polite: Callable[..., Any], sandbox: Sandbox) -> None:
    with pytest.raises(ConnectionFailed):
        polite(through=sandbox, http=ONCE).ask(Request("https://nowhere.example/", Role.LANDING))


def test_an_error_is_named_by_itself_and_not_by_what_the_caller_was_handling(
    polite: Callable[..., Any], serve: Callable[..., Any]
) -> None:
    server = serve(lambda request: None)
    try:
        raise TimeoutError
    except TimeoutError:
        with pytest.raises(ConnectionFailed):
            polite(http=ONCE).ask(Request(server.url, Role.METADATA))
