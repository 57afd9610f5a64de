"""Leases of works after time stood still for a process, or its clock was set."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from docstokg_assets.engine.claims import WorkLeases
from resources.catalog.catalog import Catalog
from resources.catalog.rows import NewItem


class TwoClocks:
    """The monotonic clock stands still while a machine is suspended; the one on the wall is set, by whomever."""

    def __init__(self) -> None:
        self.seconds, self.epoch = 1000.0, 1_700_000_000.0

    def monotonic(self) -> float:
        return self.seconds

    def wall(self) -> float:
        return self.epoch

    def sleep(self, seconds: float) -> None:
        raise AssertionError("nobody sleeps here")


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with Catalog.open(tmp_path / "catalog.sqlite3") as opened:
        opened.enqueue([NewItem(f"W{n}", 2024, 2024, {"work_id": f"W{n}"}, "p") for n in range(3)])
        yield opened


@pytest.mark.requirement("TRU-1")
@pytest.mark.parametrize(("monotonic", "wall"), [(0.0, 3600.0), (3600.0, 3600.0), (3600.0, -7200.0)])
def test_fault_50_leases_are_in_doubt_when_either_clock_has_run_on(
    catalog: Catalog, monotonic: float, wall: float
) -> None:
    clock = TwoClocks()
    leases = WorkLeases(catalog, "me", 120.0, clock)
    catalog.claim("me", 2, -1.0)
    assert not leases.are_due() and not leases.are_in_doubt()
    clock.seconds, clock.epoch = clock.seconds + monotonic, clock.epoch + wall
    assert leases.are_due() and leases.are_in_doubt()
    assert catalog.claim("other", 1, 60).items[0].work_id == "W0"
    assert leases.renew() == set()  # the claim has freed both
    assert not leases.are_due() and not leases.are_in_doubt()


@pytest.mark.requirement("TRU-1")
def test_fault_50_leases_are_renewed_in_time(catalog: Catalog) -> None:
    clock = TwoClocks()
    leases = WorkLeases(catalog, "me", 120.0, clock)
    clock.seconds += 41
    clock.epoch -= 3600  # set back
    assert leases.are_due() and not leases.are_in_doubt()
