"""`manifest_parquet`: what the catalog learnt since the last export, as new parts, which `telemetry.lake` writes."""

import dagster as dg

from docstokg_assets.defs import metadata as shown
from docstokg_assets.defs.assets.downloaded_artifacts import downloaded_artifacts
from docstokg_assets.defs.partitions import years
from docstokg_assets.defs.steps import configuration, handle_step_errors, year_of
from docstokg_assets.lake.views import export_new_rows, views_file
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
    with handle_step_errors(context):
        config = configuration(catalog)
        lake = config.lake_files()
        with catalog.open(config.data_root) as opened:
            opened.report_progress(context.run.run_id, {"year": year_of(context), "phase": "exporting"})
            exported = export_new_rows(opened, lake)
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
