"""Find the best capture of a URL in the archive's index (CDX), and have a URL captured (Save Page Now). No I/O."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import docstokg_assets.resolvers as kit
from docstokg_assets.resolvers.wayback import Saved, save_page

ARCHIVE_HOST = "web.archive.org"
CDX = "https://web.archive.org/cdx/search/cdx"
WEB = "https://web.archive.org/web"
REVISIT = "warc/revisit"  # captured again with the same bytes, which are stored with an earlier capture
REPLAY = re.compile(r"https?://web\.archive\.org/web/([0-9]{1,14})(?:id_)?/(.+)", re.DOTALL)
_FIELDS = ("urlkey", "timestamp", "original", "mimetype", "statuscode", "digest", "length")
_QUERY = {"output": "json", "fl": ",".join(_FIELDS), "filter": "!statuscode:[45]..", "limit": "-40"}  # the newest 40
_FORM = {"capture_all": "1", "skip_first_archive": "1", "js_behavior_timeout": "0"}
_POLL_S, _POLLS = 3.0, 60
MIMETYPES = {
    "pdf": frozenset({"application/pdf"}),
    "xml": frozenset({"application/xml", "text/xml", "application/jats+xml"}),
    "html": frozenset({"text/html", "application/xhtml+xml"}),
}

Exchange = Generator[kit.Request, kit.Response, Any]


@dataclass(frozen=True, slots=True)
class Capture:
    """The capture to use. `cdx` is its row, `revisit_cdx` for a revisit the row of the capture that has the bytes."""

    cdx: Mapping[str, Any]
    revisit_cdx: Mapping[str, Any] | None = None

    @property
    def replay_url(self) -> str | None:
        """The bytes as they were captured: `id_` leaves out the archive's banner and rewritten links."""
        row = self.revisit_cdx or self.cdx
        return kit.normalize_url(f"{WEB}/{row['datetime']}id_/{row['url']}")

    @property
    def is_redirect(self) -> bool:
        code = (self.revisit_cdx or self.cdx)["status_code"]
        return code is not None and 300 <= code < 400

    def to_json(self) -> dict[str, Any]:
        return {"cdx": dict(self.cdx), "revisit_cdx": dict(self.revisit_cdx) if self.revisit_cdx else None}


@dataclass(frozen=True, slots=True)
class ArchiveFailed:
    """Why the archive gave no answer. `detail` as in `ingest.statuses`."""

    reason: kit.Reason
    detail: str
    note: str
    until: float | None = None


def find_capture(url: str, wanted: str, max_age_days: float | None, now: float) -> Exchange:
    """The best capture of a URL (Capture), None when there is none that is young enough, or ArchiveFailed."""
    rows = yield from _rows(url)
    if isinstance(rows, ArchiveFailed):
        return rows
    oldest = ""
    if max_age_days is not None:
        oldest = (datetime.fromtimestamp(now, UTC) - timedelta(days=min(max_age_days, 36_500))).strftime("%Y%m%d%H%M%S")
    young = [row for row in rows if row["datetime"] >= oldest]
    if not young:
        return None
    best = max(young, key=lambda row: _preference(row, url, wanted))
    if best["mimetype"] != REVISIT:
        return Capture(best)
    original = _original_of(best, rows)
    if original is None:
        more = yield from _rows(url, {"filter": f"digest:{best['sha1b32']}", "limit": "-40"})
        original = None if isinstance(more, ArchiveFailed) else _original_of(best, more)
    return Capture(best, original)


def _rows(url: str, changes: Mapping[str, str] | None = None) -> Exchange:
    response = yield kit.api_request(CDX, {"url": url, **_QUERY, **(changes or {})}, resolver="wayback")
    if failed := kit.failure(response):
        return ArchiveFailed(failed.reason, "cdx", failed.note or f"the archive's index answered {response.status}")
    rows = kit.json_of(response)
    if not isinstance(rows, list):
        return ArchiveFailed(kit.Reason.BAD_ANSWER, "cdx", "the archive's index did not answer with a list")
    return [row for raw in rows[1:] if (row := _row(raw)) is not None]


def _row(raw: Any) -> dict[str, Any] | None:
    """A row of the index under the names of the result; None for a resume key and other lines that are no captures."""
    values = kit.items(raw)
    if len(values) != len(_FIELDS) or not all(isinstance(value, str) for value in values):
        return None
    row = dict(zip(_FIELDS, values, strict=True))
    if not re.fullmatch(r"[0-9]{14}", row["timestamp"]) or not kit.normalize_url(row["original"]):
        return None
    code = int(row["statuscode"]) if row["statuscode"].isdigit() else None
    if code is None and row["mimetype"] != REVISIT:
        return None
    return {
        "surt": row["urlkey"],
        "datetime": row["timestamp"],
        "url": row["original"],
        "mimetype": row["mimetype"],
        "status_code": code,
        "sha1b32": row["digest"],
        "sha1hex": _hex(row["digest"]),
        "warc_csize": int(row["length"]) if row["length"].isdigit() else None,
    }


def _hex(digest: str) -> str | None:
    try:
        return base64.b32decode(digest).hex() if len(digest) == 32 else None
    except (binascii.Error, ValueError):
        return None


def _preference(row: Mapping[str, Any], url: str, wanted: str) -> tuple[Any, ...]:
    code = row["status_code"]
    same = row["url"].rstrip("/") == url.rstrip("/")
    # a revisit has no status of its own; its bytes are those of an earlier capture
    return same, code == 200, -(code or 200), row["mimetype"] in MIMETYPES[wanted], code is not None, row["datetime"]


def _original_of(revisit: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    same = [row for row in rows if row["sha1b32"] == revisit["sha1b32"] and row["mimetype"] != REVISIT]
    return max(same, key=lambda row: row["datetime"], default=None)


def redirect_target(response: kit.Response) -> str | None:
    """Where a captured redirect leads: the URL on the web, not in the archive."""
    location = response.headers.get("location", "")
    if location.startswith("/web/"):
        location = f"https://web.archive.org{location}"
    found = REPLAY.fullmatch(location)
    return kit.normalize_url(found[2] if found else location)


def save(url: str, key: str) -> Exchange:
    """Have a URL captured: a Capture whose row is partial, or ArchiveFailed."""
    secret = {"Authorization": f"LOW {key}"}
    status = "https://web.archive.org/save/status/user"
    response = yield kit.api_request(status, cache=False, secret_headers=secret, resolver="wayback")
    if failed := kit.failure(response):
        return _not_asked(failed)
    available = kit.mapping(kit.json_of(response)).get("available")
    if isinstance(available, int) and available <= 1:
        note = f"Save Page Now has {available} free places for this account"
        return ArchiveFailed(kit.Reason.BACKOFF, "save:backoff", note)
    saved = yield from save_page(url, key, _FORM, _POLL_S, _POLLS)
    if isinstance(saved, Saved):
        row = {"datetime": saved.timestamp, "url": saved.original, "status_code": 200, "mimetype": None}
        return Capture({**row, "surt": None, "sha1b32": None, "sha1hex": None})
    return _not_asked(saved)


def _not_asked(failed: kit.ResolverResult) -> ArchiveFailed:
    return ArchiveFailed(failed.reason, failed.detail or "save", failed.note, failed.until)
