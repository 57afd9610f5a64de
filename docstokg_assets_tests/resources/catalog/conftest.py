"""A place for a catalog on either database. The PostgreSQL server is real, its catalog empty for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from resources.catalog.database import Location


@pytest.fixture(params=["sqlite", "postgres"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> Location:
    if request.param == "sqlite":
        return tmp_path / "root" / "catalog.sqlite3"
    found: Location = request.getfixturevalue("postgres_catalog")
    return found
