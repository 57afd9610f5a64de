"""Sandboxes with the options that a test module wants."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from docstokg_assets.sandbox import Sandbox


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Sandbox]]:
    """Start sandboxes that stop with the test module."""
    running: list[Sandbox] = []

    def begin(**options: Any) -> Sandbox:
        running.append(Sandbox.start(tmp_path_factory.mktemp("sandbox"), **options))
        return running[-1]

    yield begin
    for sandbox in running:
        sandbox.stop()
