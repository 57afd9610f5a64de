"""`openalex_works`: the works of a year, from their source into the lake. `sources.listing` lists them."""

from datetime import UTC, date, datetime

import dagster as dg
from pydantic import Field

from docstokg_assets.defs.metadata import column_metadata, ui_path, ui_table
from docstokg_assets.defs.partitions import newest_year, yearly_asset
from docstokg_assets.defs.steps import handle_step_errors, services, year_of
from docstokg_assets.domain.works import Work
from docstokg_assets.runs.planning import store_works
from docstokg_assets.runs.run import DownloadRun
from docstokg_assets.sources.listing import (
    ChangedSince,
    Collected,
    ListingRecord,
    Source,
    YearPosition,
    in_batches,
    record_set_aside,
)
from resources.dagster_resources import ArtifactStoreResource, CatalogResource, HttpClientResource, RateLimiterResource
from resources.processes import rare_collections

_SAMPLE = 10
_DAY = r"\d{4}-\d{2}-\d{2}"


class ListConfig(dg.Config):
    updated_since: str | None = Field(
        None,
        pattern=_DAY,
        description="only works that OpenAlex changed since this day (a plan that allows it, or a snapshot)",
    )
    published_since: str | None = Field(None, pattern=_DAY, description="only works published since this day")

    @property
    def changed(self) -> ChangedSince | None:
        if self.updated_since:
            return ChangedSince("updated", date.fromisoformat(self.updated_since))
        return ChangedSince("published", date.fromisoformat(self.published_since)) if self.published_since else None


@yearly_asset(
    kinds={"python", "parquet"},
    code_version="2",
    metadata=column_metadata("openalex_works"),
    pool="openalex",
)
def openalex_works(
    context: dg.AssetExecutionContext,
    config: ListConfig,
    catalog: CatalogResource,
    artifact_store: ArtifactStoreResource,
    rate_limiter: RateLimiterResource,
    http_client: HttpClientResource,
) -> dg.MaterializeResult[None]:
    """The works of one publication year that `openalex.filter` selects.

    From the OpenAlex API month by month, from a snapshot, or from a file of ids or URLs (`openalex.source`); kept as Parquet
    under `lake/works`. Materialise it again to see what is new; the latest record of each work counts. A listing that broke
    off continues where it stopped. Nothing is downloaded here.
    """
    year, collected = year_of(context), Collected()
    stored, sample = 0, list[Work]()
    with handle_step_errors(context), services(catalog, artifact_store, rate_limiter, http_client) as opened:
        openalex = opened.config.openalex
        source = Source.configured(openalex)
        position = YearPosition(opened.catalog, openalex, year, config.changed)
        collected.through = position.through
        if collected.through:
            context.log.info(f"Continues after {collected.through}, where the last listing stopped.")
        download = DownloadRun(opened, context.run.run_id, kind="dagster", scope={"year": year}, account=False)
        with rare_collections(), download as run:
            opened.catalog.report_progress(run.run_id, {"year": year, "phase": "listing works"})
            works = run.list_works(
                source, collected, year=year, changed=config.changed, with_unknown=year == newest_year()
            )
            record = ListingRecord(
                opened.catalog, openalex, run.run_id, year, config.changed, continued=position.through is not None
            )
            for batch in in_batches(works, local=source.kind == "snapshot"):
                stored += store_works(opened.lake, batch, datetime.now(UTC))
                position.save(collected)
                record.save(collected.works_through)
                sample += batch[: _SAMPLE - len(sample)]
            position.finish(collected)
            complete = collected.error is None
            record.save(stored if complete else collected.works_through, complete=complete)
        set_aside = record_set_aside(opened.catalog, run.run_id, openalex.description, collected)
        if collected.error is not None:
            context.log.warning(f"{stored} works came before the source failed, and are kept; the next run continues.")
            raise collected.error
        return dg.MaterializeResult(
            metadata={
                "dagster/row_count": stored,
                "announced by the source": collected.announced,
                "pages": collected.pages,
                "set aside": len(set_aside),
                "records set aside": ui_table(
                    {"record": "string", "reason": "string"}, [(row.item, row.reason) for row in set_aside[:100]]
                ),
                "source": openalex.description,
                "only": str(config.changed or "all works"),
                "sample": ui_table(
                    {"work": "string", "title": "string", "doi": "string"},
                    [(work.work_id, work.title, work.doi) for work in sample],
                ),
                "folder": ui_path(f"{opened.lake.files.place}/works/year={year}"),
            }
        )
