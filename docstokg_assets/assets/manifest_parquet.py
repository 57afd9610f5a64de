"""`manifest_parquet`: what the catalog learnt since the last export, as new parts, which `telemetry.lake` writes."""

import dagster as dg

from docstokg_assets.assets import shown
from docstokg_assets.assets.downloaded_artifacts import downloaded_artifacts
from docstokg_assets.assets.steps import configuration, plain_ends, year_of
from docstokg_assets.partitions import years
from docstokg_assets.telemetry.views import bring_up_to_date, views_file
from resources.dagster_resources import CatalogResource


@dg.asset(
    deps=[downloaded_artifacts],
    partitions_def=years,
    group_name="content_download",
    kinds={"python", "parquet", "duckdb"},
    owners=["team:content-download"],
    code_version="1",
    metadata=shown.columns("manifest_parquet"),
)
def manifest_parquet(context: dg.AssetExecutionContext, catalog: CatalogResource) -> dg.MaterializeResult[None]:
    """The manifest for analysis: every attempt and every outcome, as Parquet by year under `lake/`.

    Only what is new since the last export is written, for all years at once; parts are never changed. `telemetry.duckdb` in
    the data root has views over them for any DuckDB client, unless the lake is in a bucket.
    """
    with plain_ends(context):
        config = configuration(catalog)
        lake = config.lake_files()
        with catalog.open(config.data_root) as opened:
            opened.report_progress(context.run.run_id, {"year": year_of(context), "phase": "exporting"})
            exported = bring_up_to_date(opened, lake)
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": exported.attempts + exported.outcomes,
            "attempts": exported.attempts,
            "outcomes": exported.outcomes,
            "parts": shown.table({"part": "path"}, [(part,) for part in exported.parts]),
            "lake": shown.place(lake.place),
            **({"DuckDB views": shown.place(views)} if (views := views_file(lake)) else {}),
        }
    )
