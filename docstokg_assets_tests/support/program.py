"""The `content` program as a person starts it."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from docstokg_assets.cli import main as program

ROOT = Path(program.__file__).parents[2]


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
