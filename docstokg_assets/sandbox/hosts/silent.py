"""Repositories that answer programs with an empty page (DSpace 7 and later), and Internet Archive Scholar.

The user interface is a shell; items, bundles, bitstreams and access status come from the REST interface, which one of the two
repositories has on another host.
"""

from __future__ import annotations

import re
from hashlib import md5

from ..deposits import QUIETLAKE, STILLWATER, STILLWATER_REST
from ..state import SandboxState
from ..universe import Work
from ..wire import Handler, Request, Response, json_response, not_found, redirect, text

_SHELL = "<!DOCTYPE html><html><head><title>DSpace</title></head><body><ds-app></ds-app></body></html>"
_UUID = re.compile(r"/(00000000-0000-4000-8000-[a-f](?:19|20)\d{9})")
_MISSING = {"status": 404, "error": "Not Found", "message": "not found"}
_WORKS = ("dspace", "dspace_elsewhere", "embargoed")


def hosts(state: SandboxState) -> dict[str, Handler]:
    here, elsewhere = _Rest(state, f"https://{QUIETLAKE}/server"), _Rest(state, f"https://{STILLWATER_REST}/rest")

    def quietlake(request: Request) -> Response:
        return here.answer(request) if request.path.startswith("/server/") else _page(request)

    def stillwater(request: Request) -> Response:
        if request.path == "/assets/config.json":
            rest = {"ssl": True, "host": STILLWATER_REST, "port": 443, "nameSpace": "/rest"}
            return json_response({"ui": {"host": STILLWATER}, "rest": rest})
        return _page(request)

    def scholar(request: Request) -> Response:
        """The lookup by DOI redirects to a release; its page names the preserved copies."""
        if request.path == "/fatcat/release/lookup":
            work = state.universe.by_doi(request.param("doi"))
            if work is None or work.archetype != "preserved":
                return not_found("Not Found")
            return redirect(f"/fatcat/release/00000000-0000-4000-8000-f{work.code}")
        work = state.universe.find(request.path)
        if work is None:
            return not_found("Not Found")
        captures = state.scenario_for(work).captures
        metas = [
            f'<meta name="citation_pdf_url" content="https://web.archive.org/web/{c.timestamp}/{c.url}">'
            for c in captures
        ]
        page = f"<html><head><title>{work.code}</title>{''.join(metas)}</head><body></body></html>"
        return text(page, kind="text/html; charset=utf-8")

    return {
        QUIETLAKE: quietlake,
        STILLWATER: stillwater,
        STILLWATER_REST: elsewhere.answer,
        "scholar.archive.org": scholar,
    }


def _page(request: Request) -> Response:
    """Every path of the user interface is the same shell, except for missing files."""
    if request.path.startswith(("/assets/", "/server/")):
        return not_found("Not Found")
    return text(_SHELL, kind="text/html; charset=utf-8")


class _Rest:
    def __init__(self, state: SandboxState, base: str) -> None:
        self._state, self._base = state, base

    def answer(self, request: Request) -> Response:
        path = request.path.partition("/api/")[2]
        work = self._state.universe.find(request.param("id") if path == "pid/find" else path)
        if (
            work is None
            or work.archetype not in _WORKS
            or not request.path.startswith(self._base.rpartition("/")[2], 1)
        ):
            return json_response(_MISSING, 404)
        item = f"{self._base}/api/core/items/00000000-0000-4000-8000-a{work.code}"
        if path == "pid/find":
            return redirect(item)
        if path.endswith("/bundles"):
            return json_response({"_embedded": {"bundles": self._bundles(work)}, "page": {"size": 20, "number": 0}})
        if path.endswith("/accessStatus"):
            closed = work.archetype == "embargoed"
            status = {"status": "embargo" if closed else "open.access", "embargoDate": "2099-01-01" if closed else None}
            return json_response({**status, "type": "accessStatus"})
        if path.endswith("/content"):
            refused = work.archetype == "embargoed" or not path.startswith("core/bitstreams/00000000-0000-4000-8000-b")
            return json_response({"status": 401}, 401) if refused else self._state.pdf(work)
        uuid = _UUID.search(request.path)
        return json_response({"uuid": uuid[1] if uuid else None, "type": "item", "name": work.title})

    def _bundles(self, work: Work) -> list[dict[str, object]]:
        """The article among a thumbnail, a licence and the extracted text; the second PDF is a supplement."""
        decoys = [("THUMBNAIL", "c", "paper.pdf.jpg"), ("LICENSE", "d", "license.pdf"), ("TEXT", "f", "paper.pdf.txt")]
        several = [self._bundle(name, [self._bitstream(work, letter, file)]) for name, letter, file in decoys]
        files = [self._bitstream(work, "c", "supplement.pdf"), self._bitstream(work, "b", "paper.pdf")]
        return [*several, self._bundle("ORIGINAL", files)]

    def _bundle(self, name: str, bitstreams: list[dict[str, object]]) -> dict[str, object]:
        inside = {"bitstreams": {"_embedded": {"bitstreams": bitstreams}, "page": {"number": 0}}}
        return {"name": name, "type": "bundle", "_embedded": inside}

    def _bitstream(self, work: Work, letter: str, name: str) -> dict[str, object]:
        uuid, body = f"00000000-0000-4000-8000-{letter}{work.code}", self._state.pdf_bytes(work)
        digest = {"checkSumAlgorithm": "MD5", "value": md5(body, usedforsecurity=False).hexdigest()}
        return {"uuid": uuid, "name": name, "sizeBytes": len(body), "checkSum": digest, "type": "bitstream"}
