"""Subtasks of a search: split, joined, parked together."""

from __future__ import annotations

from docstokg_assets.domain.plans import Tier
from docstokg_assets.domain.works import Work
from docstokg_assets.engine.concurrent_queries import ConcurrentQueries, join_subtask, query, start_subtasks
from docstokg_assets.engine.request_queues import Park, Task
from docstokg_assets.resolvers.registry import Resolution, Resolver, ResolverContext, ResolverResult, ResolverSettings
from docstokg_assets_tests.support.tasks import task
from resources.http.errors import HostClosed
from resources.http.messages import Request, Response, Role
from resources.records import Classification, DownloadOutcome, Reason


class Asking(Resolver):
    name, tier, api_host = "asking", Tier.DIRECT_OA, "api.example"

    def resolve(self, work: Work, context: ResolverContext) -> Resolution:
        response = yield Request("https://api.example/", Role.METADATA)
        return ResolverResult(note=response.json()["note"])


def asked(begun: list[str]) -> Resolution:
    return query(Asking(ResolverSettings()), Work("W1"), ResolverContext(), begun)


def split(count: int) -> tuple[Task, list[Task]]:
    parent = task()
    return parent, start_subtasks(parent, ConcurrentQueries(tuple(asked([]) for _ in range(count))))


def test_the_parent_goes_on_with_all_results_in_order_when_the_last_one_is_there() -> None:
    parent, (first, second) = split(2)
    assert first.parent is second.parent is parent
    first.state.requests, second.state.requests, second.began = 1, 2, 7.0
    one, two = ResolverResult(note="one"), ResolverResult(note="two")
    assert join_subtask(parent, second, two) is None
    assert join_subtask(parent, first, one) == (one, two)
    assert (parent.state.requests, parent.began, parent.subtasks) == (3, 7.0, [])


def test_if_any_must_wait_the_parent_waits_for_the_longest() -> None:
    parent, (first, second, third) = split(3)
    join_subtask(parent, first, Park(10.0, "limit", "a"))
    join_subtask(parent, second, ResolverResult())
    assert join_subtask(parent, third, Park(20.0, "limit", "b")) == Park(20.0, "limit", "b")


def test_a_fault_of_ours_ends_the_work_when_all_are_done() -> None:
    parent, (first, second) = split(2)
    fault = DownloadOutcome(False, None, Classification.ERROR, Reason.INTERNAL_ERROR)
    assert join_subtask(parent, first, fault) is None
    assert join_subtask(parent, second, Park(10.0, "limit", "a")) is fault


def test_a_query_names_its_resolver_and_its_errors_become_its_result() -> None:
    begun: list[str] = []
    started = asked(begun)
    request = next(started)
    assert (request.resolver, request.tier, begun) == ("asking", "direct_oa", ["asking"])
    assert _end(started, Response(200, request.url, {}, b'{"note": "x"}')) == ResolverResult(note="x")
    closed = asked([])
    next(closed)
    found = _end(closed, HostClosed("closed", url="https://api.example/", until=9.0))
    assert (found.reason, found.until, found.host) == (Reason.RETRY_AFTER, 9.0, "api.example")
    broken = asked([])
    next(broken)
    assert _end(broken, Response(200, "", {}, b"{}")).reason is Reason.INTERNAL_ERROR


def _end(started: Resolution, answer: Response | HostClosed) -> ResolverResult:
    try:
        started.throw(answer) if isinstance(answer, HostClosed) else started.send(answer)
    except StopIteration as done:
        result: ResolverResult = done.value
        return result
    raise AssertionError("it asked again")
