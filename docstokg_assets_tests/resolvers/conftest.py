"""A whole run over a small box, for tests of resolvers over sockets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from docstokg_assets.config import load_config
from docstokg_assets.runs.run import DownloadRun
from docstokg_assets.runs.services import Services, open_services
from docstokg_assets.sandbox import Sandbox
from docstokg_assets.sandbox.mix import ARCHETYPES
from resources.catalog.rows import Entry

YEAR = 2024
FAST = "1000/second burst 100"
Collect = Callable[..., tuple[dict[str, Entry], Services]]


@pytest.fixture
def box_of(tmp_path: Path) -> Iterator[Callable[..., Sandbox]]:
    """A box in which there are works of these archetypes alone."""
    with ExitStack() as stack:

        def start(*archetypes: str, works: int = 1) -> Sandbox:
            mix = {**dict.fromkeys(ARCHETYPES, 0.0), **dict.fromkeys(archetypes, 1.0), "strange": 0.0}
            return stack.enter_context(
                Sandbox.start(tmp_path / "box", works_per_year=works, years=(YEAR, YEAR), mix=mix)
            )

        yield start


@pytest.fixture
def collect(tmp_path: Path) -> Iterator[Collect]:
    """Run over all works of the box; how they ended."""
    with ExitStack() as stack:

        def run(box: Sandbox, *order: str, root: str = "data", **settings: Any) -> tuple[dict[str, Entry], Services]:
            given = {
                "data_root": str(tmp_path / root),
                "http.proxy": box.proxy_url,
                "http.ca_bundle": str(box.ca_bundle),
                "http.contact_email": "tests@library-of-tests.edu",
                "http.retry.max_attempts": 1,
                "resolvers.order": list(order),
                "rate_limit.policies": dict.fromkeys([*box.stats()["hosts"], "*"], FAST),
            }
            services = stack.enter_context(open_services(load_config(None, {}, given | settings).value))
            with DownloadRun(services) as under_way:
                under_way.store_and_enqueue(under_way.collect(f"publication_year:{YEAR}"))
                under_way.drain(under_way.own_works)
            return {entry.work_id: entry for entry in services.catalog.entries(settled_by=under_way.run_id)}, services

        yield run
