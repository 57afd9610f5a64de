"""Wayback Machine: captures of dead URLs, found in its index (CDX). The last resort.

With `save_page_now` and a key, a file that exists but is refused to us is captured anew (Save Page Now). The archive takes a
while for that; waiting blocks no thread.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from pydantic import Field

import docstokg_assets.resolvers as kit

_FIELDS = ("timestamp", "original", "mimetype", "statuscode", "digest")
_REVISIT = "warc/revisit"  # captured again with the same bytes, which are stored with the first capture
_UNTYPED = frozenset({"application/octet-stream", "binary/octet-stream", "unk", "application/x-download", _REVISIT})
_PAGES = frozenset({"text/html", "application/xhtml+xml"})
_REPLAY = re.compile(r"https?://web\.archive\.org/web/([0-9]{1,14})id_/.*")
_JOB = re.compile(r"spn2-[0-9a-f]{8,64}")
_WEB = "https://web.archive.org/web"
_POLL_S = 10.0
_MOST_POLLS = 30

_NO_ERRORS = "!statuscode:[345].."  # leaves revisits in, which have no status
_QUERY = {"output": "json", "fl": ",".join(_FIELDS), "filter": _NO_ERRORS, "collapse": "digest", "limit": "-5"}
_AS_IS = {"capture_all": "0", "skip_first_archive": "1"}
_FORM = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}

_WORK, _FILE = kit.Work("W1"), "https://peerj.com/articles/1.pdf"
_DEAD = kit.ResolverContext(dead_urls=(_FILE, "https://peerj.com/articles/1"))
_WALL = ["20240101000000", _FILE, "text/html", "200", "AAAA"]
_TYPED = ["20260401120000", _FILE, "application/pdf", "200", "DMH3E3XE"]
_REVISITED = ["20260927204213", _FILE, _REVISIT, "-", "DMH3E3XE"]
_ROWS = [_FIELDS, _WALL, _TYPED, _REVISITED, [], ["com%2Cpeerj%29+20260927204214"]]


class WaybackSettings(kit.KeyedSettings):
    max_urls: int = Field(default=1, ge=0, description="dead addresses of one work that are looked up")
    save_page_now: bool = Field(
        default=False,
        description="have a file captured that answers others but not us; needs an api_key, `accesskey:secret` of archive.org",
    )


@dataclass(frozen=True, slots=True)
class Saved:
    """A capture that Save Page Now has made."""

    replay_url: str
    timestamp: str
    original: str


def save_page(
    url: str, key: str, form: Mapping[str, str] = _AS_IS, poll_s: float = _POLL_S, polls: int = _MOST_POLLS
) -> Generator[kit.Request, kit.Response, Saved | kit.ResolverResult]:
    """Have the archive capture a URL, and wait for it. Errors come with status 200, and their `status_ext` is the `detail` of the
    result. A repeated request returns the same job."""
    secret = {"Authorization": f"LOW {key}"}
    posted = {"verb": "POST", "body": urlencode({"url": url, **form}).encode(), "repeatable": False, "cache": False}
    response = yield kit.api_request("https://web.archive.org/save", **posted, headers=_FORM, secret_headers=secret)
    if failed := kit.failure(response):
        return failed
    state = kit.mapping(kit.json_of(response))
    job = kit.text(state.get("job_id"), 80)
    if job is None or not _JOB.fullmatch(job):
        return _not_saved(state)
    for _ in range(polls):
        status = f"https://web.archive.org/save/status/{job}"
        response = yield kit.api_request(status, cache=False, pause_s=poll_s, secret_headers=secret)
        if failed := kit.failure(response):
            return failed
        state = kit.mapping(kit.json_of(response))
        first = kit.text(state.get("original_job_id"), 80)
        if state.get("status") != "pending" and first and _JOB.fullmatch(first) and first != job:
            job = first  # the URL was captured a moment ago, by that job
        elif state.get("status") != "pending":
            break
    timestamp, original = str(state.get("timestamp")), str(state.get("original_url"))
    replay = kit.normalize_url(f"{_WEB}/{timestamp}id_/{original}")
    if state.get("status") != "success" or replay is None or not _REPLAY.fullmatch(replay):
        return _not_saved(state)
    return Saved(replay, timestamp, original)


@kit.register("wayback")
class WaybackResolver(kit.Resolver):
    tier = kit.Tier.WAYBACK
    api_host = "web.archive.org"
    robots = False  # the archive offers this route to programs; its robots.txt is written for search engines
    head_precheck = False
    Settings = WaybackSettings
    EXAMPLES = (
        kit.Example(_WORK, [_ROWS], [f"{_WEB}/20260401120000id_/{_FILE}"], _DEAD),
        # only revisits are listed: each of them replays the bytes
        kit.Example(_WORK, [[_FIELDS, _REVISITED]], [f"{_WEB}/20260927204213id_/{_FILE}"], _DEAD),
        kit.Example(_WORK, [[]], context=_DEAD),
        kit.Example(_WORK, [b"<h1>maintenance</h1>"], (), _DEAD, kit.Reason.BAD_ANSWER),
        kit.Example(_WORK, reason=kit.Reason.NO_CANDIDATE),  # no dead URL, no request
    )

    settings: WaybackSettings

    def applies(self, work: kit.Work) -> bool:
        return True

    def resolve(self, work: kit.Work, context: kit.ResolverContext) -> kit.Resolution:
        found: list[kit.Candidate] = []
        for dead in context.dead_urls[: self.settings.max_urls]:
            response = yield kit.api_request("https://web.archive.org/cdx/search/cdx", {"url": dead, **_QUERY})
            rows = kit.json_of(response)
            no_list = None if isinstance(rows, list) else kit.bad_answer("the Wayback index did not answer with a list")
            if failed := kit.failure(response) or no_list:
                return kit.ResolverResult(tuple(found), failed.reason, failed.note)
            found.extend(self._candidates(rows))
        key = context.api_keys.get(self.name)
        if not found and self.settings.save_page_now and key and context.guarded_urls:
            return (yield from self._save(context.guarded_urls[0], key))
        return kit.result_of(found)

    def refuses(self, candidate: kit.Candidate, response: kit.Response) -> tuple[kit.Reason, str] | None:
        """A replay may redirect to a capture of another time, which the index did not list."""
        wanted, got = _REPLAY.fullmatch(candidate.url), _REPLAY.fullmatch(response.url)
        if wanted is None or (got is not None and got[1] == wanted[1]):
            return None
        return kit.Reason.WRONG_CAPTURE, f"asked for the capture of {wanted[1]}, got {response.url}"

    def _save(self, url: str, key: str) -> kit.Resolution:
        saved = yield from save_page(url, key)
        return (
            saved if isinstance(saved, kit.ResolverResult) else kit.ResolverResult((self.candidate(saved.replay_url),))
        )

    def _candidates(self, rows: Sequence[Any]) -> kit.Candidates:
        """PDF captures first, then the newest; the same bytes once."""
        # rows are in order of time: the newest is kept, but a typed capture rather than a revisit
        ordered = sorted(_captures(rows), key=lambda row: row["mimetype"] != _REVISIT)
        captures = {row["digest"]: row for row in ordered}
        typed = [(target, row) for row in captures.values() if (target := _target(row))]
        typed.sort(key=lambda pair: (pair[0] is kit.Target.PDF, pair[1]["timestamp"]), reverse=True)
        for target, row in typed:
            # `id_` requests the bytes as they were captured, without the archive's banner and rewritten links
            if url := kit.normalize_url(f"{_WEB}/{row['timestamp']}id_/{row['original']}"):
                yield self.candidate(url, target, captured_from=row["original"])


def _captures(rows: Sequence[Any]) -> Iterator[Mapping[str, str]]:
    """The usable rows. The first is the header, and a resume key may follow the last."""
    for row in rows[1:]:
        values = kit.items(row)
        if len(values) == len(_FIELDS) and all(isinstance(value, str) for value in values):
            capture = dict(zip(_FIELDS, values, strict=True))
            is_revisit = capture["mimetype"] == _REVISIT and capture["statuscode"] == "-"
            if (capture["statuscode"] == "200" or is_revisit) and capture["timestamp"].isdigit():
                yield capture


def _not_saved(state: kit.JsonObject) -> kit.ResolverResult:
    """The result when Save Page Now has no capture: it failed, or is not finished."""
    code = kit.text(state.get("status_ext"), 80) or ""
    message = kit.text(state.get("message")) or code or "unreadable answer"
    detail = f"spn:{code.removeprefix('error:')}"
    if state.get("status") == "pending":
        note = "the archive is still capturing the file"
        return kit.ResolverResult(reason=kit.Reason.BACKOFF, note=note, detail="spn:pending")
    answer = (kit.nothing if state.get("status") == "error" else kit.bad_answer)(f"Save Page Now: {message}")
    return replace(answer, detail=detail)


def _target(capture: Mapping[str, str]) -> kit.Target | None:
    """What a capture is good for: a page captured where a PDF was expected is a wall; any other page may link to the PDF."""
    kind, pdf_wanted = capture["mimetype"].lower(), kit.looks_like_pdf(capture["original"])
    if kind == "application/pdf" or (kind in _UNTYPED and pdf_wanted):
        return kit.Target.PDF
    return kit.Target.LANDING if kind in _PAGES and not pdf_wanted else None
