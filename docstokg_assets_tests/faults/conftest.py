"""What the fault tests need: servers that answer with bytes as they are, and the whole way from a work to its outcome over
such a server, with a real catalog, dispatcher and store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from docstokg_assets.config import load_config
from docstokg_assets.domain.works import Location, Work
from docstokg_assets.runs.run import DownloadRun
from docstokg_assets.runs.services import open_services
from docstokg_assets.sandbox import Sandbox
from docstokg_assets_tests.support.polite import RawServer
from resources.catalog.rows import Entry
from resources.records import AttemptRecord

PDF = b"%PDF-1.7\n" + b"x" * 5000 + b"\n%%EOF\n"


@dataclass
class Pulled:
    """What one work came to."""

    entry: Entry
    attempts: list[AttemptRecord]
    files: dict[str, bytes]  # all that lies in the artifact folders, unfinished parts included
    root: Path
    server: Any

    @property
    def reason(self) -> str:
        return str(self.entry.reason)


@pytest.fixture
def sandbox(small_sandbox: Sandbox) -> Sandbox:
    small_sandbox.reset()
    return small_sandbox


@pytest.fixture
def pdf() -> bytes:
    return PDF


@pytest.fixture
def pull(tmp_path: Path, serve: Callable[..., RawServer]) -> Callable[..., Pulled]:
    """`pull(answer, url, …)`: one work with these copies, through a proxy that answers for every host with raw bytes.
    `direct=True` leaves the proxy out; `landing` is a page; further values are configuration, dots as double underscores."""

    def run(
        answer: Any,
        *urls: str,
        landing: str | None = None,
        direct: bool = False,
        before: Callable[[Path], None] = lambda root: None,
        **values: Any,
    ) -> Pulled:
        server = serve(answer)
        hosts = sorted({urlsplit(url).hostname or "" for url in (*urls, landing or "")} - {""})
        root = tmp_path / "data"
        config: dict[str, Any] = {
            "data_root": str(root),
            "workers": 2,
            "http.contact_email": "crawler@library-of-tests.edu",
            "http.allow_http_hosts": hosts,
            "http.retry.max_attempts": 2,
            "http.retry.base_delay_ms": 5,
            "http.retry.jitter_ms": 0,
            "robots.enabled": False,
            "rate_limit.policies": {"*": "1000/second burst 100"},
            "resolvers.order": ["openalex", "landing"],
        }
        config |= {} if direct else {"http.proxy": server.url}
        config |= {key.replace("__", "."): value for key, value in values.items()}
        urls = tuple(url.replace("PORT", str(server.port)) for url in urls)
        places = tuple(Location(pdf_url=url, is_oa=True) for url in urls)
        places += (Location(landing_url=landing, is_oa=True),) if landing else ()
        work = Work("W1", title="A title", year=2024, locations=places)
        before(root)
        with open_services(load_config(None, {}, config).value) as services:
            with DownloadRun(services) as download:
                download.store_and_enqueue([work])
                download.drain(download.own_works)
            entry = services.catalog.entry("W1")
            attempts = [stored.record for stored in services.catalog.attempts_after(0, 1000)]
        assert entry is not None
        folders = (root / "PDF", root / "HTML", root / "XML")
        paths = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
        return Pulled(
            entry, attempts, {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}, root, server
        )

    return run
