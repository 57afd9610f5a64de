"""Turn the end of a search into a row of `ingest_file_result`: the status, the last resource, the time of the next try."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from docstokg_assets.domain.works import FetchOrder, Work
from docstokg_assets.engine.search_state import MAX_REFUSALS, Failure, NextTry, SearchState
from docstokg_assets.ingest.statuses import NO_CAPTURE, Pace, rule_of, status_of
from resources.records import Classification, DownloadOutcome, Ending, Kind, Reason

_MESSAGE = 1_600  # characters
_HOUR, _DAY = 3_600.0, 86_400.0
PACES = {Pace.HOURS: (_HOUR, 5), Pace.NEXT_DAY: (_DAY, 5), Pace.DAYS: (2 * _DAY, 3)}  # first pause, doubled; tries
_MIMETYPES = {Kind.PDF: "application/pdf", Kind.PDF_UNKNOWN: "application/pdf"}
_TYPES = {"pdf": (Kind.PDF, Kind.PDF_UNKNOWN), "xml": (Kind.XML,), "html": (Kind.HTML,)}
_DETAIL, _ROUTE = "detail", "route"


def failed_outcome(state: SearchState) -> DownloadOutcome:
    """The outcome of a search without a file: the failure furthest on the way, as it says most about what is missing."""
    known = state.candidates
    failures = [(key, f) for key, f in state.counted_failures() if f.url is not None]
    if not failures:
        return DownloadOutcome(
            False, None, Classification.ERROR, Reason.NO_CANDIDATE, fallback_chain=tuple(state.chain)
        )
    # of the same URL the last route counts, of one page the first link
    depth = {key: (known[key].hop if key in known else -1, key in known) for key, _ in failures}
    best_key, best = max(failures, key=lambda pair: depth[pair[0]])
    candidate = known.get(best_key)
    captured = candidate is not None and candidate.captured_from is not None
    route = "archive" if captured else candidate.route if candidate is not None else None
    others = [
        {"resolver": f.resolver, "reason": str(f.reason), "url": f.url, "http_status": f.http_status}
        for key, f in failures
        if key != best_key
    ]
    terminal = {"terminal_url": candidate.captured_from if captured and candidate else best.url}
    terminal["terminal_dt"] = (
        candidate.capture["cdx"]["datetime"] if captured and candidate and candidate.capture else None
    )
    capture = dict(candidate.capture) if captured and candidate and candidate.capture else {}
    return DownloadOutcome(
        False,
        None,
        Classification.SKIP if best.reason.ending is Ending.NEVER else Classification.ERROR,
        best.reason,
        kind=best.kind,
        url=best.url,
        resolver=best.resolver,
        tier=str(best.tier),
        http_status=best.http_status,
        fallback_chain=tuple(state.chain),
        meta={"others": others, "note": best.note, _DETAIL: best.detail, _ROUTE: route, **terminal, **capture},
    )


def _status(outcome: DownloadOutcome) -> str:
    return status_of(outcome.reason, outcome.meta.get(_DETAIL))


def next_try(outcome: DownloadOutcome, state: SearchState, now: float, tries: int) -> NextTry:
    """When an item without a file is tried again, by the pace of its status; or when a host that only refused us opens."""
    refused = state.refused()
    if refused is not None and state.waits < MAX_REFUSALS:
        state.wait_for_host()
        return NextTry(max(refused.until or 0.0, now + 1.0), False, refused.host)
    code, route = outcome.http_status, outcome.meta.get(_ROUTE)
    pace = rule_of(_status(outcome), code=code, route=route).pace
    if pace is None and any(_is_archive_fault(f) for _, f in state.counted_failures()):
        pace = Pace.HOURS  # the archive could not be asked: it may have what the site refuses
    if pace is None:
        return NextTry()
    first, most = PACES[pace]
    asked = max((f.until or 0.0 for _, f in state.counted_failures()), default=0.0)
    return NextTry(max(now + first * 2.0**tries, asked)) if tries + 1 < most else NextTry()


def _is_archive_fault(failure: Failure) -> bool:
    return failure.detail in ("cdx", "replay", "save", "save:backoff") and failure.is_retryable


def result_row(
    work: Work, outcome: DownloadOutcome, state: SearchState, following: NextTry, tries: int
) -> Mapping[str, Any]:
    """The columns of a result, from the outcome of its search."""
    order, meta = work.ingest or FetchOrder("pdf"), outcome.meta
    hit = outcome.ok and outcome.kind in _TYPES[order.type]
    status = _status(outcome) if hit or not outcome.ok else "wrong-mimetype"
    message = None if hit else _message(outcome, status)
    file_meta = None
    if outcome.ok and outcome.sha256 is not None:
        file_meta = {
            "size_bytes": outcome.content_length,
            "md5hex": meta.get("md5"),
            "sha1hex": meta.get("sha1"),
            "sha256hex": outcome.sha256,
            "mimetype": mimetype_of(outcome),
        }
    return {
        "ingest_type": order.type,
        "base_url": work.urls[0],
        "item_id": work.work_id,
        "hit": hit,
        "status": status,
        "terminal_url": meta.get("terminal_url") or outcome.url,
        "terminal_dt": meta.get("terminal_dt"),
        "terminal_status_code": outcome.http_status or meta.get("terminal_status_code"),
        "terminal_sha1hex": meta.get("sha1") if hit else None,
        "error_message": message,
        "hops": tuple(state.hops),
        "route": meta.get(_ROUTE),
        "reason": outcome.reason,
        "tries": tries + 1,
        "next_try": following.at,
        "flags": tuple(meta.get("flags", ())),
        "file_meta": file_meta,
        "cdx": meta.get("cdx"),
        "revisit_cdx": meta.get("revisit_cdx"),
        "path": outcome.path if hit else None,
    }


def mimetype_of(outcome: DownloadOutcome) -> str:
    """By the content; the server's word only for which kind of XML or HTML it is."""
    if outcome.kind in _MIMETYPES:
        return _MIMETYPES[outcome.kind]
    said = outcome.content_type or ""
    if outcome.kind is Kind.XML:
        return said if said.endswith("xml") else "application/xml"
    if outcome.kind is Kind.HTML:
        return said if said in ("text/html", "application/xhtml+xml") else "text/html"
    return "application/octet-stream"


def _message(outcome: DownloadOutcome, status: str) -> str:
    note = str(outcome.meta.get("note") or "")
    parts = [note or rule_of(status).meaning.rstrip(".")]
    if outcome.http_status is not None and str(outcome.http_status) not in note:
        parts.append(f"HTTP {outcome.http_status}")
    if outcome.url and status != NO_CAPTURE:
        parts.append(outcome.url)
    return "; ".join(parts)[:_MESSAGE]
