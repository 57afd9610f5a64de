"""`dagster dev` with a sandbox behind it, and the browser in front of it."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from docstokg_assets.sandbox import Sandbox
from docstokg_assets_tests.support.operating import OneMachine

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--no-sandbox",  # which cannot be had by root, as in most containers
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def chromium() -> str:
    """Return the path of Chromium; install Debian's package where there is none and we are root."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        for command in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", "chromium"]):
            subprocess.run(["apt-get", *command], capture_output=True, timeout=150, check=False)
        found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("no Chromium on this machine, and it could not be installed; try: apt-get install chromium")
    return found


@dataclass
class Dagster(OneMachine):
    """A running Dagster with its sandbox."""

    box: Sandbox = field(kw_only=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def data_root(self) -> Path:
        return self.folder / "data"

    def runs(self) -> list[dict[str, Any]]:
        """Return all runs with status and partition, newest first."""
        found = self.ask("{ runsOrError { ... on Runs { results { runId status tags { key value } } } } }")
        return [
            {"id": run["runId"], "status": run["status"], **{tag["key"]: tag["value"] for tag in run["tags"]}}
            for run in found["runsOrError"]["results"]
        ]


def config_for_ui(data_root: Path, box: Sandbox) -> dict[str, Any]:
    """Return the settings of a small, fast run against the sandbox."""
    return {
        "data_root": str(data_root),
        "workers": 4,
        "http": {
            "proxy": box.proxy_url,
            "ca_bundle": str(box.ca_bundle),
            "contact_email": "crawler@library-of-tests.edu",
            "retry": {"max_attempts": 2, "base_delay_ms": 10, "jitter_ms": 0},
            "breaker": {"open_s": 0.2, "max_open_s": 1.0},
        },
        "robots": {"enabled": False},
        "rate_limit": {"policies": {"*": "200/second burst 50"}},
        "resolvers": {"order": ["openalex", "unpaywall", "doi", "landing"]},
        "openalex": {"filter": "type:article|preprint", "first_year": 2023},
    }
