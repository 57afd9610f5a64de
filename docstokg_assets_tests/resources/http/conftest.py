"""What the tests of the polite client share: the small sandbox of the process, as it was at its start."""

from __future__ import annotations

import pytest

from docstokg_assets.sandbox import Sandbox


@pytest.fixture
def sandbox(small_sandbox: Sandbox) -> Sandbox:
    small_sandbox.reset()
    return small_sandbox
