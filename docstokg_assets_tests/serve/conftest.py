"""A running server over a sandbox, and HTTP clients for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from docstokg_assets.config import ContentDownloadConfig
from docstokg_assets.sandbox import Sandbox
from docstokg_assets.serve.server import Running, serving
from docstokg_assets_tests.support.configs import config_for_sandbox
from resources.settings import Loaded

Start = Callable[..., Running]


@pytest.fixture
def start(small_sandbox: Sandbox, tmp_path: Path) -> Iterator[Start]:
    """`start(work=False, serve__tokens=[…])` starts a server on a free port; all end with the test."""
    small_sandbox.reset()
    with ExitStack() as stack:

        def begin(*, work: bool = True, with_grpc: bool = False, folder: Path = tmp_path, **overrides: Any) -> Running:
            given: dict[str, Any] = {"serve__port": 0, "serve__grpc_port": 0, **overrides}
            config: ContentDownloadConfig = config_for_sandbox(small_sandbox, folder, **given)
            return stack.enter_context(serving(Loaded(config, {}), work=work, with_grpc=with_grpc))

        yield begin


@pytest.fixture
def client() -> Iterator[Callable[..., httpx.Client]]:
    with ExitStack() as stack:

        def opened(running: Running, **options: Any) -> httpx.Client:
            return stack.enter_context(httpx.Client(base_url=running.url, timeout=30, trust_env=False, **options))

        yield opened
