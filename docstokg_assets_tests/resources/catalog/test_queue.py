"""How works are put into the queue, claimed, given back and counted, by one process."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Set
from dataclasses import replace

import psycopg
import pytest
from pydantic import SecretStr

from resources.catalog.catalog import Catalog
from resources.catalog.database import Location
from resources.catalog.errors import CatalogError
from resources.catalog.rows import Batch, Enqueued, Finished, NewItem, Parked, ParkedGroup, QueueCounts
from resources.records import Classification, DownloadOutcome, Kind, Reason
from resources.scope import ALL_WORKS, WorkScope

EXPIRED = -1.0  # a lease that has ended when it begins


@pytest.fixture
def catalog(location: Location) -> Iterator[Catalog]:
    with Catalog.open(location) as opened:
        yield opened


def item(work_id: str, year: int | None = 2024, plan: str = "p1", group: str | None = "a.org") -> NewItem:
    return NewItem(work_id, year, year or 0, {"work_id": work_id, "plan": plan}, plan, group)


def finished(work_id: str, reason: Reason = Reason.OK, owner: str = "me", retry_at: float | None = None) -> Finished:
    if reason is Reason.OK:
        outcome = DownloadOutcome(
            True,
            f"PDF/{work_id}.pdf",
            Classification.SUCCESS,
            reason,
            Kind.PDF,
            "https://a.org/x.pdf",
            sha256="00",
            content_length=9,
        )
    else:
        outcome = DownloadOutcome(False, None, Classification.ERROR, reason)
    return Finished(work_id, 2024, None, None, outcome, "run", "hash", owner, retry_at=retry_at)


def claimed(
    catalog: Catalog, limit: int = 100, scope: WorkScope = ALL_WORKS, left_out: Set[str] = frozenset()
) -> list[str]:
    return [work.work_id for work in catalog.claim("me", limit, 60, scope, left_out=left_out).items]


def finish(catalog: Catalog, work_id: str, reason: Reason = Reason.OK, retry_at: float | None = None) -> None:
    assert work_id in claimed(catalog)
    assert catalog.commit(Batch(finished=[finished(work_id, reason, retry_at=retry_at)])).lost == []


@pytest.mark.requirement("CAT-2")
def test_recent_years_are_claimed_first(catalog: Catalog) -> None:
    catalog.enqueue([item("W1", 2001), item("W2", 2024), item("W3", None), item("W4", 2024)])
    assert claimed(catalog, 3) == ["W2", "W4", "W1"]
    assert claimed(catalog) == ["W3"]


@pytest.mark.requirement("CAT-2")
def test_a_claim_hands_over_what_was_put_in(catalog: Catalog) -> None:
    catalog.enqueue([item("W1", 2020, "p7", "b.org")])
    (work,) = catalog.claim("me", 1, 60).items
    assert (work.work_id, work.year, work.plan_hash, work.next_group) == ("W1", 2020, "p7", "b.org")
    assert work.record == {"work_id": "W1", "plan": "p7"}
    assert work.progress is None and work.tries == 0
    ends = catalog.next_due()
    assert ends is not None and 55 < ends - catalog.now() <= 60


@pytest.mark.requirement("CAT-2")
def test_a_leased_work_is_nobody_elses_until_its_lease_ends(catalog: Catalog) -> None:
    catalog.enqueue([item("W1")])
    assert len(catalog.claim("one", 5, 60).items) == 1
    assert catalog.claim("two", 5, 60).items == []
    assert catalog.heartbeat("one", EXPIRED) == {"W1"}
    assert [work.work_id for work in catalog.claim("two", 5, 60).items] == ["W1"]
    assert catalog.heartbeat("one", 60) == set()


@pytest.mark.requirement("TRU-1")
def test_a_claimer_never_frees_what_is_his_own(catalog: Catalog) -> None:
    catalog.enqueue([item("W1"), item("W2")])
    assert [work.work_id for work in catalog.claim("one", 1, EXPIRED).items] == [
        "W1"
    ]  # as after a suspend, or a step of the clock
    assert [work.work_id for work in catalog.claim("one", 5, 60).items] == ["W2"]
    assert catalog.heartbeat("one", 60) == {"W1", "W2"}
    assert catalog.claim("two", 5, 60).items == []
    assert catalog.release_owner("one", {"W2"}) == 1
    assert claimed(catalog) == ["W2"]


@pytest.mark.requirement("CAT-2")
def test_a_heartbeat_keeps_a_lease_alive(catalog: Catalog) -> None:
    catalog.enqueue([item("W1")])
    catalog.claim("one", 1, EXPIRED)
    assert catalog.heartbeat("one", 60) == {"W1"}
    assert catalog.claim("two", 1, 60).items == []


@pytest.mark.requirement("CAT-2")
def test_works_are_given_back_at_shutdown(catalog: Catalog) -> None:
    catalog.enqueue([item("W1"), item("W2")])
    catalog.claim("one", 1, 60)
    catalog.claim("two", 1, 60)
    assert catalog.lease_owners() == {"one", "two"}
    assert catalog.release_owner("one") == 1
    assert catalog.lease_owners() == {"two"}
    assert claimed(catalog) == ["W1"]


@pytest.mark.requirement("CAT-2")
def test_a_claim_keeps_to_a_year_and_year_zero_means_none(catalog: Catalog) -> None:
    catalog.enqueue([item("W1", 2001), item("W2", 2002), item("W3", None)])
    assert claimed(catalog, scope=WorkScope(2001)) == ["W1"]
    assert claimed(catalog, scope=WorkScope(0)) == ["W3"]


@pytest.mark.requirement("CAT-2")
def test_a_claim_keeps_to_the_works_of_a_run(catalog: Catalog) -> None:
    catalog.start_run("run", "pull", "hash", {})
    catalog.enqueue([item("W1"), item("W2"), item("W3")])
    assert catalog.enqueue([item("W1", plan="p1"), item("W3"), item("W4")], "run") == Enqueued(new=1, unchanged=2)
    assert claimed(catalog, 2, scope=WorkScope(run_id="run")) == ["W1", "W3"]
    assert claimed(catalog, scope=WorkScope(run_id="run")) == ["W4"]
    assert claimed(catalog, scope=WorkScope(run_id="other")) == []
    assert catalog.queue_counts(run_id="run").leased == 3


@pytest.mark.requirement("TRU-8")
def test_works_of_two_runs_are_claimed_by_the_later_one_until_the_other_takes_them_over(catalog: Catalog) -> None:
    for run in ("first", "second"):
        catalog.start_run(run, "pull", "hash", {})
    catalog.enqueue([item("W1"), item("W2")], "first")
    catalog.enqueue([item("W2"), item("W3")], "second")
    assert claimed(catalog, scope=WorkScope(run_id="first")) == ["W1"]
    catalog.take_over("first")
    assert claimed(catalog, scope=WorkScope(run_id="second")) == ["W3"]
    assert claimed(catalog, scope=WorkScope(run_id="first")) == ["W2"]


@pytest.mark.requirement("TRU-8")
def test_a_claim_of_two_years_is_in_the_order_of_both(catalog: Catalog) -> None:
    catalog.enqueue([NewItem(f"W{n}", None if n % 2 else 2024, n, {}, "p") for n in range(10)])
    assert claimed(catalog, 4, scope=WorkScope((2024, 0))) == ["W9", "W8", "W7", "W6"]
    assert claimed(catalog, 9, scope=WorkScope((2024, 0))) == ["W5", "W4", "W3", "W2", "W1", "W0"]


@pytest.mark.requirement("TRU-8")
def test_a_claim_walks_over_so_many_works_of_others_and_the_next_one_goes_on(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resources.catalog.claims.WINDOW", 2)
    monkeypatch.setattr("resources.catalog.claims.MOST_WALKED", 5)
    catalog.enqueue([item(f"W{n}", group="slow" if n < 8 else "quick") for n in range(10)])
    first = catalog.claim("me", 5, 60, WorkScope(2024), left_out={"slow"})
    assert (first.items, first.up_to, first.is_end) == ([], (2024, "W4"), False)
    second = catalog.claim("me", 5, 60, WorkScope(2024), left_out={"slow"}, after=first.up_to)
    assert [work.work_id for work in second.items] == ["W8", "W9"]
    third = catalog.claim("me", 5, 60, WorkScope(2024), left_out={"slow"}, after=second.up_to)
    assert (third.items, third.is_end) == ([], True)


def test_works_cannot_belong_to_a_run_that_was_not_started(catalog: Catalog) -> None:
    with pytest.raises(CatalogError, match=r"knows no run nowhere\. Start the run first"):
        catalog.enqueue([item("W1")], "nowhere")
    assert catalog.queue_counts().total == 0


@pytest.mark.requirement("CAT-2")
def test_saturated_groups_are_passed_over(catalog: Catalog) -> None:
    catalog.enqueue([item("W1", group="arxiv"), item("W2", group="b.org"), item("W3", group=None)])
    assert claimed(catalog, left_out=frozenset({"arxiv", "c.org"})) == ["W2", "W3"]


@pytest.mark.requirement("CAT-3")
def test_the_same_plan_changes_nothing(catalog: Catalog) -> None:
    assert catalog.enqueue([item("W1"), item("W2"), item("W2")]) == Enqueued(new=2)
    finish(catalog, "W1", Reason.HTTP_4XX)
    assert catalog.enqueue([item("W1"), item("W2")]) == Enqueued(unchanged=2)
    assert catalog.queue_counts().done == 1


@pytest.mark.requirement("CAT-3")
def test_another_plan_reopens_a_work_without_success(catalog: Catalog) -> None:
    catalog.enqueue([item("W1")])
    finish(catalog, "W1", Reason.NO_CANDIDATE)
    assert catalog.enqueue([item("W1", plan="p2", group="new.org")]) == Enqueued(reopened=1)
    (work,) = catalog.claim("me", 1, 60).items
    assert (work.plan_hash, work.next_group, work.record["plan"]) == ("p2", "new.org", "p2")


@pytest.mark.requirement("CAT-3")
def test_another_plan_reopens_at_once_what_was_to_be_tried_later(catalog: Catalog) -> None:
    catalog.enqueue([item("W1")])
    finish(catalog, "W1", Reason.HTTP_5XX, retry_at=catalog.now() + 3600)
    assert catalog.enqueue([item("W1", plan="p2")]) == Enqueued(reopened=1)
    (work,) = catalog.claim("me", 1, 60).items
    assert work.tries == 0


@pytest.mark.parametrize("reason", [Reason.OK, Reason.HTML_ONLY, Reason.NOT_MODIFIED])
@pytest.mark.requirement("CAT-3")
def test_another_plan_leaves_a_success_alone(catalog: Catalog, reason: Reason) -> None:
    catalog.enqueue([item("W1")])
    finish(catalog, "W1", reason)
    assert catalog.enqueue([item("W1", plan="p2")]) == Enqueued(unchanged=1)
    assert claimed(catalog) == []
    catalog.reopen([("W1", None)])
    assert catalog.claim("me", 1, 60).items[0].plan_hash == "p2"  # though the newer plan was kept


@pytest.mark.requirement("CAT-3")
def test_another_plan_does_not_take_a_work_from_its_owner(catalog: Catalog) -> None:
    catalog.enqueue([item("W1")])
    catalog.claim("me", 1, 60)
    assert catalog.enqueue([item("W1", plan="p2")]) == Enqueued(unchanged=1)
    assert catalog.claim("two", 1, 60).items == []
    assert catalog.commit(Batch(finished=[finished("W1")])).lost == []


@pytest.mark.requirement("CAT-3")
def test_works_can_be_reopened_by_force_unless_somebody_holds_them(catalog: Catalog) -> None:
    catalog.enqueue([item("W1"), item("W2")])
    finish(catalog, "W1")
    assert catalog.reopen((name, None) for name in ("W1", "W2", "W9")) == 1
    assert claimed(catalog) == ["W1"]


@pytest.mark.requirement("CAT-2")
def test_a_parked_work_comes_back_with_its_progress_when_its_time_has_come(catalog: Catalog) -> None:
    catalog.enqueue([item("W1"), item("W2")])
    catalog.claim("me", 2, 60)
    now = catalog.now()
    parked = [
        Parked("W1", {"tried": ["u"]}, "arxiv", now + 0.2, "pace", "me"),
        Parked("W2", {}, "slow.org", now + 3600, "retry-after", "me"),
    ]
    assert catalog.commit(Batch(parked=parked)).lost == []
    assert catalog.claim("two", 2, 60).items == []
    assert catalog.next_due() == pytest.approx(now + 0.2, abs=0.01)
    threading.Event().wait(0.25)
    (work,) = catalog.claim("two", 2, 60).items
    assert (work.work_id, work.progress, work.next_group, work.tries) == ("W1", {"tried": ["u"]}, "arxiv", 0)


@pytest.mark.requirement("CAT-2")
def test_a_failed_try_is_due_again_at_its_time(catalog: Catalog) -> None:
    catalog.enqueue([item("W1")])
    later = catalog.now() + 3600
    finish(catalog, "W1", Reason.HTTP_5XX, retry_at=later)
    assert claimed(catalog) == []
    assert catalog.next_due() == later
    assert catalog.queue_counts() == QueueCounts(total=1, queued_due=0, parked=0, leased=0, retry=1, done=0)


@pytest.mark.requirement("CAT-2")
def test_a_retry_whose_time_is_past_is_due_now(catalog: Catalog) -> None:
    catalog.enqueue([item("W1")])
    finish(catalog, "W1", Reason.HTTP_5XX, retry_at=0.0)
    (work,) = catalog.claim("me", 1, 60).items
    assert work.tries == 1


@pytest.mark.requirement("CAT-3")
def test_what_a_failed_try_found_out_is_kept_until_the_plan_changes(catalog: Catalog) -> None:
    catalog.enqueue([item("W1")])
    for due_in, plan, progress in ((-1, "p1", {"dead": ["u"]}), (3600, "p2", None)):
        catalog.claim("me", 1, 60)
        failed = finished("W1", Reason.TIMEOUT, retry_at=catalog.now() + due_in)
        catalog.commit(Batch(finished=[replace(failed, progress={"dead": ["u"]})]))
        catalog.enqueue([item("W1", plan=plan)])
        (work,) = catalog.claim("me", 1, 60).items
        assert work.progress == progress


@pytest.mark.requirement("CAT-2")
def test_every_work_is_counted_once(catalog: Catalog) -> None:
    catalog.enqueue([item(f"W{n}", 2020 + n % 2) for n in range(10)])
    now = catalog.now()
    works = claimed(catalog, 7, scope=WorkScope(2020)) + claimed(catalog, 3)
    assert len(works) == 8
    catalog.commit(
        Batch(
            finished=[finished(works[0]), finished(works[1], Reason.TIMEOUT, retry_at=now + 60)],
            parked=[
                Parked(works[2], {}, "arxiv", now + 60, "pace", "me"),
                Parked(works[3], {}, "arxiv", now + 90, "pace", "me"),
            ],
        )
    )
    assert catalog.queue_counts() == QueueCounts(total=10, queued_due=2, parked=2, leased=4, retry=1, done=1)
    assert catalog.queue_counts(year=2020) == QueueCounts(total=5, queued_due=0, parked=2, leased=1, retry=1, done=1)
    assert catalog.queue_counts(year=1999) == QueueCounts(0, 0, 0, 0, 0, 0)
    assert catalog.parked(year=2020) == [ParkedGroup("arxiv", 2, now + 60, now + 90, "pace")]
    catalog.heartbeat("me", EXPIRED)
    assert catalog.queue_counts().queued_due == 6


def test_nothing_comes_due_in_an_empty_queue(catalog: Catalog) -> None:
    assert catalog.next_due() is None
    assert catalog.parked() == []


@pytest.mark.requirement("CAT-2")
def test_threads_that_claim_at_once_share_the_works(catalog: Catalog) -> None:
    catalog.enqueue([item(f"W{n}") for n in range(200)])
    taken: list[str] = []
    lost: list[str] = []

    def drain(owner: str) -> None:
        while works := catalog.claim(owner, 7, 60).items:
            catalog.heartbeat(owner, 60)
            lost.extend(catalog.commit(Batch(finished=[finished(work.work_id, owner=owner) for work in works])).lost)
            taken.extend(work.work_id for work in works)

    threads = [threading.Thread(target=drain, args=(f"t{n}",)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lost == [] and sorted(taken) == sorted(f"W{n}" for n in range(200))
    assert catalog.queue_counts().done == 200


@pytest.mark.requirement("CAT-2")
@pytest.mark.parametrize("location", ["postgres"], indirect=True)
def test_a_claim_passes_over_what_another_is_claiming_and_does_not_wait_for_him(
    catalog: Catalog, location: Location
) -> None:
    catalog.enqueue([item(f"W{n}") for n in range(6)])
    assert isinstance(location, SecretStr)
    with psycopg.connect(location.get_secret_value()) as another:
        another.execute("SELECT 1 FROM docstokg.queue WHERE work_id IN ('W0', 'W1', 'W2') FOR UPDATE")
        found: list[str] = []
        claiming = threading.Thread(target=lambda: found.extend(claimed(catalog)))
        claiming.start()
        claiming.join(20)  # if it waited, it would do so until the other one ends, below
        assert found == ["W3", "W4", "W5"]
    claiming.join()
    assert claimed(catalog) == ["W0", "W1", "W2"]


@pytest.mark.requirement("HTTP-10")
def test_a_group_belongs_to_one_owner_at_a_time(catalog: Catalog) -> None:
    assert catalog.lease_group("arxiv", "one", 60)
    assert not catalog.lease_group("arxiv", "two", 60)
    assert catalog.lease_group("pmc", "two", 60)
    assert catalog.lease_group("arxiv", "one", EXPIRED)  # renewed, and over
    assert catalog.lease_group("arxiv", "two", 60)
    assert not catalog.lease_group("arxiv", "one", 60)
    assert catalog.free_groups("two") == 2
    assert catalog.lease_group("arxiv", "one", 60)


def test_a_plan_that_changes_while_a_work_is_held_opens_it_again_unless_it_succeeded(catalog: Catalog) -> None:
    catalog.enqueue([item("W1"), item("W2")])
    assert claimed(catalog) == ["W1", "W2"]
    catalog.enqueue([item("W1", plan="p2"), item("W2", plan="p2")])
    ends = [replace(finished("W1", Reason.HTTP_4XX), plan_hash="p1"), replace(finished("W2"), plan_hash="p1")]
    catalog.commit(Batch(finished=ends))
    again, settled = catalog.entry("W1"), catalog.entry("W2")
    assert again is not None and again.retry_at is not None and again.retry_at <= catalog.now()
    assert settled is not None and settled.retry_at is None
    assert claimed(catalog) == ["W1"]


@pytest.mark.requirement("CAT-3")
@pytest.mark.parametrize("retry_in", [None, 3600.0])
def test_a_plan_that_was_executed_is_not_tried_again_although_the_work_was_claimed_with_another(
    catalog: Catalog, retry_in: float | None
) -> None:
    """The search makes its plan anew, from the configuration as it is then."""
    catalog.enqueue([item("W1", plan="p1")])
    assert claimed(catalog) == ["W1"]
    tried = replace(finished("W1", Reason.HTTP_4XX), plan_hash="p2", claimed_plan_hash="p1")
    retry_at = None if retry_in is None else catalog.now() + retry_in
    catalog.commit(Batch(finished=[replace(tried, retry_at=retry_at)]))
    assert catalog.plan_hashes(["W1"]) == {"W1": "p2"}
    assert catalog.enqueue([item("W1", plan="p2")]) == Enqueued(unchanged=1)
    assert claimed(catalog) == []
    assert catalog.enqueue([item("W1", plan="p3")]) == Enqueued(reopened=1)


@pytest.mark.requirement("CAT-3")
def test_a_newer_plan_is_kept_when_another_was_executed_and_is_settled_when_it_was(catalog: Catalog) -> None:
    catalog.enqueue([item(f"W{n}", plan="p1") for n in (1, 2, 3)])
    assert len(claimed(catalog)) == 3
    catalog.enqueue([item(f"W{n}", plan="p3") for n in (1, 2, 3)])
    failed = replace(finished("W1", Reason.HTTP_4XX), plan_hash="p2", claimed_plan_hash="p1")
    same = replace(finished("W2", Reason.HTTP_4XX), plan_hash="p3", claimed_plan_hash="p1")
    saved = replace(finished("W3"), plan_hash="p2", claimed_plan_hash="p1")
    catalog.commit(Batch(finished=[failed, same, saved]))
    assert catalog.plan_hashes(["W1", "W2", "W3"]) == {"W1": "p3", "W2": "p3", "W3": "p3"}
    assert claimed(catalog) == ["W1"], "of the newer plan nothing was tried"


def test_a_parked_work_has_the_plan_that_was_executed(catalog: Catalog) -> None:
    catalog.enqueue([item("W1", plan="p1")])
    assert claimed(catalog) == ["W1"]
    catalog.commit(Batch(parked=[Parked("W1", {}, "g", catalog.now() + 60, "pace", "me", "p2", "p1")]))
    assert catalog.enqueue([item("W1", plan="p2")]) == Enqueued(unchanged=1)
    assert catalog.plan_hashes(["W1"]) == {"W1": "p2"}


def test_a_work_that_is_opened_again_has_all_its_tries(catalog: Catalog) -> None:
    catalog.enqueue([item("W1")])
    finish(catalog, "W1", Reason.HTTP_5XX, retry_at=4_000_000_000.0)
    catalog.reopen([("W1", None)])
    (work,) = catalog.claim("me", 1, 60).items
    assert (work.tries, work.progress) == (0, None)
