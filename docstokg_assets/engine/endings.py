"""What is recorded when a work ends or is parked, made from its task. Plain data; the recorder makes it durable."""

from __future__ import annotations

from typing import Any, NamedTuple

from docstokg_assets.engine.request_queues import Park, Task
from docstokg_assets.engine.search_state import NextTry, SearchState
from resources.catalog.rows import Finished, Parked, QueueItem
from resources.records import DownloadOutcome


class Pass(NamedTuple):
    """Who records: the process, and the run with its configuration."""

    owner: str
    run_id: str
    config_hash: str


def finished(task: Task, outcome: DownloadOutcome, following: NextTry, next_group: str | None, by: Pass) -> Finished:
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
    )


def parked(item: QueueItem, park: Park, not_before: float, state: SearchState | None, by: Pass) -> Parked:
    """Without `state` its search has not begun, and its progress is as it was claimed."""
    progress: dict[str, Any] = state.to_json() if state else item.progress or {}
    return Parked(
        work_id=item.work_id,
        progress=progress,
        next_group=park.group,
        not_before=not_before,
        reason=park.reason,
        owner=by.owner,
        plan_hash=(state.plan_hash if state else None) or item.plan_hash,
        claimed_plan_hash=item.plan_hash,
        made=tuple(state.files.made) if state else (),
    )
