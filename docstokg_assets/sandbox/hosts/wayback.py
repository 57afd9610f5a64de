"""web.archive.org and archive.org: the CDX index, replay of captures, and the availability API.

Only captures named by a scenario exist; everything else answers as an empty archive does.
"""

from __future__ import annotations

import base64
import re
from collections import Counter
from dataclasses import replace
from hashlib import sha1
from urllib.parse import parse_qsl, unquote, urlsplit

from ..placed import Placed, key_of
from ..scenario import Capture, page_key
from ..state import SandboxState
from ..universe import Work
from ..wire import Handler, Request, Response, json_response, not_found, redirect, text

_FIELDS = ("urlkey", "timestamp", "original", "mimetype", "statuscode", "digest", "length")
_REPLAY = re.compile(r"^/web/(\d{1,14})([a-z]{2}_)?/(.+)$")
_GONE = b"<html><head><title>404 Not Found</title></head><body>Not Found</body></html>"


def _urlkey(url: str) -> str:
    parts = urlsplit(url if "://" in url else f"http://{url}")
    host = ",".join(reversed((parts.hostname or "").removeprefix("www.").split(".")))
    return f"{host}){parts.path or '/'}" + (f"?{parts.query}" if parts.query else "")


def _filter(rows: list[dict[str, str]], rule: str) -> list[dict[str, str]]:
    wanted = not rule.startswith("!")
    name, _, pattern = rule.lstrip("!").partition(":")
    try:
        expression = re.compile(pattern)
    except re.error:
        return rows
    return [row for row in rows if (expression.fullmatch(row.get(name, "")) is not None) == wanted]


def _collapse(rows: list[dict[str, str]], name: str) -> list[dict[str, str]]:
    """Collapse adjacent rows with the same value (or the same first N characters)."""
    name, _, digits = name.partition(":")
    kept: list[dict[str, str]] = []
    last = None
    for row in rows:
        value = row.get(name, "")[: int(digits) if digits.isdigit() else None]
        if value != last:
            kept.append(row)
        last = value
    return kept


class Archive:
    """All captures, and those saved on request."""

    def __init__(self, state: SandboxState) -> None:
        self._state = state
        self.saved: dict[str, Capture] = {}  # by page, what was saved on request
        self.polls: Counter[str] = Counter()  # by job
        self.jobs: dict[str, Placed] = {}  # captures of placed resources, by job

    def placed(self, url: str) -> list[Placed]:
        """The captures of a placed resource, oldest first."""
        return self._state.placed.captures.get(key_of(url if "://" in url else f"https://{url}"), [])

    def save(self, url: str) -> str | None:
        """Capture a page and return the job id. The archive's own crawler is not stopped by bot walls."""
        key = page_key(url)
        work = self._state.universe.find(unquote(url))
        page = self._state.scenario_for(work).pages.get(key) if work else None
        if page is None or not (page.kind == "wall" or page.status == 403):
            return None
        self.saved[key] = Capture("20261101120000", url, "application/pdf", "200", "pdf")
        return f"spn2-{sha1(url.encode()).hexdigest()}"

    def captures(self, url: str, prefix: bool = False) -> list[tuple[Work, Capture]]:
        work = self._state.universe.find(unquote(url))
        if work is None:
            return []
        key = page_key(url if "://" in url else f"https://{url}")
        found = [
            c
            for c in (*self._state.scenario_for(work).captures, *filter(None, [self.saved.get(key)]))
            if page_key(c.url) == key or (prefix and page_key(c.url).startswith(key))
        ]
        return [(work, c) for c in found]

    def content(self, work: Work, capture: Capture) -> bytes:
        return _GONE if capture.kind == "gone" else self._state.pdf_bytes(work)

    def row(self, work: Work, capture: Capture) -> dict[str, str]:
        content = self.content(work, capture)
        digest = base64.b32encode(sha1(content).digest()).decode()
        length = 824 if capture.kind == "revisit" else len(content)
        values = (
            _urlkey(capture.url),
            capture.timestamp,
            capture.url,
            capture.mimetype,
            capture.status,
            digest,
            str(length),
        )
        return dict(zip(_FIELDS, values, strict=True))


def _replay_placed(state: SandboxState, placed: list[Placed], wanted: str, modifier: str) -> Response:
    nearest = min(placed, key=lambda each: (abs(int(each.timestamp) - int(wanted)), each.timestamp))
    if nearest.timestamp != wanted:
        return redirect(f"https://web.archive.org/web/{nearest.timestamp}{modifier}/{nearest.url}")
    answer = nearest.response(state.files)
    answer.headers = [
        (name, f"https://web.archive.org/web/{wanted}{modifier}/{value}" if name.lower() == "location" else value)
        for name, value in answer.headers
    ]
    answer.headers.append(("x-archive-src", "sandbox.warc.gz"))
    return answer


def _save_placed(state: SandboxState, archive: Archive, page: Placed) -> Response:
    if page.save and not page.save.startswith("later:"):
        return json_response({"status": "error", "status_ext": page.save, "message": f"Message for {page.save}"})
    job = f"spn2-{sha1(page.url.encode()).hexdigest()}"
    archive.jobs[job] = page
    state.placed.saved.append(page.url)
    if not page.save:
        state.placed.add(replace(page, timestamp="20261101120000", save=""))
    return json_response({"url": page.url, "job_id": job})


def _placed_job(archive: Archive, job: str, page: Placed) -> Response:
    archive.polls[job] += 1
    if archive.polls[job] < 2:
        return json_response({"status": "pending", "job_id": job, "resources": []})
    if page.save:
        code = page.save.removeprefix("later:")
        return json_response({"status": "error", "job_id": job, "status_ext": code, "message": f"Message for {code}"})
    done = {"status": "success", "job_id": job, "original_url": page.url, "timestamp": "20261101120000"}
    return json_response(done)


def hosts(state: SandboxState) -> dict[str, Handler]:
    archive = Archive(state)

    def cdx(request: Request) -> Response:
        url = request.param("url")
        if not url:
            return text("org.archive.wayback.exception.BadQueryException: 'url' param is required\n", 400)
        prefix = request.param("matchType") == "prefix" or url.endswith("*")
        rows = [archive.row(w, c) for w, c in archive.captures(url.rstrip("*"), prefix)]
        rows += [state.placed.row(each, state.files) for each in archive.placed(url)]
        first, last = request.param("from"), request.param("to")
        rows = [
            r
            for r in rows
            if (not first or r["timestamp"] >= first.ljust(14, "0"))
            and (not last or r["timestamp"] <= last.ljust(14, "9"))
        ]
        for name, value in request.params:
            if name == "filter":
                rows = _filter(rows, value)
            elif name == "collapse":
                rows = _collapse(rows, value)
        limit = request.param("limit")
        if re.fullmatch(r"-?\d+", limit) and int(limit):
            rows = rows[: int(limit)] if int(limit) > 0 else rows[int(limit) :]
        fields = [f for f in request.param("fl").split(",") if f in _FIELDS] or list(_FIELDS)
        table = [[row[f] for f in fields] for row in rows]
        if request.param("output") == "json":
            return json_response([fields, *table] if table else [])
        return text("".join(" ".join(row) + "\n" for row in table))

    def replay(request: Request) -> Response:
        target = request.raw_path + (f"?{request.query}" if request.query else "")
        match = _REPLAY.match(target)
        if match and (placed := archive.placed(match[3])):
            return _replay_placed(state, placed, match[1].ljust(14, "0"), match[2] or "")
        match = _REPLAY.match(unquote(target))
        found = archive.captures(match[3]) if match else []
        if not match or not found:
            return not_found("Hrm. The Wayback Machine has not archived that URL.")
        wanted, modifier = match[1].ljust(14, "0"), match[2] or ""
        work, nearest = min(found, key=lambda pair: (abs(int(pair[1].timestamp) - int(wanted)), pair[1].timestamp))
        if nearest.timestamp != match[1]:
            return redirect(f"https://web.archive.org/web/{nearest.timestamp}{modifier}/{nearest.url}")
        if nearest.kind == "gone":
            return Response(404, _GONE)
        headers = [
            ("x-archive-src", "sandbox.warc.gz"),
            ("memento-datetime", f"{nearest.timestamp}"),
            ("x-archive-orig-content-type", "application/pdf"),
        ]
        return Response(200, archive.content(work, nearest), "application/pdf", headers)

    def save(request: Request) -> Response:
        """Save Page Now: start a job, and report its status, pending at first. Most errors have status 200."""
        if not re.fullmatch(r"LOW sandbox-[^:]+:.+", request.headers.get("authorization", "")):
            return json_response({"message": "You need to be logged in to use Save Page Now."}, 401)
        if request.path == "/save/status/user":
            return json_response({"available": state.placed.save_places, "processing": 0, "daily_captures": 0})
        if request.method == "POST":
            url = dict(parse_qsl(request.body.decode())).get("url", "")
            if (page := state.placed.pages.get(key_of(url))) is not None:
                return _save_placed(state, archive, page)
            job = archive.save(url)
            if job is None:
                return json_response({"status": "error", "status_ext": "error:not-found", "message": "Not Found."})
            return json_response({"url": url, "job_id": job})
        job = request.path.rpartition("/")[2]
        if (page := archive.jobs.get(job)) is not None:
            return _placed_job(archive, job, page)
        found = [c for c in archive.saved.values() if job == f"spn2-{sha1(c.url.encode()).hexdigest()}"]
        archive.polls[job] += 1
        if not found or archive.polls[job] < 2:
            return json_response({"status": "pending", "job_id": job, "resources": []})
        done = {"status": "success", "job_id": job, "original_url": found[0].url, "timestamp": found[0].timestamp}
        return json_response(done)

    def web(request: Request) -> Response:
        if request.path == "/save" or request.path.startswith("/save/status/"):
            return save(request)
        if request.path.startswith("/cdx/search/cdx"):
            return cdx(request)
        if request.path.startswith("/web/"):
            return replay(request)
        return not_found()

    def available(request: Request) -> Response:
        url = request.param("url")
        if request.path != "/wayback/available":
            return not_found()
        found = [c for _, c in archive.captures(url) if c.status == "200"]
        if not found:
            return json_response({"url": url, "archived_snapshots": {}})
        stamp = found[-1].timestamp
        closest = {
            "status": "200",
            "available": True,
            "url": f"http://web.archive.org/web/{stamp}/{url}",
            "timestamp": stamp,
        }
        return json_response({"url": url, "archived_snapshots": {"closest": closest}})

    return {"web.archive.org": web, "archive.org": available}
