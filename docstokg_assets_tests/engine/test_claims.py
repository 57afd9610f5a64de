"""Which due works are claimed, while hosts are broken: on a real catalog, with a clock that stands still."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from docstokg_assets.engine.claims import Claims
from docstokg_assets.engine.scheduler import Scheduler
from docstokg_assets_tests.support.tasks import FakeLimiter
from resources.catalog.catalog import Catalog
from resources.catalog.rows import NewItem
from resources.http.host_state import HostStateCache
from resources.scope import ALL_WORKS


@pytest.mark.requirement("TRU-6", "HTTP-9")
def test_works_of_a_host_that_is_left_alone_are_claimed_when_nothing_else_is_due_or_it_is_tried_again(
    catalog: Catalog, fake_clock: Any
) -> None:
    hosts = HostStateCache(catalog, fake_clock)
    scheduler = Scheduler(FakeLimiter().as_limiter(), fake_clock, workers=4, park_after_s=60.0)
    claims = Claims(partial(catalog.claim, "me", lease_s=600.0, scope=ALL_WORKS), scheduler, hosts, fake_clock)

    def enqueue(prefix: str) -> None:
        groups = {"a": "ill.example", "b": "well.example"}
        catalog.enqueue(NewItem(f"{prefix}{k}{n}", 2024, 0, {}, "plan", groups[k]) for k in groups for n in range(3))

    def claimed(limit: int) -> list[str]:
        return [item.work_id for item in claims.claim(limit)]

    for _ in range(5):
        hosts.report("ill.example", True)
    enqueue("1")
    assert claimed(2) == ["1b0", "1b1"] and claimed(2) == ["1b2"]
    assert claimed(2) == [], "not at every look"
    fake_clock.sleep(5.1)
    assert claimed(2) == ["1a0", "1a1"] and claimed(2) == ["1a2"], "they may have copies elsewhere"
    enqueue("2")
    fake_clock.sleep(25)
    assert sorted(claimed(9)) == ["2a0", "2a1", "2a2", "2b0", "2b1", "2b2"], "it is tried again"
