"""What is known in a search: what comes next, what survives a pause, what the failures say."""

from __future__ import annotations

import orjson
import pytest

from docstokg_assets.domain.plans import Candidate, Plan, PlanStep, Target, Tier
from docstokg_assets.engine.search_state import (
    MAX_REFUSALS,
    MAX_TRIES,
    MAX_WAITS,
    RETRY_BASE_S,
    SOON_S,
    NextTry,
    SearchState,
    conclude,
    next_try,
)
from resources.http.messages import Response
from resources.records import Classification, DownloadOutcome, Kind, Reason

A = Candidate("https://a.example/1.pdf", "openalex", Tier.DIRECT_OA, rank=20)
B = Candidate("https://b.example/1.pdf", "openalex", Tier.DIRECT_OA, rank=10)


def begun(*candidates: Candidate, ask: tuple[str, ...] = ()) -> SearchState:
    steps = [PlanStep(c.tier, c.resolver, c.rank, c) for c in candidates]
    steps += [PlanStep(Tier.DIRECT_OA, name, 15, asks_host="api.example") for name in ask]
    return SearchState.begin(Plan("W1", tuple(steps), "the hash"))


def saved_and_restored(state: SearchState) -> SearchState:
    return SearchState.begin(Plan("W1", (), "another"), orjson.loads(orjson.dumps(state.to_json())))


@pytest.mark.requirement("CAT-2")
def test_a_state_knows_the_plan_that_it_executes() -> None:
    assert begun(A).plan_hash == "the hash"
    assert saved_and_restored(begun(A)).plan_hash == "another"


def test_candidates_and_resolvers_come_in_the_order_of_tier_and_rank() -> None:
    state = begun(A, B, ask=("unpaywall", "crossref"))
    assert state.next_action() == B
    state.fail(B, Reason.HTTP_4XX)
    assert state.next_action() == "unpaywall"
    assert state.next_queries(1) == ("crossref",) and state.next_queries(5) == ("crossref", "unpaywall")
    state.asked |= {"unpaywall", "crossref"}
    assert state.next_action() == A
    state.visited.add(A.key)
    assert state.next_action() is None and state.next_queries(5) == ()


def test_a_failure_names_the_host_that_answered() -> None:
    state = begun(A, B)
    state.fail(A, Reason.BLOCKED_WAF, Response(403, "https://walled.example/", {}))
    state.fail(B, Reason.CONN_ERROR)
    assert state.wall_of("walled.example") is Reason.BLOCKED_WAF and state.wall_of("a.example") is None
    assert state.failures[A.key].http_status == 403
    assert state.has_given_up_on("b.example") and not state.has_given_up_on("a.example")
    assert list(state.dead_files()) == [B.url, A.url]  # by rank


def test_lasting_failures_and_counters_survive_a_pause_and_retryable_failures_do_not() -> None:
    state = begun(A, B)
    state.fail(A, Reason.HTTP_4XX, kind=Kind.PDF)
    state.fail(B, Reason.CONN_ERROR)
    state.requests, state.waits, state.active_ms, state.chain = 3, 1, 250, ["openalex"]
    kept = {"kind": Kind.PDF, "url": A.url, "resolver": "openalex", "tier": "direct_oa", "sha256": "abc", "etag": '"1"'}
    state.kept = DownloadOutcome(True, None, Classification.SUCCESS, Reason.OK, **kept)
    later = saved_and_restored(state)
    assert later.failures == {A.key: state.failures[A.key]} and later.kept == state.kept
    assert list(later.pending()) == [B]
    assert (later.requests, later.waits, later.active_ms, later.chain) == (3, 1, 250, ["openalex"])


def test_a_retargeted_url_is_tried_again_as_what_it_is() -> None:
    state = begun(A)
    state.retarget(A, Target.LANDING)
    action = state.next_action()
    assert isinstance(action, Candidate) and (action.url, action.target) == (A.url, Target.LANDING)


def test_a_broken_host_that_opens_soon_is_waited_for_a_limited_number_of_times() -> None:
    state = begun(A)
    state.fail(A, Reason.BREAKER_OPEN, until=1030.0)
    found = state.opens_soon(1000.0)
    assert found is not None and found.until == 1030.0
    assert state.opens_soon(1030.0 - SOON_S - 1.0) is None
    state.waits = MAX_WAITS
    assert state.opens_soon(1000.0) is None


@pytest.mark.requirement("TRU-6")
def test_a_work_with_a_copy_that_was_only_refused_comes_due_with_the_host_and_keeps_its_tries() -> None:
    state = begun(A, B)
    state.fail(A, Reason.HTTP_5XX)
    state.fail(B, Reason.BREAKER_OPEN, until=1030.0)
    following = next_try(state, 1000.0, tries=5)
    assert following == NextTry(1030.0, False, "b.example")
    later = saved_and_restored(state)
    assert list(later.pending()) == [B] and later.waits == 1, "the copy that has just failed is no probe"
    later.fail(B, Reason.HTTP_5XX)
    assert next_try(later, 1031.0, tries=0) == NextTry(4631.0)
    assert set(saved_and_restored(later).pending()) == {A, B}, "in an hour both may be well again"


@pytest.mark.requirement("TRU-6")
def test_a_link_that_failed_before_its_host_was_left_alone_counts_as_tried_also_after_a_pause() -> None:
    state = begun(A)
    state.fail(A, Reason.BREAKER_OPEN, until=1030.0, tried=True)
    assert state.opens_soon(1000.0) is not None and state.refused() is None
    state.wait_for_host()
    later = saved_and_restored(state)
    later.fail(A, Reason.BREAKER_OPEN, until=1090.0)
    assert later.refused() is None
    assert next_try(later, 1030.0, tries=0) == NextTry(4630.0)
    assert saved_and_restored(begun(A)).tried == set()


@pytest.mark.requirement("TRU-6")
def test_a_host_that_stays_dead_uses_up_the_tries_in_the_end() -> None:
    state = begun(A)
    state.waits = MAX_REFUSALS
    state.fail(A, Reason.BREAKER_OPEN, until=1030.0)
    assert next_try(state, 1000.0, tries=0) == NextTry(4600.0)
    assert next_try(state, 1000.0, tries=5) == NextTry()


def test_the_outcome_is_the_most_promising_failure_and_the_retry_waits_for_the_latest_pause() -> None:
    state = begun(A, B)
    assert conclude(state).reason is Reason.NO_CANDIDATE
    state.fail(A, Reason.RETRY_AFTER, until=5000.0)
    state.fail(B, Reason.ROBOTS)
    outcome = conclude(state)
    assert (outcome.reason, outcome.classification, outcome.url) == (Reason.ROBOTS, Classification.SKIP, B.url)
    assert [other["reason"] for other in outcome.meta["others"]] == ["retry-after"]
    assert next_try(state, 1000.0, tries=0) == NextTry(5000.0)
    assert next_try(state, 6000.0, tries=1) == NextTry(6000.0 + 2 * RETRY_BASE_S)
    assert next_try(state, 1000.0, tries=MAX_TRIES) == NextTry()
