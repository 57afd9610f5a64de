"""A small scholarly web, and the configuration that reaches it, quick enough for tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from docstokg_assets.sandbox import Sandbox

DEMO: dict[str, Any] = {"works_per_year": 40, "years": (2023, 2024), "enforce_limits": False, "profile": "demo"}


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """`SANDBOX` of the module says what web it wants; without it, a small one with the profile of the demo."""
    settings = getattr(request.module, "SANDBOX", DEMO)
    with Sandbox.start(tmp_path_factory.mktemp("sandbox"), **settings) as running:
        yield running


@pytest.fixture(scope="module")
def write_config(sandbox: Sandbox) -> Callable[..., Path]:
    """Writes a configuration file beside a new data root; sections that are given replace those here."""

    def write(folder: Path, **sections: Any) -> Path:
        config = {
            "data_root": str(folder / "data"),
            "http": {
                "proxy": sandbox.proxy_url,
                "ca_bundle": str(sandbox.ca_bundle),
                "contact_email": "crawler@library.example",
                "retry": {"max_attempts": 2, "base_delay_ms": 10, "max_delay_ms": 50, "jitter_ms": 0},
                "breaker": {"open_s": 0.2, "max_open_s": 1.0},
            },
            "robots": {"enabled": False},  # else the crawl delays of some hosts decide how long the tests take
            "rate_limit": {"policies": {"*": "200/second burst 50"}},
            "resolvers": {"order": ["openalex", "unpaywall", "doi", "landing"]},
            "openalex": {"filter": "type:article"},
        }
        path = folder / "content.yaml"
        path.write_text(yaml.safe_dump({**config, **sections}))
        return path

    return write
