"""Resolvers of one tier, asked side by side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from docstokg_assets.engine.dispatcher import Dispatcher
from docstokg_assets.engine.request_queues import Task
from docstokg_assets.sandbox import Sandbox

ARCHETYPES = ("unpaywall_only", "crossref_link", "doi_redirect", "nothing_closed", "wayback_only", "wall")
ORDER = ("openalex", "unpaywall", "crossref", "doi", "landing", "wayback")


def asked(box: Sandbox) -> tuple[int, int]:
    return len(box.arrivals("api.unpaywall.org")), len(box.arrivals("api.crossref.org"))


@pytest.mark.requirement("RES-2", "CLI-2")
def test_one_after_the_other_by_default_and_side_by_side_on_request(
    box_of: Callable[..., Sandbox], collect: Callable[..., Any]
) -> None:
    box = box_of("unpaywall_only")
    entries, _ = collect(box, "unpaywall", "crossref")
    assert asked(box) == (1, 0)  # the first one knew a copy, so the second was not asked
    box.reset()
    side_by_side, _ = collect(box, "unpaywall", "crossref", root="two", **{"download.max_concurrent_resolvers": 2})
    assert asked(box) == (1, 1)
    (one,), (two,) = entries.values(), side_by_side.values()
    assert (one.resolver, one.url) == (two.resolver, two.url) == ("unpaywall", box.universe.truth(one.work_id).url)
    assert two.fallback_chain == ("unpaywall", "crossref", "unpaywall")
    assert two.requests == 4  # both APIs, the robots.txt of the repository, the file


@pytest.mark.requirement("RES-2")
def test_works_end_alike_whether_their_resolvers_are_asked_side_by_side_or_not(
    box_of: Callable[..., Sandbox], collect: Callable[..., Any]
) -> None:
    box = box_of(*ARCHETYPES, works=18)
    first, _ = collect(box, *ORDER)
    second, _ = collect(box, *ORDER, root="two", **{"download.max_concurrent_resolvers": 4})
    ends = [{i: (e.reason, e.url, e.sha256) for i, e in entries.items()} for entries in (first, second)]
    assert ends[0] == ends[1] and len(ends[0]) == 18


@pytest.mark.requirement("RES-2")
def test_a_resolver_whose_turn_is_far_away_parks_the_work_and_nothing_is_lost(
    box_of: Callable[..., Sandbox], collect: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    box = box_of("unpaywall_only", works=4)
    held_up: list[bool] = []
    park = Dispatcher._park

    def watched(self: Dispatcher, task: Task, *why: Any) -> None:
        held_up.append(task.parent is not None)
        park(self, task, *why)

    monkeypatch.setattr(Dispatcher, "_park", watched)
    slow = dict.fromkeys(box.stats()["hosts"], "1000/second burst 100") | {"api.unpaywall.org": "1/second"}
    changed = {"download.max_concurrent_resolvers": 2, "download.park_after_s": 0.5, "rate_limit.policies": slow}
    entries, _ = collect(box, "unpaywall", "crossref", **changed)
    assert [str(e.reason) for e in entries.values()] == ["ok"] * 4
    assert {True, False} == set(held_up)  # the way, and with it the work
