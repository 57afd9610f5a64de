"""What goes into the catalog and what comes out of it, as frozen records, and their translation to and from table rows.

Attempts and outcomes are those of `resources.records`; nothing here touches the database.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any, NamedTuple

import orjson

from resources.http.canonical import canonical_url
from resources.http.redact import redact_url
from resources.records import AttemptRecord, Classification, DownloadOutcome, Kind, Reason, Status


@dataclass(frozen=True, slots=True)
class NewItem:
    """A work to be put into the queue. `next_group` is the host group that its plan asks first."""

    work_id: str
    year: int | None
    priority: int
    record: Mapping[str, Any]
    plan_hash: str
    next_group: str | None = None


class Enqueued(NamedTuple):
    new: int = 0
    reopened: int = 0
    unchanged: int = 0  # nothing to do again, though the stored record may have become a newer one


@dataclass(frozen=True, slots=True)
class QueueItem:
    """A work that was claimed. `progress` is what an earlier claim parked it with."""

    work_id: str
    year: int | None
    priority: int
    record: dict[str, Any]
    plan_hash: str
    next_group: str | None
    progress: dict[str, Any] | None
    tries: int
    lease_until: float


@dataclass(frozen=True, slots=True)
class QueuedWork:
    """A work as it stands in the queue, whoever holds it. `wait_reason` says why it is not due before `not_before`."""

    work_id: str
    year: int | None
    record: dict[str, Any]
    state: str  # queued | leased | retry | done
    not_before: float
    next_group: str | None
    wait_reason: str | None
    progress: dict[str, Any] | None


class QueueCounts(NamedTuple):
    """Every work is in one of the five; `queued_due` could be claimed now."""

    total: int
    queued_due: int
    parked: int
    leased: int
    retry: int
    done: int


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
    plan_hash: str | None = None  # the plan that was executed, which the queue then has
    claimed_plan_hash: str | None = None  # the plan that the queue had when the work was claimed, where it was another


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


@dataclass(frozen=True, slots=True)
class Batch:
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


class RobotsRow(NamedTuple):
    """`status` is None when no answer came."""

    status: int | None
    body: str
    fetched_at: float


class HostClosure(NamedTuple):
    """`closed_until` is None when the host may be asked; `breaker` is text, see resources.http.breaker."""

    closed_until: float | None
    breaker: str | None


@dataclass(frozen=True, slots=True)
class SetAside:
    """An item of a source that could not be read, and why."""

    run_id: str | None
    source: str
    item: str
    reason: str


def to_json(value: object) -> str:
    return orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS).decode()


def from_json(text: str | None) -> Any:
    return None if text is None else orjson.loads(text)


_ATTEMPT_FIELDS = tuple(field.name for field in fields(AttemptRecord))


def attempt_to_row(record: AttemptRecord) -> dict[str, Any]:
    row = {name: getattr(record, name) for name in _ATTEMPT_FIELDS}
    row["ts"] = record.ts.timestamp()
    row["run_id"] = record.run_id or ""
    row["status"] = str(record.status)
    row["reason"] = _plain(record.reason)
    row["extra"] = to_json(record.extra)
    row["cache_hit"] = int(record.cache_hit)
    return row


def attempt_from_row(row: Mapping[Any, Any]) -> StoredAttempt:
    values = dict(row)
    position = values.pop("id")
    values["ts"] = datetime.fromtimestamp(values["ts"], UTC)
    values["run_id"] = values["run_id"] or None
    values["status"] = Status(values["status"])
    values["reason"] = Reason(values["reason"]) if values["reason"] else None
    values["extra"] = from_json(values["extra"])
    values["cache_hit"] = bool(values["cache_hit"])
    return StoredAttempt(position, AttemptRecord(**values))


def entry_to_row(finished: Finished, finished_at: float, revision: int) -> dict[str, Any]:
    outcome = finished.outcome
    return {
        "work_id": finished.work_id,
        "year": finished.year,
        "title": finished.title,
        "doi": finished.doi,
        "classification": str(outcome.classification),
        "reason": str(outcome.reason),
        "kind": _plain(outcome.kind),
        "url": redact_url(outcome.url) if outcome.url else None,
        "resolver": outcome.resolver,
        "tier": outcome.tier,
        "http_status": outcome.http_status,
        "path": outcome.path,
        "sha256": outcome.sha256,
        "bytes": outcome.content_length,
        "content_type": outcome.content_type,
        "license": outcome.license,
        "version": outcome.version,
        "html_paths": to_json(outcome.html_paths),
        "fallback_chain": to_json(outcome.fallback_chain),
        "retry_at": finished.retry_at,
        "run_id": finished.run_id,
        "config_hash": finished.config_hash,
        "ttfp_ms": finished.ttfp_ms,
        "requests": finished.requests,
        "finished_at": finished_at,
        "meta": to_json(_redacted(outcome.meta)),
        "revision": revision,
    }


def entry_from_row(row: Mapping[Any, Any]) -> Entry:
    values = dict(row)
    values["classification"] = Classification(values["classification"])
    values["reason"] = Reason(values["reason"])
    values["kind"] = Kind(values["kind"]) if values["kind"] else None
    values["html_paths"] = tuple(from_json(values["html_paths"]))
    values["fallback_chain"] = tuple(from_json(values["fallback_chain"]))
    values["meta"] = from_json(values["meta"])
    return Entry(**values)


def artifacts_of(finished: Finished) -> list[Artifact]:
    """The files that a successful outcome names: its own, and those that were kept besides."""
    outcome = finished.outcome
    named = (_artifact(finished, file) for file in (outcome, *outcome.beside)) if outcome.ok else ()
    return [artifact for artifact in named if artifact is not None]


def _artifact(finished: Finished, outcome: DownloadOutcome) -> Artifact | None:
    if not (outcome.path and outcome.sha256 and outcome.url):
        return None
    return Artifact(
        work_id=finished.work_id,
        url=outcome.url,
        sha256=outcome.sha256,
        path=outcome.path,
        run_id=finished.run_id,
        kind=outcome.kind,
        bytes=outcome.content_length,
        content_type=outcome.content_type,
        etag=outcome.etag,
        last_modified=outcome.last_modified,
        license=outcome.license,
        version=outcome.version,
        resolver=outcome.resolver,
        tier=outcome.tier,
        final_url=outcome.meta.get("final_url"),
        derivation=outcome.meta.get("derivation"),
        derived_from=outcome.meta.get("derived_from"),
    )


_ARTIFACT_FIELDS = tuple(field.name for field in fields(Artifact) if field.name != "id")


def artifact_to_row(artifact: Artifact, stored_at: float) -> dict[str, Any]:
    row = {name: getattr(artifact, name) for name in _ARTIFACT_FIELDS}
    row["url"] = canonical_url(redact_url(artifact.url))
    row["kind"] = _plain(artifact.kind)
    row["stored_at"] = stored_at
    row |= {name: redact_url(row[name]) for name in ("final_url", "derived_from") if row[name]}
    return row


def artifact_from_row(row: Mapping[Any, Any]) -> Artifact:
    return Artifact(**{**row, "kind": Kind(row["kind"]) if row["kind"] else None})


def run_from_row(row: Mapping[Any, Any]) -> Run:
    return Run(**{**row, **{name: from_json(row[name]) for name in ("scope", "summary", "progress")}})


def _redacted(value: Any) -> Any:
    """`value` with every text in it, however deep, freed of credentials."""
    if isinstance(value, str):
        return redact_url(value)
    if isinstance(value, Mapping):
        return {key: _redacted(inner) for key, inner in value.items()}
    return [_redacted(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def _plain(token: Reason | Kind | None) -> str | None:
    return None if token is None else str(token)
