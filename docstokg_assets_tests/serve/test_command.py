"""`content serve` as a person starts it: it comes up, answers, and ends in order; settings that expose it are refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
import yaml

from docstokg_assets.sandbox import Sandbox

URL = "https://journal.press.org/article/1.pdf"


def command(folder: Path, *arguments: str, **sections: object) -> subprocess.Popen[str]:
    config = folder / "content.yaml"
    config.write_text(yaml.safe_dump({"data_root": str(folder / "data"), **sections}))
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("DTKG_", "DOCSTOKG_"))}
    full = [sys.executable, "-m", "docstokg_assets.cli", "serve", "--config", str(config), *arguments]
    return subprocess.Popen(full, stderr=subprocess.PIPE, text=True, env={**clean, "COLUMNS": "200"}, cwd=folder)


@pytest.mark.requirement("ING-8")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_a_signal_comes(small_sandbox: Sandbox, tmp_path: Path, number: signal.Signals) -> None:
    small_sandbox.reset()
    small_sandbox.place({"url": URL, "pdf": 1})
    box = {"proxy": small_sandbox.proxy_url, "ca_bundle": str(small_sandbox.ca_bundle)}
    process = command(tmp_path, "--port", "0", http=box)
    assert process.stderr is not None
    line = process.stderr.readline()
    assert line.startswith("Save a paper: http://127.0.0.1:"), line
    base = line.split()[3].rstrip("/")
    with httpx.Client(base_url=base, trust_env=False, timeout=60) as http:
        id = http.post("/ingest", json={"base_url": URL}).json()["id"]
        with http.stream("GET", f"/ingest/{id}/events") as stream:
            assert "event: end" in "\n".join(stream.iter_lines())
        assert http.get(f"/ingest/{id}").json()["hit"]
        open_id = http.post("/ingest", json={"base_url": "https://journal.press.org/none"}).json()["id"]
        with http.stream("GET", f"/ingest/{open_id}/events"):
            process.send_signal(number)
            assert process.wait(timeout=30) == 0
    said = process.stderr.read()
    assert "Stopped. Open requests stay in the queue." in said
    assert "Traceback" not in said


def test_it_refuses_to_be_reached_from_other_machines_unprotected(tmp_path: Path) -> None:
    process = command(tmp_path, "--no-work", serve={"host": "0.0.0.0", "port": 0})
    _, said = process.communicate(timeout=60)
    assert process.returncode == 2
    for key in ("serve.tokens", "serve.tls_cert", "serve.hostnames"):
        assert key in said
    assert "Traceback" not in said


def test_a_port_that_is_taken_and_a_bad_certificate_are_explained(tmp_path: Path) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        process = command(tmp_path, "--no-work", serve={"port": taken.getsockname()[1]})
        _, said = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "Choose another serve.port" in said
    (tmp_path / "bad.pem").write_text("no certificate")
    bad = {"tls_cert": str(tmp_path / "bad.pem"), "tls_key": str(tmp_path / "bad.pem"), "port": 0}
    process = command(tmp_path, "--no-work", serve=bad)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "serve.tls_cert" in said
    assert "Traceback" not in said
