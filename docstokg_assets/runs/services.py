"""What a run works with: catalog, store, lake, limiter and client, opened from one configuration."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from docstokg_assets.config import ContentDownloadConfig, config_hash, require_contact
from docstokg_assets.engine.recorder import Recorder
from docstokg_assets.lake.views import export_new_rows
from docstokg_assets.lake.writer import LakeWriter
from docstokg_assets.reporting.sinks import SinkSet
from docstokg_assets.sources.listing import BlockingDriver
from resources.artifacts.store import ArtifactStore
from resources.catalog.catalog import Catalog
from resources.clock import SystemClock
from resources.http.attempts import AttemptLog
from resources.http.cache import HttpCache
from resources.http.client import HttpClient
from resources.processes import new_owner
from resources.rate_limit.limiter import Limiter
from resources.records import AttemptRecord


@dataclass(frozen=True)
class Services:
    """The opened resources of a run, under one owner. `open_services` opens them."""

    config: ContentDownloadConfig
    catalog: Catalog
    store: ArtifactStore
    lake: LakeWriter
    limiter: Limiter
    client: HttpClient
    owner: str
    # numbers the attempts of this owner, across runs, passes and threads; a repeated number would identify another attempt
    next_seq: Callable[[], int] = field(default_factory=lambda: itertools.count(1).__next__)

    def driver(
        self,
        record: Callable[[AttemptRecord], None] = lambda attempt: None,
        run_id: str | None = None,
        stop: threading.Event | None = None,
    ) -> BlockingDriver:
        """A driver that sends requests in the calling thread. `record` receives the attempts; by default they are dropped."""
        log = AttemptLog(record, SystemClock(), run_id, f"{self.owner}:source", self.next_seq)
        return BlockingDriver(self.client, log, stop or threading.Event())

    def export_lake(self) -> tuple[int, int]:
        """Export the rows past the last export as Parquet: (attempts, outcomes)."""
        exported = export_new_rows(self.catalog, self.lake.files)
        return exported.attempts, exported.outcomes


@contextmanager
def open_services(config: ContentDownloadConfig, limits: Path | None = None) -> Iterator[Services]:
    """Open everything a run needs, and close it in reverse. Raises SettingsError, CatalogError or StoreError with their
    remedies.

    `limits` is the limiter's file where that is not the data root's own.
    """
    require_contact(config)
    owner, root = new_owner(), config.data_root
    with ExitStack() as stack:
        catalog = stack.enter_context(Catalog.open(config.catalog_location, config.storage.pool_size))
        store, lake = config.artifacts.open(root), LakeWriter(config.lake_files())
        counted_in = limits or root / "limits.sqlite3"
        limiter = stack.enter_context(closing(Limiter.open(config.rate_limit, counted_in, leases=catalog, owner=owner)))
        cache, chunk = HttpCache.open(config.http, root), config.download.chunk_size_bytes
        client = stack.enter_context(
            closing(HttpClient(config.http, config.robots, catalog, limiter, cache=cache, chunk_bytes=chunk))
        )
        yield Services(config, catalog, store, lake, limiter, client, owner)


@contextmanager
def recorded_driver(services: Services, run_id: str, kind: str, scope: Mapping[str, Any]) -> Iterator[BlockingDriver]:
    """A driver for a few requests outside a download run; the catalog records their attempts under `run_id`."""
    services.catalog.start_run(run_id, kind, config_hash(services.config), scope)
    with Recorder(services.catalog, SinkSet([])) as recorder:
        yield services.driver(recorder.record, run_id)
