"""Fixtures for all tests: sandboxes and their configurations, real servers, raw servers, and the marker of each test."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import settings
from pydantic import SecretStr

from docstokg_assets.config import ContentDownloadConfig
from docstokg_assets.sandbox import Sandbox
from docstokg_assets_tests.support.configs import ConfigFor, config_for_sandbox
from docstokg_assets_tests.support.polite import FakeClock, PoliteClients, RawRequest, RawServer, moved, ok
from docstokg_assets_tests.support.servers import Postgres, SeaweedFs, Valkey, s3_bucket
from resources.catalog.catalog import Catalog

pytest_plugins = ("docstokg_assets_tests.support.telemetry",)

# No deadline per example: it would measure the machine.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")

# Slow files start first, so that no worker is left alone with one at the end (`--dist loadfile`).
LONG = ("ui", "cluster", "test_demo.py", "crashes", "defs", "cli", "faults", "test_docs.py", "test_run.py")

# Markers by folder, or by the beginning of a file name where a file differs from its folder: the longest prefix wins.
# `pytest --fast` (`make check`) does not even import files that are `slow` or `e2e`.
MARKERS = {
    "cli/": "e2e",
    "cluster/": "e2e",
    "config/": "unit",
    "crashes/": "e2e",
    "defs/": "e2e",
    "docs/": "e2e",
    "docs/test_project": "unit",
    "domain/": "unit",
    "domain/test_pdf_match": "integration",
    "engine/": "integration slow",
    "engine/test_download": "unit",
    "engine/test_search": "unit",
    "faults/": "integration slow",
    "faults/test_map": "unit",
    "ingest/": "integration slow",
    "ingest/test_records": "unit",
    "ingest/test_statuses": "unit",
    "lake/": "integration slow",
    "lake/test_columns": "unit",
    "landing/": "unit",
    "reporting/": "integration",
    "reporting/test_run_files": "integration slow",
    "resolvers/": "integration slow",
    "resolvers/test_examples": "unit",
    "resolvers/test_independence": "unit",
    "resolvers/test_planning": "unit",
    "resources/": "integration",
    "resources/artifacts/": "integration slow",
    "resources/catalog/test_frozen": "integration slow",
    "resources/catalog/test_lost_connections": "integration slow",
    "resources/catalog/test_migrations": "integration slow",
    "resources/catalog/test_plans": "integration slow",
    "resources/catalog/test_processes": "integration slow",
    "resources/http/test_posts": "integration slow",
    "resources/http/test_source": "integration slow",
    "resources/http/test_wire": "integration slow",
    "resources/pdf/": "integration slow",
    "resources/rate_limit/": "integration slow",
    "runs/": "integration slow",
    "sandbox/": "integration slow",
    "serve/": "integration slow",
    "serve/test_access": "unit",
    "serve/test_proto": "unit",
    "sources/": "integration",
    "sources/test_snapshot": "integration slow",
    "test_public_names": "unit",
    "ui/": "e2e",
}


def markers_for(path: Path) -> list[str]:
    """Return the markers of a test file: `unit`, `integration` or `e2e`, and `slow` where it applies."""
    name = path.relative_to(Path(__file__).parent).as_posix()
    return MARKERS[max((prefix for prefix in MARKERS if name.startswith(prefix)), key=len)].split()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help="leave out files marked slow or e2e, without importing them")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out slow files where `--fast` is given."""
    is_test = collection_path.suffix == ".py" and collection_path.name.startswith("test_")
    if config.getoption("--fast") and is_test and {"slow", "e2e"} & set(markers_for(collection_path)):
        return True
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests by folder and sort the slow files to the front."""

    def place(item: pytest.Item) -> int:
        return next((n for n, name in enumerate(LONG) if name in item.path.parts), len(LONG))

    for item in items:
        for marker in markers_for(item.path):
            item.add_marker(marker)
    items.sort(key=place)


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """`SANDBOX` of the module says what web it wants."""
    with Sandbox.start(tmp_path_factory.mktemp("sandbox"), **request.module.SANDBOX) as running:
        yield running


@pytest.fixture
def box(sandbox: Sandbox) -> Sandbox:
    """The module's sandbox, as it was at its start."""
    sandbox.reset()
    return sandbox


@pytest.fixture(scope="session")
def small_sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """One for all modules of a test process; to be reset by those who use it."""
    folder = tmp_path_factory.mktemp("sandbox")
    with Sandbox.start(folder, works_per_year=20, years=(2024, 2024), enforce_limits=False) as running:
        yield running


@pytest.fixture
def config_for(tmp_path: Path) -> ConfigFor:
    """`config_for(sandbox, key=value, …)`: dots as double underscores. `limits=True` keeps the real limits."""

    def build(sandbox: Sandbox, *, limits: bool = False, **overrides: Any) -> ContentDownloadConfig:
        return config_for_sandbox(sandbox, tmp_path, limits=limits, **overrides)

    return build


@pytest.fixture
def answers() -> Any:
    """The builders of raw answers: `answers.ok`, `answers.moved`."""

    class Answers:
        ok = staticmethod(ok)
        moved = staticmethod(moved)

    return Answers


@pytest.fixture
def fake_clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def serve() -> Iterator[Callable[..., RawServer]]:
    running: list[RawServer] = []

    def begin(answer: Callable[[RawRequest], Any] | bytes, host: str = "127.0.0.1") -> RawServer:
        always = answer if callable(answer) else lambda request: answer
        running.append(RawServer(always, host))
        return running[-1]

    yield begin
    for server in running:
        server.close()


@pytest.fixture
def polite(tmp_path: Path) -> Iterator[PoliteClients]:
    clients = PoliteClients(tmp_path)
    yield clients
    clients.close()


@pytest.fixture
def data_root(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def catalog(data_root: Path) -> Iterator[Catalog]:
    with Catalog.open(data_root / "catalog.sqlite3") as opened:
        yield opened


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


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """`small_disk("600k")` mounts one, and called again gives it another size."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small disk")
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted: list[Path] = []

    def mount(size: str) -> Path:
        options = f"size={size}" + (",remount" if mounted else "")
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], check=True)
        mounted[:] = [folder]
        return folder

    yield mount
    for place in mounted:
        subprocess.run(["umount", "--lazy", place], check=True)
