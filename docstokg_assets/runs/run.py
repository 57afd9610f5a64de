"""Runs from the outside in: opens what a run needs from its configuration, brings works in, drains the queue, accounts for it.

`Services` are the opened resources; `DownloadRun` is one run over them, used by the Dagster assets and the command line alike;
`ContentOrchestrator` is the whole job in one call for programs. Decides nothing about works, requests or files.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import itertools
import logging
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from ulid import ULID

from docstokg_assets.config import ContentDownloadConfig, config_hash, require_contact
from docstokg_assets.domain.pdf_match import PdfValidator, Verdict, validate_pdf
from docstokg_assets.domain.works import Work
from docstokg_assets.engine.dispatcher import Dispatcher, PassResult, PassSettings
from docstokg_assets.engine.download import FOLDERS, DownloadLimits
from docstokg_assets.engine.progress import Progress
from docstokg_assets.engine.recorder import Recorder
from docstokg_assets.engine.search import PipelineSettings, ResolverPipeline
from docstokg_assets.lake.views import export_new_rows
from docstokg_assets.lake.writer import LakeWriter
from docstokg_assets.reporting.run_files import (
    ATTEMPTS,
    MANIFEST,
    lines_are_missing,
    rebuild_lines,
    summary_of_run,
    write_account,
)
from docstokg_assets.reporting.sinks import AttemptSink, ConsoleSink, CsvSink, JsonlSink, OtlpSink, SinkSet
from docstokg_assets.resolvers.registry import Resolver, ResolverContext, build_resolvers, key_of
from docstokg_assets.sources import SetAside, delta
from docstokg_assets.sources.ids import read_ids
from docstokg_assets.sources.listing import (
    BlockingDriver,
    Collected,
    Planned,
    in_batches,
    plan_works,
    store_works,
    works_of_filter,
    works_of_ids,
    works_of_snapshot,
)
from docstokg_assets.sources.local_filter import LocalFilter
from docstokg_assets.sources.openalex_api import DateSlice, OpenAlexApi, date_slices
from docstokg_assets.sources.snapshot import Snapshot
from docstokg_assets.sources.urls import read_urls
from resources.artifacts.quarantine import Quarantine
from resources.artifacts.store import CAS, ArtifactStore
from resources.catalog.catalog import Catalog
from resources.catalog.errors import CatalogError
from resources.catalog.queue import Years
from resources.catalog.rows import Run
from resources.clock import SystemClock, utc
from resources.folders import FolderError, ReadFolder, read_lines
from resources.http.attempts import AttemptLog
from resources.http.cache import HttpCache
from resources.http.client import HttpClient
from resources.http.exchange import RequestPolicy
from resources.otlp import OtlpLogs
from resources.pdf import PdfInspector
from resources.processes import new_owner, process_is_gone
from resources.rate_limit.limiter import Limiter
from resources.settings import SettingsError

log = logging.getLogger(__name__)

STALE_S = 86_400.0  # a part file as old as this belongs to nobody any more
ARTIFACT_FOLDERS = (*sorted(set(FOLDERS.values())), CAS)  # of both layouts: a store may have had another one before


@dataclass(frozen=True)
class Services:
    """What a run works with, opened. Dagster injects these as resources; `open_services` opens them for everybody else."""

    config: ContentDownloadConfig
    catalog: Catalog
    store: ArtifactStore
    lake: LakeWriter
    limiter: Limiter
    client: HttpClient
    owner: str


def was_cut_off(catalog: Catalog, run: Run) -> bool:
    """Whether a run has no end, and nobody is at work who might still bring it to one."""
    return run.finished_at is None and all(map(process_is_gone, catalog.lease_owners()))


@contextmanager
def open_services(config: ContentDownloadConfig, limits: Path | None = None) -> Iterator[Services]:
    """Everything a run needs, closed in reverse. Raises SettingsError, CatalogError or StoreError with their remedies.

    `limits` is the limiter's file where that is not the data root's own.
    """
    require_contact(config)
    owner = new_owner()
    with ExitStack() as stack:
        catalog = stack.enter_context(Catalog.open(config.catalog_location))
        store, lake = config.artifacts.open(config.data_root), LakeWriter(config.lake_files())
        counted_in = limits or config.data_root / "limits.sqlite3"
        limiter = Limiter.open(config.rate_limit, counted_in, leases=catalog, owner=owner)
        stack.callback(limiter.close)
        cache = HttpCache.open(config.http, config.data_root)
        chunk = config.download.chunk_size_bytes
        client = HttpClient(config.http, config.robots, catalog, limiter, cache=cache, chunk_bytes=chunk)
        stack.callback(client.close)
        yield Services(config, catalog, store, lake, limiter, client, owner)


def resolvers_of(config: ContentDownloadConfig) -> tuple[Resolver, ...]:
    return build_resolvers(config.resolvers.order, config.resolvers.by_name())


def request_policies(resolvers: tuple[Resolver, ...], config: ContentDownloadConfig) -> dict[str, RequestPolicy]:
    """What the settings of each resolver change for its requests."""
    return {
        resolver.name: RequestPolicy(resolver.settings.retry, resolver.timeouts(config.http)) for resolver in resolvers
    }


def with_types(config: ContentDownloadConfig, works_filter: str) -> str:
    """The filter with the configured types, unless it names types itself."""
    types = config.openalex.types
    if not types or re.search(r"(?:^|,)type:", works_filter):
        return works_filter
    return ",".join(filter(None, (works_filter, f"type:{'|'.join(types)}")))


def open_snapshot(config: ContentDownloadConfig) -> Snapshot:
    openalex = config.openalex
    assert openalex.snapshot is not None  # the settings say so
    return Snapshot(ReadFolder(openalex.snapshot, endpoint=openalex.snapshot_endpoint, signed=openalex.snapshot_signed))


@dataclass(frozen=True, slots=True)
class ChangedSince:
    """Only what was updated, or published, since a day. A snapshot knows only updates."""

    way: delta.Way
    since: dt.date


class DownloadRun:
    """One run over a data root: its folder, its manifest, its passes. A context manager; leaving it accounts for the run."""

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
    ) -> None:
        """`account=False`: a later step under the same run id will write the account."""
        self.services, self.kind, self.scope, self.dry_run = services, kind, scope or {}, dry_run
        self._accounts = account and not dry_run
        self.config = services.config
        self.run_id = run_id or self.config.run_id or str(ULID())
        self.config_hash = config_hash(self.config)
        self.stop = stop or threading.Event()
        self.folder = self.config.data_root / self.run_id
        self.resolvers = resolvers_of(self.config)
        self._clock = SystemClock()
        self._seq = itertools.count(1)
        self._pdfs = PdfInspector()
        self._taken_urls: dict[str, str] = {}  # outlives a pipeline that a reload replaces
        self._reload: Callable[[], ContentDownloadConfig] | None = None
        self._dispatcher: Dispatcher | None = None

    def __enter__(self) -> DownloadRun:
        catalog = self.services.catalog
        before = catalog.run(self.run_id)
        if before is not None and was_cut_off(catalog, before) and lines_are_missing(catalog, self.folder, self.run_id):
            log.info("the end of the manifest of run %s is missing; it is made again from the catalog", self.run_id)
            rebuild_lines(catalog, self.folder, before)
        catalog.start_run(self.run_id, self.kind, self.config_hash, self.scope)
        self._first_hash = self.config_hash if before is None else before.config_hash
        for owner in catalog.lease_owners():
            if process_is_gone(owner):
                given_back = catalog.release_owner(owner)
                catalog.free_groups(owner)
                log.info("took back %d works from a process that has ended (%s)", given_back, owner)
        for folder in ARTIFACT_FOLDERS:
            for part in self.services.store.stale_parts(STALE_S, folder):
                self.services.store.delete(part.path)
        self._sinks = SinkSet([] if self.dry_run else self._open_sinks())
        self._recorder = Recorder(catalog, self._sinks)
        self._note_configuration()
        self._recorder.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._recorder.__exit__(kind, error, trace)
        self._pdfs.close()
        try:
            if self._recorder.failure is None and self._accounts:
                self._account()
        finally:
            self._sinks.close()

    # -- the steps ----------------------------------------------------------------------------------------------------

    def driver(self) -> BlockingDriver:
        attempts = AttemptLog(
            self._recorder.record,
            self._clock,
            self.run_id,
            f"{self.services.owner}:source",
            lambda: next(self._seq),
        )
        return BlockingDriver(self.services.client, attempts, self.stop)

    def openalex(self) -> OpenAlexApi:
        key = self.config.openalex.api_key
        return OpenAlexApi(key.get_secret_value() if key is not None else None, self.config.openalex.per_page)

    def collect(self, works_filter: str, year: int | None, collected: Collected) -> Iterator[Work]:
        """The works of a filter, of one year or of all, as they come; `collected` counts them."""
        return self._collect(works_filter, (None,) if year is None else date_slices(year), collected)

    def _collect(self, works_filter: str, slices: Iterable[DateSlice | None], collected: Collected) -> Iterator[Work]:
        limit = self.config.openalex.max_works
        works_filter = with_types(self.config, works_filter)
        return works_of_filter(self.driver(), self.openalex(), works_filter, slices, limit, collected)

    def works_of_year(
        self, year: int, collected: Collected, changed: ChangedSince | None = None, *, with_unknown: bool = False
    ) -> Iterator[Work]:
        """The works of a year from the configured source, or only what is `changed`, after `collected.through`.

        `with_unknown`: also works of which no year is known, where the source has such.
        """
        openalex = self.config.openalex
        match openalex.source:
            case "api":
                yield from self._listed(year, collected, changed)
            case "snapshot":
                since = changed.since - dt.timedelta(days=1) if changed else collected.through
                keep, limit = LocalFilter(with_types(self.config, openalex.filter)), openalex.max_works
                yield from works_of_snapshot(open_snapshot(self.config), year, since, keep, limit, collected)
            case "ids" | "urls":
                for work in self._of_file(collected):
                    if work.year == year or (with_unknown and work.year is None):
                        yield work
                    elif with_unknown and work.year is not None and work.year < openalex.first_year:
                        reason = f"its year {work.year} has no partition; lower openalex.first_year"
                        collected.set_aside.append(SetAside(work.work_id, reason))

    def _listed(self, year: int, collected: Collected, changed: ChangedSince | None) -> Iterator[Work]:
        works_filter = self.config.openalex.filter
        after = collected.through + dt.timedelta(days=1) if collected.through else None
        if changed is not None and changed.way == "updated":
            works_filter = f"{works_filter},from_updated_date:{changed.since}"
            slices: tuple[DateSlice, ...] = (DateSlice(dt.date(year, 1, 1), dt.date(year, 12, 31)),)
        else:
            slices = date_slices(year, since=changed.since if changed else after)
        yield from self._collect(works_filter, slices, collected)

    def _of_file(self, collected: Collected) -> Iterator[Work]:
        openalex = self.config.openalex
        file = openalex.ids_file if openalex.source == "ids" else openalex.urls_file
        assert file is not None  # the settings say so
        try:
            lines = read_lines(file)
        except OSError as error:
            raise FolderError(
                f"{file} cannot be read: {error.strerror}. Correct openalex.{openalex.source}_file."
            ) from None
        if openalex.source == "urls":
            works, aside = read_urls(lines)
            collected.set_aside += aside
            yield from works
        else:
            identifiers, aside = read_ids(lines)
            collected.set_aside += aside
            yield from works_of_ids(self.driver(), self.openalex(), identifiers, collected)

    def store(self, works: Iterable[Work]) -> int:
        return store_works(self.services.lake, works, utc(self._clock.wall()))

    def store_and_enqueue(self, works: Iterable[Work]) -> Planned:
        """Keep, plan and queue works as this run's own, batch by batch, so that what has come is never lost."""
        lake, now = (None if self.dry_run else self.services.lake), utc(self._clock.wall())
        planned = Planned()
        for batch in in_batches(works):
            if lake is not None:
                store_works(lake, batch, now)
            planned += plan_works(
                batch, self.resolvers, self.config.rate_limit, self.services.catalog, lake, now, self.run_id
            )
        return planned

    def drain(
        self,
        *,
        year: Years | None = None,
        of_run: bool = False,
        deadline_s: float | None = None,
        max_works: int | None = None,
        on_progress: Callable[[Progress], None] = lambda progress: None,
    ) -> PassResult:
        """One pass over the due works of a year, of several, or of this run. Succeeds with what is finished or parked."""
        download = self.config.download
        settings = PassSettings(
            workers=self.config.workers,
            run_id=self.run_id,
            config_hash=self.config_hash,
            owner=self.services.owner,
            year=year,
            of_run=self.run_id if of_run else None,
            deadline_s=deadline_s or download.deadline_s,
            max_works=max_works,
            lease_s=download.lease_s,
            park_after_s=download.park_after_s,
        )

        def progress(now: Progress) -> None:
            self._reload_if_asked()
            on_progress(now)

        self._limit_resolvers()
        self._dispatcher = Dispatcher(
            self.services.client,
            self.services.catalog,
            self._pipeline(),
            self._recorder,
            settings,
            clock=self._clock,
            policies=request_policies(self.resolvers, self.config),
            stop=self.stop,
            on_progress=progress,
        )
        return self._dispatcher.run()

    def reload_with(self, load: Callable[[], ContentDownloadConfig]) -> None:
        """Have the configuration loaded again at the next opportunity (SIGHUP). What cannot be loaded changes nothing."""
        self._reload = load

    # -- inside -------------------------------------------------------------------------------------------------------

    def _pipeline(self) -> ResolverPipeline:
        download = self.config.download
        keys = {resolver.name: key for resolver in self.resolvers if (key := key_of(resolver.settings))}
        settings = PipelineSettings(
            DownloadLimits(download.max_bytes, self.config.http.max_page_bytes),
            head_precheck=download.head_precheck,
            global_url_dedupe=download.global_url_dedupe,
            guess_files=download.guess_files,
            dry_run=self.dry_run,
            validator=self._validator(reject=download.on_suspect == "reject") if download.check_pdf else None,
            recorded=self._has_recorded,
            quarantine=Quarantine(self.services.store, download.quarantine_bytes),
            max_concurrent_resolvers=download.max_concurrent_resolvers,
            versions=download.versions,
            licenses=download.licenses,
            context=ResolverContext(self.config.http.contact_email, keys, budget=self.services.catalog),
        )
        return ResolverPipeline(self.resolvers, self.services.store, settings, self._taken_urls)

    def _has_recorded(self, work_id: str, sha256: str) -> bool:
        return any(file.sha256 == sha256 for file in self.services.catalog.artifacts_of(work_id))

    def _validator(self, *, reject: bool) -> PdfValidator:
        """How this run judges a file; without `reject` the evidence is kept as flags, and the file as well."""

        def judge(work: Work, url: str, path: Path) -> Verdict:
            verdict = validate_pdf(work, url, self._pdfs.inspect(path))
            return verdict if reject else Verdict(verdict.flags, verdict.evidence)

        return judge

    def _limit_resolvers(self) -> None:
        rates = {resolver.name: resolver.own_rate for resolver in self.resolvers}
        self.services.limiter.limit_resolvers({name: rate for name, rate in rates.items() if rate is not None})

    def _reload_if_asked(self) -> None:
        load, self._reload = self._reload, None
        if load is None or self._dispatcher is None:
            return
        try:
            config = load()
        except Exception as error:
            log.warning("the configuration was not reloaded: %s", error)
            return
        self.config, self.config_hash = config, config_hash(config)
        self._note_configuration()
        self.resolvers = resolvers_of(config)
        self.services.limiter.replace_settings(config.rate_limit)
        self.services.client.replace_settings(config.http, config.robots)
        self._limit_resolvers()
        self._dispatcher.replace_rules(
            self._pipeline(), request_policies(self.resolvers, config), config_hash=self.config_hash
        )
        log.info("configuration reloaded; works that are under way keep the plan they began with")

    def _note_configuration(self) -> None:
        """The run's rows name the configuration that it began with; what is done under another one says so itself."""
        self._recorder.config_hash = self.config_hash if self.config_hash != self._first_hash else None

    def _open_sinks(self) -> list[AttemptSink]:
        made: list[AttemptSink] = []
        for name in self.config.telemetry.sinks:
            try:
                made.append(self._open_sink(name))
            except OSError:
                log.warning("The sink %s cannot be opened; the run goes on without it.", name, exc_info=True)
        return made

    def _open_sink(self, name: str) -> AttemptSink:
        telemetry = self.config.telemetry
        if name == "jsonl":
            return JsonlSink(telemetry.manifest_path or self.folder / MANIFEST, config_hash=self._first_hash)
        if name == "otlp" and telemetry.otlp_endpoint is not None:
            logs = OtlpLogs(telemetry.otlp_endpoint, telemetry.otlp_timeout_s)
            return OtlpSink(logs, config_hash=self._first_hash)
        return CsvSink(telemetry.csv_path or self.folder / ATTEMPTS) if name == "csv" else ConsoleSink()

    def _account(self) -> None:
        """The files of the run folder, from the catalog; each can be made again from it."""
        catalog = self.services.catalog
        self._sinks.flush()
        summary = summary_of_run(catalog, self.run_id, self._sinks.dropped)
        self._sinks.log_summary(summary)
        catalog.finish_run(self.run_id, summary)
        try:
            write_account(catalog, self.folder, self.run_id, summary, self.config.telemetry.last_csv_rows)
        except (OSError, CatalogError):
            log.warning(
                "Not all files of %s could be written; `content telemetry rebuild` makes them.",
                self.folder,
                exc_info=True,
            )


def export_lake(services: Services) -> tuple[int, int]:
    """Everything past the last export becomes Parquet: (attempts, outcomes)."""
    exported = export_new_rows(services.catalog, services.lake.files)
    return exported.attempts, exported.outcomes


class ContentOrchestrator:
    """The whole job for programs: the works of the configured filter, planned, downloaded, accounted for."""

    def __init__(self, config: ContentDownloadConfig) -> None:
        self.config = config

    def run_sync(self, *, stop: threading.Event | None = None) -> PassResult:
        with open_services(self.config) as services:
            with DownloadRun(services, stop=stop, kind="program") as run:
                run.store_and_enqueue(run.collect(self._filter(), None, Collected()))
                result = run.drain(of_run=True)
            export_lake(services)
        return result

    def _filter(self) -> str:
        openalex = self.config.openalex
        if openalex.source != "api" or not openalex.filter:
            raise SettingsError(
                ["openalex.filter is not set, or openalex.source is not `api`; say which works, e.g. topics.id:T10102"]
            )
        return openalex.filter

    async def run(self) -> PassResult:
        return await asyncio.to_thread(self.run_sync)
