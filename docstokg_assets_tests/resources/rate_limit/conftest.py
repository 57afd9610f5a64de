"""The five backends as the tests open them; the servers are real, one of each a test process, started when first wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from resources.rate_limit.limiter import Limiter
from resources.rate_limit.settings import RateLimitSettings

Open = Callable[..., Limiter]


@pytest.fixture
def settings_of(request: pytest.FixtureRequest) -> Callable[[str], RateLimitSettings]:
    """Settings of a backend by name; the server that it needs runs then."""

    def settings(backend: str) -> RateLimitSettings:
        given: dict[str, Any] = {"backend": backend}
        if backend == "redis":
            given["redis_url"] = request.getfixturevalue("valkey").url
        if backend == "postgres":
            given["connection_string"] = request.getfixturevalue("postgres").url
        return RateLimitSettings.model_validate(given)

    return settings


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "root" / "limits.sqlite3"


@pytest.fixture
def open_limiter(settings_of: Callable[[str], RateLimitSettings], path: Path) -> Iterator[Open]:
    opened: list[Limiter] = []

    def make(backend: str, **more: Any) -> Limiter:
        opened.append(Limiter.open(settings_of(backend), path, **more))
        return opened[-1]

    yield make
    for limiter in opened:
        limiter.close()
