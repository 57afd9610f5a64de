"""The estimate of a run lies within a fifth of what happens, by default rates and by those of the collection."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from docstokg_assets.config import load_config
from docstokg_assets.domain.works import Work
from docstokg_assets.runs.estimate import estimate, rates_of
from docstokg_assets.sandbox import Sandbox
from docstokg_assets_tests.support.configs import FAST, NAMED
from docstokg_assets_tests.support.program import Place
from resources.catalog.catalog import Catalog


@pytest.mark.slow
@pytest.mark.requirement("CLI-1")
@pytest.mark.parametrize(("seed", "mix"), [(11, {}), (5, {"bad_status": 12, "robots": 6})])
def test_the_real_number_of_requests_is_near_the_estimate(seed: int, mix: dict[str, float], tmp_path: Path) -> None:
    with Sandbox.start(
        tmp_path / "box", works_per_year=120, years=(2023, 2024), mix=mix, enforce_limits=False, seed=seed
    ) as box:
        retry = {"max_attempts": 2, "base_delay_ms": 10, "jitter_ms": 0}
        http = {"proxy": box.proxy_url, "ca_bundle": str(box.ca_bundle), "retry": retry}
        limits = {"policies": dict.fromkeys(("*", *NAMED), FAST), "concurrency": {"*": None, "arxiv.org": None}}
        place = Place(tmp_path, {"workers": 8, "http": http, "rate_limit": limits})
        place.write()
        told = place.run("--query", "publication_year:2023-2024", "--dry-run", "--format", "csv").err
        box.control("DELETE", "arrivals")
        began = time.monotonic()
        place.run("--query", "publication_year:2023-2024")
        took, real = time.monotonic() - began, len(box.arrivals())
    said = re.search(r"requests  about ([\d,]+), and (\d+) to list", told)
    assert said is not None and "240 works: 0 already there, 240 to fetch" in told and "defaults" in told, told
    expected = int(said[1].replace(",", "")) + int(said[2])
    assert 0.8 * real <= expected <= 1.2 * real, (expected, real)
    config = load_config(place.config, {}).value
    works = [Work.from_json(json.loads(record)) for (record,) in place.rows("SELECT record FROM queue")]
    location = place.out / "catalog.sqlite3"
    with Catalog.open(location) as catalog:
        learnt = estimate(works, set(), rates_of(catalog, location), config)
    assert (
        "of this collection" in learnt.source and 0.9 * real <= learnt.requests + learnt.listing_requests <= 1.1 * real
    )
    assert learnt.seconds[0] <= took <= learnt.seconds[1], (learnt.seconds, took)
    assert estimate(works, {work.work_id for work in works}, rates_of(None), config).requests == 0
