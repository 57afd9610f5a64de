"""Where a pass is at this moment, and whom it waits for, in the words that terminal, log and UI share. Plain data; others count
and show it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
    """A host that is waited for, as a person wants to see it: by how many works, until the last of them has its turn, and why."""

    group: str
    works: int
    seconds: float | None  # None when it is not known
    why: str

    def __str__(self) -> str:
        """`arxiv (limit, 4 works, 2 s)`"""
        told = [_SHORT_WHY.get(self.why, self.why), f"{self.works:,} work{'' if self.works == 1 else 's'}"]
        if self.seconds is not None:
            told.append(f"{self.seconds:.0f} s")
        return f"{self.group} ({', '.join(told)})"


@dataclass(frozen=True, slots=True)
class Progress:
    """As the report counts: `finished` for good, `saved` with a PDF or XML full text, `later` parked or to be tried again."""

    finished: int
    saved: int
    later: int
    open: int
    active_hosts: tuple[str, ...]
    waiting: tuple[Waiting, ...]


def waiting_text(waiting: Sequence[Waiting], most: int = 2) -> str:
    """The longest waits first. Short ones are the ordinary course of things, and not told."""
    known = sorted((w for w in waiting if w.seconds is not None and w.seconds >= 1), key=lambda w: -(w.seconds or 0))
    return ", ".join(map(str, [*known, *(w for w in waiting if w.seconds is None)][:most]))
