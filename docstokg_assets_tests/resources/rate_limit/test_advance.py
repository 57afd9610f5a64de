"""Tokens that are taken in portions: fewer questions to the store, and never more requests than the limit allows."""

from __future__ import annotations

import random
from bisect import bisect_left

import pytest
from pyrate_limiter import Rate

from resources.rate_limit import advance
from resources.rate_limit.advance import TokensInAdvance, portion_of
from resources.rate_limit.stores import LimitStore, MemoryLimits

FAST = Rate(1, 2, burst=200)  # 500 a second


class Counted(LimitStore):
    """A shared store that counts the questions."""

    def __init__(self) -> None:
        self.inner, self.asked = MemoryLimits(), 0

    def spend(self, key: str, rate: Rate, now_ms: int, weight: int) -> int:
        self.asked += 1
        return self.inner.spend(key, rate, now_ms, weight)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The time in milliseconds, for both clocks."""
    now = [1_000_000]
    monkeypatch.setattr(advance.time, "time", lambda: now[0] / 1000)
    return now


@pytest.mark.requirement("HTTP-11")
def test_two_processes_never_send_more_than_the_limit_in_any_window(clock: list[int]) -> None:
    shared, chance = Counted(), random.Random(7)
    processes = [TokensInAdvance(shared), TokensInAdvance(shared)]
    sent: list[int] = []
    for _ in range(20_000):
        process = chance.choice(processes)
        if process.spend("bucket", FAST, clock[0], 1) == 0:
            sent.append(clock[0])
        if chance.random() < 0.2:
            clock[0] += chance.choice((1, 1, 2, 5, 30, 90, 400))
    assert len(sent) > 5_000
    for first, start in enumerate(sent):
        for window in (1, 50, 100, 1_000):
            arrivals = bisect_left(sent, start + window) - first
            assert arrivals <= FAST.burst + window / FAST.interval


def test_a_portion_serves_many_requests(clock: list[int]) -> None:
    shared = Counted()
    limits = TokensInAdvance(shared)
    assert [limits.spend("bucket", FAST, clock[0], 1) for _ in range(portion_of(FAST))] == [0] * 50
    assert shared.asked == 1


def test_what_was_taken_is_void_after_a_tenth_of_a_second_by_either_clock(clock: list[int]) -> None:
    shared = Counted()
    limits = TokensInAdvance(shared)
    began = clock[0]
    limits.spend("bucket", FAST, began, 1)
    limits.spend("bucket", FAST, began + 101, 1)  # the monotonic clock went on
    assert shared.asked == 2
    clock[0] += 60_000  # the machine was suspended
    limits.spend("bucket", FAST, began + 102, 1)
    assert shared.asked == 3


def test_a_token_that_was_not_used_is_given_back(clock: list[int]) -> None:
    shared = Counted()
    limits = TokensInAdvance(shared)
    for _ in range(portion_of(FAST)):
        limits.spend("bucket", FAST, clock[0], 1)
    limits.spend("bucket", FAST, clock[0], -1)
    limits.spend("bucket", FAST, clock[0], 1)
    assert shared.asked == 1


@pytest.mark.parametrize("rate", [Rate(1, 100, burst=50), Rate(1, 2, burst=1), Rate(1, 3000, burst=1)])
def test_slow_limits_and_those_without_burst_are_asked_for_each_request(clock: list[int], rate: Rate) -> None:
    shared = Counted()
    limits = TokensInAdvance(shared)
    for asked in range(1, 4):
        limits.spend("bucket", rate, clock[0], 1)
        assert shared.asked == asked
