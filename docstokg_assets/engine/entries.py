"""What a pass records of its works in the catalog: how they finished, or until when they are parked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from docstokg_assets.engine.request_queues import Park, Task
from docstokg_assets.engine.search_state import NextTry, SearchState
from resources.catalog.rows import Finished, Parked, QueueItem
from resources.records import DownloadOutcome


@dataclass(frozen=True, slots=True)
class RecordedBy:
    """The pass that records something."""

    run_id: str
    owner: str
    config_hash: str


def finished_entry(
    task: Task,
    outcome: DownloadOutcome,
    following: NextTry,
    next_group: str | None,
    by: RecordedBy,
    result: Mapping[str, Any] | None = None,
) -> Finished:
    """The end of a work, with the time of its next try if there is one. `result`: the row of an ingest item."""
    state = task.state
    return Finished(
        work_id=task.item.work_id,
        year=task.item.year,
        title=task.work.title,
        doi=task.work.doi,
        outcome=outcome,
        run_id=by.run_id,
        config_hash=by.config_hash,
        owner=by.owner,
        ttfp_ms=state.active_ms if outcome.ok else None,
        requests=state.requests,
        retry_at=following.at,
        progress=state.to_json() if following.at is not None else None,
        counts=following.counts,
        next_group=next_group,
        plan_hash=state.plan_hash or task.item.plan_hash,
        claimed_plan_hash=task.item.plan_hash,
        made=tuple(state.files.made),
        superseded=state.files.superseded_by(outcome),
        lost_file=state.replaces is not None,
        result=result,
    )


def parked_entry(
    item: QueueItem, park: Park, not_before: float, by: RecordedBy, state: SearchState | None, made: Sequence[str]
) -> Parked:
    """A work that is given back. Without `state` its progress is as it was claimed. `made`: files that its search has stored."""
    return Parked(
        work_id=item.work_id,
        progress=state.to_json() if state else item.progress or {},
        next_group=park.group,
        not_before=not_before,
        reason=park.reason,
        owner=by.owner,
        plan_hash=(state.plan_hash if state else None) or item.plan_hash,
        claimed_plan_hash=item.plan_hash,
        made=tuple(made),
    )
