"""Queues by limit and clock, on a clock that stands still."""

from __future__ import annotations

import pytest

from docstokg_assets.engine.request_queues import Park
from docstokg_assets.engine.scheduler import Scheduler
from docstokg_assets_tests.support.tasks import FakeLimiter, SettableClock, send_to, task
from resources.http.exchange import Pause
from resources.rate_limit.stores import LimiterUnavailable
from resources.records import ITS_TURN, Reason


def scheduler(limiter: FakeLimiter, clock: SettableClock, workers: int = 4, park_after_s: float = 60.0) -> Scheduler:
    return Scheduler(limiter.as_limiter(), clock, workers=workers, park_after_s=park_after_s)


def sent(made: Scheduler, room: int = 100) -> list[str]:
    """The works whose turn it is, with room for so many requests."""
    found: list[str] = []
    for one, _ in made.turns(lambda urgent: len(found) < room):
        found.append(one.item.work_id)
    return found


def test_queues_take_turns_and_a_slow_host_does_not_block_a_fast_one() -> None:
    limiter, clock = FakeLimiter(), SettableClock()
    made = scheduler(limiter, clock)
    for number, host in enumerate(("slow", "slow", "fast", "fast")):
        assert made.enqueue(task(f"{host}{number}"), send_to(host)) is None
    limiter.answers["slow"] = 5.0
    assert sent(made) == ["fast2", "fast3"]
    assert made.next_ready(True) == clock.now + 5.0 and made.next_ready(False) == float("inf")
    limiter.answers.clear()
    assert sent(made) == []  # not asked again before its time
    clock.now += 5.0
    assert sent(made) == ["slow0", "slow1"]


def test_searches_under_way_go_before_new_ones_while_there_is_room() -> None:
    made = scheduler(FakeLimiter(), SettableClock())
    new, begun = task("new"), task("begun")
    begun.began = 1.0
    made.enqueue(new, send_to("a"))
    made.enqueue(begun, send_to("b"))
    assert sent(made, room=1) == ["begun"]
    assert sent(made) == ["new"]


def test_a_queue_without_permits_waits_until_one_of_its_group_is_free() -> None:
    limiter = FakeLimiter()
    made = scheduler(limiter, SettableClock())
    made.enqueue(task("W1"), send_to("a"))
    limiter.answers["a"] = None
    assert sent(made) == []
    limiter.answers.clear()
    assert sent(made) == [] and made.next_ready(True) == float("inf")
    made.permit_is_free("a")
    assert sent(made) == ["W1"]


@pytest.mark.requirement("HTTP-10")
def test_a_full_queue_parks_tasks_one_behind_the_other_and_is_full_until_it_is_half_empty() -> None:
    limiter, clock = FakeLimiter(per_second=1.0), SettableClock()
    made = scheduler(limiter, clock, workers=100, park_after_s=3.0)
    parks = [made.enqueue(task(f"W{n}"), send_to("a")) for n in range(5)]
    assert parks[:4] == [None] * 4 and parks[4] == Park(4.0, ITS_TURN, "a")
    made.note_parked("W4", Park(4.0, ITS_TURN, "a"))
    assert made.enqueue(task("W5"), send_to("a")) == Park(5.0, ITS_TURN, "a")  # behind the one that is parked
    assert made.full_groups() == {"a"}
    assert sent(made, room=2) == ["W0", "W1"]
    assert made.full_groups() == {"a"}
    assert sent(made, room=1) == ["W2"]
    assert made.full_groups() == frozenset()


@pytest.mark.requirement("TRU-7")
def test_of_a_slow_host_two_works_are_in_hand_and_all_slow_hosts_share_a_bound() -> None:
    limiter, clock = FakeLimiter(per_second=0.1), SettableClock()
    made = scheduler(limiter, clock, workers=8)  # 64 works of slow hosts at most, 32 of them behind another one
    first = [made.enqueue(task(f"A{n}"), send_to("a")) for n in range(4)]
    assert first == [None, None, Park(20.0, ITS_TURN, "a"), Park(20.0, ITS_TURN, "a")]
    assert made.put_off("a") == Park(20.0, ITS_TURN, "a") and made.put_off("b") is None
    assert [made.enqueue(task(f"B{n}"), send_to(f"b{n}")) for n in range(62)] == [None] * 62
    assert made.need_no_room() == 64
    refused = [made.enqueue(task(f"C{n}"), send_to(f"c{n}")) for n in range(64)]
    waits = [park.seconds for park in refused if park is not None]
    assert len(waits) == 64 and waits == sorted(waits) and 5.0 < waits[0] < waits[-1] <= 10.1
    limiter.answers = {f"b{n}": 0.0 for n in range(62)} | {"a": 0.0}
    assert len(sent(made)) == 63  # the second one of "a" has to wait
    assert made.full_groups() >= {f"c{n}" for n in range(64)}
    clock.now += 11.0
    assert made.full_groups() == frozenset()


@pytest.mark.requirement("TRU-7")
def test_tasks_of_a_slow_queue_are_judged_again_when_the_limiter_tells_how_long_it_takes() -> None:
    limiter, clock = FakeLimiter(per_second=0.1), SettableClock()
    made = scheduler(limiter, clock)
    begun = task("begun")
    begun.began = 1.0
    assert made.enqueue(begun, send_to("a")) is None and made.enqueue(task("new"), send_to("a")) is None
    limiter.answers["a"] = 55.0  # other processes use the same limit
    assert sent(made) == []
    assert [(one.item.work_id, park) for one, park in made.displaced()] == [("new", Park(65.0, ITS_TURN, "a"))]
    assert list(made.displaced()) == [] and made.full_groups() == {"a"}
    clock.now += 55.0
    limiter.answers.clear()
    assert sent(made) == ["begun"]
    assert made.full_groups() == {"a"}  # the next turn is known, without asking for it
    clock.now += 9.0
    assert made.full_groups() == frozenset()


def test_a_short_pause_is_waited_for_and_a_long_or_untried_one_parks() -> None:
    clock = SettableClock()
    made = scheduler(FakeLimiter(), clock)
    paused = task("W1")
    assert made.pause(paused, Pause(10.0, "a", Reason.BACKOFF)) is None
    assert made.pause(task(), Pause(61.0, "a", Reason.BACKOFF)) == Park(61.0, Reason.BACKOFF, "a")
    untried = Pause(10.0, "a", Reason.RETRY_AFTER, untried=True)
    assert made.pause(task(), untried) == Park(10.0, Reason.RETRY_AFTER, "a")
    assert made.pause(task(), Pause(1.0, "a", Reason.BACKOFF), may_wait=False) == Park(1.0, Reason.BACKOFF, "a")
    assert list(made.resumed()) == [] and made.next_ready(False) == clock.now + 10.0
    clock.now += 10.0
    assert list(made.resumed()) == [paused]


@pytest.mark.requirement("HTTP-11")
def test_without_its_limiter_nothing_is_sent_and_the_pass_fails_after_a_minute() -> None:
    limiter, clock = FakeLimiter(), SettableClock()
    made = scheduler(limiter, clock)
    made.enqueue(task("W1"), send_to("a"))
    limiter.answers["a"] = LimiterUnavailable("gone")
    assert sent(made) == []
    clock.now += 61.0
    with pytest.raises(LimiterUnavailable):
        sent(made)


def test_the_report_counts_works_in_queues_in_pauses_and_parked() -> None:
    made = scheduler(FakeLimiter(per_second=1.0), SettableClock())
    made.enqueue(task("W1"), send_to("a"))
    made.pause(task("W2"), Pause(10.0, "b", Reason.BACKOFF))
    for work_id in ("W3", "W4"):
        made.note_parked(work_id, Park(30.0, Reason.RETRY_AFTER, "c"))
    told = [(w.group, w.works, w.seconds, w.why) for w in made.waiting()]
    assert told == [("c", 2, 30.0, "retry-after"), ("a", 1, 1.0, ITS_TURN), ("b", 1, 10.0, "backoff")]
    made.note_claimed("W3")
    assert made.parked_works == 1


def test_all_that_waits_can_be_taken_back_with_the_rest_of_its_wait() -> None:
    made = scheduler(FakeLimiter(per_second=0.5), SettableClock())
    for number in range(2):
        made.enqueue(task(f"W{number}"), send_to("a"))
    made.pause(task("W2"), Pause(10.0, "b", Reason.BACKOFF))
    removed = [(one.item.work_id, park.seconds, park.group) for one, park in made.remove_all()]
    assert removed == [("W0", 0.0, "a"), ("W1", 2.0, "a"), ("W2", 10.0, "b")]
    assert made.remove_all() == [] and sent(made) == []


def test_waiting_tasks_move_to_the_queues_of_new_limits() -> None:
    limiter = FakeLimiter()
    made = scheduler(limiter, SettableClock())
    made.enqueue(task("W1"), send_to("a"))
    limiter.per_second = 0.01
    made.reassign()
    assert [w.seconds for w in made.waiting()] == [100.0]
    assert sent(made) == ["W1"]
