"""A client that goes through the sandbox as production code does: proxy and CA bundle, nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests

from docstokg_assets.sandbox import Sandbox


def make_client(sandbox: Sandbox) -> requests.Session:
    session = requests.Session()
    session.trust_env = False
    session.proxies = {"http": sandbox.proxy_url, "https": sandbox.proxy_url}
    session.verify = str(sandbox.ca_bundle)
    return session


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Sandbox]]:
    """Starts sandboxes that end with the test module."""
    running: list[Sandbox] = []

    def begin(**options: Any) -> Sandbox:
        running.append(Sandbox.start(tmp_path_factory.mktemp("sandbox"), **options))
        return running[-1]

    yield begin
    for sandbox in running:
        sandbox.stop()
