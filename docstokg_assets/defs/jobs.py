"""The jobs: a whole year, the rest of a year, the checks of a year, the due works of all years."""

import dagster as dg
from pydantic import Field

from docstokg_assets.defs.assets.downloaded_artifacts import PassConfig, downloaded_artifacts, one_pass
from docstokg_assets.defs.assets.manifest_parquet import manifest_parquet
from docstokg_assets.defs.assets.openalex_works import openalex_works
from docstokg_assets.defs.assets.resolver_plans import resolver_plans
from docstokg_assets.defs.assets.run_metrics import run_metrics
from docstokg_assets.defs.steps import handle_step_errors, services
from resources.dagster_resources import ArtifactStoreResource, CatalogResource, HttpClientResource, RateLimiterResource

_REST = [downloaded_artifacts, manifest_parquet, run_metrics]

collect_year = dg.define_asset_job(
    "collect_year", [openalex_works, resolver_plans, *_REST], description="A year from its list of works to its report."
)
continue_year = dg.define_asset_job(
    "continue_year",
    _REST,
    description="The rest of a year: works that waited or are due for a retry, then export and report.",
)
check_year = dg.define_asset_job(
    "check_year",
    dg.AssetSelection.assets(manifest_parquet, run_metrics).without_checks() | dg.AssetSelection.all_asset_checks(),
    description="Checks a year again: reads stored files, exports, measures, and evaluates all checks. Sends no request.",
)


class DrainConfig(PassConfig):
    year: int | None = Field(None, description="only works of this year; 0 for those without a known one")


@dg.op(pool="downloads")
def drain_queue(
    context: dg.OpExecutionContext,
    config: DrainConfig,
    catalog: CatalogResource,
    artifact_store: ArtifactStoreResource,
    rate_limiter: RateLimiterResource,
    http_client: HttpClientResource,
) -> None:
    """Process the due works of the queue once. Several machines can do so at the same time: each work is claimed by one."""
    with handle_step_errors(context), services(catalog, artifact_store, rate_limiter, http_client) as opened:
        one_pass(context, config, opened, config.year, config.year)


@dg.job(description="Process the due works of one year or of all, on any number of machines; exports nothing.")
def drain() -> None:
    drain_queue()
