"""`make demo` as a newcomer types it, and once more; then the UI on the same data."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]


def make(target: str, folder: Path, **options: str) -> list[str]:
    variables = {"DATA": str(folder / "data"), "DAGSTER_HOME": str(folder / "dagster"), **options}
    return ["make", "-s", target, *(f"{name}={value}" for name, value in variables.items())]


@pytest.mark.timeout(900)
def test_the_demo_collects_three_years_says_what_came_out_and_fetches_nothing_twice(tmp_path: Path) -> None:
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("DTKG_", "DAGSTER_", "MAKE"))
    }
    first = subprocess.run(
        make("demo", tmp_path), cwd=PROJECT, env=environment, capture_output=True, text=True, timeout=300
    )
    assert first.returncode == 0, first.stdout[-2000:] + first.stderr[-2000:]
    for said in ("works finished", "How works ended", "First file after", "content query", "make ui"):
        assert said in first.stdout
    assert re.search(r"2024: downloading, \d+/\d+ works", first.stdout)  # plain lines, since this is no terminal
    with sqlite3.connect(tmp_path / "data" / "catalog.sqlite3") as catalog:
        total, saved = catalog.execute("SELECT count(*), sum(path IS NOT NULL) FROM catalog_entries").fetchone()
        stored = catalog.execute("SELECT count(*) FROM artifacts").fetchone()[0]
        steps = catalog.execute(
            "SELECT count(*) FROM runs WHERE kind = 'dagster' AND finished_at IS NOT NULL"
        ).fetchone()[0]
    assert total > 150
    assert saved / total > 0.7
    assert (stored, steps) == (saved, 3)
    assert len(list((tmp_path / "data").glob("PDF/*.pdf"))) > 100

    second = subprocess.run(
        make("demo", tmp_path), cwd=PROJECT, env=environment, capture_output=True, text=True, timeout=300
    )
    assert second.returncode == 0, second.stdout[-2000:] + second.stderr[-2000:]
    assert "Nothing was downloaded again" in second.stdout
    with sqlite3.connect(tmp_path / "data" / "catalog.sqlite3") as catalog:
        twice = catalog.execute("SELECT work_id FROM artifacts GROUP BY work_id HAVING count(*) > 1").fetchall()
    assert twice == []

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    ui = subprocess.Popen(
        make("ui", tmp_path, PORT=str(port)),
        cwd=PROJECT,
        env=environment,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        assert b"assetNodes" in _asset_nodes(port)
    finally:
        os.killpg(ui.pid, signal.SIGINT)
        ui.wait(timeout=30)


def test_cleaning_up_takes_the_environment_and_the_demo_and_no_other_data() -> None:
    told = subprocess.run(["make", "-n", "clean"], cwd=PROJECT, capture_output=True, text=True, timeout=30).stdout
    assert [line for line in told.splitlines() if line.startswith("rm")] == ["rm -rf .venv data/demo"]


def _asset_nodes(port: int) -> bytes:
    """The assets that the UI knows, with what they were last materialised for; waits until it is up."""
    body = b'{"query": "{ assetNodes { assetKey { path } partitionStats { numMaterialized numMaterializing } } }"}'
    deadline = time.monotonic() + 180
    while True:
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/graphql", data=body, headers={"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                found: bytes = answer.read()
            if b"run_metrics" in found:
                stats = [node["partitionStats"] for node in json.loads(found)["data"]["assetNodes"]]
                # works that have come due meanwhile are tried again by themselves: a year may be under way
                years = [sum(stat.values()) for stat in stats if stat is not None]
                assert years == [3] * 5, found
                return found
        except OSError:
            pass
        assert time.monotonic() < deadline, "the UI did not come up"
        time.sleep(1)
