"""Money is counted for all processes of a catalog, day by day, and never spent twice."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from docstokg_assets_tests.support.configs import spent_today
from resources.catalog.catalog import Catalog


@pytest.mark.requirement("RES-3")
def test_two_openers_of_a_catalog_cannot_spend_more_than_the_day_allows(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite3"
    with Catalog.open(path) as first, Catalog.open(path) as second, ThreadPoolExecutor(8) as pool:
        refused = list(pool.map(lambda n: (first, second)[n % 2].spend("paid", 0.01, 0.105), range(40)))
        assert sum(spent.taken for spent in refused) == 10
        assert spent_today(first, "paid") == spent_today(second, "paid") == pytest.approx(0.1)
        assert all(0 < spent.next_day_begins - first.now() <= 86_400 for spent in refused)
        first.give_back("paid", 0.0099, refused[0].day)
        assert second.spend("paid", 0.01, 0.105).taken
        assert spent_today(second, "other") == 0
        assert not second.spend("other", 0.01, 0.0).taken
        first.give_back("paid", 0.01, refused[0].day - 1)  # of yesterday: what was spent today stays so
        assert spent_today(first, "paid") == pytest.approx(0.1001)
