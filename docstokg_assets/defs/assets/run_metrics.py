"""`run_metrics`: the indicators of a year, computed by `reporting.metrics`, and its report, written by `reporting.report`."""

from datetime import UTC, datetime, timedelta

import dagster as dg

from docstokg_assets.defs.assets.manifest_parquet import manifest_parquet
from docstokg_assets.defs.metadata import column_metadata, ui_path, ui_text_table
from docstokg_assets.defs.partitions import yearly_asset
from docstokg_assets.defs.steps import catalog_step, year_of, years_of
from docstokg_assets.lake.writer import LakeWriter
from docstokg_assets.reporting.metrics import metric_rows
from docstokg_assets.reporting.plot import as_markdown
from docstokg_assets.reporting.report import build_report, headline, tables, to_markdown
from resources.dagster_resources import CatalogResource
from resources.scope import WorkScope
from resources.whole_file import whole_file


@yearly_asset(
    deps=[manifest_parquet],
    kinds={"python", "duckdb", "parquet"},
    code_version="1",
    metadata=column_metadata("run_metrics"),
    # The only place that shows that the nightly delta no longer runs.
    freshness_policy=dg.FreshnessPolicy.time_window(fail_window=timedelta(hours=72), warn_window=timedelta(hours=36)),
)
def run_metrics(context: dg.AssetExecutionContext, catalog: CatalogResource) -> dg.MaterializeResult[None]:
    """Yield, speed, politeness and integrity of the year, compared with their objectives.

    Computed with DuckDB from the manifest, stored under `lake/metrics` with the time of computation, and written as a report.
    The objectives are checks of this asset.
    """
    year, now = year_of(context), datetime.now(UTC)
    with catalog_step(context, catalog, "measuring") as (config, lake, opened):
        root = config.data_root
        report = build_report(lake, root, WorkScope(years_of(year)), opened, now, config.artifact_root)
        LakeWriter(lake).append("metrics", metric_rows(report.slis, now))
    text, path = to_markdown(report), root / "reports" / f"{year}.md"
    with whole_file(path) as temp:
        temp.write_text(text, encoding="utf-8")
    context.log.info(headline(report))
    numbers = {name: round(value, 4) for name, value in report.slis.values().items() if value is not None}
    report_tables = {table.title: ui_text_table(table.columns, table.rows) for table in tables(report)}
    return dg.MaterializeResult(
        metadata={
            "in a sentence": headline(report),
            "in a picture": dg.MetadataValue.md(as_markdown(report.slis)),
            "report": dg.MetadataValue.md(text),
            **report_tables,
            **numbers,
            "report file": ui_path(path),
            "run folder": ui_path(root / context.run.run_id),
        }
    )
