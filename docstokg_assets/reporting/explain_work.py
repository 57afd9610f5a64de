"""The story of one work in plain words: what was tried, what each answered, why it ended so, and what would help. Pure.

Told from what the catalog has kept: the queue's row, the outcome, the attempts. Reading them, and showing the story, is the
command's (`cli/why_command.py`); what a reason means is in `telemetry/reasons.py`.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

from docstokg_assets.domain.identifiers import Identifier, arxiv_without_version, parse_identifier
from docstokg_assets.domain.pdf_match import Flag
from docstokg_assets.domain.works import Work
from docstokg_assets.reporting.reasons import FLAG_TEXT, REASON_TEXT
from docstokg_assets.reporting.rendering import printable
from docstokg_assets.resolvers.registry import Resolver
from resources.catalog.rows import Entry, QueuedWork
from resources.records import ENDINGS, AttemptRecord, Ending, Reason, Status

REASONS_PAGE = "docs/reasons.md"
_OF_THE_HOST = frozenset({Status.BREAKER_OPEN, Status.BREAKER_HALF_OPEN, Status.BREAKER_CLOSED})
_NOT_SENT = frozenset({Status.SKIPPED, Status.ROBOTS_DISALLOWED})
_MOST_TRIES = 40
_DID_NOT_ASK = "did not ask"
_FILE_NAME = re.compile(r".+__(W[0-9]+)\.[a-z]{3,5}")  # as `naming` makes them


@dataclass(frozen=True, slots=True)
class Try:
    """One question and its answer, with the redirects and retries in between."""

    resolver: str
    host: str
    what: str
    answer: str
    reason: str | None
    url: str
    at: str


@dataclass(frozen=True, slots=True)
class Story:
    work_id: str
    title: str | None
    year: int | None
    identifiers: tuple[str, ...]
    ending: str
    reason: str | None
    tries: tuple[Try, ...]
    why: tuple[str, ...]
    help: tuple[str, ...]
    links: tuple[str, ...]


def without_file_name(wanted: str) -> str:
    """The work id, where the name of a stored file is given instead; what was given otherwise."""
    named = _FILE_NAME.fullmatch(wanted)
    return named[1] if named else wanted


def coarse_pieces(wanted: str) -> list[str]:
    """Pieces that the record of every work that `wanted` may mean contains, case aside; letters beyond ASCII have cases that
    not every database knows."""
    known = parse_identifier(wanted)
    if known is not None:
        return [_of_any_version(known).removeprefix("PMC")]
    words = [word for word in wanted.split() if word.isascii() and word.isalnum()]
    return words or [wanted.strip()]


def is_meant(wanted: str, work: Work) -> bool:
    """Whether an id, a DOI in any spelling, an address that was given for it, or a part of the title names this work."""
    known = parse_identifier(wanted)
    if wanted.strip() in (work.work_id, *work.urls):
        return True
    if known is None:
        return " ".join(wanted.casefold().split()) in " ".join((work.title or "").casefold().split())
    own = {"openalex": work.work_id, "doi": work.doi, "arxiv": work.arxiv_id or work.doi, "pmcid": work.pmcid}
    value = (own[known.kind] or "").casefold()
    if known.kind == "arxiv":
        value = arxiv_without_version(value.removeprefix("10.48550/arxiv."))
    return _of_any_version(known).casefold() == value


def _of_any_version(identifier: Identifier) -> str:
    """The versions of an arXiv paper are one work."""
    return arxiv_without_version(identifier.value) if identifier.kind == "arxiv" else identifier.value


def tell(
    queued: QueuedWork,
    entry: Entry | None,
    attempts: Sequence[AttemptRecord],
    resolvers: Sequence[Resolver],
    off: Sequence[tuple[str, str]],
    now: float,
    also_of: Sequence[str] = (),
) -> Story:
    """`resolvers` are those in use, `off` the others, each with the reason why it is not; `also_of`: works with the same file."""
    work = Work.from_json(queued.record)
    known = (work.doi and f"doi:{work.doi}", work.arxiv_id and f"arXiv:{work.arxiv_id}", work.pmcid)
    tries = tuple(_folded(_tries(attempts, _failures(queued, entry))))
    reason = _reason(queued, entry, now)
    flags = [Flag(flag) for flag in (entry.meta.get("flags", ()) if entry else ())]
    tokens = dict.fromkeys([*filter(None, (reason, *(one.reason for one in tries)))])
    links = [f"{REASONS_PAGE}#{token}" for token in tokens if token in set(Reason) and token != Reason.OK]
    return Story(
        work_id=queued.work_id,
        title=work.title,
        year=work.year,
        identifiers=tuple(text for text in known if text),
        ending=_ending(queued, entry, reason, now),
        reason=reason,
        tries=tries,
        why=(*_why(entry, reason, flags, attempts), *_shared(also_of)),
        help=tuple(_help(work, queued, entry, reason, resolvers, off, now)),
        links=(*links, *(f"{REASONS_PAGE}#flag-{flag}" for flag in flags)),
    )


# -- how it ended ------------------------------------------------------------------------------------------------------


def _succeeded(entry: Entry | None) -> bool:
    return entry is not None and ENDINGS[entry.reason] is Ending.SUCCESS


def _waits(queued: QueuedWork, now: float) -> bool:
    return queued.state in ("queued", "retry") and queued.not_before > now


def _reason(queued: QueuedWork, entry: Entry | None, now: float) -> str | None:
    return str(entry.reason) if entry is not None else queued.wait_reason if _waits(queued, now) else None


def _ending(queued: QueuedWork, entry: Entry | None, reason: str | None, now: float) -> str:
    if entry is not None and _succeeded(entry):
        size = f", {entry.bytes:,} bytes" if entry.bytes else ""
        terms = "".join(f", {term}" for term in (entry.version, entry.license) if term)
        what = "Its full text is there, as HTML only" if entry.reason is Reason.HTML_ONLY else "Its full text is there"
        return f"{what}: {entry.path or 'unchanged since the last run'}{size}{terms}, found by {entry.resolver}."
    if queued.state == "leased":
        return "It is being worked on at this moment."
    if _waits(queued, now):
        whom = f" for {queued.next_group}" if queued.next_group and queued.state == "queued" else ""
        tried = " It has no full text yet." if entry is not None or queued.progress else ""
        return f"It waits until {_when(queued.not_before)}{whom}.{tried}"
    if entry is None or queued.state != "done":
        return "It is in the queue and its turn has not come yet." + (" It has no full text yet." if entry else "")
    return f"It has no full text: it ended as {reason}."


def _why(
    entry: Entry | None, reason: str | None, flags: Sequence[Flag], attempts: Sequence[AttemptRecord]
) -> Iterator[str]:
    if reason is not None and reason in set(Reason):
        where = ""
        if entry is not None and not _succeeded(entry) and entry.url:
            status = f" (HTTP {entry.http_status})" if entry.http_status else ""
            where = f" That was the most promising copy: {entry.url}{status}"
        if not _succeeded(entry):
            yield f"{REASON_TEXT[Reason(reason)].meaning}{where}"
    elif reason is not None:
        yield f"It {reason}."
    if entry is not None and not _succeeded(entry) and (note := entry.meta.get("note")):
        yield f"Noted: {note}"
    for flag in flags:
        evidence = entry.meta.get("evidence") if entry is not None else ""
        yield f"Flagged {flag}: {FLAG_TEXT[flag]}{f' ({evidence})' if evidence else ''}"
    if not attempts:
        yield "Nothing was asked for this work so far."


def _shared(works: Sequence[str]) -> Iterator[str]:
    if works:
        more = f" and {len(works) - 5} more" if len(works) > 5 else ""
        yield f"The same file is also kept for {', '.join(works[:5])}{more}."


def _help(
    work: Work,
    queued: QueuedWork,
    entry: Entry | None,
    reason: str | None,
    resolvers: Sequence[Resolver],
    off: Sequence[tuple[str, str]],
    now: float,
) -> Iterator[str]:
    if _succeeded(entry) and reason != Reason.HTML_ONLY:
        return
    if _waits(queued, now):
        yield f"Run the same command after {_when(queued.not_before)}; it goes on from there, and asks nothing twice."
    elif queued.state != "done":
        yield "Run the same command again; the work is still to be done."
    if reason is not None and reason in set(Reason) and reason != Reason.HTTP_4XX:  # its status is told already
        remedy = REASON_TEXT[Reason(reason)].remedy
        yield from [remedy] if not remedy.startswith("None") else []
    silent = [resolver.name for resolver in resolvers if not resolver.applies(work)]
    if silent:
        lacks = " (it has no DOI)" if work.doi is None else ""
        yield f"Not needed or not applicable to this work{lacks}: {', '.join(silent)}."
    for why in dict.fromkeys(why for _, why in off):
        names = [name for name, its in off if its == why]
        yield f"{', '.join(names)} {'was' if len(names) == 1 else 'were'} not asked: {why}."
    if queued.state == "done" and entry is not None:
        yield "It is tried again when there is something new: another resolver, location or rule, or by `content resume --force`."


# -- what was tried ----------------------------------------------------------------------------------------------------


def _failures(queued: QueuedWork, entry: Entry | None) -> dict[str, str]:
    """URL → why it brought nothing, where that was only seen when the answer was read: a wall, a page without a link."""
    found = {}
    if entry is not None and not _succeeded(entry):
        others: list[dict[str, Any]] = [*entry.meta.get("others", ()), {"url": entry.url, "reason": entry.reason}]
        found = {one["url"]: str(one["reason"]) for one in others if one["url"]}
    kept = (queued.progress or {}).get("failures", {}).values()
    return found | {one["url"]: one["reason"] for one in kept if one["url"]}


def _tries(attempts: Sequence[AttemptRecord], failures: dict[str, str]) -> Iterator[Try]:
    chain: list[AttemptRecord] = []
    fetching = {attempt.resolver for attempt in attempts if attempt.role != "metadata"}
    for attempt in attempts:
        if attempt.resolver == "robots" or attempt.status in _OF_THE_HOST:
            continue
        if chain and not _goes_on(chain[-1], attempt):
            yield _try(chain, failures, fetching)
            chain = []
        chain.append(attempt)
    if chain:
        yield _try(chain, failures, fetching)


def _folded(tries: Iterable[Try]) -> Iterator[Try]:
    """The same question with the same answer is told once, at its first time."""
    alike: dict[Try, list[Try]] = {}
    for one in tries:
        alike.setdefault(replace(one, at=""), []).append(one)
    for first, *others in alike.values():
        times = f"; the same {len(others) + 1} times" if others else ""
        yield replace(first, answer=f"{first.answer}{times}")


def _goes_on(before: AttemptRecord, after: AttemptRecord) -> bool:
    """A redirect leads on, a retry asks again, and a verdict is about the file that came before it."""
    if before.resolver != after.resolver or (before.verb == "HEAD") != (after.verb == "HEAD"):
        return False
    redirected = 300 <= (before.http_status or 0) < 400 and before.http_status != 304
    judged = after.status is Status.CONTENT_POLICY_SKIP and before.status is Status.HTTP_200
    return redirected or before.status is Status.RETRY or judged


def _try(chain: Sequence[AttemptRecord], failures: dict[str, str], fetching: Set[str | None]) -> Try:
    first, last = chain[0], chain[-1]
    hops = sum(1 for one in chain[:-1] if one.status is not Status.RETRY and one.url != last.url)
    again = sum(1 for one in chain[:-1] if one.status is Status.RETRY)
    reason: Reason | None = last.reason if last.reason is not Reason.OK else None
    seen = failures.get(first.url) or failures.get(last.url)
    if reason is None and seen is not None and last.verb != "HEAD":
        reason = Reason(seen)
    ways = [f"after {_count(hops, 'redirect')}" if hops else "", f"asked {again + 1} times" if again else ""]
    idle = reason is None and first.role == "metadata" and first.resolver not in fetching
    answer = "; ".join(filter(None, [_answer(last, reason), *ways, "it named no new copy" if idle else ""]))
    what = {"metadata": "asked the API of", "landing": "read a page of"}.get(first.role or "", "fetched a file from")
    what = "looked for a file at" if first.verb == "HEAD" else what
    what = _DID_NOT_ASK if last is first and last.status in _NOT_SENT else what
    at = first.ts.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
    shown = str(reason) if reason is not None else None
    return Try(first.resolver or "–", first.host or "–", what, answer, shown, first.url, at)


def _answer(last: AttemptRecord, reason: Reason | None) -> str:
    status = ""
    if last.http_status is not None:
        name = HTTPStatus(last.http_status).phrase if last.http_status in set(HTTPStatus) else ""
        status = f"{last.http_status} {name}".strip()
    if reason is None:
        came = f", {last.bytes_written:,} bytes" if last.status is Status.HTTP_200 and last.bytes_written else ""
        return (status or "an answer from the cache" if last.cache_hit else status or str(last.status)) + came
    said = last.extra.get("evidence") or last.extra.get("fault") or REASON_TEXT[reason].meaning.rstrip(".")
    said = f"{said}; kept as {kept}" if (kept := last.extra.get("quarantined")) else said
    return f"{status}: {said}" if status else str(said)


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _when(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


# -- as text -----------------------------------------------------------------------------------------------------------


def as_text(story: Story, width: int) -> str:
    """For a terminal of this width; addresses stay on one line, so that they can be opened."""
    lines = textwrap.wrap(f"{story.work_id}  {story.title or '(no title)'} ({story.year or 'no year'})", width)
    lines += [" ".join(story.identifiers)] if story.identifiers else []
    lines += ["", *textwrap.wrap(story.ending, width, break_long_words=False, break_on_hyphens=False), ""]
    if story.tries:
        asked = sum(one.what != _DID_NOT_ASK for one in story.tries)
        lines.append(f"What was tried ({_count(asked, 'question')}, from {story.tries[0].at} UTC on)")
        for number, one in enumerate(story.tries[:_MOST_TRIES], 1):
            token = f" [{one.reason}]" if one.reason else ""
            head = f"{number:3}. {one.resolver} {one.what} {one.host}: {one.answer}{token}"
            lines += textwrap.wrap(head, width, subsequent_indent="     ", break_long_words=False)
            lines.append(f"     {one.url}")
        if len(story.tries) > _MOST_TRIES:
            lines.append(f"     … and {len(story.tries) - _MOST_TRIES} more; --json shows all")
        lines.append("")
    for heading, items in (("Why", story.why), ("What would help", story.help), ("More", story.links)):
        if items:
            lines.append(heading)
            for item in items:
                wrapped = textwrap.wrap(item, width - 4, break_long_words=False, break_on_hyphens=False)
                lines += [f"  - {wrapped[0]}", *(f"    {line}" for line in wrapped[1:])]
            lines.append("")
    return "\n".join(printable(line) for line in lines).rstrip() + "\n"
