"""Undoes content codings piece by piece, and says when a coded body ended early, which the HTTP libraries do not notice.

Pieces are small, so that whoever takes them can stop a body that unfolds without end. Real codings that we never ask for are
refused; any other word in that header means nothing, and servers write all kinds of them. A text or PDF that arrives as gzip
though no header says so is unwrapped once.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from itertools import chain

from resources.http.errors import BodyTruncated, ProtocolViolation

_MOST_CODINGS = 5
_PIECE = 65_536
_LOOKED_AT = 2048  # bytes of a body that may be gzip without saying so
_GZIP, _ZLIB, _RAW_DEFLATE = 31, 15, -15
_GZIP_START = b"\x1f\x8b\x08"
_NOT_ASKED_FOR = frozenset({"br", "zstd", "compress", "x-compress", "dcb", "dcz"})


def decoded(chunks: Iterable[bytes], content_encoding: str) -> Iterator[bytes]:
    """The body as it was before it was coded. BodyTruncated when it is not whole, ProtocolViolation above five codings or when
    one of them was never asked for."""
    codings = [coding.strip().lower() for coding in content_encoding.split(",")]
    if len(codings) > _MOST_CODINGS:
        raise ProtocolViolation(f"{len(codings)} content codings, more than {_MOST_CODINGS}")
    for coding in reversed(codings):
        if coding in ("gzip", "x-gzip", "deflate"):
            chunks = _inflated(chunks, coding)
        elif coding in _NOT_ASKED_FOR:
            chunks = _refused(chunks, coding)
    return _unwrapped(chunks)


def _inflated(chunks: Iterable[bytes], coding: str) -> Iterator[bytes]:
    stream = None
    for chunk in chunks:
        data = chunk
        if stream is None and data:
            stream = zlib.decompressobj(_window(coding, data))
        while data and stream is not None:
            if stream.eof:
                if not data.startswith(b"\x1f\x8b"):
                    break  # padding behind the end, which everybody ignores
                stream = zlib.decompressobj(_GZIP)  # another member of the same file
            try:
                piece = stream.decompress(data, _PIECE)
            except zlib.error:
                raise BodyTruncated(f"the {coding} coding of the body cannot be read") from None
            data = stream.unconsumed_tail or stream.unused_data
            if piece:
                yield piece
    if stream is not None:
        if rest := stream.flush():
            yield rest
        if not stream.eof:
            raise BodyTruncated(f"the {coding} coding of the body ended early")


def _refused(chunks: Iterable[bytes], coding: str) -> Iterator[bytes]:
    """An answer without a body may carry the header."""
    for chunk in chunks:
        if chunk:
            raise ProtocolViolation(f"the body is coded as {coding}, which was not asked for")
        yield chunk


def _unwrapped(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Undoes a gzip coding that no header names, where a text or a PDF is inside; once, so that it cannot be nested."""
    pieces = iter(chunks)
    start = next(pieces, b"")
    while len(start) < (_LOOKED_AT if start.startswith(_GZIP_START[: len(start)]) else 1):
        if (more := next(pieces, None)) is None:
            break
        start += more
    whole = chain((start,) if start else (), pieces)
    return _inflated(whole, "gzip") if _hides_a_text(start) else whole


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
