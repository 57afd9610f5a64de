"""Who may ask now: pace, burst, permits, and whose turn it is, in a time that the tests decide."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstokg_assets_tests.support.polite import FakeClock
from resources.catalog.catalog import Catalog
from resources.clock import Moment
from resources.rate_limit.limiter import Allowance, Limiter, bucket
from resources.rate_limit.settings import Rate, RateLimitSettings
from resources.rate_limit.sqlite_limits import SqliteLimits
from resources.rate_limit.stores import MemoryLimits

BACKENDS = ["memory", "multiprocess", "sqlite"]  # those that go by the clock that they are given


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def make(tmp_path: Path, clock: FakeClock) -> Iterator[Callable[..., Limiter]]:
    opened: list[Limiter] = []

    def open_limiter(backend: str = "memory", leases: Any = None, owner: str = "", **settings: Any) -> Limiter:
        given = RateLimitSettings.model_validate({"backend": backend, **settings})
        opened.append(Limiter.open(given, tmp_path / "limits.sqlite3", leases=leases, owner=owner, clock=clock))
        return opened[-1]

    yield open_limiter
    for limiter in opened:
        limiter.close()


def grants(limiter: Limiter, clock: FakeClock, seconds: float, *asked: Any, **more: Any) -> list[float]:
    """When a client that always wants to go may go, from now on."""
    allowance = limiter.policy_for(*asked, **more)
    end, times = clock.now + seconds, list[float]()
    while clock.now < end:
        wait = limiter.enter(allowance)
        assert wait is not None
        if wait == 0.0:
            times.append(clock.now)
            limiter.leave(allowance)
        else:
            clock.now = min(end, clock.now + wait)
    return times


def gaps(times: list[float]) -> list[float]:
    return [later - before for before, later in pairwise(times)]


# -- pace -------------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("HTTP-10")
@pytest.mark.requirement("HTTP-11")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("rate", "interval"), [("0.33/second", 3.0903), ("5/s", 0.22), ("12/minute", 5.1)])
def test_requests_are_evenly_spaced_and_a_little_slower_than_allowed(
    make: Callable[..., Limiter], clock: FakeClock, backend: str, rate: str, interval: float
) -> None:
    limiter = make(backend, policies={"a.org": rate})
    times = grants(limiter, clock, 20 * interval, "a.org", "artifact")
    assert times[0] == 1000.0
    assert gaps(times) == pytest.approx([interval] * (len(times) - 1), abs=0.005)
    assert min(gaps(times)) >= interval - 0.002
    assert len(times) in (20, 21)


@pytest.mark.requirement("HTTP-10")
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_burst_is_spent_at_once_and_comes_back_by_waiting(
    make: Callable[..., Limiter], clock: FakeClock, backend: str
) -> None:
    limiter = make(backend, policies={"a.org": "30/minute burst 4"})
    times = grants(limiter, clock, 9.0, "a.org", "artifact")
    assert times == pytest.approx([1000.0] * 4 + [1002.0, 1004.0, 1006.0, 1008.0], abs=0.02)
    clock.now += 4.0  # the pace goes on, so that two are there again
    assert len(grants(limiter, clock, 0.5, "a.org", "artifact")) == 2


@pytest.mark.requirement("HTTP-10")
@given(
    per_second=st.floats(0.001, 500),
    burst=st.integers(1, 50),
    pauses=st.lists(st.floats(0, 3, exclude_max=True), min_size=1, max_size=20),
    given_back=st.lists(st.booleans(), min_size=1, max_size=7),
)
def test_no_window_holds_more_than_the_rate_and_its_burst(
    per_second: float, burst: int, pauses: list[float], given_back: list[bool]
) -> None:
    """Whoever comes at whatever times, and also when other limits refuse and tokens are given back."""
    clock = FakeClock()
    limiter = Limiter(RateLimitSettings(), MemoryLimits(), clock=clock)
    alone = Allowance("g", (("key", Rate(per_second, burst)),), None)
    refused = Allowance("g", (*alone.demands, ("never", Rate(1e-9))), None)
    assert limiter.enter(Allowance("g", refused.demands[1:], None)) == 0.0
    times = list[float]()
    for turn in range(burst + 20):
        clock.now += pauses[turn % len(pauses)] / per_second  # sparse and dense by turns, as the rate counts it
        if given_back[turn % len(given_back)]:
            assert limiter.enter(refused) != 0.0
        wait = limiter.enter(alone)
        assert wait is not None
        times += [clock.now] * (wait == 0.0)
    assert times
    for first in range(len(times)):
        for last in range(first, len(times)):
            assert last - first + 1 <= burst + per_second * (times[last] - times[first]) + 1e-6


@pytest.mark.requirement("HTTP-10")
@given(per_second=st.floats(0.001, 500), burst=st.integers(1, 50))
def test_who_always_wants_to_go_gets_nearly_all_of_the_rate(per_second: float, burst: int) -> None:
    clock = FakeClock()
    limiter = Limiter(RateLimitSettings(), MemoryLimits(), clock=clock)
    allowance = Allowance("g", (("key", Rate(per_second, burst)),), None)
    times = list[float]()
    while len(times) < burst + 20:
        wait = limiter.enter(allowance)
        assert wait is not None
        clock.now += wait
        times += [clock.now] * (wait == 0.0)
    assert 20 / (times[-1] - times[0]) >= 0.6 * per_second - 1  # a bucket counts whole milliseconds


def test_a_bucket_is_never_faster_than_its_rate() -> None:
    for rate in (Rate(0.33), Rate(1 / 3600), Rate(3.0), Rate(700.0), Rate(5000.0), Rate(2.0, 2)):
        made = bucket(rate)
        assert made.limit / made.interval * 1000 <= rate.per_second
        assert made.burst == rate.burst


# -- which limits count -----------------------------------------------------------------------------------------------


@pytest.mark.requirement("HTTP-10")
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_domain_has_a_least_interval_in_any_case_of_letters(
    make: Callable[..., Limiter], clock: FakeClock, backend: str
) -> None:
    limiter = make(backend, policies={"*": "100/s burst 100"}, domains={"Example.ORG": 10})
    times = grants(limiter, clock, 25, "api.EXAMPLE.org", "metadata")
    assert min(gaps(times)) >= 10
    assert len(times) == 3
    www = limiter.policy_for("WWW.example.org", "landing")  # shares it
    assert limiter.enter(www) not in (0.0, None)
    assert limiter.enter(limiter.policy_for("notexample.org", "landing")) == 0.0


@pytest.mark.requirement("HTTP-10")
def test_there_is_no_least_interval_unless_one_is_configured(make: Callable[..., Limiter], clock: FakeClock) -> None:
    limiter = make(policies={"a.org": "1000/s burst 50"})
    assert len(set(grants(limiter, clock, 0.0001, "a.org", "landing"))) == 1


@pytest.mark.requirement("HTTP-10")
def test_a_resolver_may_have_a_limit_besides_those_of_its_hosts(make: Callable[..., Limiter], clock: FakeClock) -> None:
    limiter = make(policies={"*": "100/s burst 100"})
    limiter.limit_resolvers({"slow": Rate(0.5, 1)})
    assert min(gaps(grants(limiter, clock, 10, "a.org", "landing", "slow"))) >= 2.0
    assert limiter.enter(limiter.policy_for("b.org", "landing", "slow")) not in (0.0, None)  # one limit for all hosts
    assert limiter.enter(limiter.policy_for("a.org", "landing", "other")) == 0.0


@pytest.mark.requirement("HTTP-13")
@pytest.mark.requirement("HTTP-10")
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_crawl_delay_slows_a_host_and_never_speeds_it_up(
    make: Callable[..., Limiter], clock: FakeClock, backend: str
) -> None:
    limiter = make(backend, policies={"a.org": "1/s", "b.org": "1/s"}, concurrency={"*": None})
    slow = grants(limiter, clock, 60, "a.org", "landing", min_interval_s=20.0)
    assert min(gaps(slow)) >= 20.0 and len(slow) == 3
    assert min(gaps(grants(limiter, clock, 5, "b.org", "landing", min_interval_s=0.01))) >= 1.0
    for odd in (None, 0.0):
        assert len(limiter.policy_for("a.org", "landing", min_interval_s=odd).demands) == 1


@pytest.mark.requirement("HTTP-13")
@pytest.mark.parametrize("backend", BACKENDS)
def test_other_requests_to_a_host_do_not_use_up_its_crawl_delay(
    make: Callable[..., Limiter], clock: FakeClock, backend: str
) -> None:
    limiter = make(backend, policies={"a.org": "1/s"}, concurrency={"*": None})
    crawl = limiter.policy_for("a.org", "landing", min_interval_s=30.0)
    plain = limiter.policy_for("a.org", "metadata")
    assert limiter.enter(crawl) == 0.0
    times = grants(limiter, clock, 10, "a.org", "metadata")
    assert len(times) >= 9
    assert limiter.enter(plain) != 0.0
    wait = limiter.enter(crawl)
    assert wait is not None and clock.now + wait >= 1030.0


@pytest.mark.requirement("HTTP-10")
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_request_that_does_not_go_costs_no_token(
    make: Callable[..., Limiter], clock: FakeClock, backend: str
) -> None:
    """The resolver's own limit would let it go, the host's does not: the resolver may use its token elsewhere."""
    limiter = make(backend, policies={"busy.org": "0.2/s", "free.org": "100/s"})
    limiter.limit_resolvers({"r": Rate(0.1, 1)})
    assert limiter.enter(limiter.policy_for("busy.org", "landing")) == 0.0
    for _ in range(5):
        assert limiter.enter(limiter.policy_for("busy.org", "landing", "r")) not in (0.0, None)
    assert limiter.enter(limiter.policy_for("free.org", "landing", "r")) == 0.0


def test_new_settings_count_for_what_enters_later(make: Callable[..., Limiter], clock: FakeClock) -> None:
    limiter = make(policies={"a.org": "1/s"})
    assert limiter.enter(limiter.policy_for("a.org", "landing")) == 0.0
    limiter.replace_settings(RateLimitSettings.model_validate({"policies": {"a.org": "0.1/s"}}))
    assert min(gaps(grants(limiter, clock, 40, "a.org", "landing"))) >= 10.0


# -- permits ----------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("HTTP-10")
def test_no_more_are_let_in_at_once_than_the_cap_says(make: Callable[..., Limiter]) -> None:
    limiter = make(policies={"*": "1000/s burst 1000"}, concurrency={"a.org": 3, "b.org": None})
    landing, artifact = (limiter.policy_for("www.a.org", role) for role in ("landing", "artifact"))
    assert [limiter.enter(landing), limiter.enter(artifact), limiter.enter(landing)] == [0.0, 0.0, 0.0]
    assert limiter.enter(landing) is None
    limiter.leave(artifact)
    assert limiter.enter(artifact) == 0.0
    uncapped = limiter.policy_for("b.org", "landing")
    assert {limiter.enter(uncapped) for _ in range(100)} == {0.0}


@pytest.mark.requirement("HTTP-10")
def test_who_is_refused_a_token_holds_no_permit(make: Callable[..., Limiter], clock: FakeClock) -> None:
    limiter = make(policies={"a.org": "1/s"}, concurrency={"a.org": 1})
    allowance = limiter.policy_for("a.org", "landing")
    assert limiter.enter(allowance) == 0.0
    limiter.leave(allowance)
    for _ in range(3):
        assert limiter.enter(allowance) not in (0.0, None)
    clock.now += 2
    assert limiter.enter(allowance) == 0.0


# -- groups that belong to one process at a time ----------------------------------------------------------------------


@pytest.fixture
def pair(make: Callable[..., Limiter], catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> tuple[Limiter, Limiter]:
    """Two processes that share a limiter file and a catalog, and an arXiv that is quick but takes one at a time."""
    monkeypatch.setattr("resources.rate_limit.limiter._KEEP_S", 3600.0)  # no thread interferes with the test
    shared = {"leases": catalog, "policies": {"arxiv.org": "1000/s burst 1000"}}
    return make("sqlite", owner="one", **shared), make("sqlite", owner="other", **shared)


@pytest.mark.requirement("HTTP-10")
def test_a_capped_group_belongs_to_one_process_at_a_time(pair: tuple[Limiter, Limiter], catalog: Catalog) -> None:
    one, other = pair
    allowance = one.policy_for("arxiv.org", "artifact")
    assert one.enter(allowance) == 0.0
    assert other.enter(allowance) not in (0.0, None)
    assert other.enter(other.policy_for("export.arxiv.org", "metadata")) not in (0.0, None)
    assert other.enter(other.policy_for("a.org", "artifact")) == 0.0  # what is not capped for all is not leased
    one.leave(allowance)
    assert other.enter(allowance) not in (0.0, None)  # still its turn
    catalog.free_groups("one")
    assert other.enter(allowance) == 0.0


@pytest.mark.requirement("HTTP-10")
def test_processes_that_want_the_same_group_take_turns(pair: tuple[Limiter, Limiter], clock: FakeClock) -> None:
    allowance = pair[0].policy_for("arxiv.org", "artifact")
    served = {0: 0, 1: 0}
    inside: set[int] = set()
    for _ in range(200):
        clock.now += 0.25
        for number, limiter in enumerate(pair):
            if number in inside:
                limiter.leave(allowance)
                inside.discard(number)
            elif limiter.enter(allowance) == 0.0:
                inside.add(number)
                served[number] += 1
            assert len(inside) <= 1
    assert min(served.values()) > 20


@pytest.mark.requirement("HTTP-10")
def test_a_group_is_not_given_away_while_a_request_is_under_way(
    pair: tuple[Limiter, Limiter], clock: FakeClock
) -> None:
    one, other = pair
    allowance = one.policy_for("arxiv.org", "artifact")
    assert one.enter(allowance) == 0.0
    for _ in range(20):
        clock.now += 1.0
        one.keep_leases()
        assert other.enter(allowance) != 0.0
        assert one.enter(allowance) is None
    one.leave(allowance)


@pytest.mark.requirement("HTTP-10")
def test_a_process_that_shows_no_life_loses_its_group(
    pair: tuple[Limiter, Limiter], catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = pair
    monkeypatch.setattr("resources.rate_limit.limiter._LEASE_S", -1.0)  # run out as soon as it is given
    allowance = one.policy_for("arxiv.org", "artifact")
    assert one.enter(allowance) == 0.0
    assert other.enter(allowance) == 0.0


@pytest.mark.requirement("HTTP-10")
def test_a_group_is_kept_by_a_thread_of_its_own_while_a_request_is_under_way(
    pair: tuple[Limiter, Limiter], catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever sends may be held up for as long as it likes: nothing is called here but what the other process calls."""
    monkeypatch.setattr("resources.rate_limit.limiter._LEASE_S", 3.0)
    monkeypatch.setattr("resources.rate_limit.limiter._KEEP_S", 0.2)
    one, other = pair
    allowance = one.policy_for("arxiv.org", "artifact")
    assert one.enter(allowance) == 0.0
    end = catalog.now() + 4.5
    while catalog.now() < end:
        assert other.enter(allowance) != 0.0
        time.sleep(0.1)
    one.leave(allowance)
    one.free_leases()
    assert other.enter(allowance) == 0.0


@pytest.mark.requirement("HTTP-10")
def test_after_a_stall_a_request_goes_only_if_the_group_is_still_ours(
    pair: tuple[Limiter, Limiter], clock: FakeClock, catalog: Catalog
) -> None:
    one, other = pair
    closed: list[str] = []
    one.on_given_up = closed.append
    allowance, granted = one.policy_for("arxiv.org", "artifact"), Moment.now(clock)
    assert one.enter(allowance) == 0.0
    clock.now += 30.0
    assert one.confirm(allowance, granted)  # nobody has taken it
    catalog.free_groups("one")  # as if it had run out
    assert other.enter(allowance) == 0.0
    assert one.confirm(allowance, granted)  # this was confirmed within the last second
    clock.now += 2.0
    assert not one.confirm(allowance, granted) and closed == ["arxiv"]
    assert other.confirm(allowance, granted)


@pytest.mark.requirement("HTTP-10")
def test_a_suspended_machine_counts_as_a_stall_though_its_clock_stood_still(
    pair: tuple[Limiter, Limiter], clock: FakeClock, catalog: Catalog
) -> None:
    one, other = pair
    allowance, granted = one.policy_for("arxiv.org", "artifact"), Moment.now(clock)
    assert one.enter(allowance) == 0.0
    clock.offset += 3600.0
    catalog.free_groups("one")
    assert other.enter(allowance) == 0.0 and not one.confirm(allowance, granted)


@pytest.mark.requirement("HTTP-10")
def test_a_token_from_before_a_stall_is_worth_nothing(make: Callable[..., Limiter], clock: FakeClock) -> None:
    policies = {"a.org": "0.1/s"}
    one, other = (make("sqlite", policies=policies, concurrency={"*": None}) for _ in range(2))
    allowance, granted = one.policy_for("a.org", "landing"), Moment.now(clock)
    assert one.enter(allowance) == 0.0 and one.confirm(allowance, granted)
    clock.now += 11.0
    assert other.enter(allowance) == 0.0
    assert not one.confirm(allowance, granted)
    clock.now += 11.0
    assert one.confirm(allowance, granted)  # with a new one
    assert other.enter(allowance) not in (0.0, None)


@pytest.mark.requirement("HTTP-10")
def test_a_group_that_is_not_needed_any_more_is_given_up_before_its_lease_runs_out(
    pair: tuple[Limiter, Limiter], clock: FakeClock
) -> None:
    """Else its idle connection would still be there when another process opens one."""
    one, other = pair
    closed: list[str] = []
    one.on_given_up = closed.append
    allowance = one.policy_for("arxiv.org", "artifact")
    assert one.enter(allowance) == 0.0
    clock.now += 11.0
    one.keep_leases()
    assert closed == []
    one.leave(allowance)
    one.keep_leases()
    assert closed == ["arxiv"] and other.enter(allowance) == 0.0


@pytest.mark.requirement("TRU-8")
def test_a_turn_of_a_slow_group_lasts_for_several_requests(
    make: Callable[..., Limiter], catalog: Catalog, clock: FakeClock
) -> None:
    shared = {"leases": catalog, "policies": {"arxiv.org": "0.1/second"}}
    limiters = [make("sqlite", owner=owner, **shared) for owner in ("one", "other")]
    allowance = limiters[0].policy_for("arxiv.org", "artifact")
    served: list[int] = []
    for _ in range(1_200):
        clock.now += 0.25
        for number, limiter in enumerate(limiters):
            if limiter.enter(allowance) == 0.0:
                served.append(number)
                limiter.leave(allowance)
    handed_over = sum(a != b for a, b in itertools.pairwise(served))
    assert set(served) == {0, 1} and len(served) > 20
    assert handed_over <= len(served) / 2


def test_stores_of_one_file_share_their_state(tmp_path: Path, clock: FakeClock) -> None:
    path = tmp_path / "limits.sqlite3"
    settings = RateLimitSettings.model_validate({"policies": {"a.org": "0.1/s"}})
    one, other = (Limiter(settings, SqliteLimits(path), clock=clock) for _ in range(2))
    assert one.enter(one.policy_for("a.org", "landing")) == 0.0
    wait = other.enter(other.policy_for("a.org", "artifact"))
    assert wait == pytest.approx(10.2, abs=0.01)
