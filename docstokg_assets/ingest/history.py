"""The history of one ingest request, in the form in which `content why` tells that of a work."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from docstokg_assets.ingest.records import FileIngestResult
from docstokg_assets.ingest.service import IngestService
from docstokg_assets.ingest.statuses import STATUSES
from docstokg_assets.lake.attempts import attempts_of_work
from docstokg_assets.reporting.explain_work import WorkHistory, requests_of
from resources.scope import INGEST_YEAR

PREFIX = "ingest-"


def history_of_request(service: IngestService, id: str) -> WorkHistory | None:
    """By the id of a request or of its item; None when it is unknown."""
    result = service.result(id)
    if result is None:
        return None
    item_id = "-".join(id.split("-")[:2])
    attempts = attempts_of_work(service.catalog, service.config.lake_files, item_id, INGEST_YEAR)
    known = result.request.get("ext_ids") or {}
    return WorkHistory(
        work_id=result.id,
        title=str(result.request["base_url"]),
        year=None,
        identifiers=tuple(f"{name}:{value}" for name, value in known.items()),
        ending=_ending(result),
        reason=result.status if result.is_final else None,
        tries=requests_of(attempts),
        why=tuple(_why(result)),
        help=tuple(_help(result)),
        links=(result.archive_url,) if result.archive_url else (),
    )


def _ending(result: FileIngestResult) -> str:
    if not result.is_final:
        return "In the queue; no answer yet."
    if not result.hit:
        return f"No file: ended as {result.status}."
    size = f", {result.file_meta.size_bytes:,} bytes" if result.file_meta else ""
    return f"File downloaded: {result.path or 'not stored'}{size}, by the route {result.route}."


def _why(result: FileIngestResult) -> Iterator[str]:
    if result.is_final and not result.hit:
        rule = STATUSES.get(result.status)
        yield rule.meaning if rule else result.status
        if result.error_message:
            yield result.error_message
    yield from (f"Flagged {flag}." for flag in result.flags)


def _help(result: FileIngestResult) -> Iterator[str]:
    if result.next_try:
        when = datetime.fromtimestamp(result.next_try, UTC).strftime("%Y-%m-%d %H:%M")
        yield f"No action needed: it is tried again after {when} UTC."
    elif result.is_final and not result.hit:
        yield "Send the request again with force_recrawl to fetch the URL once more."
