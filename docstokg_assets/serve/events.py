"""Server-sent events of watched requests, as JSON for programs and as HTML for the page."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict

import orjson
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from docstokg_assets.serve.parts import Parts
from docstokg_assets.serve.progress import POLL_S, Watched
from docstokg_assets.serve.streaming import ClosingResponse

MAX_IDS = 50  # of one stream
_KEEPALIVE_S = 15.0
Render = Callable[[Watched, int], list[tuple[str, str]]]  # (watched, attempts already sent) -> (event, data)


def event_stream(parts: Parts, ids: Sequence[str], after: float | None, render: Render) -> Response:
    """Raises UnknownRequest and TooManyWatched before anything is sent."""
    stack = ExitStack()
    try:
        watched = [stack.enter_context(parts.hub.watch(id, after)) for id in dict.fromkeys(ids)]
    except BaseException:
        stack.close()
        raise
    headers = {"x-accel-buffering": "no"}  # a proxy must not collect the events
    body = _events(parts, watched, render)
    return ClosingResponse(body, stack.close, media_type="text/event-stream", headers=headers)


async def _events(parts: Parts, followed: list[Watched], render: Render) -> AsyncIterator[bytes]:
    seen, sent = dict.fromkeys((each.id for each in followed), 0), dict.fromkeys((each.id for each in followed), 0)
    quiet = 0.0
    while followed and not parts.hub.is_stopping:
        changed = [each for each in followed if each.version > seen[each.id]]
        for each in changed:
            seen[each.id], is_final = each.version, each.result.is_final
            for event, data in await run_in_threadpool(render, each, sent[each.id]):
                yield _event(event, data)
            sent[each.id] = len(each.requests)
            if is_final:
                followed = [other for other in followed if other is not each]
        quiet = 0.0 if changed else quiet + POLL_S
        if quiet >= _KEEPALIVE_S:
            quiet = 0.0
            yield b": waiting\n\n"
        if followed:
            await asyncio.sleep(POLL_S)
    if not parts.hub.is_stopping:
        yield _event("end", "{}")


def as_json(watched: Watched, sent: int) -> list[tuple[str, str]]:
    """An event `request` for each request to a host and its answer, and `result` for each change of the result."""
    made = [("request", orjson.dumps({"id": watched.id, **asdict(each)}).decode()) for each in watched.requests[sent:]]
    return [*made, ("result", watched.result.model_dump_json())]


def _event(name: str, data: str) -> bytes:
    lines = "".join(f"data: {line}\n" for line in data.splitlines() or [""])
    return f"event: {name}\n{lines}\n".encode()
