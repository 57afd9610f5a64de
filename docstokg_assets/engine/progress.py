"""The progress and the result of a pass, and the texts about waiting that terminal, log and Dagster UI share. Plain data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from resources.catalog.rows import Finished
from resources.records import ITS_TURN, Reason

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
