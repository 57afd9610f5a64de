"""Requests that ask for many ids at once.

Many APIs take a list of ids. A request with a `BatchableRequest` says how to build one such request from several. When its turn
comes, `gather` takes along the tasks that wait behind it in the same queue for the same endpoint; no task waits for more to come.
`share` gives the answer, or the failure, to all of them. If the combined request is refused because of one of its ids, each is
sent alone (`separate`), so that one bad id does not cost the others their answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from docstokg_assets.engine.request_queues import RequestQueue, Task
from resources.http.attempts import AttemptLog
from resources.http.errors import HttpError
from resources.http.messages import Request, Response


def gather(task: Task, queue: RequestQueue, now: float) -> Request | None:
    """Combine the request of `task`, which has just left the head of `queue`, with those that wait behind it. Return the combined
    request, or None if it goes alone. What was sent once is never combined again, so that its retries are counted."""
    request, task.batchable = task.batchable, None
    batchable = request.batchable if request is not None else None
    if request is None or batchable is None:
        return None
    items: dict[str, None] = {batchable.item: None}
    others: list[Task] = []
    for other in queue.tasks:
        asked = other.batchable.batchable if other.batchable is not None else None
        if asked is not None and asked.build == batchable.build and len(items) < batchable.most:
            items[asked.item] = None
            others.append(other)
    if not others:
        return None
    task.batchable = request
    for one in (task, *others):
        if one.exchange is not None:
            one.exchange.close()
        one.alone, one.exchange, one.batchable = one.batchable, None, None
        one.began = now if one.began is None else one.began
    taken = {id(other) for other in others}
    queue.tasks = deque(left for left in queue.tasks if id(left) not in taken)
    task.batched, task.items = others, tuple(items)
    return replace(batchable.build(task.items), resolver=request.resolver, tier=request.tier, cache=False)


def share(task: Task, answer: Response | HttpError) -> tuple[Response | HttpError, list[Task]]:
    """The answer as all tasks of a combined request receive it, with the ids that were asked for; and the other tasks."""
    others = separate(task)
    if others and isinstance(answer, Response):
        answer = replace(answer, items=task.items)
    return answer, others


def separate(task: Task) -> list[Task]:
    """Undo the batch: return the tasks that waited for the answer to this one's request."""
    others, task.batched = task.batched, []
    return others


def must_retry_alone(task: Task, answer: Response | HttpError) -> bool:
    """Whether a combined request was refused because of one of its ids, and not because of access (401, 403), rate (429) or, by
    the provider's answer, all of them."""
    if not task.batched or len(task.items) < 2 or not isinstance(answer, Response):
        return False
    if not 400 <= answer.status < 500 or answer.status in (401, 403, 429):
        return False
    asked = task.alone.batchable if task.alone is not None else None
    return asked is None or not asked.is_for_all(answer)


def log_for_batch(log: AttemptLog, others: Sequence[Task]) -> AttemptLog:
    """An attempt log that notes for how many works an attempt was made, and for which besides its own."""
    extra = {"works": len(others) + 1, "also_for": [other.item.work_id for other in others]}
    return replace(log, emit=lambda record: log.emit(replace(record, extra={**record.extra, **extra})))
