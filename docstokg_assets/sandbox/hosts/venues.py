"""The invented publishers, repositories and helper hosts: pages from the scenarios, served with the behaviour of each venue."""

from __future__ import annotations

import gzip
from urllib.parse import quote

from .. import files
from ..scenario import Page
from ..state import SandboxState
from ..universe import Work
from ..venues import BY_HOST, HELPERS, Venue
from ..wire import Handler, Request, Response, not_found, redirect, text

ROBOTS = {
    v.host: (v.robots_status, v.robots if v.robots_status == 200 else "no robots here\n") for v in BY_HOST.values()
}
_COOKIE_CHECK = "/action/cookie-check"


def hosts(state: SandboxState) -> dict[str, Handler]:
    return {host: _Site(state, BY_HOST.get(host)).answer for host in (*BY_HOST, *HELPERS)}


class _Site:
    def __init__(self, state: SandboxState, venue: Venue | None) -> None:
        self._state = state
        self._manners = venue.manners if venue else frozenset()

    def answer(self, request: Request) -> Response:
        if request.scheme == "http":  # as nearly every site does today
            return redirect(
                f"https://{request.host}{request.raw_path}" + (f"?{request.query}" if request.query else ""), 301
            )
        refusal = self._head_refused(request) or self._cookie_pass(request)
        if refusal:
            return refusal
        if request.path == "/":
            return text(
                f"<html><head><title>{request.host}</title></head><body><h1>{request.host}</h1></body></html>",
                kind="text/html",
            )
        work = self._state.universe.find(request.path)
        page = self._state.scenario_for(work).pages.get(f"{request.host}{request.path}") if work else None
        response = self._render(request, work, page) if work and page else not_found("Page not found")
        if "slow" in self._manners and work:
            response.delay = 0.05 + work.rolls[6] % 150 / 1000
        return response

    def _head_refused(self, request: Request) -> Response | None:
        if request.method != "HEAD":
            return None
        if "head-405" in self._manners:
            return Response(405, b"", "text/plain", [("Allow", "GET")])
        return Response(403, b"", "text/plain") if "head-403" in self._manners else None

    def _cookie_pass(self, request: Request) -> Response | None:
        """Redirect to a cookie check that answers with a wall unless the client returns the cookie."""
        if "cookie-pass" not in self._manners:
            return None
        has = request.cookies.get("pass") == "1"
        if request.path == _COOKIE_CHECK:
            if not has:
                return Response(200, files.WALLS["cookie"][1].encode())
            target = request.param("to", "/")
            # Redirect only within this site, never as an open redirect.
            return redirect(
                f"https://{request.host}{quote(target if target.startswith('/') else '/', safe='/():;?=&')}"
            )
        if has:
            return None
        return redirect(
            f"{_COOKIE_CHECK}?to={quote(request.path, safe='')}", headers=[("Set-Cookie", "pass=1; Path=/; Secure")]
        )

    def _render(self, request: Request, work: Work, page: Page) -> Response:
        if page.kind == "pdf" and page.style in files.ODD_PDFS:
            return Response(200, self._state.files.odd_pdf(work, page.style), "application/pdf")
        if page.kind == "pdf":
            return self._pdf(work)
        if page.kind == "landing":
            return self._landing(work, page)
        if page.kind == "redirect":
            return redirect(page.to)
        if page.kind == "hop":
            return Response(200, files.hop_page(page.to))
        if page.kind == "fulltext":
            return Response(200, files.fulltext(work, f"https://{request.host}{request.raw_path}"))
        if page.kind == "jats":
            return self._state.jats(work)
        if page.kind == "wall":
            status, body = files.WALLS[page.style]
            return Response(status, body.encode())
        if page.kind == "corrupt":
            return self._corrupt(work, page.style)
        return self._status(page.status)

    def _pdf(self, work: Work) -> Response:
        if "octet-stream" not in self._manners:
            return self._state.pdf(work)
        response = self._state.pdf(work, "application/octet-stream")
        name = quote(f"{work.title[:60]}.pdf", safe="")
        response.headers.append(("Content-Disposition", f"attachment; filename=\"paper.pdf\"; filename*=UTF-8''{name}"))
        return response

    def _landing(self, work: Work, page: Page) -> Response:
        if "latin1-gzip" not in self._manners:
            return Response(200, files.landing(work, page.to, page.style))
        body = gzip.compress(files.landing(work, page.to, page.style, "iso-8859-1"), 1, mtime=0)
        return Response(
            200, body, "text/html; charset=ISO-8859-1", [("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding")]
        )

    def _status(self, status: int) -> Response:
        if status == 404:
            return not_found("Page not found")
        headers = [("Retry-After", "1")] if status == 503 else []
        return text(
            f"<html><head><title>{status}</title></head><body><h1>{status}</h1></body></html>",
            status,
            "text/html",
            headers,
        )

    def _corrupt(self, work: Work, style: str) -> Response:
        pdf = self._state.pdf_bytes(work)
        if style == "html":
            return Response(200, files.landing(work, "", "meta"), "application/pdf")
        if style == "truncated":  # Content-Length is right, the connection closes half-way
            return Response(200, pdf, "application/pdf", send=len(pdf) // 2)
        if style == "cut":  # Content-Length matches the cut body: only the missing tail shows it
            return Response(200, pdf[: len(pdf) // 2], "application/pdf")
        if style == "tiny":
            return Response(200, pdf[:480] + b"\nstartxref\n0\n%%EOF\n", "application/pdf")
        return Response(200, b"\x89PNG\r\n\x1a\n" + pdf[200:4000], "image/png")
