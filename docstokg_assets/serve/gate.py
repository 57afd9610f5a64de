"""The ASGI middleware in front of every request: applies `access`, sets the security headers, and counts the answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import quote

from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from docstokg_assets.serve.access import Access, Call, Refused
from docstokg_assets.serve.metrics import Metrics

CSP = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": CSP,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # with no-referrer, browsers send the Origin null with our own forms
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
Explain = Callable[[Scope, int, str], Response]


class Gate:
    """`explain` makes the answer to a refused request, as a page or as JSON."""

    def __init__(self, app: ASGIApp, access: Access, metrics: Metrics, explain: Explain) -> None:
        self._app, self._access, self._metrics, self._explain = app, access, metrics, explain

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        if scope["type"] != "http":
            return await send({"type": "websocket.close", "code": 1008})
        call = call_of(scope)
        try:
            scope["state"] = {**scope.get("state", {}), "caller": self._access.admit(call), "cookies": call.cookies}
        except Refused as refused:
            await self._refuse(scope, call, refused)(scope, receive, self._secured(send))
        else:
            await self._app(scope, receive, self._secured(send))

    def _refuse(self, scope: Scope, call: Call, refused: Refused) -> Response:
        wants_page = "text/html" in call.headers.get("accept", "")
        if refused.status == HTTPStatus.UNAUTHORIZED and wants_page and call.method == "GET":
            query = scope["query_string"].decode("latin-1")
            return RedirectResponse(f"/login?next={quote(call.path + ('?' + query if query else ''), safe='')}", 303)
        response = self._explain(scope, refused.status, refused.detail)
        if refused.status == HTTPStatus.UNAUTHORIZED:
            response.headers["www-authenticate"] = 'Bearer realm="content"'
        if refused.retry_after_s is not None:
            response.headers["retry-after"] = str(refused.retry_after_s)
        return response

    def _secured(self, send: Send) -> Callable[[Message], Awaitable[None]]:
        async def secured(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                self._metrics.count("docstokg_http_responses_total", status=str(message["status"]))
                set_already = {name.lower() for name, _ in message["headers"]}
                added = [(n.encode(), v.encode()) for n, v in _HEADERS.items() if n.encode() not in set_already]
                message["headers"] = [*message["headers"], *added]
            await send(message)

        return secured


def call_of(scope: Scope) -> Call:
    headers: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    cookies: SimpleCookie = SimpleCookie()
    try:
        cookies.load(headers.get("cookie", ""))
    except CookieError:
        cookies.clear()
    peer = (scope.get("client") or ("", 0))[0]
    return Call(peer, scope["method"], scope["path"], headers, {name: each.value for name, each in cookies.items()})
