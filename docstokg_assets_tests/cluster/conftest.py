"""Two machines in small: Dagster as deploy/ configures it over real servers, and Celery workers that share no folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from docstokg_assets.sandbox import Sandbox
from docstokg_assets_tests.support.operating import Cluster, cluster_over


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with (
        Sandbox.start(tmp_path / "box", works_per_year=30, years=(2022, 2024)) as box,
        cluster_over(tmp_path, box) as made,
    ):
        yield made
