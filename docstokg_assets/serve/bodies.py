"""Reads request bodies in bounded memory and time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from http import HTTPStatus

from starlette.requests import Request

from docstokg_assets.ingest.records import MAX_REQUEST_BYTES
from docstokg_assets.serve.access import Refused

READ_TIMEOUT_S = 30.0  # without a byte
_PORTION = 2_000


async def read_body(request: Request, max_bytes: int) -> bytes:
    """The whole body; Refused when it is longer than `max_bytes`, or does not come."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > max_bytes:
        raise _too_large(max_bytes)
    body = bytearray()
    async for chunk in _chunks(request):
        body += chunk
        if len(body) > max_bytes:
            raise _too_large(max_bytes)
    return bytes(body)


async def read_lines(request: Request) -> AsyncIterator[list[bytes]]:
    """The lines of a body in portions, without empty ones. Refused for a line that is longer than a request may be."""
    rest, portion = bytearray(), list[bytes]()
    async for chunk in _chunks(request):
        rest += chunk
        *whole, last = rest.split(b"\n")
        rest = bytearray(last)
        portion += [bytes(line) for line in whole if line.strip()]
        if len(rest) > MAX_REQUEST_BYTES:
            raise _too_large(MAX_REQUEST_BYTES)
        while len(portion) >= _PORTION:
            yield portion[:_PORTION]
            del portion[:_PORTION]
    if rest.strip():
        portion.append(bytes(rest))
    if portion:
        yield portion


async def _chunks(request: Request) -> AsyncIterator[bytes]:
    stream = request.stream().__aiter__()
    while True:
        try:
            async with asyncio.timeout(READ_TIMEOUT_S):
                chunk = await anext(stream)
        except StopAsyncIteration:
            return
        except TimeoutError:
            detail = f"No byte of the request came for {READ_TIMEOUT_S:.0f} s."
            raise Refused(HTTPStatus.REQUEST_TIMEOUT, detail) from None
        yield chunk


def _too_large(max_bytes: int) -> Refused:
    detail = (
        f"The body, or a line of it, is longer than {max_bytes:,} bytes. Send many requests as application/x-ndjson."
    )
    return Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, detail)
