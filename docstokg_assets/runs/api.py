"""The API for programs: the whole job in one call."""

from __future__ import annotations

import asyncio
import threading

from docstokg_assets.config import ContentDownloadConfig
from docstokg_assets.engine.progress import PassResult
from docstokg_assets.runs.run import DownloadRun
from docstokg_assets.runs.services import open_services
from resources.settings import SettingsError


class ContentOrchestrator:
    """Lists the works of the configured filter, plans and downloads them, and exports what happened."""

    def __init__(self, config: ContentDownloadConfig) -> None:
        self.config = config

    def run_sync(self, *, stop: threading.Event | None = None) -> PassResult:
        openalex = self.config.openalex
        if openalex.source != "api" or not openalex.filter:
            raise SettingsError(
                ["openalex.filter is not set, or openalex.source is not `api`; say which works, e.g. topics.id:T10102"]
            )
        with open_services(self.config) as services:
            with DownloadRun(services, stop=stop, kind="program") as run:
                run.store_and_enqueue(run.collect(openalex.filter))
                result = run.drain(run.own_works)
            services.export_lake()
        return result

    async def run(self) -> PassResult:
        return await asyncio.to_thread(self.run_sync)
