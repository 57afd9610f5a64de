"""`resolver_plans`: which copies of each work of a year will be tried, in which order. `domain.plans` makes the plans."""

from datetime import UTC, datetime
from itertools import chain

import dagster as dg

from docstokg_assets.config import resolvers_of
from docstokg_assets.defs.assets.openalex_works import openalex_works
from docstokg_assets.defs.metadata import column_metadata, ui_path, ui_table
from docstokg_assets.defs.partitions import yearly_asset
from docstokg_assets.defs.steps import catalog_step, year_of, years_of
from docstokg_assets.lake.reader import WorksToPlan
from docstokg_assets.lake.views import open_lake
from docstokg_assets.lake.writer import LakeWriter
from docstokg_assets.resolvers.registry import rules_hash
from docstokg_assets.runs.planning import plan_year
from docstokg_assets.sources.deletions import DeletionCounts, deleted_of_years, without_deleted
from docstokg_assets.sources.listing import open_snapshot
from resources.dagster_resources import CatalogResource

_FIRST_HOSTS = """
SELECT coalesce(host, 'none'), resolver, count(*) FROM plans WHERE year = {year:d} AND position = 0
GROUP BY ALL ORDER BY 3 DESC, 1, 2 LIMIT 20
"""


@yearly_asset(
    deps=[openalex_works],
    kinds={"python", "parquet", "sqlite"},
    code_version="2",
    metadata=column_metadata("resolver_plans"),
)
def resolver_plans(context: dg.AssetExecutionContext, catalog: CatalogResource) -> dg.MaterializeResult[None]:
    """The plan of each work: its known copies, in the order in which they are tried, and the providers to query.

    Planning sends no request to a provider. Plans are written as Parquet under `lake/plans`; the queue in the catalog has a
    row for each work. A work whose plan changed is reopened, unless it already has a full text. Works without a known year
    are planned and downloaded with the newest one. Works that the snapshot lists as deleted are not searched for; their files
    are kept.
    """
    year = year_of(context)
    with catalog_step(context, catalog, "planning") as (config, lake, opened):
        snapshot = open_snapshot(config.openalex) if config.openalex.source == "snapshot" else None
        deleted, ended = deleted_of_years(snapshot, lake, opened, years_of(year)), DeletionCounts()
        resolvers = resolvers_of(config)
        to_plan = WorksToPlan(lake, rules_hash(resolvers), opened.planned_from, deleted)
        listed = chain.from_iterable(to_plan.works(each) for each in years_of(year))
        works, writer, now = without_deleted(listed, deleted, opened, ended), LakeWriter(lake), datetime.now(UTC)
        planned = plan_year(to_plan, works, resolvers, config.rate_limit, opened, writer, now)
        if not planned.works and not ended.works:
            context.log.warning(
                f"No works of {year} are in the lake. Materialise openalex_works first, or widen the filter."
            )
        with open_lake(lake) as views:
            first_hosts = views.execute(_FIRST_HOSTS.format(year=year)).fetchall()
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": planned.steps,
            "works": planned.works,
            "new": planned.new,
            "opened again": planned.reopened,
            "unchanged": planned.unchanged,
            "steps": planned.steps,
            "providers to ask": planned.deferred,
            "without a known copy": planned.without_candidate,
            "deleted at OpenAlex": ended.works,
            "deleted there, kept here": ended.kept,
            "asked first": ui_table({"host": "string", "resolver": "string", "works": "int"}, first_hosts),
            "folder": ui_path(f"{lake.place}/plans/year={year}"),
        }
    )
