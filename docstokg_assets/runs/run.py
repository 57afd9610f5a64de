"""One run over a data root: its passes, its sinks and the files of its folder.

`DownloadRun` is used by the Dagster assets and the command line alike. It connects the services, the resolvers and the
dispatcher, and decides nothing about works, requests or files.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, cast

from ulid import ULID

from docstokg_assets.config import ContentDownloadConfig, config_hash, resolvers_of
from docstokg_assets.domain.pdf_match import Verdict, validate_pdf
from docstokg_assets.domain.works import Work
from docstokg_assets.engine.dispatcher import LOOK_S, Dispatcher
from docstokg_assets.engine.progress import PassResult, Progress
from docstokg_assets.engine.recorder import Recorder
from docstokg_assets.engine.search import ResolverPipeline
from docstokg_assets.reporting import run_files
from docstokg_assets.reporting.sinks import AttemptSink, ConsoleSink, CsvSink, FileHeld, JsonlSink, OtlpSink, SinkSet
from docstokg_assets.resolvers.landing import LandingSettings
from docstokg_assets.resolvers.registry import Resolver, ResolverContext, key_of
from docstokg_assets.runs.engine_process import EngineProcesses, Joined, Order, shares, wanted_processes
from docstokg_assets.runs.orphans import delete_files, stale_parts
from docstokg_assets.runs.planning import Planned, plan_works, store_works
from docstokg_assets.runs.services import Services, open_services
from docstokg_assets.sources.listing import Collected, Source, in_batches, list_works
from resources.catalog.catalog import Catalog
from resources.catalog.errors import CatalogError
from resources.catalog.rows import Run
from resources.clock import SystemClock, utc
from resources.http.exchange import RequestPolicy
from resources.otlp import OtlpLogs
from resources.pdf import PdfInspector
from resources.processes import process_is_gone
from resources.scope import WorkScope
from resources.settings import SettingsError

log = logging.getLogger(__name__)

_LOOK_OFTEN_S = 0.25  # for works that other processes of the same pass have given back
STALE_S = 86_400.0  # a part file of this age has no writer


def was_cut_off(catalog: Catalog, run: Run) -> bool:
    """Whether a run did not finish, and no living process holds works."""
    return run.finished_at is None and all(map(process_is_gone, catalog.lease_owners()))


class DownloadRun:
    """One run over a data root: its folder, its manifest, its passes. A context manager; leaving it writes the run's files."""

    def __init__(
        self,
        services: Services,
        run_id: str | None = None,
        *,
        kind: str = "pull",
        scope: Mapping[str, Any] | None = None,
        stop: threading.Event | None = None,
        dry_run: bool = False,
        account: bool = True,
        joined: Joined | None = None,
    ) -> None:
        """`account=False`: a later step under the same run id will write the files of the run folder. `joined`: another
        process leads the run."""
        self.services, self.kind, self.scope, self.dry_run = services, kind, scope or {}, dry_run
        self._joined = joined
        self._accounts = account and not dry_run and joined is None
        self.config = services.config
        self.run_id = run_id or self.config.run_id or str(ULID())
        self.config_hash = config_hash(self.config)
        self.stop = stop or threading.Event()
        self.folder = self.config.data_root / self.run_id
        self.resolvers = self._resolvers_of(self.config)
        self._clock = SystemClock()
        self._pdfs = PdfInspector()
        self._taken_urls = {} if joined is None else joined.taken_urls  # kept when a reload replaces the pipeline
        self._reload: Callable[[], ContentDownloadConfig] | None = None
        self._dispatcher: Dispatcher | None = None

    def __enter__(self) -> DownloadRun:
        catalog = self.services.catalog
        catalog.patience.end_with(self.stop)
        before = catalog.run(self.run_id)
        if self._joined is None:
            self._begin(before)
        self._first_hash = self.config_hash if before is None else before.config_hash
        self._sinks = SinkSet([] if self.dry_run else self._open_sinks())
        self._recorder = Recorder(catalog, self._sinks, self.services.store)
        self._note_configuration()
        self._recorder.__enter__()
        self.driver = self.services.driver(self._recorder.record, self.run_id, self.stop)
        return self

    def _begin(self, before: Run | None) -> None:
        """Open the run in the catalog, complete what an earlier process has left of it, and take back what ended ones hold."""
        catalog = self.services.catalog
        cut_off = before is not None and was_cut_off(catalog, before)
        if before and cut_off and run_files.lines_are_missing(catalog, self.folder, self.run_id):
            log.info("the end of the manifest of run %s is missing; it is rebuilt from the catalog", self.run_id)
            with suppress(FileHeld):  # still being written, so the run was not cut off
                run_files.rebuild_lines(catalog, self.folder, before)
        catalog.start_run(self.run_id, self.kind, self.config_hash, self.scope)
        for owner in catalog.lease_owners():
            if process_is_gone(owner):
                given_back = catalog.release_owner(owner)
                catalog.free_groups(owner)
                log.info("took back %d works from a process that has ended (%s)", given_back, owner)
        delete_files(self.services.store, stale_parts(self.services.store, STALE_S))

    def __exit__(self, *_: object) -> None:
        self._recorder.__exit__()
        self._pdfs.close()
        try:
            if self._recorder.failure is None and self._accounts:
                self._account()
        finally:
            self._sinks.close()

    @property
    def own_works(self) -> WorkScope:
        """The works that were queued as this run's own."""
        return WorkScope(run_id=self.run_id)

    def list_works(self, source: Source, collected: Collected, **selection: Any) -> Iterator[Work]:
        """List the works of a source under this run's settings. `selection`: as for `sources.listing.list_works`."""
        contact = self.config.http.contact_email
        return list_works(source, self.config.openalex, self.driver, collected, contact=contact, **selection)

    def collect(self, works_filter: str, collected: Collected | None = None) -> Iterator[Work]:
        """List the works of a filter, and raise the error that ends the list early. `collected` counts them."""
        collected = Collected() if collected is None else collected
        yield from self.list_works(Source("query", works_filter), collected)
        if collected.error is not None:
            raise collected.error

    def store_and_enqueue(self, works: Iterable[Work]) -> Planned:
        """Store, plan and queue works as this run's own, batch by batch, so that what has come is never lost."""
        lake, now, planned = (None if self.dry_run else self.services.lake), utc(self._clock.wall()), Planned()
        limits, catalog = self.config.rate_limit, self.services.catalog
        for batch in in_batches(works):
            if lake is not None:
                store_works(lake, batch, now)
            planned += plan_works(batch, self.resolvers, limits, catalog, lake, now, self.run_id)
        return planned

    def _resolvers_of(self, config: ContentDownloadConfig) -> tuple[Resolver, ...]:
        return resolvers_of(config)

    def wake(self) -> None:
        """Make a pass in another thread look for urgent items now."""
        if self._dispatcher is not None:
            self._dispatcher.wake()

    def drain(
        self,
        scope: WorkScope | None = None,
        *,
        deadline_s: float | None = None,
        max_works: int | None = None,
        keep_on: bool = False,
        on_progress: Callable[[Progress], None] = lambda progress: None,
    ) -> PassResult:
        """Make one pass over the due works of a scope, or of all. Succeeds with what is finished or parked. `keep_on`: wait for
        more when nothing is due, until `stop` is set."""

        scope, deadline_s = scope or WorkScope(), deadline_s or self.config.download.deadline_s
        counts = partial(self.services.catalog.queue_counts, scope.year, scope.run_id)
        alone = self._joined is not None or self.dry_run or keep_on or type(self) is not DownloadRun
        count = 1 if alone else wanted_processes(self.config, lambda: counts().queued_due)
        workers = shares(self.config.workers, count) if self._joined is None else [self._joined.workers]
        works = [None] * count if max_works is None else shares(max_works, count)
        orders = [
            Order(self.config.model_dump(), self.run_id, self.kind, scope, threads, deadline_s, most)
            for threads, most in zip(workers[1:], works[1:], strict=True)
        ]
        with EngineProcesses(orders, self.services.catalog, self.stop, self._taken_urls) as others:
            last: list[Progress] = []

            def progress(now: Progress) -> None:
                if (config := self._reload_if_requested()) is not None:
                    others.reload(config)
                last[:] = [now]
                on_progress(others.progress(now))

            self._limit_resolvers()
            self._dispatcher = Dispatcher(
                self.services.client,
                self.services.catalog,
                self._pipeline(),
                self._recorder,
                scope,
                workers=workers[0],
                run_id=self.run_id,
                config_hash=self.config_hash,
                policies=self._request_policies(),
                next_seq=self.services.next_seq,
                stop=self.stop,
                on_progress=progress,
                look_s=LOOK_S if count == 1 and self._joined is None else _LOOK_OFTEN_S,
            )
            result = self._dispatcher.run(deadline_s, works[0], keep_on)
            return others.result(result, on_progress, *last)

    def reload_with(self, load: Callable[[], ContentDownloadConfig]) -> None:
        """Reload the configuration at the next progress report (SIGHUP). If loading fails, nothing changes."""
        self._reload = load

    def _pipeline(self) -> ResolverPipeline:
        download, http, catalog = self.config.download, self.config.http, self.services.catalog
        keys = {resolver.name: key for resolver in self.resolvers if (key := key_of(resolver.settings))}

        def validate(work: Work, url: str, path: Path) -> Verdict:
            verdict = validate_pdf(work, url, self._pdfs.inspect(path))
            return verdict if download.on_suspect == "reject" else Verdict(verdict.flags, verdict.evidence)

        def recorded(work_id: str, sha256: str) -> bool:
            return any(file.sha256 == sha256 for file in catalog.artifacts_of(work_id))

        return ResolverPipeline(
            {resolver.name: resolver for resolver in self.resolvers},
            self.services.store,
            download,
            http.max_page_bytes,
            ResolverContext(http.contact_email, keys, budget=catalog),
            validate if download.check_pdf else None,
            recorded,
            self.services.owner,
            self.dry_run,
            self._taken_urls,
            max_depth=cast(LandingSettings, self.config.resolvers.by_name()["landing"]).max_depth,
        )

    def _request_policies(self) -> dict[str, RequestPolicy]:
        """What the settings of each resolver change for its requests."""
        http = self.config.http
        return {each.name: RequestPolicy(each.settings.retry, each.timeouts(http)) for each in self.resolvers}

    def _limit_resolvers(self) -> None:
        rates = {resolver.name: resolver.own_rate for resolver in self.resolvers}
        self.services.limiter.limit_resolvers({name: rate for name, rate in rates.items() if rate is not None})

    def _reload_if_requested(self) -> ContentDownloadConfig | None:
        """Returns the new configuration, if there is one."""
        load, self._reload = self._reload, None
        if load is None or self._dispatcher is None:
            return None
        try:
            config = load()
        except Exception as error:
            log.warning("the configuration was not reloaded: %s", error)
            return None
        self.config, self.config_hash = config, config_hash(config)
        self._note_configuration()
        self.resolvers = self._resolvers_of(config)
        self.services.limiter.replace_settings(config.rate_limit)
        self.services.client.replace_settings(config.http, config.robots)
        self._limit_resolvers()
        self._dispatcher.replace_rules(self._pipeline(), self._request_policies(), config_hash=self.config_hash)
        log.info("configuration reloaded; works in progress keep the plan they began with")
        return config

    def _note_configuration(self) -> None:
        """Rows of the run name the configuration that it began with; records made under another one carry its hash."""
        self._recorder.config_hash = self.config_hash if self.config_hash != self._first_hash else None

    def _open_sinks(self) -> list[AttemptSink]:
        made: list[AttemptSink] = []
        for name in self.config.telemetry.sinks:
            try:
                made.append(self._open_sink(name))
            except OSError:
                log.warning("The sink %s cannot be opened; the run continues without it.", name, exc_info=True)
        return made

    def _open_sink(self, name: str) -> AttemptSink:
        telemetry = self.config.telemetry
        if name == "jsonl":
            return JsonlSink(telemetry.manifest_path or self.folder / run_files.MANIFEST, config_hash=self._first_hash)
        if name == "otlp" and telemetry.otlp_endpoint is not None:
            logs = OtlpLogs(telemetry.otlp_endpoint, telemetry.otlp_timeout_s)
            return OtlpSink(logs, config_hash=self._first_hash)
        return CsvSink(telemetry.csv_path or self.folder / run_files.ATTEMPTS) if name == "csv" else ConsoleSink()

    def _account(self) -> None:
        """Write the files of the run folder from the catalog; each can be rebuilt from it."""
        catalog = self.services.catalog
        self._sinks.flush()
        summary = run_files.summary_of_run(catalog, self.run_id, self._sinks.dropped)
        self._sinks.log_summary(summary)
        catalog.finish_run(self.run_id, summary)
        try:
            run_files.write_account(catalog, self.folder, self.run_id, summary, self.config.telemetry.last_csv_rows)
        except (OSError, CatalogError):
            remedy = "`content telemetry rebuild` writes them"
            log.warning("Not all files of %s could be written; %s.", self.folder, remedy, exc_info=True)


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
