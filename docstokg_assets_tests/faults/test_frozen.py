"""A process stands still for longer than its lease (SIGSTOP, a paused machine, a closed lid), at any step of storing a file.
Another takes its works over and records them; then the first wakes. An auditor without code of ours finds every file with the
hash of its row, and nothing else."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from docstokg_assets_tests.support.audit import audit
from docstokg_assets_tests.support.frozen import STEPS, run, work_of
from docstokg_assets_tests.support.polite import RawRequest, RawServer
from docstokg_assets_tests.support.servers import SeaweedFs, s3_bucket

ROOT = Path(__file__).parents[2]
WORK = "W1=http://a.example/1.pdf"


class Scene:
    """A data root, a server whose every answer has other bytes, and the process that is going to stand still."""

    def __init__(self, folder: Path, server: RawServer) -> None:
        self.root, self.server, self._file = folder / "data", server, folder / "config.json"
        self.config: dict[str, Any] = {
            "data_root": str(self.root),
            "workers": 2,
            "http.contact_email": "crawler@library-of-tests.edu",
            "http.allow_http_hosts": ["a.example"],
            "http.proxy": server.url,
            "robots.enabled": False,
            "rate_limit.policies": {"*": "1000/second burst 100"},
            "resolvers.order": ["openalex"],
        }
        self.process: subprocess.Popen[bytes] | None = None

    def freeze_at(self, step: str, *works: str) -> None:
        """Returns when the process has stopped itself there."""
        self._file.write_text(json.dumps(self.config))
        command = [sys.executable, "-m", "docstokg_assets_tests.support.frozen", str(self._file), step, *works]
        self.process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)})
        _, status = os.waitpid(self.process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), f"{step}: ended with {status}"

    def end_leases(self) -> None:
        with closing(sqlite3.connect(self.root / "catalog.sqlite3", timeout=30)) as catalog, catalog:
            catalog.execute("UPDATE queue SET lease_until = 1 WHERE state = 'leased'")

    def force(self) -> None:
        with closing(sqlite3.connect(self.root / "catalog.sqlite3", timeout=30)) as catalog, catalog:
            rows = catalog.execute("SELECT work_id, path, sha256 FROM catalog_entries").fetchall()
            for work_id, path, sha256 in rows:
                known = json.dumps({"stored": {path: sha256}, "main": path})
                catalog.execute(
                    "UPDATE queue SET state = 'queued', not_before = 0, progress = ? WHERE work_id = ?",
                    (known, work_id),
                )

    def pull(self, *works: str) -> None:
        run(self.config, [work_of(work) for work in works])

    def wake(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)
        assert self.process.wait(60) == 0

    def recorded(self) -> dict[str, str]:
        with closing(sqlite3.connect(self.root / "catalog.sqlite3", timeout=30)) as catalog:
            return dict(catalog.execute("SELECT path, sha256 FROM catalog_entries").fetchall())


@pytest.fixture
def scene(tmp_path: Path, serve: Callable[..., RawServer], answers: Any, pdf: bytes) -> Iterator[Scene]:
    def other_bytes(request: RawRequest) -> bytes:
        body = pdf.replace(b"xxxxxxxx", b"%08d" % request.number, 1)
        return answers.ok(body, Content_Type="application/pdf")  # type: ignore[no-any-return]

    made = Scene(tmp_path, serve(other_bytes))
    yield made
    if made.process is not None and made.process.poll() is None:
        made.process.kill()
        made.process.wait()


@pytest.mark.requirement("TRU-1")
@pytest.mark.parametrize("step", STEPS[:3])
def test_fault_49_a_process_that_wakes_after_its_lease_changes_nothing(scene: Scene, step: str) -> None:
    scene.freeze_at(step, WORK)
    scene.end_leases()
    scene.pull(WORK)
    before = scene.recorded()
    assert len(before) == 1
    scene.wake()
    assert scene.recorded() == before
    assert audit(scene.root, ["W1"]).findings == []


@pytest.mark.requirement("TRU-1")
@pytest.mark.parametrize("step", STEPS)
def test_fault_49_nor_one_that_was_to_replace_a_file(scene: Scene, step: str) -> None:
    scene.pull(WORK)
    scene.force()
    scene.freeze_at(step, WORK)
    if step in STEPS[:2]:
        scene.end_leases()
    else:
        scene.force()
    scene.pull(WORK)
    before = scene.recorded()
    assert set(before) > set() and before != {}
    scene.wake()
    assert scene.recorded() == before
    assert audit(scene.root, ["W1"]).findings == []


@pytest.mark.requirement("TRU-1")
@pytest.mark.parametrize("server", ["moto", "seaweedfs"])
@pytest.mark.parametrize("step", STEPS[:1])
def test_fault_49_on_s3_a_process_that_wakes_changes_nothing(
    scene: Scene, request: pytest.FixtureRequest, aws_credentials: None, server: str, step: str
) -> None:
    behind = request.getfixturevalue(server)
    url, prefix = getattr(behind, "url", behind), f"frozen-{scene.root.parent.name}"
    scene.config |= {
        "artifacts.store": "s3",
        "artifacts.bucket": "papers",
        "artifacts.prefix": prefix,
        "artifacts.endpoint_url": url,
        "artifacts.region": "us-east-1",
    }
    scene.freeze_at(step, WORK)
    scene.end_leases()
    scene.pull(WORK)
    before = scene.recorded()
    scene.wake()
    assert scene.recorded() == before and len(before) == 1
    client = s3_bucket(url, SeaweedFs.user, SeaweedFs.password)
    keys = [found["Key"] for found in client.list_objects_v2(Bucket="papers", Prefix=f"{prefix}/")["Contents"]]
    bodies = {key: client.get_object(Bucket="papers", Key=key)["Body"].read() for key in keys}
    assert {key: hashlib.sha256(body).hexdigest() for key, body in bodies.items()} == {
        f"{prefix}/{path}": sha256 for path, sha256 in before.items()
    }


@pytest.mark.requirement("TRU-1")
def test_fault_49_a_process_that_wakes_stops_working_on_what_it_has_lost(scene: Scene) -> None:
    works = [f"W{n}=http://a.example/{n}.pdf" for n in range(1, 31)]
    scene.config |= {"download.lease_s": 10.0, "rate_limit.concurrency": {"*": 1}, "workers": 1}
    scene.freeze_at(STEPS[0], *works)
    asked = len(scene.server.requests)
    scene.end_leases()
    scene.config["workers"] = 4
    scene.pull(*works)
    assert len(scene.recorded()) == 30
    before, asked_by_both = scene.recorded(), len(scene.server.requests)
    assert asked_by_both <= asked + 30
    with closing(sqlite3.connect(scene.root / "catalog.sqlite3", timeout=30)) as catalog:
        held = catalog.execute("SELECT count(*) FROM queue WHERE state = 'leased'").fetchone()[0]
    assert held == 0
    scene.wake()
    assert scene.recorded() == before
    assert audit(scene.root, [work.partition("=")[0] for work in works]).findings == []
