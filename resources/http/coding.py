"""Undoes content codings piece by piece, and says when a coded body ended early, which the HTTP libraries do not notice.

Pieces are small, so that whoever takes them can stop a body that unfolds without end. Codings that we never ask for are left
as they are: servers write all kinds of things into that header.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

from resources.http.errors import BodyTruncated, ProtocolViolation

_MOST_CODINGS = 5
_PIECE = 65_536
_GZIP, _ZLIB, _RAW_DEFLATE = 31, 15, -15


def decoded(chunks: Iterable[bytes], content_encoding: str) -> Iterator[bytes]:
    """The body as it was before it was coded. BodyTruncated when it is not whole, ProtocolViolation above five codings."""
    codings = [coding.strip().lower() for coding in content_encoding.split(",")]
    if len(codings) > _MOST_CODINGS:
        raise ProtocolViolation(f"{len(codings)} content codings, more than {_MOST_CODINGS}")
    for coding in reversed(codings):
        if coding in ("gzip", "x-gzip", "deflate"):
            chunks = _inflated(chunks, coding)
    return iter(chunks)


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


def _window(coding: str, start: bytes) -> int:
    """`deflate` means zlib, but some servers send it without the zlib header."""
    if coding != "deflate":
        return _GZIP
    zlib_header = start[0] & 0x0F == 8 and (len(start) < 2 or int.from_bytes(start[:2]) % 31 == 0)
    return _ZLIB if zlib_header else _RAW_DEFLATE
