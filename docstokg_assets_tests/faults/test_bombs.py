"""Faults 1 to 3: bodies that unfold to a thousand times a thousand of their size. `content pull` meets them in a process of its
own, whose memory is measured."""

from __future__ import annotations

import gzip
import os
import sqlite3
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from docstokg_assets.cli import main as program
from resources.http.errors import ProtocolViolation
from resources.http.messages import Request, Role

ROOT = Path(program.__file__).parents[2]
MIB = 1 << 20
CAP = 20 * MIB
ABOVE_AN_ORDINARY_RUN = 60 * MIB  # two workers, one page of 16 MiB each at most


def gibibyte(first: bytes) -> bytes:
    """gzip of `first` and a gibibyte of nothing: many members, so that it is made quickly."""
    return gzip.compress(first) + gzip.compress(bytes(MIB)) * 1024


def deflated(first: bytes) -> bytes:
    """The same as zlib: one block, said over and over."""
    packer = zlib.compressobj(9)
    start = packer.compress(first) + packer.flush(zlib.Z_FULL_FLUSH)
    again = packer.compress(bytes(MIB)) + packer.flush(zlib.Z_FULL_FLUSH)
    return start + again * 1024


PDF, PAGE = b"%PDF-1.7\n", b"<html><p>"
TWICE = gzip.compress(gibibyte(PAGE), 9)  # a few kilobytes
BODIES: dict[str, tuple[str, bytes, str]] = {
    "gzip-file": ("gzip", gibibyte(PDF), "too-large"),
    "gzip-page": ("gzip", gibibyte(PAGE), "too-large"),
    "gzip-twice": ("gzip, gzip", TWICE, "too-large"),
    "deflate-file": ("deflate", deflated(PDF), "too-large"),
    "deflate-twice": ("deflate, deflate", zlib.compress(deflated(PAGE), 9), "too-large"),
    "unannounced": ("", gibibyte(PDF), "too-large"),
    "unannounced-in-gzip": ("gzip", TWICE, "too-large"),
    "brotli": ("br", bytes(5000), "protocol-error"),
    "zstandard": ("zstd", bytes(5000), "protocol-error"),
    "twenty-codings": (", ".join(["gzip"] * 20), TWICE, "protocol-error"),
    "ordinary": ("", PDF + b"x" * 5000 + b"%%EOF\n", "ok"),
}


def answer(request: Any) -> bytes:
    name = request.path.removeprefix("http://").partition(".example")[0]
    if "/moved/" not in request.path and name.startswith("behind-"):
        return f"HTTP/1.1 302 Found\r\nLocation: http://{name}.example/moved/\r\nContent-Length: 0\r\n\r\n".encode()
    coding, body, _ = BODIES[name.removeprefix("behind-")]
    kind = "text/html" if "page" in name else "application/pdf"
    head = (
        f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nContent-Encoding: {coding}\r\n\r\n"
    )
    return head.encode() + body


def pull(folder: Path, proxy: str, names: list[str]) -> tuple[int, dict[str, str], list[Path]]:
    """Memory at its highest, the reason of every URL, and the files that are left."""
    folder.mkdir()
    config = {
        "workers": 2,
        "http": {
            "proxy": proxy,
            "contact_email": "crawler@library-of-tests.edu",
            "allow_http_hosts": [f"{name}.example" for name in names],
            "retry": {"max_attempts": 1},
        },
        "download": {"max_bytes": CAP, "head_precheck": False},
        "robots": {"enabled": False},
        "rate_limit": {"policies": {"*": "1000/second burst 100"}},
        "resolvers": {"order": ["openalex", "landing"]},
    }
    (folder / "content.yaml").write_text(yaml.safe_dump(config))
    (folder / "urls").write_text("".join(f"http://{name}.example/x.pdf\n" for name in names))
    arguments = ["pull", "--config", "content.yaml", "--out", "out", "--urls", "urls"]
    process = subprocess.Popen(
        [sys.executable, "-m", "docstokg_assets.cli", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, _, used = os.wait4(process.pid, 0)
    process.returncode = 0  # it was waited for here
    with sqlite3.connect(folder / "out" / "catalog.sqlite3") as catalog:
        rows = catalog.execute("SELECT url, reason FROM catalog_entries").fetchall()
    catalog.close()
    reasons = {url.removeprefix("http://").partition(".example")[0]: reason for url, reason in rows}
    kept = [path for kind in ("PDF", "HTML", "XML") for path in (folder / "out" / kind).rglob("*")]
    return used.ru_maxrss * 1024, reasons, kept


@pytest.mark.requirement("DL-5")
def test_fault_01_02_03_bombs_stop_at_the_cap_and_memory_stays_flat(serve: Callable[..., Any], tmp_path: Path) -> None:
    assert len(TWICE) < 20_000
    server = serve(answer)
    usual, reasons, _ = pull(tmp_path / "usual", server.url, ["ordinary"])
    assert reasons == {"ordinary": "ok"}
    names = [*BODIES, "behind-gzip-page", "behind-gzip-twice", "behind-deflate-file"]
    peak, reasons, kept = pull(tmp_path / "bombs", server.url, names)
    assert reasons == {name: BODIES[name.removeprefix("behind-")][2] for name in names}
    assert [path.stat().st_size for path in kept] == [len(BODIES["ordinary"][1])]
    assert peak - usual < ABOVE_AN_ORDINARY_RUN, f"{peak / MIB:.0f} MiB, an ordinary run takes {usual / MIB:.0f}"


@pytest.mark.parametrize("many", [6, 20])
def test_fault_02_more_than_five_codings_are_refused(
    polite: Callable[..., Any], serve: Callable[..., Any], answers: Any, many: int
) -> None:
    server = serve(answers.ok(TWICE, Content_Encoding=", ".join(["gzip"] * many)))
    with pytest.raises(ProtocolViolation, match=f"{many} content codings"):
        polite(http={"retry": {"max_attempts": 1}}).ask(Request(server.url, Role.LANDING))


@pytest.mark.parametrize("coding", ["br", "zstd", "compress", "gzip, br"])
def test_fault_01_a_coding_that_was_not_asked_for_is_refused(
    polite: Callable[..., Any], serve: Callable[..., Any], answers: Any, coding: str
) -> None:
    body = gzip.compress(b"x") if coding.endswith("gzip") else b"\x0b\x02\x80x\x03"
    server = serve(answers.ok(body, Content_Encoding=coding))
    client = polite(http={"retry": {"max_attempts": 1}})
    with pytest.raises(ProtocolViolation, match="was not asked for"):
        client.ask(Request(server.url, Role.LANDING))
    accepted = {coding.strip() for coding in server.requests[0].headers["accept-encoding"].split(",")}
    assert accepted == {"gzip", "deflate"}
    empty = serve(answers.ok(b"", "404 Not Found", Content_Encoding=coding))
    assert client.ask(Request(empty.url, Role.LANDING)).status == 404
