"""`manifest_parquet`: the catalog's rows since the last export, as new Parquet parts; `lake.writer` writes them."""

import dagster as dg

from docstokg_assets.defs.assets.downloaded_artifacts import downloaded_artifacts
from docstokg_assets.defs.metadata import column_metadata, ui_path, ui_table
from docstokg_assets.defs.partitions import yearly_asset
from docstokg_assets.defs.steps import catalog_step
from docstokg_assets.lake.views import export_new_rows, views_file
from resources.dagster_resources import CatalogResource


@yearly_asset(
    deps=[downloaded_artifacts],
    kinds={"python", "parquet", "duckdb"},
    code_version="1",
    metadata=column_metadata("manifest_parquet"),
)
def manifest_parquet(context: dg.AssetExecutionContext, catalog: CatalogResource) -> dg.MaterializeResult[None]:
    """The manifest for analysis: every attempt and every outcome, as Parquet by year under `lake/`.

    Only what is new since the last export is written, for all years at once; parts are never changed. `telemetry.duckdb` in
    the data root has views over them for any DuckDB client, unless the lake is in a bucket.
    """
    with catalog_step(context, catalog, "exporting") as (_, lake, opened):
        exported = export_new_rows(opened, lake)
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": exported.attempts + exported.outcomes,
            "attempts": exported.attempts,
            "outcomes": exported.outcomes,
            "parts": ui_table({"part": "path"}, [(part,) for part in exported.parts]),
            "lake": ui_path(lake.place),
            **({"DuckDB views": ui_path(views)} if (views := views_file(lake)) else {}),
        }
    )
