"""`ingest_requests → ingest_results`: the ingest requests and what became of them, with their check, job and sensor.

Not partitioned: requests belong to no year. A pass takes what is due of the whole request table, and any number of machines can
make passes at the same time.
"""

import threading

import dagster as dg
from pydantic import Field

from docstokg_assets.defs.metadata import ui_table
from docstokg_assets.defs.steps import configuration, graceful_stop, handle_step_errors, services, translate_step_errors
from docstokg_assets.ingest.run import IngestRun
from docstokg_assets.ingest.statuses import rule_of
from resources.catalog.catalog import Catalog
from resources.dagster_resources import ArtifactStoreResource, CatalogResource, HttpClientResource, RateLimiterResource
from resources.scope import ALL_LANES, Lane

_DEADLINE_S = 6 * 3600.0
_DAY_S = 86_400.0
_ACTIVE = [getattr(dg.DagsterRunStatus, name) for name in ("QUEUED", "NOT_STARTED", "STARTING", "STARTED")]
_GROUP = "ingest"


@dg.asset(group_name=_GROUP, kinds={"sqlite"}, code_version="1")
def ingest_requests(context: dg.AssetExecutionContext, catalog: CatalogResource) -> dg.MaterializeResult[None]:
    """The ingest requests in the catalog. They come from `content ingest load`, `content serve` and Kafka; this asset counts
    them by type and link source."""
    with handle_step_errors(context), Catalog.open(configuration(catalog).catalog_location) as opened:
        counts = opened.ingest_counts()
        by_source: dict[tuple[str, str], int] = {}
        for count in counts:
            key = count.ingest_type, count.link_source
            by_source[key] = by_source.get(key, 0) + count.requests
        rows = [(*key, number) for key, number in sorted(by_source.items(), key=lambda pair: -pair[1])]
        columns = {"type": "string", "link source": "string", "requests": "int"}
        open_requests = sum(count.requests for count in counts if count.status is None)
        return dg.MaterializeResult(
            metadata={
                "dagster/row_count": sum(count.requests for count in counts),
                "without an answer": open_requests,
                "by link source": ui_table(columns, rows),
            }
        )


class IngestPassConfig(dg.Config):
    deadline_s: float = Field(_DEADLINE_S, gt=0, description="seconds after which the pass ends; the rest stays queued")
    max_items: int | None = Field(None, gt=0, description="maximum number of URLs in this pass")
    queues: list[str] = Field(
        default_factory=lambda: [lane.name.lower() for lane in ALL_LANES], description="priority, daily, bulk"
    )


@dg.asset(deps=[ingest_requests], group_name=_GROUP, kinds={"python"}, code_version="1", pool="ingest")
def ingest_results(
    context: dg.AssetExecutionContext,
    config: IngestPassConfig,
    catalog: CatalogResource,
    artifact_store: ArtifactStoreResource,
    rate_limiter: RateLimiterResource,
    http_client: HttpClientResource,
) -> dg.MaterializeResult[None]:
    """The results of ingest requests, by status and link source. A pass fetches what is due, interactive requests first, until
    nothing is left or the deadline is reached; what waits for a slow host is left for the next pass. The run of a year fetches
    none."""
    if "dagster/partition" in context.run.tags:  # `--select '*' --partition 2024` names this asset too
        return dg.MaterializeResult(metadata={"ended": "not started: a run of a year fetches no ingest requests"})
    with handle_step_errors(context), services(catalog, artifact_store, rate_limiter, http_client) as opened:
        stop, lanes = threading.Event(), tuple(Lane[name.upper()] for name in config.queues)
        run = IngestRun(opened, context.run.run_id, kind="dagster-ingest", stop=stop)
        with graceful_stop(stop), run:
            result = run.drain_lanes(lanes, deadline_s=config.deadline_s, max_items=config.max_items)
        columns = {"status": "string", "ending": "string", "type": "string", "link source": "string", "requests": "int"}
        counts = opened.catalog.ingest_counts()
        rows = [
            (c.status or "pending", str(rule_of(c.status).ending) if c.status else "open", *c[:2], c.requests)
            for c in counts[:500]
        ]
        return dg.MaterializeResult(
            metadata={
                "dagster/row_count": sum(c.requests for c in counts if c.status is not None),
                "ended": result.ended,
                "answered in this pass": result.finished,
                "saved in this pass": result.saved,
                "waiting after this pass": result.parked + result.to_retry,
                "requests": result.requests,
                "seconds": round(result.elapsed_s, 1),
                "by status": ui_table(columns, rows),
            }
        )


@dg.asset_check(asset=ingest_results)
def every_request_is_answered(context: dg.AssetCheckExecutionContext, catalog: CatalogResource) -> dg.AssetCheckResult:
    """Every request that is older than a day has a result, or an item that is due, held, or waits until a time."""
    with handle_step_errors(context), Catalog.open(configuration(catalog).catalog_location) as opened:
        lost = opened.unanswered_ingest(_DAY_S)
    return dg.AssetCheckResult(passed=lost == 0, metadata={"requests without result or time": lost})


ingest_pass = dg.define_asset_job(
    "ingest_pass",
    dg.AssetSelection.assets(ingest_requests, ingest_results),
    description="Fetches the ingest requests that are due. Any number of machines can run it at the same time.",
)


@dg.sensor(
    job=ingest_pass,
    minimum_interval_seconds=30,
    description="Starts a pass when ingest requests are due, new ones or ones to be tried again, unless one is running.",
)
def ingest_due(context: dg.SensorEvaluationContext, catalog: CatalogResource) -> dg.SensorResult:
    """Start a pass when ingest requests are due."""
    with translate_step_errors(), Catalog.open(configuration(catalog).catalog_location) as opened:
        due = {lane: opened.ingest_due(lane) for lane in ALL_LANES}
    found = ", ".join(f"{number:,} {lane.name.lower()}" for lane, number in due.items() if number)
    if not found:
        return dg.SensorResult(skip_reason="no ingest requests are due")
    running = context.instance.get_runs(dg.RunsFilter(job_name=ingest_pass.name, statuses=_ACTIVE), limit=1)
    if running:
        return dg.SensorResult(skip_reason=f"{found} requests are due; run {running[0].run_id} is at work")
    context.log.info(f"{found} requests are due")
    return dg.SensorResult(run_requests=[dg.RunRequest(tags={"docstokg/due": found})])
