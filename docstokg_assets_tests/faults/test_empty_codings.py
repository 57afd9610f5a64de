"""Fault 51: bodies that decode to nothing for a long time. Each ends within its deadline, and other works go on."""

from __future__ import annotations

import gzip
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from docstokg_assets_tests.support.many_works import PDF, run_works
from docstokg_assets_tests.support.polite import RawServer
from resources.http.coding import decoded
from resources.http.errors import BodyTooLarge, DeadlineExceeded, HttpError, Interrupted, ProtocolViolation
from resources.http.messages import Request, Role

EMPTY = gzip.compress(b"", mtime=0)
EMPTY_BLOCKS = b"\x00\x00\x00\xff\xff"  # of a deflate stream that does not end
LAYERS = 5
DEADLINE = 4.0
ONCE = {"retry": {"max_attempts": 1}, "deadline_s": DEADLINE, "timeout": DEADLINE}


def nested(core: bytes, layers: int) -> bytes:
    """Gzip codings around `core`, the outer ones at their best."""
    for _ in range(layers):
        packer = zlib.compressobj(9, wbits=31)
        core = packer.compress(core) + packer.flush()
    return core


def empty_members(size: int = 60_000_000) -> bytes:
    """Four codings around a file of empty members: a few hundred bytes to five codings of nothing."""
    return nested(EMPTY * (size // len(EMPTY)), LAYERS - 1)


def coded(body: bytes, codings: str) -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nContent-Encoding: {codings}\r\n\r\n"
    return head.encode() + body


def chunked(pieces: Iterator[bytes] | list[bytes], codings: str = "", extension: bytes = b"") -> bytes:
    chunks = b"".join(b"%x%b\r\n%b\r\n" % (len(piece), extension, piece) for piece in pieces if piece)
    head = f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Encoding: {codings}\r\n\r\n"
    return head.encode() + chunks + b"0\r\n\r\n"


NOTHING = empty_members()
FIVE = ", ".join(["gzip"] * LAYERS)
MANY = 30_000_000
MANY_MEMBERS = MANY // len(EMPTY)
BODIES = {
    "nested empty members": coded(NOTHING, FIVE),
    "behind an unnamed gzip": coded(nested(gzip.compress(b"<html>" * 99) + EMPTY * MANY_MEMBERS, 1), "gzip"),
    "empty members": coded(nested(EMPTY * MANY_MEMBERS, 1), "gzip, gzip"),
    "empty blocks": coded(nested(b"\x78\x9c" + EMPTY_BLOCKS * (MANY // 5), 1), "deflate, gzip"),
    "empty raw blocks": coded(nested(EMPTY_BLOCKS * (MANY // 5), 1), "deflate, gzip"),
    "padding": coded(nested(EMPTY + bytes(MANY), 1), "gzip, gzip"),
    "one byte in a member": coded(nested(gzip.compress(b"x", mtime=0) * 1_000_000, 1), "gzip, gzip"),
}


@pytest.mark.requirement("TRU-4")
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_fault_51_a_coding_that_holds_nothing_is_refused(
    polite: Callable[..., Any], serve: Callable[..., Any], body: bytes
) -> None:
    server, client = serve(body), polite(http=ONCE)
    began = time.monotonic()
    with pytest.raises(ProtocolViolation, match="holds next to nothing"):
        client.ask(Request(server.url, Role.LANDING))
    assert time.monotonic() - began < DEADLINE


@pytest.mark.requirement("TRU-4")
def test_fault_51_robots_txt_is_no_exception(polite: Callable[..., Any], serve: Callable[..., Any]) -> None:
    server, client = serve(BODIES["nested empty members"]), polite(http=ONCE, robots=True)
    began = time.monotonic()
    with pytest.raises(HttpError, match=r"robots\.txt .* cannot be read"):
        client.ask(Request(f"{server.url}/paper", Role.LANDING))
    assert time.monotonic() - began < DEADLINE
    assert [request.path for request in server.requests] == ["/robots.txt"]


@pytest.mark.requirement("TRU-4")
def test_fault_51_links_to_nothing_do_not_hold_up_the_papers(serve: Callable[..., Any], tmp_path: Path) -> None:
    """Eight of them were enough to occupy the workers of a default run."""
    bad, good = coded(NOTHING, FIVE), coded(PDF, "identity")
    server = serve(lambda request: bad if "bad" in request.path else good)
    urls = [f"http://bad{n}.example/1.pdf" for n in range(8)] + [f"http://good{n}.example/1.pdf" for n in range(20)]
    began = time.monotonic()
    done = run_works(tmp_path / "data", server, urls, http__retry__max_attempts=2)
    assert time.monotonic() - began < 60
    assert {url: reason for url, reason in done.reasons.items() if "good" in url} == dict.fromkeys(urls[8:], "ok")
    assert {reason for url, reason in done.reasons.items() if "bad" in url} == {"protocol-error"}


@pytest.mark.parametrize("why", [DeadlineExceeded, Interrupted])
def test_fault_51_every_coding_looks_at_the_deadline_while_it_decodes(why: type[HttpError]) -> None:
    """Here the request is cut while the inner codings work and no piece has come out of the outermost one."""
    looks = 0

    def check() -> None:
        nonlocal looks
        looks += 1
        if looks == 50:
            raise why("cut")

    with pytest.raises(why):
        list(decoded([NOTHING], FIVE, check))


def test_fault_51_a_body_of_tiny_chunks_is_refused(polite: Callable[..., Any], serve: Callable[..., Any]) -> None:
    client = polite(http={**ONCE, "deadline_s": 60.0, "timeout": 60.0})
    sound = serve(chunked([b"x"] * 50_000))
    assert client.ask(Request(sound.url, Role.LANDING)).body == b"x" * 50_000
    server = serve(chunked([b"x"] * 300_000))
    with pytest.raises(ProtocolViolation, match="chunks of the body hold"):
        client.ask(Request(server.url, Role.LANDING))


@pytest.mark.parametrize(
    "codings", [",".join(["gzip"] * 2) + "," * 30_000, "," * 60_000, "x" * 60_000, "gzip" + ", identity" * 5]
)
def test_fault_51_a_list_of_codings_without_end_is_refused_or_means_nothing(
    polite: Callable[..., Any], serve: Callable[..., Any], codings: str
) -> None:
    server = serve(coded(gzip.compress(b"text"), codings))
    began = time.monotonic()
    try:
        polite(http=ONCE).ask(Request(server.url, Role.LANDING))
    except ProtocolViolation as error:
        assert "content codings" in str(error)
    assert time.monotonic() - began < DEADLINE


@pytest.mark.parametrize("separate", [1, 2, 3, 7])
def test_a_member_that_begins_at_the_end_of_a_chunk_is_not_lost(separate: int) -> None:
    body = b"".join(gzip.compress(text) for text in (b"one ", b"", b"two ", b"three"))
    pieces = [body[at : at + separate] for at in range(0, len(body), separate)]
    assert b"".join(decoded(pieces, "gzip", lambda: None)) == b"one two three"


# -- by chance --------------------------------------------------------------------------------------------------------

PLAIN = st.sampled_from([b"", b"x", b"<html><p>text</p></html>", bytes(100_000), b"%PDF-1.7 " * 3000, bytes(3_000_000)])


def packed(coding: str, plain: bytes, members: int, padding: int, cut: int) -> bytes:
    if coding == "gzip":
        # in several members, and between them as many empty ones
        size = max(1, -(-len(plain) // members))
        parts = [plain[at : at + size] for at in range(0, len(plain), size)] or [b""]
        whole = b"".join(gzip.compress(part, 6, mtime=0) + EMPTY * (members - 1) for part in parts)
    elif coding == "deflate":
        whole = zlib.compress(plain, 6)
    elif coding == "raw":
        packer = zlib.compressobj(6, wbits=-15)
        whole = packer.compress(plain) + packer.flush(zlib.Z_FULL_FLUSH) + EMPTY_BLOCKS * members + packer.flush()
    else:
        whole = plain
    whole += bytes(padding)
    return whole[: len(whole) - cut] if cut else whole


LAYER = st.tuples(
    st.sampled_from(["gzip", "gzip", "deflate", "raw", "identity"]),
    st.sampled_from([1, 1, 2, 50, 500]),  # members
    st.sampled_from([0, 0, 0, 1, 5000, 2_000_000]),  # padding
    st.sampled_from([0, 0, 0, 0, 1, 9]),  # bytes that are missing
)


@pytest.fixture
def fuzzed(serve: Callable[..., RawServer], polite: Callable[..., Any]) -> tuple[dict[str, bytes], RawServer, Any]:
    bodies: dict[str, bytes] = {}
    server = serve(lambda request: bodies[request.path])
    limits = {"max_page_bytes": 1_000_000, "breaker": {"enabled": False}}
    return bodies, server, polite(http=ONCE | limits)


@pytest.mark.requirement("TRU-4")
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    plain=PLAIN,
    layers=st.lists(LAYER, max_size=6),
    named=st.booleans(),
    sizes=st.sampled_from([None, 1, 2, 37, 4096, 1_000_000]),
    extension=st.sampled_from([b"", b";a=b", b";" + b"e" * 5000]),
)
def test_fault_51_codings_nested_cut_and_empty_end_within_their_deadline(
    fuzzed: tuple[dict[str, bytes], RawServer, Any],
    plain: bytes,
    layers: list[tuple[str, int, int, int]],
    named: bool,
    sizes: int | None,
    extension: bytes,
) -> None:
    """`sizes` of the chunks, None without chunks; not `named`: no header says that the outermost coding is there."""
    bodies, server, client = fuzzed
    body = plain
    for coding, members, padding, cut in layers:
        body = packed(coding, body, members, padding, cut)[:3_000_000]
    codings = ["deflate" if coding == "raw" else coding for coding, *_ in layers]
    names = ", ".join(codings if named else codings[:-1])
    sizes = sizes if sizes is None or len(body) // sizes < 2000 else 4096
    pieces = [] if sizes is None else [body[at : at + sizes] for at in range(0, len(body), sizes)]
    path = f"/{len(bodies)}"
    bodies[path] = coded(body, names) if sizes is None else chunked(pieces, names, extension)
    began = time.monotonic()
    try:
        answer = client.ask(Request(server.url + path, Role.LANDING))
    except HttpError as error:
        sound = named and len(layers) <= LAYERS and all(layer[1:] == (1, 0, 0) for layer in layers) and len(body) < 3e6
        assert not sound or (isinstance(error, BodyTooLarge) and len(plain) > 1_000_000), error
    else:
        assert len(answer.body) <= 1_000_000
        if named and not any(cut or padding for _, _, padding, cut in layers) and len(body) < 3_000_000:
            assert answer.body == plain
    assert time.monotonic() - began < DEADLINE + 1
