"""`kill -9` at fifty random moments, and once at each step of a write: the same command finishes the job, and an auditor who has
nothing but sqlite3 and hashlib finds everything in its place."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
import yaml

from docstokg_assets.sandbox import Sandbox
from docstokg_assets_tests.support.configs import FAST, NAMED
from docstokg_assets_tests.support.zygote import STEPS

ROOT = Path(__file__).parents[2]
WORKERS = 8
KILLS = 50
QUERY = ("--query", "publication_year:2023-2024")


class Zygote:
    """Starts the program as often as wanted, each time in a fresh process."""

    def __init__(self, folder: Path) -> None:
        self.says = folder / "says.log"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "docstokg_assets_tests.support.zygote"],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, arguments: list[str], **death: Any) -> int:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"arguments": arguments, "says": str(self.says), **death}) + "\n")
        self._process.stdin.flush()
        return int(self._line())

    def status(self) -> int:
        """The exit status of the last process, once it has ended; negative is the signal."""
        return int(self._line())

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, self.says.read_text()
        return line

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)


class Place:
    """A data root over the sandbox, and what an auditor sees of it."""

    def __init__(self, folder: Path, box: Sandbox) -> None:
        self.out, self.box, self.config = folder / "out", box, folder / "content.yaml"
        self.config.write_text(
            yaml.safe_dump(
                {
                    "workers": WORKERS,
                    "http": {
                        "proxy": box.proxy_url,
                        "ca_bundle": str(box.ca_bundle),
                        "contact_email": "crawler@library-of-tests.edu",
                        "retry": {"max_attempts": 2, "base_delay_ms": 10, "jitter_ms": 0},
                        "breaker": {"enabled": False},
                    },
                    "robots": {"enabled": False},
                    "rate_limit": {
                        "policies": dict.fromkeys(("*", *NAMED), FAST),
                        "concurrency": {"*": None, "arxiv.org": None, "api.crossref.org": None},
                    },
                }
            )
        )

    def pull(self) -> list[str]:
        return ["pull", "--config", str(self.config), "--out", str(self.out), *QUERY]

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.out / "catalog.sqlite3", timeout=30)) as catalog:
            return catalog.execute(sql).fetchall()

    def finished(self) -> int:
        try:
            return int(self.rows("SELECT count(*) FROM queue WHERE state = 'done'")[0][0])
        except sqlite3.OperationalError:
            return 0

    # -- what must be true in the end ---------------------------------------------------------------------------------

    def audit(self) -> None:
        works = sorted(work.id for work in self.box.universe.works())
        assert [row[0] for row in self.rows("SELECT work_id FROM catalog_entries ORDER BY work_id")] == works
        assert self.rows("SELECT DISTINCT state FROM queue") == [("done",)]
        assert self.rows("PRAGMA integrity_check") == [("ok",)]
        twice = "SELECT run_id, worker_id, seq FROM attempts GROUP BY ALL HAVING count(*) > 1"
        assert self.rows(twice.replace("GROUP BY ALL", "GROUP BY run_id, worker_id, seq")) == []
        self._files_are_whole_and_known()

    def _files_are_whole_and_known(self) -> None:
        named: dict[str, str | None] = {}
        for path, sha256, html in self.rows("SELECT path, sha256, html_paths FROM catalog_entries"):
            named |= dict.fromkeys(json.loads(html or "[]"))
            if path is not None:
                named[path] = sha256
        for path, sha256 in self.rows("SELECT path, sha256 FROM artifacts"):
            assert named.get(path) in (None, sha256), path
            named[path] = sha256
        for path, expected in named.items():
            content = (self.out / path).read_bytes()
            assert content and expected in (None, hashlib.sha256(content).hexdigest()), path
        files = [file for kind in ("PDF", "HTML", "XML") for file in (self.out / kind).glob("*")]
        under_final_names = {f.relative_to(self.out).as_posix() for f in files if not f.name.startswith(".part-")}
        assert set(named) <= under_final_names
        # If the number of a process that died has been given to another one, its file counts as in use: the next search takes a
        # later name, and `content gc` lists the file a day later.
        left = under_final_names - set(named)
        assert len(left) <= 5 and all("~" in name for name in left), left

    def manifests_tell_nothing_else(self) -> None:
        """What a process that was killed had written is in the catalog, which is always told first; its last line may be torn."""
        attempts = set(self.rows("SELECT run_id, worker_id, seq FROM attempts"))
        works = {work for (work,) in self.rows("SELECT work_id FROM catalog_entries")}
        for file in self.out.glob("*/manifest.jsonl"):
            *whole, _ = file.read_bytes().split(b"\n")
            for row in map(json.loads, whole):
                if row["record_type"] == "attempt":
                    assert (row["run_id"], row["worker_id"], row["seq"]) in attempts
                elif row["record_type"] == "outcome":
                    assert row["work_id"] in works

    def manifests_agree(self) -> None:
        """Every attempt in the catalog has its line in the manifest of its run, and no other line is there."""
        lines: Counter[tuple[str, str]] = Counter()
        for file in self.out.glob("*/manifest.jsonl"):
            for line in file.read_bytes().splitlines():
                row = json.loads(line)
                lines[file.parent.name, row["record_type"]] += 1
        told = self.rows("SELECT run_id, 'attempt', count(*) FROM attempts GROUP BY run_id")
        told += self.rows("SELECT run_id, 'outcome', count(*) FROM catalog_entries GROUP BY run_id")
        assert {(run, kind): n for run, kind, n in told} == {key: n for key, n in lines.items() if key[1] != "summary"}

    def fetched_again(self) -> int:
        """How many deliveries of files there were beyond the first of each work."""
        delivered = self._delivered()
        found = self.rows("SELECT url, meta FROM catalog_entries WHERE classification = 'success'")
        return sum(max(0, delivered[_address(url, meta)] - 1) for url, meta in found)

    def fetched_since(self, files: dict[str, int]) -> list[str]:
        """Those of the files, each with the number of arrivals at the box when it was seen, that were delivered once more."""
        adopted = "SELECT path, url, meta FROM catalog_entries WHERE json_extract(meta, '$.adopted')"
        known = {path: _address(url, meta) for path, url, meta in self.rows(adopted)}
        return [path for path, seen in files.items() if path not in known or self._delivered(seen)[known[path]]]

    def _delivered(self, since: int = 0) -> Counter[str]:
        return Counter(
            unquote(f"{seen['host']}{seen['path']}")
            for seen in self.box.arrivals()[since:]
            if seen["method"] == "GET" and seen["status"] == 200
        )


def _address(url: str, meta: str) -> str:
    parts = urlsplit(json.loads(meta).get("final_url", url))
    return unquote(f"{parts.netloc}{parts.path}" + (f"?{parts.query}" if parts.query else ""))


SANDBOX: dict[str, Any] = {
    "works_per_year": 200,
    "years": (2023, 2024),
    "mix": {"bad_status": 0, "robots": 0},
    "enforce_limits": False,
}


@pytest.fixture
def place(sandbox: Sandbox, tmp_path: Path) -> Place:
    sandbox.reset()
    return Place(tmp_path, sandbox)


@pytest.fixture
def zygote(tmp_path: Path) -> Iterator[Zygote]:
    started = Zygote(tmp_path)
    yield started
    started.close()


@pytest.mark.timeout(600)  # half a minute on a quiet machine; fifty starts are many on a busy one
@pytest.mark.requirement("CAT-2")
@pytest.mark.requirement("CAT-3")
@pytest.mark.requirement("DL-4")
def test_fault_34_fifty_deaths_at_random_moments_lose_nothing_and_repeat_almost_nothing(
    place: Place, zygote: Zygote
) -> None:
    place.box.add_fault(host="*.example", delay=0.05)
    moments, kills = random.Random(20_261_117), 0
    total = len(list(place.box.universe.works()))
    while kills < KILLS and place.finished() < total - WORKERS:
        pid = zygote.start(place.pull())
        # Half of them die by the clock, wherever they are; the others in the thick of it, or no work would ever be finished.
        if kills % 2:
            goal = place.finished() + moments.randint(1, WORKERS)
            end = time.monotonic() + 30
            while place.finished() < min(goal, total - WORKERS) and time.monotonic() < end:
                time.sleep(0.005)
        time.sleep(moments.uniform(0.0, 0.3))
        os.kill(pid, signal.SIGKILL)
        assert zygote.status() == -signal.SIGKILL, zygote.says.read_text()
        kills += 1
    zygote.start(place.pull())
    assert zygote.status() == 0, zygote.says.read_text()
    assert kills == KILLS
    place.audit()
    assert place.fetched_again() <= WORKERS * kills
    place.manifests_tell_nothing_else()
    zygote.start(["telemetry", "rebuild", "--config", str(place.config), "--out", str(place.out)])
    assert zygote.status() == 0, zygote.says.read_text()
    place.manifests_agree()


@pytest.mark.requirement("DL-4")
def test_fault_34_a_death_at_any_step_of_a_write_leaves_no_half_file_and_no_loss(place: Place, zygote: Zygote) -> None:
    unrecorded: dict[str, int] = {}
    for turn, step in enumerate(STEPS, start=3):
        zygote.start(place.pull(), step=step, turn=turn)
        assert zygote.status() == -signal.SIGKILL, f"{step}: {zygote.says.read_text()}"
        known = {path for (path,) in place.rows("SELECT path FROM artifacts")}
        # under its final name a file is whole, whether it is catalogued yet or not
        for file in place.out.glob("PDF/*.pdf"):
            assert b"%%EOF" in file.read_bytes()[-1024:], (step, file.name)
            if (path := f"PDF/{file.name}") not in known:
                unrecorded.setdefault(path, len(place.box.arrivals()))
        assert all((place.out / path).is_file() for path in known)
    zygote.start(place.pull())
    assert zygote.status() == 0, zygote.says.read_text()
    place.audit()
    assert place.fetched_again() <= WORKERS * len(STEPS)
    assert unrecorded and place.fetched_since(unrecorded) == []  # stored by one that was killed, recorded by the next
