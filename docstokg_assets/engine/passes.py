"""What a pass is given, and what comes of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from resources.catalog.claims import Years
from resources.catalog.rows import Finished
from resources.records import Reason


@dataclass(frozen=True, slots=True)
class PassSettings:
    workers: int
    run_id: str
    config_hash: str
    owner: str  # unique to this process; holds the leases
    year: Years | None = None  # which works: of a year, or of several,
    of_run: str | None = None  # or of a run
    deadline_s: float | None = None
    max_works: int | None = None
    lease_s: float = 120.0
    park_after_s: float = 60.0
    soon_s: float = 60.0  # a work waits so long for a broken host to be tried again before it ends without success
    retry_base_s: float = 3600.0
    max_tries: int = 5


@dataclass(slots=True)
class PassResult:
    """What a pass did. `ended` says why it ended: drained, deadline, budget or stopped."""

    ended: str = "drained"
    finished: int = 0
    saved: int = 0
    html_only: int = 0  # of those saved
    to_retry: int = 0  # of those finished: without success so far, a later pass tries them again
    parked: int = 0
    requests: int = 0
    bytes: int = 0
    elapsed_s: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)
    refused: dict[str, str] = field(default_factory=dict, repr=False)  # work -> reason: these come due with a host

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
