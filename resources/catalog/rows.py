"""What goes into the catalog and what comes out of it, as frozen records, and their translation to and from table rows.

Attempts and outcomes are those of `resources.records`; nothing here touches the database.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from resources.catalog.codec import Codec, from_json
from resources.clock import utc
from resources.http.canonical import canonical_url
from resources.http.redact import redact_url
from resources.records import AttemptRecord, Classification, DownloadOutcome, Kind, Reason
from resources.tables import ARTIFACTS, ATTEMPTS, OUTCOMES


@dataclass(frozen=True, slots=True)
class NewItem:
    """A work to be put into the queue. `next_group` is the host group that its plan asks first."""

    work_id: str
    year: int | None
    priority: int
    record: Mapping[str, Any] | str  # or its JSON
    plan_hash: str
    next_group: str | None = None
    planned_from: str | None = None  # as in the table; None leaves what is stored with the same plan


class Enqueued(NamedTuple):
    new: int = 0
    reopened: int = 0
    unchanged: int = 0  # nothing to do again, though the stored record may have become a newer one


@dataclass(frozen=True, slots=True)
class QueueItem:
    """A work as it stands in the queue. `progress` is what an earlier claim parked it with; `wait_reason` says why it is not due
    before `not_before`."""

    work_id: str
    year: int | None
    priority: int
    record: dict[str, Any]
    plan_hash: str
    next_group: str | None
    progress: dict[str, Any] | None
    tries: int
    state: str = "leased"  # queued | leased | retry | done
    not_before: float = 0.0
    wait_reason: str | None = None

    @classmethod
    def from_row(cls, row: Mapping[Any, Any]) -> QueueItem:
        work_id, year, priority, record, plan_hash, group, progress, *rest = _take_item(row)
        return cls(work_id, year, priority, from_json(record), plan_hash, group, from_json(progress), *rest)


class QueueCounts(NamedTuple):
    """Every work is in one of the five; `queued_due` could be claimed now."""

    total: int
    queued_due: int
    parked: int
    leased: int
    retry: int
    done: int

    @property
    def waiting(self) -> int:
        """Unfinished works that come due later: parked, or to be tried again."""
        return self.parked + self.retry

    @property
    def to_do(self) -> int:
        """Unfinished works that do not wait: due now, or in progress."""
        return self.queued_due + self.leased


class Claimed(NamedTuple):
    items: list[QueueItem]
    up_to: tuple[int, str] | None  # (priority, work) where the walk over ready works ended,
    is_end: bool  # and whether there were no more


class DueWorks(NamedTuple):
    year: int | None
    works: int
    since: float  # when the last of them came due


@dataclass(frozen=True, slots=True)
class ParkedGroup:
    group: str | None
    count: int
    earliest: float
    latest: float
    reason: str | None


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of a work, or with `retry_at` (epoch seconds) the end of this try."""

    work_id: str
    year: int | None
    title: str | None
    doi: str | None
    outcome: DownloadOutcome
    run_id: str
    config_hash: str
    owner: str
    ttfp_ms: int | None = None
    requests: int = 0
    retry_at: float | None = None
    progress: Mapping[str, Any] | None = None  # what the next try need not find out again
    counts: bool = True  # whether it was one of the work's tries; not if its host was only left alone
    next_group: str | None = None  # the host group that the next try begins with, where it is another
    plan_hash: str | None = None  # the plan that was executed, which the queue then has
    claimed_plan_hash: str | None = None  # the plan that the queue had when the work was claimed, where it was another
    made: Sequence[str] = ()  # names of files that this process has made for it; not for the catalog
    superseded: Sequence[str] = ()  # files that are not needed any more when this is recorded; not for the catalog
    result: Mapping[str, Any] | None = None  # of an ingest item: columns of `ingest_file_result`; it has no outcome row
    lost_file: bool = False  # the file that the catalog names is lost, so that its success does not outlive a failure


@dataclass(frozen=True, slots=True)
class Parked:
    """A work that goes back to the queue until `not_before` (epoch seconds), to be taken up where it was."""

    work_id: str
    progress: Mapping[str, Any]
    next_group: str | None
    not_before: float
    reason: str
    owner: str
    plan_hash: str | None = None  # as for `Finished`
    claimed_plan_hash: str | None = None
    made: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Artifact:
    """One stored file: which bytes, of which work, from which URL. The catalog sets `id` and `stored_at`.

    The same bytes under two works are two of these. `derivation` and `derived_from`: it is not what a location of the work
    delivered, but made from that, e.g. captured by an archive, or taken out of a package.
    """

    work_id: str
    url: str
    sha256: str
    path: str
    run_id: str
    kind: Kind | None = None
    bytes: int | None = None
    content_type: str | None = None
    etag: str | None = None
    last_modified: str | None = None
    license: str | None = None
    version: str | None = None
    resolver: str | None = None
    tier: str | None = None
    final_url: str | None = None
    derivation: str | None = None
    derived_from: str | None = None
    stored_at: float = 0.0
    id: int = 0

    @classmethod
    def from_row(cls, row: Mapping[Any, Any]) -> Artifact:
        return cls(**_ARTIFACT.decode(row))


class Batch(NamedTuple):
    """What becomes durable together."""

    attempts: Sequence[AttemptRecord] = ()
    finished: Sequence[Finished] = ()
    parked: Sequence[Parked] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    """The latest outcome of one work. `revision` grows with every change of any entry."""

    work_id: str
    year: int | None
    title: str | None
    doi: str | None
    classification: Classification
    reason: Reason
    kind: Kind | None
    url: str | None
    resolver: str | None
    tier: str | None
    http_status: int | None
    path: str | None
    sha256: str | None
    bytes: int | None
    content_type: str | None
    license: str | None
    version: str | None
    html_paths: tuple[str, ...]
    fallback_chain: tuple[str, ...]
    retry_at: float | None
    run_id: str
    config_hash: str
    ttfp_ms: int | None
    requests: int
    finished_at: float
    meta: dict[str, Any]
    revision: int

    @classmethod
    def from_row(cls, row: Mapping[Any, Any]) -> Entry:
        values = _ENTRY.decode(row)
        return cls(*_take_entry(values))


class Committed(NamedTuple):
    """What a commit recorded."""

    entries: Sequence[Entry]  # the outcomes as the catalog has them now; none for a copy that is still current
    lost: Sequence[str]  # the works whose lease was lost: neither an outcome nor a pause of them was recorded
    kept: Sequence[str] = ()  # the works whose earlier success stands, because the new outcome is not as good


@dataclass(frozen=True, slots=True)
class OutcomeCount:
    classification: Classification
    reason: Reason
    kind: Kind | None
    count: int


class CountUpTo(NamedTuple):
    """How many rows there are up to a position, and beyond it too."""

    some: int
    all: int


class StoredAttempt(NamedTuple):
    position: int
    record: AttemptRecord

    @classmethod
    def from_row(cls, row: Mapping[Any, Any]) -> StoredAttempt:
        values = _ATTEMPT.decode(row)
        values["ts"] = utc(values["ts"])
        return cls(values["id"], AttemptRecord(**{name: values[name] for name in _FIELDS[AttemptRecord]}))


@dataclass(frozen=True, slots=True)
class Run:
    run_id: str
    kind: str
    started_at: float
    finished_at: float | None
    config_hash: str
    scope: dict[str, Any]
    summary: dict[str, Any] | None
    progress: dict[str, Any] | None

    @classmethod
    def from_row(cls, row: Mapping[Any, Any]) -> Run:
        return cls(**{**row, **{name: from_json(row[name]) for name in ("scope", "summary", "progress")}})


class RobotsRow(NamedTuple):
    """`status` is None when no answer came."""

    status: int | None
    body: str
    fetched_at: float


class HostPause(NamedTuple):
    """`closed_until` is None when the host is not paused; `breaker` is text, see resources.http.breaker."""

    closed_until: float | None
    breaker: str | None


class SetAside(NamedTuple):
    """An item of a source that could not be read, and why."""

    run_id: str | None
    source: str
    item: str
    reason: str


ARTIFACT_KEY = ("work_id", "url", "sha256")
_ATTEMPT, _ENTRY, _ARTIFACT = Codec(ATTEMPTS), Codec(OUTCOMES), Codec(ARTIFACTS)
ATTEMPT_COLUMNS, ENTRY_COLUMNS, ARTIFACT_COLUMNS = _ATTEMPT.names, _ENTRY.names, _ARTIFACT.names
_FIELDS = {
    kind: tuple(f.name for f in fields(kind)) for kind in (AttemptRecord, DownloadOutcome, Finished, Entry, QueueItem)
}
_GETTERS = {kind: attrgetter(*names) for kind, names in _FIELDS.items()}
_take_entry, _take_item = itemgetter(*_FIELDS[Entry]), itemgetter(*_FIELDS[QueueItem])


def values_of(record: AttemptRecord | DownloadOutcome | Finished | Entry) -> dict[str, Any]:
    """The fields of a record by name; the values are shared, not copied."""
    kind = type(record)
    return dict(zip(_FIELDS[kind], _GETTERS[kind](record), strict=True))


def attempt_to_row(record: AttemptRecord) -> dict[str, Any]:
    return _ATTEMPT.encode({**record.extra, **values_of(record)})


def entry_of(finished: Finished, finished_at: float, revision: int) -> Entry:
    """The outcome of a work as the catalog has it."""
    outcome = finished.outcome
    values = {**values_of(outcome), **values_of(finished), "meta": redacted(outcome.meta)}
    values |= {"bytes": outcome.content_length, "url": redact_url(outcome.url) if outcome.url else None}
    return Entry(*_take_entry({**values, "finished_at": finished_at, "revision": revision}))


def entry_to_row(entry: Entry) -> dict[str, Any]:
    """The row of an outcome. A column that the entry has no field for is taken from `meta`."""
    return _ENTRY.encode({**entry.meta, **values_of(entry)})


def artifact_rows(finished: Finished, stored_at: float) -> list[dict[str, Any]]:
    """The files that a successful outcome names: its own, and those that were kept besides."""
    outcome = finished.outcome
    files = (outcome, *outcome.beside) if outcome.ok else ()
    return [_artifact_row(finished, file, stored_at) for file in files if file.path and file.sha256 and file.url]


def validator_rows(finished: Finished) -> list[dict[str, Any]]:
    """The validators that a host now sends with bytes that are stored already."""
    outcome = finished.outcome
    if not (outcome.ok and outcome.url and outcome.sha256 and (outcome.etag or outcome.last_modified)):
        return []
    url = canonical_url(redact_url(outcome.url))
    row = {"work_id": finished.work_id, "url": url, "sha256": outcome.sha256}
    found = {"etag": outcome.etag, "last_modified": outcome.last_modified}
    return [artifact_change({**row, **found}, *found)]


def artifact_change(row: Mapping[str, Any], *columns: str) -> dict[str, Any]:
    """The parameters of a change of `columns` in the row with the same work, URL and bytes."""
    return {f"same_{name}": row[name] for name in ARTIFACT_KEY} | {f"new_{name}": row[name] for name in columns}


def _artifact_row(finished: Finished, file: DownloadOutcome, stored_at: float) -> dict[str, Any]:
    values = {**file.meta, **values_of(file), "bytes": file.content_length, "stored_at": stored_at}
    row = _ARTIFACT.encode({**values, "work_id": finished.work_id, "run_id": finished.run_id})
    row |= {name: redact_url(row[name]) for name in ("url", "final_url", "derived_from") if row[name]}
    return {**row, "url": canonical_url(row["url"])}


def redacted(value: Any) -> Any:
    """`value` with every text in it, however deep, freed of credentials."""
    if isinstance(value, str):
        return redact_url(value)
    if isinstance(value, Mapping):
        return {key: redacted(inner) for key, inner in value.items()}
    return [redacted(inner) for inner in value] if isinstance(value, (list, tuple)) else value
