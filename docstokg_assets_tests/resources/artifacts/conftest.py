"""The stores that the contract holds for, and the servers behind them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from docstokg_assets_tests.support.servers import S3_PART_BYTES
from resources.artifacts.file_system import FileSystemStore
from resources.artifacts.s3 import S3Store, s3_client


@pytest.fixture(autouse=True)
def credentials(aws_credentials: None) -> None:
    """For every store here."""


_prefixes = itertools.count()


@pytest.fixture
def s3_store(tmp_path: Path) -> Callable[..., S3Store]:
    """A store with a prefix of its own; pieces are small, so that uploads in several of them are quick."""

    def make(url: str, layout: str = "readable", prefix: str | None = None, **options: Any) -> S3Store:
        prefix = prefix or f"test-{next(_prefixes)}-{tmp_path.name}"
        sizes = {"multipart_from": S3_PART_BYTES + 1, "piece_bytes": S3_PART_BYTES} | options
        return S3Store(s3_client(url, "us-east-1"), "papers", prefix, tmp_path / "spool", layout, **sizes)

    return make


@pytest.fixture(params=["fs", "fs+cas", "s3 (moto)", "s3 (SeaweedFS)", "s3+cas (SeaweedFS)"])
def any_store(request: pytest.FixtureRequest, tmp_path: Path, s3_store: Callable[..., S3Store]) -> Any:
    kind, layout = request.param.partition(" ")[0], "cas" if "cas" in request.param else "readable"
    if kind.startswith("fs"):
        return FileSystemStore(tmp_path / "root", layout)
    moto = "moto" in request.param
    return s3_store(request.getfixturevalue("moto") if moto else request.getfixturevalue("seaweedfs").url, layout)
