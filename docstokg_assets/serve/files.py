"""Serves stored files by catalogued id, as attachments that a browser never renders in our name."""

from __future__ import annotations

from collections.abc import AsyncIterator
from http import HTTPStatus
from pathlib import PurePosixPath
from typing import BinaryIO, NamedTuple
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from docstokg_assets.serve.access import Refused
from docstokg_assets.serve.parts import Parts
from docstokg_assets.serve.streaming import ClosingResponse
from resources.errors import ExplainedError

CSP = "sandbox; default-src 'none'"
_CHUNK = 256 * 1024


class StoredFile(NamedTuple):
    path: str
    bytes: int | None
    is_pdf: bool


def find_file(parts: Parts, id: str) -> StoredFile | None:
    """The file of an ingest request or of a work."""
    if id.startswith("ingest-"):
        result = parts.service.result(id)
        if result is None or not result.hit or result.path is None:
            return None
        meta = result.file_meta
        return StoredFile(
            result.path, meta.size_bytes if meta else None, bool(meta and meta.mimetype == "application/pdf")
        )
    entry = parts.service.catalog.entry(id)
    if entry is None or entry.path is None:
        return None
    return StoredFile(entry.path, entry.bytes, entry.path.endswith(".pdf"))


async def file_response(parts: Parts, id: str, *, head: bool) -> Response:
    stored = await run_in_threadpool(find_file, parts, id)
    if stored is None:
        raise Refused(HTTPStatus.NOT_FOUND, f"No file is stored for {id[:80]!r}.")
    try:
        body = await run_in_threadpool(parts.store.open_read, stored.path)
    except FileNotFoundError:
        detail = "The file is in the catalog but not in the store. `content resume --verify` fetches it again."
        raise Refused(HTTPStatus.GONE, detail) from None
    except ExplainedError as error:
        raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, str(error), 30) from None
    name = PurePosixPath(stored.path).name
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in name)
    headers = {
        "content-disposition": f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name)}",
        "content-security-policy": CSP,
    }
    if stored.bytes is not None:
        headers["content-length"] = str(stored.bytes)
    kind = "application/pdf" if stored.is_pdf else "application/octet-stream"
    if head:
        body.close()
        return Response(None, headers=headers, media_type=kind)
    return ClosingResponse(_chunks(body), body.close, media_type=kind, headers=headers)


async def _chunks(body: BinaryIO) -> AsyncIterator[bytes]:
    while chunk := await run_in_threadpool(body.read, _CHUNK):
        yield chunk
