"""The program as a person starts it, over a small scholarly web with limits out of the way."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from docstokg_assets.cli import main as program
from docstokg_assets.sandbox import Sandbox

ROOT = Path(program.__file__).parents[2]
FAST = "2000/second burst 500"
NAMED = ("arxiv.org", "api.crossref.org", "api.openalex.org", "api.unpaywall.org", "doi.org", "web.archive.org")


@dataclass
class Ended:
    code: int
    out: str
    err: str


@dataclass
class Place:
    """A configuration file and the data root that `content pull` fills with it."""

    folder: Path
    sections: dict[str, Any]

    @property
    def config(self) -> Path:
        return self.folder / "content.yaml"

    @property
    def out(self) -> Path:
        return self.folder / "out"

    def write(self, **changes: Any) -> None:
        """The configuration, with changes such as `http__retry={…}` or `workers=2`."""
        sections: dict[str, Any] = yaml.safe_load(yaml.safe_dump(self.sections))
        for name, value in changes.items():
            section, _, key = name.partition("__")
            if key:
                sections.setdefault(section, {})[key] = value
            else:
                sections[section] = value
        self.config.write_text(yaml.safe_dump(sections))

    def arguments(self, *arguments: str) -> list[str]:
        return ["pull", "--config", str(self.config), "--out", str(self.out), *arguments]

    def start(self, *arguments: str, stdin: str | None = None) -> subprocess.Popen[str]:
        """`python -m docstokg_assets.cli pull …` in a process of its own."""
        process = subprocess.Popen(
            [sys.executable, "-m", "docstokg_assets.cli", *self.arguments(*arguments)],
            cwd=self.folder,
            env={**os.environ, "COLUMNS": "110", "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        if stdin is not None and process.stdin is not None:
            process.stdin.write(stdin)
            process.stdin.close()
            process.stdin = None
        return process

    def end(self, process: subprocess.Popen[str], timeout: float = 60) -> Ended:
        out, err = process.communicate(timeout=timeout)
        assert "Traceback" not in err, err
        return Ended(process.returncode, out, err)

    def run(self, *arguments: str, stdin: str | None = None) -> Ended:
        return self.end(self.start(*arguments, stdin=stdin))

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        connection = sqlite3.connect(self.out / "catalog.sqlite3", timeout=30)
        try:
            return connection.execute(sql).fetchall()
        finally:
            connection.close()

    def done(self) -> int:
        """Works that are finished at this moment, also before there is a catalog."""
        try:
            return int(self.rows("SELECT count(*) FROM queue WHERE state = 'done'")[0][0])
        except sqlite3.OperationalError:
            return 0

    def wait_for(self, condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
        """Returns when `condition` holds while the process runs."""
        end = time.monotonic() + 40
        while not condition():
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < end, "what was waited for did not happen"
            time.sleep(0.02)


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
