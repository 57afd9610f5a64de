"""Where works come from: the OpenAlex API, its snapshot, lists of references or URLs. Each reports the records that it skips.

Nothing here opens a connection or a file: the API is a set of generators that yield Requests, the readers take lines.
"""

from __future__ import annotations

from dataclasses import dataclass

from resources.errors import ExplainedError


@dataclass(frozen=True, slots=True)
class SetAside:
    """A record or a line that cannot become a work. The rest of its page or file is read."""

    where: str  # `line 12`, or the record's id, or its place on the page
    reason: str
    text: str = ""
    line: int | None = None  # of the input, where that has lines


class SourceError(ExplainedError):
    """A source of works failed: what happened, the remedy, and when to try again (epoch seconds)."""

    def __init__(self, message: str, remedy: str, retry_at: float | None = None) -> None:
        super().__init__(f"{message} {remedy}")
        self.message, self.retry_at = message, retry_at


class RequestRefused(SourceError):
    """The source rejects the request: its filter is wrong, or its cursor has expired."""


class PlanRequired(SourceError):
    """The plan of the key does not cover the request; a retry does not help."""
