"""Ask several resolvers of a tier at once.

A search that yields `ConcurrentQueries` is split into subtasks, one for each query, so that each waits for its own limits and
pauses. The search goes on when the last subtask is done: with all results, or parked if any of them must wait.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from docstokg_assets.domain.works import Work
from docstokg_assets.engine.request_queues import PASS_ENDING_ERRORS, Park, Task
from docstokg_assets.engine.search_state import SearchState, error_details
from docstokg_assets.resolvers.registry import Resolution, Resolver, ResolverContext, ResolverResult
from resources.http.errors import HttpError, Interrupted
from resources.records import DownloadOutcome, Reason

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ConcurrentQueries:
    """Yielded by a search to ask several resolvers at once; it is sent the tuple of their results, in this order."""

    queries: tuple[Resolution, ...]


def query(resolver: Resolver, work: Work, context: ResolverContext, begun: list[str]) -> Resolution:
    """Drive a deferred resolver. Its errors cost its answer, not the work. `begun` collects the resolvers that sent a request."""
    try:
        resolution = resolver.resolve(work, context)
        request = next(resolution)
        begun.append(resolver.name)
        while True:
            try:
                response = yield replace(request, resolver=resolver.name, tier=str(resolver.tier))
            except HttpError as error:
                request = resolution.throw(error)
            else:
                request = resolution.send(response)
    except StopIteration as done:
        result: ResolverResult = done.value
        return result
    except (Interrupted, *PASS_ENDING_ERRORS):
        raise
    except HttpError as error:
        return ResolverResult(reason=error.reason, **error_details(error))
    except Exception as error:
        log.exception("the resolver %s failed at %s; the search goes on without it", resolver.name, work.work_id)
        return ResolverResult(reason=Reason.INTERNAL_ERROR, note=f"{resolver.name} failed: {type(error).__name__}")


def start_subtasks(task: Task, concurrent: ConcurrentQueries) -> list[Task]:
    """One subtask for each query; they share the work and the attempt log of `task`."""
    task.subtasks = [
        Task(task.item, task.work, SearchState(fresh=task.state.fresh), query, task.log, parent=task)
        for query in concurrent.queries
    ]
    return list(task.subtasks)


def join_subtask(
    parent: Task, subtask: Task, result: ResolverResult | DownloadOutcome | Park
) -> tuple[ResolverResult, ...] | DownloadOutcome | Park | None:
    """Note a subtask's result. When it was the last one, return what the parent does next: end with the outcome of a failure of
    our own, park for the longest wait, or go on with all results. None while others are still under way."""
    subtask.result = result
    subtasks = parent.subtasks
    if any(one.result is None for one in subtasks):
        return None
    parent.subtasks = []
    parent.state.requests += sum(one.state.requests for one in subtasks)
    parent.began = min((one.began for one in (parent, *subtasks) if one.began is not None), default=None)
    results = [one.result for one in subtasks]
    if failures := [one for one in results if isinstance(one, DownloadOutcome)]:
        return failures[0]
    if parks := [one for one in results if isinstance(one, Park)]:
        return max(parks, key=lambda park: park.seconds)
    return tuple(one for one in results if isinstance(one, ResolverResult))
