"""Run a task's generators, the search and the exchange of its current request, until they need the network again or are done.

Called by the dispatcher's thread and by the workers; only one thread handles a task at a time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from docstokg_assets.engine.batching import gather, log_for_batch, must_retry_alone, separate, share
from docstokg_assets.engine.concurrent_queries import ConcurrentQueries
from docstokg_assets.engine.request_queues import PASS_ENDING_ERRORS, RequestQueue, Task
from docstokg_assets.resolvers.registry import ResolverResult
from resources.http.attempts import AttemptLog
from resources.http.client import HttpClient
from resources.http.errors import HttpError, Interrupted
from resources.http.exchange import Exchange, Reply, RequestPolicy, Step
from resources.http.messages import Request
from resources.records import Classification, DownloadOutcome, Reason

log = logging.getLogger(__name__)

# What a task needs next: a request or a pause, subtasks, or nothing because it is done or was interrupted.
Next = Step | ConcurrentQueries | DownloadOutcome | ResolverResult | Interrupted
_Post = Callable[[Task, Next | BaseException], None]


class TaskDriver:
    """`post` receives what other tasks need next when the answer to a combined request arrives."""

    def __init__(self, client: HttpClient, policies: Mapping[str, RequestPolicy], post: _Post) -> None:
        self._client, self.policies, self._post = client, policies, post

    def advance(self, task: Task, reply: Reply | HttpError | None, feed: Any = None) -> Next:
        """Run until the next step. `reply` answers the exchange; `feed` is sent to the search of a task without one: results of
        its subtasks, or an answer to a request that another task has sent. An unexpected error ends one work, not the run."""
        try:
            return self._run(task, reply, feed)
        except Interrupted as error:
            return error
        except PASS_ENDING_ERRORS:
            raise
        except Exception:
            outcome = internal_error(task.item.work_id, task.state.chain)
            self._separate(task)
            return outcome

    def prepare(self, task: Task, queue: RequestQueue, now: float) -> Next:
        """What is sent for a task whose turn has come: its own request, or a combined one."""
        assert task.send is not None
        request = gather(task, queue, now)
        if request is None:
            return task.send
        task.exchange = self._exchange(task, request, log_for_batch(task.log, task.batched))
        return self.advance(task, None)

    def _run(self, task: Task, reply: Reply | HttpError | None, feed: Any) -> Next:
        while True:
            if task.exchange is not None:
                try:
                    return task.exchange.throw(reply) if isinstance(reply, HttpError) else task.exchange.send(reply)
                except StopIteration as done:
                    feed = done.value
                except HttpError as error:
                    feed = error
                if must_retry_alone(task, feed):
                    self._separate(task)
                    self._retry_alone(task)
                    reply = None
                    continue
                feed, others = share(task, feed)
                for other in others:
                    self._resume(other, feed)
            try:
                request = task.search.throw(feed) if isinstance(feed, HttpError) else task.search.send(feed)
            except StopIteration as done:
                end: DownloadOutcome | ResolverResult = done.value
                return end
            if isinstance(request, ConcurrentQueries):
                task.exchange = task.batchable = None
                return request
            task.batchable = request if request.batchable is not None else None
            task.exchange, reply = self._exchange(task, request, task.log), None

    def _separate(self, task: Task) -> None:
        """Have each of the tasks that wait for this one's request send its own."""
        for other in separate(task):
            self._retry_alone(other)
            self._resume(other)

    def _retry_alone(self, task: Task) -> None:
        assert task.alone is not None
        task.exchange = self._exchange(task, task.alone, task.log)

    def _resume(self, task: Task, feed: Any = None) -> None:
        try:
            self._post(task, self.advance(task, None, feed))
        except BaseException as error:  # the dispatcher raises it
            self._post(task, error)

    def _exchange(self, task: Task, request: Request, attempts: AttemptLog) -> Exchange:
        policy, fresh = self.policies.get(request.resolver or ""), task.state.fresh
        return self._client.exchange(request, attempts, policy, patient=False, fresh=fresh)


def internal_error(work_id: str, chain: Sequence[str] = ()) -> DownloadOutcome:
    """The outcome of a work for which our own code failed; call it where the error is handled."""
    log.exception("the search for %s failed; it ends as %s", work_id, Reason.INTERNAL_ERROR)
    return DownloadOutcome(False, None, Classification.ERROR, Reason.INTERNAL_ERROR, fallback_chain=tuple(chain))
