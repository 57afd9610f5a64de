"""The four resources as Dagster injects them: each knows a configuration file, loads its own section when a step runs, and
opens and closes the plain object.

They hold no state and nest nothing: a limiter that is set up twice would let twice as much through. What they need of each
other is handed to `open` by the assets, once a step. `config_file` is a YAML file; $DTKG_CONFIG when it is not set. `policies` is
the folder of the presets that it may name.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import dagster as dg
from pydantic import BaseModel

from resources.artifacts.settings import ArtifactSettings
from resources.artifacts.store import ArtifactStore
from resources.catalog.catalog import Catalog
from resources.catalog.settings import StorageSettings
from resources.http.cache import HttpCache
from resources.http.client import HttpClient
from resources.http.settings import HttpSettings, RobotsSettings
from resources.rate_limit.limiter import GroupLeases, Limiter
from resources.rate_limit.settings import RateLimitSettings
from resources.settings import config_file, load_section

T = TypeVar("T", bound=BaseModel)


class ConfiguredResource(dg.ConfigurableResource[Any]):
    config_file: str | None = None
    policies: str

    @property
    def file(self) -> Path | None:
        return Path(self.config_file) if self.config_file else config_file(os.environ)

    def section(self, model: type[T], name: str) -> T:
        return load_section(model, name, file=self.file, env=os.environ, policies=Path(self.policies)).value


class CatalogResource(ConfiguredResource):
    """The catalog: queue, attempts, outcomes, hosts."""

    @contextmanager
    def open(self, data_root: Path) -> Iterator[Catalog]:
        with Catalog.open(self.section(StorageSettings, "storage").location(data_root)) as catalog:
            yield catalog


class ArtifactStoreResource(ConfiguredResource):
    """Where the files go."""

    def open(self, data_root: Path) -> ArtifactStore:
        return self.section(ArtifactSettings, "artifacts").open(data_root)


class RateLimiterResource(ConfiguredResource):
    """Who may ask now. Its tokens are counted for all processes of the data root together."""

    @contextmanager
    def open(self, data_root: Path, leases: GroupLeases, owner: str) -> Iterator[Limiter]:
        settings = self.section(RateLimitSettings, "rate_limit")
        limiter = Limiter.open(settings, data_root / "limits.sqlite3", leases=leases, owner=owner)
        try:
            yield limiter
        finally:
            limiter.close()


class HttpClientResource(ConfiguredResource):
    """The polite client: everything that is sent goes through it."""

    @contextmanager
    def open(self, data_root: Path, catalog: Catalog, limiter: Limiter, chunk_bytes: int) -> Iterator[HttpClient]:
        http, robots = self.section(HttpSettings, "http"), self.section(RobotsSettings, "robots")
        cache = HttpCache.open(http, data_root)
        client = HttpClient(http, robots, catalog, limiter, cache=cache, chunk_bytes=chunk_bytes)
        try:
            yield client
        finally:
            client.close()
