"""The progress and the result of a pass, and the texts about waiting that terminal, log and Dagster UI share. Plain data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from resources.catalog.rows import Finished
from resources.records import ITS_TURN, Reason

ANOTHER_PROCESS = "another process"
_ENDS = ("drained", "budget", "deadline", "stopped")  # from the weakest reason to the strongest
_COUNTS = ("finished", "saved", "html_only", "to_retry", "parked", "requests", "bytes")
_SHORT_WHY = {
    ITS_TURN: "limit",
    str(Reason.RETRY_AFTER): "asked for a pause",
    str(Reason.BREAKER_OPEN): "failing",
    str(Reason.BACKOFF): "trying again",
    str(Reason.ROBOTS): "reading robots.txt",
}


@dataclass(frozen=True, slots=True)
class Waiting:
    """A host that works wait for, and why."""

    group: str
    works: int
    seconds: float | None  # until the last of the works has its turn; None when it is not known
    why: str

    def __str__(self) -> str:
        """`arxiv (limit, 4 works, 2 s)`"""
        parts = [_SHORT_WHY.get(self.why, self.why), f"{self.works:,} work{'' if self.works == 1 else 's'}"]
        if self.seconds is not None:
            parts.append(f"{self.seconds:.0f} s")
        return f"{self.group} ({', '.join(parts)})"


@dataclass(frozen=True, slots=True)
class Progress:
    """Counted as in the report: `saved` works have a PDF or XML full text; `later` works are parked or will be tried again."""

    finished: int
    saved: int
    later: int
    open: int
    active_hosts: tuple[str, ...]
    waiting: tuple[Waiting, ...]


def waiting_text(waiting: Sequence[Waiting], most: int = 2) -> str:
    """The longest waits, longest first. Waits under a second are left out."""
    known = sorted((w for w in waiting if w.seconds is not None and w.seconds >= 1), key=lambda w: -(w.seconds or 0))
    return ", ".join(map(str, [*known, *(w for w in waiting if w.seconds is None)][:most]))


@dataclass(slots=True)
class PassResult:
    """The counts of a pass. `ended`: why it ended (drained, deadline, budget or stopped)."""

    ended: str = "drained"
    finished: int = 0
    saved: int = 0
    html_only: int = 0  # of those saved
    to_retry: int = 0  # of those finished: without success, and to be tried again by a later pass
    parked: int = 0
    requests: int = 0
    bytes: int = 0
    elapsed_s: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)
    refused: dict[str, str] = field(default_factory=dict, repr=False)  # work -> reason; they come due with their host

    def count(self, entry: Finished) -> None:
        outcome = entry.outcome
        if (before := self.refused.pop(entry.work_id, None)) is not None:  # it came due again in the same pass
            self.finished, self.to_retry = self.finished - 1, self.to_retry - 1
            self.outcomes -= Counter([before])
        if not entry.counts:
            self.refused[entry.work_id] = str(outcome.reason)
        self.finished += 1
        self.saved += outcome.ok
        self.html_only += outcome.reason is Reason.HTML_ONLY
        self.to_retry += entry.retry_at is not None
        self.bytes += outcome.content_length or 0
        self.outcomes[str(outcome.reason)] += 1


def merge_progress(parts: Sequence[Progress]) -> Progress:
    """The progress of a pass that several processes make together."""
    if len(parts) == 1:
        return parts[0]
    works: Counter[tuple[str, str]] = Counter()
    seconds: dict[tuple[str, str], float | None] = {}
    for waiting in (waiting for part in parts for waiting in part.waiting if waiting.group != ANOTHER_PROCESS):
        key = waiting.group, waiting.why
        works[key] += waiting.works
        seconds[key] = max(seconds.get(key) or 0.0, waiting.seconds or 0.0)
    return Progress(
        sum(part.finished for part in parts),
        sum(part.saved for part in parts),
        sum(part.later for part in parts),
        sum(part.open for part in parts),
        tuple(sorted({host for part in parts for host in part.active_hosts})),
        tuple(Waiting(group, count, seconds[group, why], why) for (group, why), count in works.most_common()),
    )


def merge_results(parts: Sequence[PassResult]) -> PassResult:
    """The result of a pass that several processes made together: ended for the strongest reason of any."""
    total = PassResult(
        ended=max((part.ended for part in parts), key=_ENDS.index), elapsed_s=max(part.elapsed_s for part in parts)
    )
    for part in parts:
        for name in _COUNTS:
            setattr(total, name, getattr(total, name) + getattr(part, name))
        total.outcomes += part.outcomes
        total.refused |= part.refused
    return total
