"""What several rooms' tests build on: a configuration for a sandbox, with limits out of the way or as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pydantic import SecretStr

from docstokg_assets.config import ContentDownloadConfig, load_config
from docstokg_assets.sandbox import Sandbox
from docstokg_assets_tests.servers import Postgres, SeaweedFs, Valkey, s3_bucket
from resources.rate_limit.policies import DEFAULT_POLICIES
from resources.rate_limit.settings import ANY

FAST = "2000/second burst 500"
NAMED = tuple(host for host in DEFAULT_POLICIES if host != ANY)

ConfigFor = Callable[..., ContentDownloadConfig]


@pytest.fixture
def config_for(tmp_path: Path) -> ConfigFor:
    """`config_for(sandbox, key=value, …)`: dots as double underscores. `limits=True` keeps the real limits."""

    def build(sandbox: Sandbox, *, limits: bool = False, **overrides: Any) -> ContentDownloadConfig:
        values: dict[str, Any] = {
            "data_root": str(tmp_path / "data"),
            "workers": 8,
            "http.proxy": sandbox.proxy_url,
            "http.ca_bundle": str(sandbox.ca_bundle),
            "http.contact_email": "crawler@library-of-tests.edu",
            "http.retry.base_delay_ms": 20,
            "http.breaker.open_s": 0.2,
            "http.breaker.max_open_s": 1.0,
        }
        if not limits:
            policies: dict[str, Any] = dict.fromkeys((*NAMED, "*"), FAST)
            values["rate_limit.policies"] = policies | {"web.archive.org": {"metadata": FAST, "*": FAST}}
            values["rate_limit.concurrency"] = {"*": None, "arxiv.org": None, "api.crossref.org": None}
        values |= {key.replace("__", "."): value for key, value in overrides.items()}
        return load_config(None, {}, values).value

    return build


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A real server, one a test process, started when first wanted."""
    server = Postgres()
    server.start()
    yield server
    server.remove()


@pytest.fixture(scope="session")
def valkey() -> Iterator[Valkey]:
    server = Valkey()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def postgres_catalog(postgres: Postgres) -> SecretStr:
    """The URL of a database in which there is no catalog yet."""
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS docstokg CASCADE")
    return SecretStr(postgres.url)


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


@pytest.fixture
def aws_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a person gives them; nothing of the machine's own."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", SeaweedFs.user)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SeaweedFs.password)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/nonexistent")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
