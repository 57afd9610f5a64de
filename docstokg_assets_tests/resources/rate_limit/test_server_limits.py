"""What servers say of their limits: it is read whatever they write, it slows us down, and it never makes us faster."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyrate_limiter import Rate

from docstokg_assets_tests.support.polite import FakeClock
from resources.rate_limit.limiter import Limiter
from resources.rate_limit.server_limits import ServerLimits, Window, limits_from_headers
from resources.rate_limit.settings import RateLimitSettings
from resources.rate_limit.stores import MemoryLimits

NOW = 1_790_000_000.0
NAMES = [
    "x-rate-limit-limit",
    "x-rate-limit-interval",
    "x-concurrency-limit",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
    "x-ratelimitremaining",
    "x-ratelimit-retry-after",
]


def limiter_of(policy: str, concurrency: int | None = None) -> tuple[Limiter, FakeClock]:
    clock = FakeClock(wall=1000.0)
    settings = RateLimitSettings.model_validate({"policies": {"a.org": policy}, "concurrency": {"a.org": concurrency}})
    return Limiter(settings, MemoryLimits(), clock=clock), clock


def grants(limiter: Limiter, clock: FakeClock, seconds: float, host: str = "a.org") -> list[float]:
    allowance, end, times = limiter.policy_for(host, "metadata"), clock.now + seconds, list[float]()
    while clock.now < end:
        wait = limiter.enter(allowance)
        assert wait is not None
        if wait == 0.0:
            times.append(clock.now)
            limiter.leave(allowance)
        clock.now += wait
    return times


# -- reading ----------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("HTTP-10")
@pytest.mark.parametrize(
    ("headers", "announced"),
    [
        (
            {"x-rate-limit-limit": "10", "x-rate-limit-interval": "1s", "x-concurrency-limit": "3"},
            ServerLimits(Window(10, 1.0), 3),
        ),
        ({"x-rate-limit-limit": "50, 50", "x-rate-limit-interval": "1s"}, ServerLimits(Window(50, 1.0))),
        ({"x-rate-limit-limit": "600", "x-rate-limit-interval": "5m"}, ServerLimits(Window(600, 300.0))),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "43188"}, ServerLimits(exhausted_for_s=43188.0)),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(NOW) + 30)}, ServerLimits(exhausted_for_s=30.0)),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "999999999"}, ServerLimits(exhausted_for_s=86_400.0)),
        ({"x-ratelimit-limit": "1000", "x-ratelimit-remaining": "998", "x-ratelimit-reset": "43188"}, None),
        (
            {"x-ratelimitremaining": "0", "x-ratelimit-retry-after": "2026-09-21T14:13:50+00:00"},
            ServerLimits(exhausted_for_s=30.0),
        ),
        ({"x-ratelimitremaining": "9", "x-ratelimit-retry-after": "2026-09-21T14:13:50+00:00"}, None),
        ({"x-ratelimitremaining": "0", "x-ratelimit-retry-after": "soon"}, None),
        ({"x-ratelimit-remaining": "0"}, None),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(NOW) - 5)}, None),
        ({"x-rate-limit-limit": "10"}, None),
        ({"x-rate-limit-limit": "0", "x-rate-limit-interval": "1s", "x-concurrency-limit": "0"}, None),
        ({"x-rate-limit-limit": "-1", "x-rate-limit-interval": "0s", "x-concurrency-limit": "many"}, None),
        ({"content-type": "application/json"}, None),
    ],
)
def test_headers_are_read_as_the_services_write_them(headers: dict[str, str], announced: ServerLimits | None) -> None:
    assert limits_from_headers(headers, NOW) == announced


numbers = st.one_of(st.integers(-10, 10**15).map(str), st.floats().map(str), st.text(max_size=12))
values = st.one_of(numbers, st.tuples(numbers, st.sampled_from(["s", "m", " h", "ms", ", 5", ";w=1"])).map("".join))


@pytest.mark.requirement("HTTP-10")
@given(headers=st.dictionaries(st.sampled_from(NAMES), values), now=st.floats(0, 4e9))
def test_whatever_is_written_is_read_or_says_nothing(headers: dict[str, str], now: float) -> None:
    announced = limits_from_headers(headers, now)
    if announced is not None:
        assert announced != ServerLimits()
        assert announced.window is None or 0 < announced.window.per_second < float("inf")
        assert announced.concurrency is None or announced.concurrency >= 1
        assert announced.exhausted_for_s is None or 0 < announced.exhausted_for_s <= 86_400


# -- applying ---------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("HTTP-10")
@given(
    policy=st.sampled_from(["3/second", "24/minute burst 6", "0.33/second", "2/second burst 2", "50/second burst 9"]),
    said=st.lists(st.dictionaries(st.sampled_from(NAMES), values), max_size=5),
    count=st.integers(1, 1000),
    seconds=st.sampled_from([0.1, 1.0, 60.0]),
)
def test_nothing_that_a_server_says_makes_us_faster(
    policy: str, said: list[dict[str, str]], count: int, seconds: float
) -> None:
    (plain, clock), (told, other) = limiter_of(policy), limiter_of(policy)
    announced = [read for headers in said if (read := limits_from_headers(headers, NOW)) is not None]
    for announcement in [*announced, ServerLimits(Window(count, seconds), count)]:
        told.learn(told.policy_for("a.org", "metadata"), announcement)
    before, after = grants(plain, clock, 20.0), grants(told, other, 20.0)
    assert len(after) <= len(before)
    assert all(late >= early - 1e-9 for early, late in zip(before, after, strict=False))
    for start in after:
        assert sum(start <= moment < start + seconds for moment in after) <= count


@pytest.mark.requirement("HTTP-10")
def test_a_lower_limit_counts_for_a_while_and_as_long_as_it_is_said_again() -> None:
    limiter, clock = limiter_of("10/second")
    allowance = limiter.policy_for("a.org", "landing")
    limiter.learn(allowance, ServerLimits(Window(1, 1.0)))
    assert 9 <= len(grants(limiter, clock, 10.0)) <= 10
    limiter.learn(allowance, ServerLimits(Window(5, 1.0)))  # of another of its services; the lower one still counts
    assert 9 <= len(grants(limiter, clock, 10.0)) <= 10
    clock.now += 580.0
    limiter.learn(allowance, ServerLimits(Window(1, 1.0)))
    clock.now += 580.0
    assert 9 <= len(grants(limiter, clock, 10.0)) <= 10
    clock.now += 100.0
    assert len(grants(limiter, clock, 10.0)) > 80


@pytest.mark.requirement("HTTP-10")
def test_a_limit_that_the_policy_keeps_anyway_costs_nothing() -> None:
    spent_from = list[str]()

    class Store(MemoryLimits):
        def spend(self, key: str, rate: Rate, now_ms: int, weight: int) -> int:
            spent_from.append(key)
            return super().spend(key, rate, now_ms, weight)

    limiter = Limiter(RateLimitSettings(policies={"a.org": {"*": "3/second"}}), Store(), clock=FakeClock())
    allowance = limiter.policy_for("a.org", "metadata")
    limiter.learn(allowance, ServerLimits(Window(10, 1.0), 5))
    assert limiter.enter(allowance) == 0.0
    assert spent_from == ["a.org"]


@pytest.mark.requirement("HTTP-10")
def test_fewer_connections_are_opened_when_a_server_says_so() -> None:
    limiter, clock = limiter_of("1000/second burst 100", 3)
    allowance = limiter.policy_for("a.org", "metadata")
    limiter.learn(allowance, ServerLimits(concurrency=2))
    limiter.learn(allowance, ServerLimits(concurrency=9))
    assert [limiter.enter(allowance) for _ in range(3)] == [0.0, 0.0, None]
    clock.now += 700.0
    assert [limiter.enter(allowance) for _ in range(2)] == [0.0, None]  # the policy's own three


class Leases:
    """A catalog in which everything is somebody else's."""

    def lease_group(self, group: str, owner: str, ttl_s: float) -> bool:
        return False

    def group_is_wanted(self, group: str) -> bool:
        return False

    def free_group(self, group: str, owner: str) -> None: ...


@pytest.mark.requirement("HTTP-10")
def test_an_announced_cap_counts_for_all_processes_together() -> None:
    limiter = Limiter(RateLimitSettings(), MemoryLimits(), leases=Leases(), clock=FakeClock())
    allowance = limiter.policy_for("a.org", "metadata")
    assert limiter.enter(allowance) == 0.0
    limiter.leave(allowance)
    limiter.learn(allowance, ServerLimits(concurrency=1))
    assert limiter.enter(allowance) not in (0.0, None)  # another process has the group


@pytest.mark.requirement("HTTP-10")
def test_what_one_server_says_is_not_held_against_another() -> None:
    limiter, clock = limiter_of("10/second")
    limiter.learn(limiter.policy_for("b.org", "metadata"), ServerLimits(Window(1, 60.0), 1))
    assert len(grants(limiter, clock, 10.0)) > 80
    assert len(grants(limiter, clock, 60.0, "b.org")) == 1
