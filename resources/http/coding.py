"""Decode content codings piece by piece, and report a coded body that ended early, which the HTTP libraries do not notice.

Pieces are small, so that whoever takes them can stop a body that unfolds without end. A body that unfolds to nothing gives no
piece to stop at: every coding may take in only so much more than it gives out, and `check`, which raises when the request is
past its deadline or cut, is called for each step of each coding. Real codings that we never ask for are refused; any other word
in that header means nothing, and servers write all kinds of them. A text or PDF that arrives as gzip though no header says so is
unwrapped once.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from resources.http.errors import BodyTruncated, ProtocolViolation

_MOST_CODINGS = 5
_PIECE = 65_536
_FREE_INPUT = 1_048_576  # bytes that a coding may take in before it must have given something out,
_MOST_WASTE = 4  # and beyond that, so many for each byte that it gives out: packed data is not larger than plain data
_MEMBER_COST = 1_024  # each member of a gzip file counts as so many bytes more, because beginning one takes time
_LOOKED_AT = 2048  # bytes of a body that may be gzip without saying so
_GZIP, _ZLIB, _RAW_DEFLATE = 31, 15, -15
_GZIP_START = b"\x1f\x8b\x08"
_MEMBER_START = _GZIP_START[:2]
_NOT_ASKED_FOR = frozenset({"br", "zstd", "compress", "x-compress", "dcb", "dcz"})


def decoded(chunks: Iterable[bytes], content_encoding: str, check: Callable[[], None]) -> Iterator[bytes]:
    """The body as it was before it was coded. BodyTruncated when it is not whole, ProtocolViolation above five codings, when
    one of them was never asked for, or when one holds next to nothing."""
    codings = [coding.strip().lower() for coding in content_encoding.split(",")]
    if len(codings) > _MOST_CODINGS:
        raise ProtocolViolation(f"{len(codings)} content codings, more than {_MOST_CODINGS}")
    for coding in reversed(codings):
        if coding in ("gzip", "x-gzip", "deflate"):
            chunks = _inflated(chunks, coding, check)
        elif coding in _NOT_ASKED_FOR:
            chunks = _refused(chunks, coding)
    return _unwrapped(chunks, check)


def _inflated(chunks: Iterable[bytes], coding: str, check: Callable[[], None]) -> Iterator[bytes]:
    stream = None
    taken = given = 0
    held = b""  # a single byte that tells nothing before the next one has come
    for chunk in chunks:
        data, held = held + chunk if held else chunk, b""
        if stream is None and len(data) > 1:
            stream = zlib.decompressobj(_window(coding, data))
        while data:
            check()
            if stream is None or (stream.eof and data == _MEMBER_START[:1]):
                held = data
                break
            if stream.eof and data.startswith(_MEMBER_START):
                stream = zlib.decompressobj(_GZIP)  # another member of the same file
                taken += _MEMBER_COST
            piece, rest = _step(stream, data, coding)
            taken, given, data = taken + len(data) - len(rest), given + len(piece), rest
            if taken > _FREE_INPUT + _MOST_WASTE * given:
                raise ProtocolViolation(f"the {coding} coding of the body holds next to nothing")
            if piece:
                yield piece
    if stream is not None and (last := stream.flush()):
        yield last
    if held if stream is None else not stream.eof:
        raise BodyTruncated(f"the {coding} coding of the body ended early")


def _step(stream: zlib._Decompress, data: bytes, coding: str) -> tuple[bytes, bytes]:
    """A piece of what `data` holds, and the rest of `data`."""
    if stream.eof:
        return b"", b""  # padding behind the end, which everybody ignores
    try:
        return stream.decompress(data, _PIECE), stream.unconsumed_tail or stream.unused_data
    except zlib.error:
        raise BodyTruncated(f"the {coding} coding of the body cannot be read") from None


def _refused(chunks: Iterable[bytes], coding: str) -> Iterator[bytes]:
    """An answer without a body may carry the header."""
    for chunk in chunks:
        if chunk:
            raise ProtocolViolation(f"the body is coded as {coding}, which was not asked for")
        yield chunk


def _unwrapped(chunks: Iterable[bytes], check: Callable[[], None]) -> Iterator[bytes]:
    """Undoes a gzip coding that no header names, where a text or a PDF is inside; once, so that it cannot be nested."""
    pieces = iter(chunks)
    start = next(pieces, b"")
    while len(start) < (_LOOKED_AT if start.startswith(_GZIP_START[: len(start)]) else 1):
        if (more := next(pieces, None)) is None:
            break
        start += more
    whole = chain((start,) if start else (), pieces)
    return _inflated(whole, "gzip", check) if _hides_a_text(start) else whole


def _hides_a_text(start: bytes) -> bool:
    """Archives have bytes of zero in their heads. They stay as they are: the first file in one is not the article."""
    if not start.startswith(_GZIP_START):
        return False
    try:
        inside = zlib.decompressobj(_GZIP).decompress(start, 512)
    except zlib.error:
        return False
    return inside.startswith(b"%PDF-") or (inside != b"" and b"\0" not in inside)


def _window(coding: str, start: bytes) -> int:
    """`deflate` means zlib, but some servers send it without the zlib header."""
    if coding != "deflate":
        return _GZIP
    zlib_header = start[0] & 0x0F == 8 and (len(start) < 2 or int.from_bytes(start[:2]) % 31 == 0)
    return _ZLIB if zlib_header else _RAW_DEFLATE
