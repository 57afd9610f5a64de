"""Configurations for a sandbox, and what a paid route has spent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import select

from docstokg_assets.config import ContentDownloadConfig, load_config
from docstokg_assets.sandbox import Sandbox
from resources.catalog.catalog import Catalog
from resources.catalog.schema import spending
from resources.rate_limit.policies import DEFAULT_POLICIES
from resources.rate_limit.settings import ANY

FAST = "2000/second burst 500"
NAMED = tuple(host for host in DEFAULT_POLICIES if host != ANY)

ConfigFor = Callable[..., ContentDownloadConfig]


def config_for_sandbox(
    sandbox: Sandbox, folder: Path, *, limits: bool = False, **overrides: Any
) -> ContentDownloadConfig:
    """Build a configuration that sends every request to the sandbox."""
    values: dict[str, Any] = {
        "data_root": str(folder / "data"),
        "workers": 8,
        "http.proxy": sandbox.proxy_url,
        "http.ca_bundle": str(sandbox.ca_bundle),
        "http.contact_email": "crawler@library-of-tests.edu",
        "http.retry.base_delay_ms": 20,
        "http.breaker.open_s": 0.2,
        "http.breaker.max_open_s": 1.0,
    }
    if not limits:
        policies: dict[str, Any] = dict.fromkeys((*NAMED, "*"), FAST)
        values["rate_limit.policies"] = policies | {"web.archive.org": {"metadata": FAST, "*": FAST}}
        values["rate_limit.concurrency"] = {"*": None, "arxiv.org": None, "api.crossref.org": None}
    values |= {key.replace("__", "."): value for key, value in overrides.items()}
    return load_config(None, {}, values).value


def spent_today(catalog: Catalog, name: str) -> float:
    """What a paid route has spent, in dollars."""
    of_today = select(spending.c.micros).where(spending.c.name == name, spending.c.day == int(catalog.now() // 86_400))
    with catalog._read() as connection:
        return (connection.scalar(of_today) or 0) / 1_000_000
