"""The stores that the contract holds for, and the servers behind them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from docstokg_assets_tests.servers import SeaweedFs, s3_bucket
from resources.artifacts.file_system import FileSystemStore
from resources.artifacts.s3 import S3Store, s3_client

PIECE = 5 * 1024 * 1024  # the least that S3 takes, but for the last one


@pytest.fixture(scope="session")
def seaweedfs() -> Iterator[SeaweedFs]:
    server = SeaweedFs()
    yield server
    server.remove()


@pytest.fixture(scope="session")
def moto() -> Iterator[str]:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    s3_bucket(f"http://{host}:{port}", "tester", "anything")
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a person gives them; nothing of the machine's own."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", SeaweedFs.user)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SeaweedFs.password)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/nonexistent")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


_prefixes = itertools.count()


@pytest.fixture
def s3_store(tmp_path: Path) -> Callable[..., S3Store]:
    """A store with a prefix of its own; pieces are small, so that uploads in several of them are quick."""

    def make(url: str, layout: str = "readable", prefix: str | None = None, **options: Any) -> S3Store:
        prefix = prefix or f"test-{next(_prefixes)}-{tmp_path.name}"
        sizes = {"multipart_from": PIECE + 1, "piece_bytes": PIECE} | options
        return S3Store(s3_client(url, "us-east-1"), "papers", prefix, tmp_path / "spool", layout, **sizes)

    return make


@pytest.fixture(params=["fs", "fs+cas", "s3 (moto)", "s3 (SeaweedFS)", "s3+cas (SeaweedFS)"])
def any_store(request: pytest.FixtureRequest, tmp_path: Path, s3_store: Callable[..., S3Store]) -> Any:
    kind, layout = request.param.partition(" ")[0], "cas" if "cas" in request.param else "readable"
    if kind.startswith("fs"):
        return FileSystemStore(tmp_path / "root", layout)
    moto = "moto" in request.param
    return s3_store(request.getfixturevalue("moto") if moto else request.getfixturevalue("seaweedfs").url, layout)
