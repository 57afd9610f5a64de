"""The history of one work for `content why`: the requests, their answers, why it ended so, and what to do. Pure.

Built from the rows that the catalog keeps: the queue's, the outcome, the attempts. `cli/why_command.py` reads them and prints the
result; `reporting/reasons.py` explains the reasons.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any

from docstokg_assets.domain.identifiers import Identifier, arxiv_without_version, parse_identifier
from docstokg_assets.domain.pdf_match import Flag
from docstokg_assets.domain.works import Work
from docstokg_assets.reporting.reasons import FLAG_TEXT, NO_ACTION, REASON_TEXT
from docstokg_assets.reporting.rendering import first_few, format_time, plural, printable, wrap
from docstokg_assets.resolvers.registry import Resolver
from resources.catalog.rows import Entry, QueueItem
from resources.records import AttemptRecord, Ending, Reason, Status

REASONS_PAGE = "docs/reasons.md"
_BREAKER = frozenset({Status.BREAKER_OPEN, Status.BREAKER_HALF_OPEN, Status.BREAKER_CLOSED})
_NOT_SENT = frozenset({Status.SKIPPED, Status.ROBOTS_DISALLOWED})
_MAX_REQUESTS = 40
_SENT_NOTHING = "sent no request to"
_FILE_NAME = re.compile(r".+__(W[0-9]+)(?:~[0-9]+)?\.[a-z]{3,5}")  # as `domain.naming` makes them


@dataclass(frozen=True, slots=True)
class RequestSummary:
    """One request and its answer, with the redirects and retries in between."""

    resolver: str
    host: str
    what: str
    answer: str
    reason: str | None
    url: str
    at: str


@dataclass(frozen=True, slots=True)
class WorkHistory:
    work_id: str
    title: str | None
    year: int | None
    identifiers: tuple[str, ...]
    ending: str
    reason: str | None
    tries: tuple[RequestSummary, ...]
    why: tuple[str, ...]
    help: tuple[str, ...]
    links: tuple[str, ...]


# -- which work --------------------------------------------------------------------------------------------------------


def without_file_name(wanted: str) -> str:
    """The work id, where the name of a stored file is given; otherwise the text itself."""
    named = _FILE_NAME.fullmatch(wanted)
    return named[1] if named else wanted


def as_work_id(wanted: str) -> str:
    """The id of the work, where an OpenAlex id is given in any spelling; otherwise the text itself."""
    known = parse_identifier(wanted)
    return known.value if known is not None and known.kind == "openalex" else wanted.strip()


def search_terms(wanted: str) -> list[str]:
    """Strings that the record of every matching work contains, ignoring case. Words with letters beyond ASCII are left out,
    because not every database knows their cases."""
    known = parse_identifier(wanted)
    if known is not None:
        return [_without_version(known).removeprefix("PMC")]
    words = [word for word in wanted.split() if word.isascii() and word.isalnum()]
    return words or [wanted.strip()]


def matches(wanted: str, work: Work) -> bool:
    """Whether an id, a DOI in any spelling, a URL that was given for it, or a part of the title names this work."""
    known = parse_identifier(wanted)
    if wanted.strip() in (work.work_id, *work.urls):
        return True
    if known is None:
        return " ".join(wanted.casefold().split()) in " ".join((work.title or "").casefold().split())
    own = {"openalex": work.work_id, "doi": work.doi, "arxiv": work.arxiv_id or work.doi, "pmcid": work.pmcid}
    own["pmid"] = work.pmid
    value = (own[known.kind] or "").casefold()
    if known.kind == "arxiv":
        value = arxiv_without_version(value.removeprefix("10.48550/arxiv."))
    return _without_version(known).casefold() == value


def _without_version(identifier: Identifier) -> str:
    """The versions of an arXiv paper are one work."""
    return arxiv_without_version(identifier.value) if identifier.kind == "arxiv" else identifier.value


def explain(
    queued: QueueItem,
    entry: Entry | None,
    attempts: Sequence[AttemptRecord],
    resolvers: Sequence[Resolver],
    off: Sequence[tuple[str, str]],
    now: float,
    same_file: Sequence[str] = (),
    options: str = "",
) -> WorkHistory:
    """`resolvers`: those in use; `off`: the others, each with the reason; `same_file`: works whose file is the same; `options`:
    what a command needs to find this collection, such as ` --out papers`."""
    work = Work.from_json(queued.record)
    known = (work.doi and f"doi:{work.doi}", work.arxiv_id and f"arXiv:{work.arxiv_id}", work.pmcid)
    requests = tuple(_merged(_requests(attempts, _failures(queued, entry))))
    reason = _reason(queued, entry, now)
    flags = [Flag(flag) for flag in (entry.meta.get("flags", ()) if entry else ())]
    tokens = dict.fromkeys([*filter(None, (reason, *(one.reason for one in requests)))])
    links = [f"{REASONS_PAGE}#{token}" for token in tokens if token in set(Reason) and token != Reason.OK]
    shared = [f"The same file is also stored for {first_few(same_file, 5)}."] if same_file else []
    return WorkHistory(
        work_id=queued.work_id,
        title=work.title,
        year=work.year,
        identifiers=tuple(text for text in known if text),
        ending=_ending(queued, entry, reason, now),
        reason=reason,
        tries=requests,
        why=(*_why(entry, reason, flags, attempts), *shared),
        help=tuple(_help(work, queued, entry, reason, resolvers, off, now, options)),
        links=(*links, *(f"{REASONS_PAGE}#flag-{flag}" for flag in flags)),
    )


# -- how it ended ------------------------------------------------------------------------------------------------------


def _succeeded(entry: Entry | None) -> bool:
    return entry is not None and entry.reason.ending is Ending.SUCCESS


def _waits(queued: QueueItem, now: float) -> bool:
    return queued.state in ("queued", "retry") and queued.not_before > now


def _reason(queued: QueueItem, entry: Entry | None, now: float) -> str | None:
    return str(entry.reason) if entry is not None else queued.wait_reason if _waits(queued, now) else None


def _ending(queued: QueueItem, entry: Entry | None, reason: str | None, now: float) -> str:
    if entry is not None and _succeeded(entry):
        size = f", {entry.bytes:,} bytes" if entry.bytes else ""
        terms = "".join(f", {term}" for term in (entry.version, entry.license) if term)
        what = "Full text downloaded, as HTML only" if entry.reason is Reason.HTML_ONLY else "Full text downloaded"
        return f"{what}: {entry.path or 'unchanged since the last run'}{size}{terms}, found by {entry.resolver}."
    if queued.state == "leased":
        return "In progress."
    if _waits(queued, now):
        host = f" for {queued.next_group}" if queued.next_group and queued.state == "queued" else ""
        searched = " No full text yet." if entry is not None or queued.progress else ""
        return f"Waiting until {_utc(queued.not_before)}{host}.{searched}"
    if entry is None or queued.state != "done":
        return "Queued; not started yet." + (" No full text yet." if entry else "")
    return f"No full text: ended as {reason}."


def _why(
    entry: Entry | None, reason: str | None, flags: Sequence[Flag], attempts: Sequence[AttemptRecord]
) -> Iterator[str]:
    failed = entry is not None and not _succeeded(entry)
    if reason is not None and reason not in set(Reason):
        yield f"It {reason}."
    elif reason is not None and not _succeeded(entry):
        best = ""
        if entry is not None and entry.url:
            status = f" (HTTP {entry.http_status})" if entry.http_status else ""
            best = f" Best candidate: {entry.url}{status}"
        yield f"{REASON_TEXT[Reason(reason)].meaning}{best}"
    if entry is not None and failed and (note := entry.meta.get("note")):
        yield f"Note: {note}"
    for flag in flags:
        evidence = entry.meta.get("evidence") if entry is not None else ""
        yield f"Flagged {flag}: {FLAG_TEXT[flag]}{f' ({evidence})' if evidence else ''}"
    if entry is not None and not failed and (later := [a for a in attempts if a.ts.timestamp() > entry.finished_at]):
        reasons = [str(one.reason) for one in later if one.reason not in (None, Reason.OK)]
        if Reason.NOT_MODIFIED not in reasons:
            last = f" ({reasons[-1]})" if reasons else ""
            yield f"A later search brought nothing better{last}; what was downloaded before stays."
    if not attempts:
        yield "No requests were sent for this work yet."


def _help(
    work: Work,
    queued: QueueItem,
    entry: Entry | None,
    reason: str | None,
    resolvers: Sequence[Resolver],
    off: Sequence[tuple[str, str]],
    now: float,
    options: str,
) -> Iterator[str]:
    if _succeeded(entry) and reason != Reason.HTML_ONLY:
        return
    if _waits(queued, now):
        after = f"after {_utc(queued.not_before)}"
        yield f"Run `content resume{options}` {after}; it continues there and repeats no request."
    elif queued.state != "done":
        yield f"Run `content resume{options}`; the work is still in the queue."
    if reason is not None and reason in set(Reason) and reason != Reason.HTTP_4XX:  # its status is shown already
        remedy = REASON_TEXT[Reason(reason)].remedy
        yield from [remedy] if not remedy.startswith(NO_ACTION) else []
    unused = [resolver.name for resolver in resolvers if not resolver.applies(work)]
    if unused:
        lacks = " (it has no DOI)" if work.doi is None else ""
        yield f"Not needed or not applicable to this work{lacks}: {', '.join(unused)}."
    for why in dict.fromkeys(why for _, why in off):
        names = [name for name, its in off if its == why]
        yield f"{', '.join(names)} {'was' if len(names) == 1 else 'were'} not queried: {why}."
    if queued.state == "done" and entry is not None:
        again = f"`content retry {queued.work_id}{options}`"
        yield f"Retried when a resolver, location or rule is added, or with {again}."


# -- the requests ------------------------------------------------------------------------------------------------------


def _failures(queued: QueueItem, entry: Entry | None) -> dict[str, str]:
    """URL → reason, for failures that were only found when the response was read: a wall, a page without a link."""
    found = {}
    if entry is not None and not _succeeded(entry):
        others: list[dict[str, Any]] = [*entry.meta.get("others", ()), {"url": entry.url, "reason": entry.reason}]
        found = {one["url"]: str(one["reason"]) for one in others if one["url"]}
    kept = (queued.progress or {}).get("failures", {}).values()
    return found | {one["url"]: one["reason"] for one in kept if one["url"]}


def requests_of(attempts: Sequence[AttemptRecord]) -> tuple[RequestSummary, ...]:
    """The requests that were sent so far, each with its answer."""
    return tuple(_merged(_requests(attempts, {})))


def _requests(attempts: Sequence[AttemptRecord], failures: dict[str, str]) -> Iterator[RequestSummary]:
    """One summary for each chain of attempts. Attempts that concern the host (robots.txt, circuit breaker) are left out."""
    chains: list[list[AttemptRecord]] = []
    fetching = {attempt.resolver for attempt in attempts if attempt.role != "metadata"}
    for attempt in attempts:
        if attempt.resolver == "robots" or attempt.status in _BREAKER:
            continue
        if chains and _continues(chains[-1][-1], attempt):
            chains[-1].append(attempt)
        else:
            chains.append([attempt])
    return (_summary(chain, failures, fetching) for chain in chains)


def _merged(requests: Iterable[RequestSummary]) -> Iterator[RequestSummary]:
    """Merge equal requests with equal answers, at the time of the first."""
    alike: dict[RequestSummary, list[RequestSummary]] = {}
    for one in requests:
        alike.setdefault(replace(one, at=""), []).append(one)
    for first, *others in alike.values():
        times = f"; the same {len(others) + 1} times" if others else ""
        yield replace(first, answer=f"{first.answer}{times}")


def _continues(before: AttemptRecord, after: AttemptRecord) -> bool:
    """Whether `after` follows a redirect, repeats a request, or rejects the file that `before` downloaded."""
    if before.resolver != after.resolver or (before.verb == "HEAD") != (after.verb == "HEAD"):
        return False
    redirected = 300 <= (before.http_status or 0) < 400 and before.http_status != 304
    rejected = after.status is Status.CONTENT_POLICY_SKIP and before.status is Status.HTTP_200
    return redirected or before.status is Status.RETRY or rejected


def _summary(chain: Sequence[AttemptRecord], failures: dict[str, str], fetching: Set[str | None]) -> RequestSummary:
    first, last = chain[0], chain[-1]
    hops = sum(1 for one in chain[:-1] if one.status is not Status.RETRY and one.url != last.url)
    retries = sum(1 for one in chain[:-1] if one.status is Status.RETRY)
    reason: Reason | None = last.reason if last.reason is not Reason.OK else None
    failure = failures.get(first.url) or failures.get(last.url)
    if reason is None and failure is not None and last.verb != "HEAD":
        reason = Reason(failure)
    ways = [f"after {plural(hops, 'redirect')}" if hops else "", f"requested {retries + 1} times" if retries else ""]
    no_copy = reason is None and first.role == "metadata" and first.resolver not in fetching
    answer = "; ".join(filter(None, [_answer(last, reason), *ways, "no new copy" if no_copy else ""]))
    what = {"metadata": "queried the API of", "landing": "fetched a page from"}.get(
        first.role or "", "fetched a file from"
    )
    what = "checked for a file at" if first.verb == "HEAD" else what
    what = _SENT_NOTHING if last is first and last.status in _NOT_SENT else what
    token, at = str(reason) if reason is not None else None, format_time(first.ts, seconds=True)
    return RequestSummary(first.resolver or "–", first.host or "–", what, answer, token, first.url, at)


def _answer(last: AttemptRecord, reason: Reason | None) -> str:
    status = ""
    if last.http_status is not None:
        name = HTTPStatus(last.http_status).phrase if last.http_status in set(HTTPStatus) else ""
        status = f"{last.http_status} {name}".strip()
    if reason is None:
        size = f", {last.bytes_written:,} bytes" if last.status is Status.HTTP_200 and last.bytes_written else ""
        return (status or "answer from the cache" if last.cache_hit else status or str(last.status)) + size
    detail = last.extra.get("evidence") or last.extra.get("fault") or REASON_TEXT[reason].meaning.rstrip(".")
    detail = f"{detail}; kept as {kept}" if (kept := last.extra.get("quarantined")) else detail
    return f"{status}: {detail}" if status else str(detail)


def _utc(moment: float) -> str:
    return f"{format_time(moment, seconds=True)} UTC"


# -- as text -----------------------------------------------------------------------------------------------------------


def as_text(history: WorkHistory, width: int) -> str:
    """Text for a terminal of this width; URLs stay on one line, so that they can be opened."""
    lines = wrap(f"{history.work_id}  {history.title or '(no title)'} ({history.year or 'no year'})", width)
    lines += [" ".join(history.identifiers)] if history.identifiers else []
    lines += ["", *wrap(history.ending, width), ""]
    if history.tries:
        sent = plural(sum(one.what != _SENT_NOTHING for one in history.tries), "request")
        lines.append(f"What was tried ({sent}, the first at {history.tries[0].at} UTC)")
        for number, one in enumerate(history.tries[:_MAX_REQUESTS], 1):
            token = f" [{one.reason}]" if one.reason else ""
            head = f"{number:3}. {one.resolver} {one.what} {one.host}: {one.answer}{token}"
            lines += [*wrap(head, width, "     "), f"     {one.url}"]
        if len(history.tries) > _MAX_REQUESTS:
            lines.append(f"     … and {len(history.tries) - _MAX_REQUESTS} more; --json shows all")
        lines.append("")
    for heading, items in (("Why", history.why), ("What you can do", history.help), ("More", history.links)):
        if items:
            lines.append(heading)
            for item in items:
                lines += [f"  {line}" for line in wrap(f"- {item}", width - 2, "  ")]
            lines.append("")
    return "\n".join(printable(line) for line in lines).rstrip() + "\n"
