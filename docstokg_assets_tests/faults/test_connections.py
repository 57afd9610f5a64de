"""Faults 9 to 19: slow answers, endless heads, redirects, and addresses that must not be reached, over real sockets."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from docstokg_assets.sandbox import Sandbox
from resources.http.errors import AddressRefused, DeadlineExceeded, HttpError, SchemeRefused
from resources.http.messages import Request, Role

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\nX-Long: "
DEADLINE = 5.0
LOOPBACK = [
    "127.0.0.1", "127.1", "2130706433", "0x7f000001", "0x7f.0.0.1", "0177.0.0.1", "017700000001", "127.0.0.1.",
    "１２７.0.0.1", "127。0。0。1", "0.0.0.0", "0", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
    "[::127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "localhost", "me.localhost",
]  # fmt: skip
OTHERS = [
    "169.254.169.254", "metadata.google.internal", "[fd00:ec2::254]", "168.63.129.16", "100.100.100.200",
    "192.0.0.192", "10.0.0.1", "[fe80::1]", "224.0.0.1", "[ff02::1]", "[64:ff9b:1::a00:1]", "255.255.255.255",
]  # fmt: skip


# -- answers that drip ------------------------------------------------------------------------------------------------


def drip(what: str) -> list[Any]:
    slowly = [b"x", 0.1] * 600
    return [HEAD.partition(b"X-")[0] + b"\r\n", *slowly] if what == "body" else [HEAD, *slowly]


@pytest.fixture
def slow_handshake() -> Iterator[int]:
    """A server that begins a TLS handshake and sends it byte by byte."""
    listener = socket.create_server(("127.0.0.1", 0))
    ended = threading.Event()

    def serve() -> None:
        with suppress(OSError):
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"\x16\x03\x03\x3f\xff\x02\x00\x3f\xfb")
                while not ended.wait(0.1):
                    connection.sendall(b"\x00")

    threading.Thread(target=serve, daemon=True).start()
    yield listener.getsockname()[1]
    ended.set()
    listener.close()


@pytest.mark.requirement("HTTP-2")
def test_fault_09_10_the_total_deadline_holds_within_a_tenth_wherever_it_drips(
    polite: Callable[..., Any], serve: Callable[..., Any], slow_handshake: int
) -> None:
    """In the body, in the head, in the TLS handshake: all three at once, each in a thread of its own."""
    client = polite(http={"deadline_s": DEADLINE, "timeout": 1.0, "retry": {"max_attempts": 1}})
    urls = {what: serve(drip(what)).url for what in ("body", "head")}
    urls["handshake"] = f"https://127.0.0.1:{slow_handshake}/"
    took: dict[str, float] = {}

    def ask(what: str) -> None:
        began = time.monotonic()
        with pytest.raises(DeadlineExceeded):
            client.ask(Request(urls[what], Role.LANDING))
        took[what] = time.monotonic() - began

    threads = [threading.Thread(target=ask, args=(what,)) for what in urls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(took) == sorted(urls), took
    assert all(seconds <= 1.1 * DEADLINE for seconds in took.values()), took
    assert took["body"] >= 0.9 * DEADLINE, took
    assert took["head"] < 0.9 * DEADLINE and took["handshake"] < 0.9 * DEADLINE, took  # each has a limit of its own


@pytest.mark.parametrize(
    "head",
    [
        b"X-Long: " + b"1" * 5_000_000 + b"\r\n",
        b"".join(b"X-%d: %b\r\n" % (n, b"v" * 1000) for n in range(5000)),
        b"Set-Cookie: a=b\r\n" * 300_000,
    ],
    ids=["one", "many", "cookies"],
)
def test_fault_11_five_megabytes_of_headers_are_a_clear_error(
    pull: Callable[..., Any], pdf: bytes, head: bytes
) -> None:
    got = pull([b"HTTP/1.1 200 OK\r\n" + head + b"\r\n" + pdf], "http://a.example/1.pdf")
    assert (got.reason, got.files) == ("protocol-error", {})
    assert "cannot be understood" in got.attempts[-1].extra["error"]


# -- redirects --------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("HTTP-6")
@pytest.mark.parametrize("listed", [False, True])
def test_fault_15_from_https_to_http_only_where_the_host_is_listed(
    polite: Callable[..., Any], sandbox: Sandbox, listed: bool
) -> None:
    start, other = "www.plainpages.example", "www.gatehouse.example"
    sandbox.add_fault(host=start, redirect=f"http://{other}/")
    client = polite(through=sandbox, http={"allow_http_hosts": (other,) if listed else ()})
    response = client.ask(Request(f"https://{start}/", Role.LANDING))
    assert response.url == f"https://{other}/"  # over http the sandbox sends its visitors on to https
    assert (f"http://{other}/" in response.hops) is listed


# -- addresses --------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("HTTP-6")
def test_fault_16_no_spelling_of_a_private_address_is_connected_to(
    pull: Callable[..., Any], answers: Any, pdf: bytes
) -> None:
    urls = [f"http://{host}:PORT/1.pdf" for host in (*LOOPBACK, *OTHERS)]
    got = pull(answers.ok(pdf), *urls, direct=True, http__allow_http_hosts=[], http__allow_private_hosts=[])
    assert got.server.connections == 0
    assert (got.reason, got.files) == ("blocked-address", {})
    blocked = [record for record in got.attempts if str(record.reason) == "blocked-address"]
    assert len(got.attempts) == len(blocked) >= 28  # a few spellings are one and the same key


@pytest.mark.requirement("HTTP-6")
@pytest.mark.parametrize("host", [*LOOPBACK, *OTHERS])
def test_fault_16_nor_by_way_of_a_redirect(
    polite: Callable[..., Any], serve: Callable[..., Any], answers: Any, host: str
) -> None:
    inner = serve(answers.ok(), "127.0.0.2")
    outer = serve(answers.moved(f"http://{host}:{inner.port}/".encode().decode("latin-1")), "127.0.0.3")
    with pytest.raises(AddressRefused):
        polite(http={"allow_private_hosts": ("127.0.0.3",), "allow_http_hosts": ("127.0.0.3",)}).ask(
            Request(outer.url, Role.ARTIFACT)
        )
    assert inner.connections == 0


class Resolver:
    """Stands in for the resolver of the machine: what a name leads to, one lookup after another."""

    def __init__(self, *answers: list[str]) -> None:
        self._answers, self.lookups = list(answers), 0

    def __call__(self, host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        if host[0].isdigit() or ":" in host:  # an address needs no lookup
            found = [host]
        else:
            found = self._answers[min(self.lookups, len(self._answers) - 1)]
            self.lookups += 1
        kinds = [(socket.AF_INET6 if ":" in address else socket.AF_INET, address) for address in found]
        return [(kind, socket.SOCK_STREAM, 6, "", (address, port)) for kind, address in kinds]


@pytest.mark.requirement("HTTP-6")
@pytest.mark.parametrize("addresses", [["127.0.0.1"], ["::1"], ["::ffff:127.0.0.1"], ["0.0.0.0"], ["127.0.0.1", "::1"]])
def test_fault_17_the_address_is_judged_when_it_is_dialled(
    polite: Callable[..., Any],
    serve: Callable[..., Any],
    answers: Any,
    monkeypatch: pytest.MonkeyPatch,
    addresses: list[str],
) -> None:
    """A name that was public when somebody looked and is private now: one lookup, and not even a connection."""
    server = serve(answers.ok())
    resolver = Resolver(addresses)
    monkeypatch.setattr(socket, "getaddrinfo", resolver)
    client = polite(http={"allow_private_hosts": (), "allow_http_hosts": ("rebound.example.org",)})
    with pytest.raises(AddressRefused):
        client.ask(Request(f"http://rebound.example.org:{server.port}/", Role.LANDING))
    assert (server.connections, resolver.lookups) == (0, 1)


@pytest.mark.requirement("HTTP-6")
def test_fault_17_a_kept_connection_is_not_looked_up_again_and_a_new_one_is(
    polite: Callable[..., Any], serve: Callable[..., Any], answers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(lambda request: answers.ok(Connection="close") if request.number == 2 else answers.ok())
    monkeypatch.setattr(socket, "getaddrinfo", resolver := Resolver(["127.0.0.1"], ["127.0.0.1"]))
    listed = {"allow_private_hosts": ("a.example.org",), "allow_http_hosts": ("a.example.org",)}
    client = polite(http=listed)
    url = f"http://a.example.org:{server.port}/"
    for _ in range(2):
        assert client.ask(Request(url, Role.LANDING)).ok
    assert resolver.lookups == 1
    client.client.replace_settings(
        client.client.wire.settings.model_copy(update={"allow_private_hosts": ()}), client.client.robots.settings
    )
    with pytest.raises(AddressRefused):
        client.ask(Request(url, Role.LANDING))
    assert len(server.requests) == 2


def test_fault_17_behind_a_proxy_the_proxy_alone_is_dialled(
    polite: Callable[..., Any], serve: Callable[..., Any], answers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = serve(answers.ok(b"by proxy"))
    monkeypatch.setattr(socket, "getaddrinfo", resolver := Resolver(["8.8.8.8"]))
    client = polite(http={"proxy": proxy.url, "allow_http_hosts": ("a.example.org",), "allow_private_hosts": ()})
    assert client.ask(Request("http://a.example.org/", Role.LANDING)).body == b"by proxy"
    assert resolver.lookups == 0
    with pytest.raises(AddressRefused):
        client.ask(Request("http://10.0.0.1/", Role.LANDING))
    assert len(proxy.requests) == 1


# -- what must not get in ---------------------------------------------------------------------------------------------


@pytest.mark.requirement("HTTP-14")
def test_fault_18_netrc_is_not_read_on_any_hop(
    polite: Callable[..., Any],
    serve: Callable[..., Any],
    answers: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password CANARY\ndefault login me password CANARY\n")
    (tmp_path / ".netrc").chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    end = serve(answers.ok(), "127.0.0.2")
    start = serve(answers.moved(end.url))
    assert polite().ask(Request(start.url, Role.ARTIFACT)).ok
    assert all("authorization" not in request.headers for request in (*start.requests, *end.requests))


@pytest.mark.requirement("HTTP-6")
@pytest.mark.parametrize("target", ["/a\r\nX-Injected: 1", "/a\rb", "http://127.0.0.1/\x0b", "/a\x00b", "/a\tb"])
def test_fault_19_control_characters_in_a_location_inject_nothing(
    polite: Callable[..., Any], serve: Callable[..., Any], answers: Any, target: str
) -> None:
    server = serve(lambda request: answers.moved(target) if request.number == 1 else answers.ok())
    with suppress(HttpError):
        polite(http={"retry": {"max_attempts": 1}}).ask(Request(server.url, Role.LANDING))
    assert all("x-injected" not in request.headers for request in server.requests)
    assert all(request.line.count(" ") == 2 for request in server.requests)


@pytest.mark.requirement("HTTP-6")
def test_fault_19_control_characters_from_metadata_are_refused(
    polite: Callable[..., Any], serve: Callable[..., Any], answers: Any
) -> None:
    server, client = serve(answers.ok()), polite()
    for bad in ("\r\nX-Injected: 1", "\n", "\r", "\x00", "\x7f"):
        with pytest.raises(SchemeRefused):
            client.ask(Request(f"{server.url}/a{bad}b", Role.LANDING))
        with pytest.raises(SchemeRefused):
            client.ask(Request(server.url, Role.LANDING, headers={"X-Name": f"a{bad}b"}))
    assert server.requests == []
