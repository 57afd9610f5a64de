"""The program as a person starts it, over a small scholarly web with limits out of the way."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from docstokg_assets.cli import main as program
from docstokg_assets.sandbox import Sandbox
from docstokg_assets_tests.support.configs import FAST, NAMED
from docstokg_assets_tests.support.program import Ended, Place


@pytest.fixture(autouse=True)
def no_settings_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.upper().startswith(("DTKG_", "DOCSTOKG_CONTENT_")):
            monkeypatch.delenv(name)


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """`WORKS_PER_YEAR` of the module says how large the web is. No host of it asks for patience: tests do that themselves."""
    folder, size = tmp_path_factory.mktemp("sandbox"), request.module.WORKS_PER_YEAR
    mix = {"bad_status": 0, "robots": 0}
    with Sandbox.start(folder, works_per_year=size, years=(2023, 2024), mix=mix, enforce_limits=False) as running:
        yield running


@pytest.fixture
def place(box: Sandbox, tmp_path: Path) -> Place:
    sections: dict[str, Any] = {
        "workers": 8,
        "http": {
            "proxy": box.proxy_url,
            "ca_bundle": str(box.ca_bundle),
            "contact_email": "crawler@library-of-tests.edu",
            "retry": {"max_attempts": 2, "base_delay_ms": 10, "jitter_ms": 0},
            "breaker": {"open_s": 0.2, "max_open_s": 1.0},
        },
        "robots": {"enabled": False},  # else the crawl delays of some hosts decide how long the tests take
        "rate_limit": {
            "policies": dict.fromkeys(("*", *NAMED), FAST),
            "concurrency": {"*": None, "arxiv.org": None, "api.crossref.org": None},
        },
    }
    made = Place(tmp_path, sections)
    made.write()
    return made


@pytest.fixture
def content(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """Runs the entry point in this process, which is quicker."""

    def call(*arguments: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["content", *arguments])
        monkeypatch.setenv("COLUMNS", "110")
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            program.main()
        assert {number: signal.getsignal(number) for number in handlers} == handlers
        out, err = capfd.readouterr()
        assert "Traceback" not in err, err
        return Ended(int(ended.value.code or 0), out, err)

    return call
