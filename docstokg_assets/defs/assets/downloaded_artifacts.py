"""`downloaded_artifacts`: one pass of the dispatcher over the due works of a year, and what it reports to log and UI."""

import threading
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import Field

from docstokg_assets.defs.assets.resolver_plans import resolver_plans
from docstokg_assets.defs.metadata import outcome_table, ui_path, ui_table
from docstokg_assets.defs.partitions import yearly_asset
from docstokg_assets.defs.steps import Step, graceful_stop, handle_step_errors, services, year_of, years_of
from docstokg_assets.engine.progress import PassResult, Progress, waiting_text
from docstokg_assets.reporting.rendering import format_time
from docstokg_assets.runs.resume import Selection, force
from docstokg_assets.runs.run import DownloadRun
from docstokg_assets.runs.services import Services
from resources.catalog.catalog import Catalog
from resources.dagster_resources import ArtifactStoreResource, CatalogResource, HttpClientResource, RateLimiterResource
from resources.records import Classification
from resources.scope import WorkScope, Years

_LINE_EVERY_S = 10.0
_WRITE_EVERY_S = 10.0  # to the catalog, while nothing changes
_DEADLINE_S = 6 * 3600.0  # well before Dagster's own limit, so that what was done is exported and measured


class PassConfig(dg.Config):
    deadline_s: float | None = Field(
        None, gt=0, description="seconds after which the pass ends; the rest stays in the queue"
    )
    max_works: int | None = Field(None, gt=0, description="maximum number of works in this pass")
    force: bool = Field(False, description="search again from the start for the works of the year without full text")


@yearly_asset(
    deps=[resolver_plans],
    kinds={"python", "sqlite"},
    code_version="1",
    pool="downloads",
)
def downloaded_artifacts(
    context: dg.AssetExecutionContext,
    config: PassConfig,
    catalog: CatalogResource,
    artifact_store: ArtifactStoreResource,
    rate_limiter: RateLimiterResource,
    http_client: HttpClientResource,
) -> dg.MaterializeResult[None]:
    """The full texts: PDF or XML, else HTML, under the data root, named after year and title.

    Processes the works that are due or come due, until none is left or the deadline is reached (default: six hours). Works
    that still wait for a slow host are then parked, and the pass succeeds; the next run continues. Finished works are not
    fetched again, and a terminated run loses nothing. The newest year includes works without a known year.
    """
    year = year_of(context)
    with handle_step_errors(context), services(catalog, artifact_store, rate_limiter, http_client) as opened:
        years = years_of(year)
        result, folder = one_pass(context, config, opened, year, years)
        return dg.MaterializeResult(
            metadata={
                **_pass_metadata(result),
                **_year_metadata(opened.catalog, years),
                "run folder": ui_path(folder),
                "files": dg.MetadataValue.path(opened.store.place()),
            }
        )


def one_pass(
    context: Step, config: PassConfig, opened: Services, year: int | None, years: Years | None
) -> tuple[PassResult, Path]:
    """Drain the due works of some years, or of all, and report progress to the log and, as `year`, to the catalog. Returns the
    result and the run's folder."""
    stop, scope = threading.Event(), WorkScope(years)
    if config.force:
        reopened = force(opened.catalog, scope, Selection({"status": frozenset({"failed"})}))
        context.log.info(f"{reopened} works without full text are tried again.")
    reporter = _ProgressReporter(context, opened.catalog, year, years)
    run = DownloadRun(opened, context.run.run_id, kind="dagster", scope={"year": year}, stop=stop)
    with graceful_stop(stop), run:
        deadline = config.deadline_s or opened.config.download.deadline_s or _DEADLINE_S
        result = run.drain(scope, deadline_s=deadline, max_works=config.max_works, on_progress=reporter.report)
    counts = opened.catalog.queue_counts(years)
    context.log.info(
        f"The pass ended ({result.ended}): {result.finished - result.to_retry} works finished, {_with_full_text(result)} "
        f"with full text; {counts.done} of {counts.total} are finished, {counts.waiting} waiting."
    )
    return result, run.folder


class _ProgressReporter:
    """Writes progress to the catalog, and now and then to the log: a run of a million works has a few hundred lines."""

    def __init__(self, context: Step, catalog: Catalog, year: int | None, years: Years | None) -> None:
        self._context, self._catalog, self._year = context, catalog, year
        counts = catalog.queue_counts(years)
        self._total, self._done_before, self._saved_before = counts.total, counts.done, _saved(catalog, years)
        self._began = self._last_line = self._last_write = time.monotonic()
        self._last_counts: tuple[int, ...] = ()

    def report(self, progress: Progress) -> None:
        now = time.monotonic()
        speed = progress.finished / max(now - self._began, 0.001)
        state = {
            "phase": "downloading",
            "year": self._year,
            "total": self._total,
            "finished": self._done_before + progress.finished,
            "saved": self._saved_before + progress.saved,
            "later": progress.later,
            "open": progress.open,
            "hosts": list(progress.active_hosts),
            "waiting": [asdict(waiting) for waiting in progress.waiting],
            "works_per_s": round(speed, 2),
        }
        counts = (progress.finished, progress.saved, progress.later, progress.open)
        if counts != self._last_counts or now - self._last_write >= _WRITE_EVERY_S:
            self._last_counts, self._last_write = counts, now
            self._catalog.report_progress(self._context.run.run_id, state)
        if now - self._last_line >= _LINE_EVERY_S:
            self._last_line = now
            waiting = waiting_text(progress.waiting, most=3)
            self._context.log.info(
                f"{state['finished']} of {self._total} works finished, {state['saved']} with full text, "
                f"{progress.later} waiting, {speed:.1f} works/s" + (f"; waiting for {waiting}" if waiting else "")
            )


def _pass_metadata(result: PassResult) -> Mapping[str, Any]:
    finished = result.finished - result.to_retry
    return {
        "ended": result.ended,
        "finished in this pass": finished,
        "with full text in this pass": _with_full_text(result),
        "waiting after this pass": result.parked + result.to_retry,
        "requests": result.requests,
        "bytes": result.bytes,
        "seconds": round(result.elapsed_s, 1),
        "works per second": round(finished / result.elapsed_s, 2) if result.elapsed_s else 0.0,
    }


def _with_full_text(result: PassResult) -> int:
    return result.saved - result.html_only


def _year_metadata(catalog: Catalog, year: Years) -> Mapping[str, Any]:
    """The state of the year after all passes so far."""
    counts, due = catalog.queue_counts(year), catalog.next_due(year)
    columns = {"host": "string", "works": "int", "from": "string", "until": "string", "why": "string"}
    waiting = [
        (p.group, p.count, *(f"{format_time(at, seconds=True)} UTC" for at in (p.earliest, p.latest)), p.reason)
        for p in catalog.parked(year)
    ]
    known: dict[str, Any] = {
        "dagster/row_count": _saved(catalog, year),
        "works": counts.total,
        "finished": counts.done,
        "waiting": counts.waiting,
        "still to do": counts.to_do,
        "coverage": round(counts.done / counts.total, 4) if counts.total else 0.0,
        "how works ended": outcome_table(catalog.outcome_counts(year)),
        "waiting for": ui_table(columns, waiting),
    }
    return known if due is None else {**known, "next works come due": dg.MetadataValue.timestamp(due)}


def _saved(catalog: Catalog, year: Years | None) -> int:
    return sum(o.count for o in catalog.outcome_counts(year) if o.classification is Classification.SUCCESS)
