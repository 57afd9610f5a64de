"""The Dagster code location: assembles assets, checks, jobs, sensors and resources. Loading it sends no request."""

import warnings
from collections.abc import Sequence

import dagster as dg

from docstokg_assets.defs import checks, jobs, schedules, sensors
from docstokg_assets.defs.assets.downloaded_artifacts import downloaded_artifacts
from docstokg_assets.defs.assets.manifest_parquet import manifest_parquet
from docstokg_assets.defs.assets.openalex_works import openalex_works
from docstokg_assets.defs.assets.resolver_plans import resolver_plans
from docstokg_assets.defs.assets.run_metrics import run_metrics
from resources.dagster_resources import ArtifactStoreResource, CatalogResource, HttpClientResource, RateLimiterResource


def _with_code_references(assets: Sequence[dg.AssetsDefinition]) -> list[dg.AssetsDefinition]:
    """Let each asset's page in the UI name its file and line, as installed here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)  # a dozen lines before everything that Dagster says
        placed = dg.with_source_code_references(assets)
    return [asset for asset in placed if isinstance(asset, dg.AssetsDefinition)]


defs = dg.Definitions(
    assets=_with_code_references([openalex_works, resolver_plans, downloaded_artifacts, manifest_parquet, run_metrics]),
    asset_checks=checks.ALL,
    jobs=[jobs.collect_year, jobs.continue_year, jobs.check_year, jobs.drain],
    schedules=[schedules.rolling_audit],
    sensors=[sensors.nightly_delta, sensors.works_due, sensors.failure_summary],
    resources={
        "catalog": CatalogResource(),
        "artifact_store": ArtifactStoreResource(),
        "rate_limiter": RateLimiterResource(),
        "http_client": HttpClientResource(),
    },
    # The threads are inside the step; a process for each step would only cost seconds.
    executor=dg.in_process_executor,
)
