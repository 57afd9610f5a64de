"""Money is counted for all processes of a catalog, day by day, and never spent twice."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from resources.catalog.catalog import Catalog


@pytest.mark.requirement("RES-3")
def test_two_openers_of_a_catalog_cannot_spend_more_than_the_day_allows(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite3"
    with Catalog.open(path) as first, Catalog.open(path) as second, ThreadPoolExecutor(8) as pool:
        refused = list(pool.map(lambda n: (first, second)[n % 2].spend("paid", 0.01, 0.105), range(40)))
        assert sum(until is None for until in refused) == 10
        assert first.spent_today("paid") == second.spent_today("paid") == pytest.approx(0.1)
        tomorrow = {until for until in refused if until is not None}
        assert all(0 < until - first.now() <= 86_400 for until in tomorrow)
        first.give_back("paid", 0.0099)
        assert second.spend("paid", 0.01, 0.105) is None
        assert second.spent_today("other") == 0
        assert second.spend("other", 0.01, 0.0) is not None
