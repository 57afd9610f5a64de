"""Starts and stops all parts of `content serve` on one data folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from docstokg_assets.config import ContentDownloadConfig
from docstokg_assets.ingest.service import IngestService
from docstokg_assets.runs.services import open_services
from docstokg_assets.serve.access import Access
from docstokg_assets.serve.app import build_app
from docstokg_assets.serve.http_server import HttpServer
from docstokg_assets.serve.intake import Intake
from docstokg_assets.serve.metrics import Metrics, Samples
from docstokg_assets.serve.parts import Parts
from docstokg_assets.serve.progress import ProgressHub
from docstokg_assets.serve.worker import Worker
from resources.catalog.catalog import Catalog
from resources.scope import ALL_LANES
from resources.settings import Loaded, SettingsError

if TYPE_CHECKING:
    from docstokg_assets.serve.grpc_server import GrpcServer
    from docstokg_assets.serve.kafka import KafkaBridge

_COUNTS_S = 60.0


@dataclass(frozen=True)
class Running:
    """A server that accepts requests."""

    parts: Parts
    http: HttpServer
    grpc: GrpcServer | None
    scheme: str

    @property
    def url(self) -> str:
        host = self.parts.loaded.value.serve.host
        return f"{self.scheme}://{f'[{host}]' if ':' in host else host}:{self.http.port}"


@contextmanager
def serving(loaded: Loaded[ContentDownloadConfig], *, work: bool = True, with_grpc: bool = False) -> Iterator[Running]:
    """Serve until the block ends. `work=False`: only accept requests; another process searches. Uses Kafka where it is
    configured. Raises SettingsError, ServerError and CatalogError with their remedies."""
    config, settings = loaded.value, loaded.value.serve
    if problems := settings.problems():
        raise SettingsError(problems)
    with ExitStack() as stack:
        worker: Worker | None = None
        if work:
            services = stack.enter_context(open_services(config))
            catalog, store = services.catalog, services.store
            worker = Worker(services)
        else:
            catalog = stack.enter_context(Catalog.open(config.catalog_location, config.storage.pool_size))
            store = config.artifacts.open(config.data_root)
        service = IngestService(catalog, config, worker.wake if worker is not None else lambda: None)
        metrics = Metrics()
        hub = stack.enter_context(ProgressHub(service))
        parts = Parts(loaded, service, Intake(service, metrics), hub, store, Access(settings), metrics, worker)
        _describe(parts)
        http = HttpServer(build_app(parts), settings)
        grpc = _open_grpc(parts) if with_grpc else None
        kafka = _open_kafka(parts) if config.ingest.kafka.brokers else None
        started: list[Worker | KafkaBridge | GrpcServer | HttpServer | None] = [worker, kafka, grpc, http]
        for part in started:
            if part is not None:
                part.start()
                stack.callback(part.stop)
        yield Running(parts, http, grpc, "https" if settings.tls_cert is not None else "http")


def _open_grpc(parts: Parts) -> GrpcServer:
    from docstokg_assets.serve.grpc_server import GrpcServer

    return GrpcServer(parts, parts.loaded.value.serve)


def _open_kafka(parts: Parts) -> KafkaBridge:
    try:
        from docstokg_assets.serve.kafka import KafkaBridge
    except ImportError:
        remedy = "install it: pip install 'docstokg-contentdownload[kafka]'"
        raise SettingsError([f"ingest.kafka.brokers is set, but confluent-kafka is missing; {remedy}"]) from None
    return KafkaBridge(parts.loaded.value.ingest.kafka, parts.service, parts.metrics)


def _describe(parts: Parts) -> None:
    """The gauges that the catalog answers."""
    catalog, most = parts.service.catalog, parts.loaded.value.ingest.max_open

    def by_status() -> Samples:
        found: dict[str, int] = {}
        for count in parts.service.counts():
            status = count.status or "pending"
            found[status] = found.get(status, 0) + count.requests
        return [({"status": status}, number) for status, number in sorted(found.items())]

    def due() -> Samples:
        return [({"lane": lane.name.lower()}, catalog.ingest_due(lane)) for lane in ALL_LANES]

    gauge = parts.metrics.gauge
    gauge("docstokg_ingest_open_items", lambda: [({}, catalog.open_ingest_items(most))], cache_s=1.0)
    gauge("docstokg_ingest_due_items", due, cache_s=1.0)
    gauge("docstokg_ingest_requests", by_status, cache_s=_COUNTS_S)
    gauge("docstokg_ingest_watched", lambda: [({}, parts.hub.count)])
    gauge("docstokg_engine_up", lambda: [({}, int(parts.worker is not None and parts.worker.is_healthy))])
