"""`openalex_works`: the works of a year, from their source into the lake. Paging is the source's business."""

import datetime as dt
import hashlib
from collections.abc import Iterator

import dagster as dg
from pydantic import Field

from docstokg_assets.config import ContentDownloadConfig
from docstokg_assets.defs import metadata as shown
from docstokg_assets.defs.partitions import newest_year, years
from docstokg_assets.defs.steps import handle_step_errors, services, year_of
from docstokg_assets.domain.works import Work
from docstokg_assets.runs.run import ChangedSince, DownloadRun, with_types
from docstokg_assets.sources import SourceError
from docstokg_assets.sources.listing import Collected, in_batches
from resources.catalog.catalog import Catalog
from resources.catalog.rows import SetAside
from resources.dagster_resources import (
    ArtifactStoreResource,
    CatalogResource,
    HttpClientResource,
    RateLimiterResource,
)
from resources.http.errors import HttpError
from resources.settings import SettingsError

_SHOWN = 10
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
            return ChangedSince("updated", dt.date.fromisoformat(self.updated_since))
        return ChangedSince("published", dt.date.fromisoformat(self.published_since)) if self.published_since else None


@dg.asset(
    partitions_def=years,
    group_name="content_download",
    kinds={"python", "parquet"},
    owners=["team:content-download"],
    code_version="2",
    metadata=shown.columns("openalex_works"),
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
    """Which works there are: the records of one publication year that `openalex.filter` selects.

    From the OpenAlex API month by month, from a snapshot, or from a file of ids or URLs (`openalex.source`); kept as Parquet
    under `lake/works`. Materialise it again to see what is new; the latest record of each work counts. A listing that breaks
    off goes on where it was. Nothing is downloaded here.
    """
    year = year_of(context)
    with handle_step_errors(context), services(catalog, artifact_store, rate_limiter, http_client) as opened:
        source = _source(opened.config)
        position = _Position(opened.catalog, opened.config, year, config.changed)
        collected, first = Collected(through=position.through), list[Work]()
        if collected.through:
            context.log.info(f"Goes on after {collected.through}, up to where the last listing came.")
        trouble, stored = _Trouble(), 0
        with DownloadRun(opened, context.run.run_id, kind="dagster", scope={"year": year}, account=False) as run:
            opened.catalog.report_progress(run.run_id, {"year": year, "phase": "listing works"})
            works = run.works_of_year(year, collected, config.changed, with_unknown=year == newest_year())
            for batch in in_batches(trouble.ends(works), local=opened.config.openalex.source == "snapshot"):
                stored += run.store(batch)
                position.keep(collected)
                first += batch[: _SHOWN - len(first)]
            position.end(collected, trouble.error)
        asides = [SetAside(run.run_id, source, f"{a.where} {a.text}".strip(), a.reason) for a in collected.set_aside]
        opened.catalog.add_set_aside(asides)
        if trouble.error is not None:
            context.log.warning(f"{stored} works came before the source stopped, and are kept; the next run goes on.")
            raise trouble.error
        return dg.MaterializeResult(
            metadata={
                "dagster/row_count": stored,
                "announced by the source": collected.announced,
                "pages": collected.pages,
                "set aside": len(collected.set_aside),
                "records set aside": shown.table(
                    {"record": "string", "reason": "string"}, [(a.item, a.reason) for a in asides[:100]]
                ),
                "source": source,
                "only": str(config.changed or "all works"),
                "sample": shown.table(
                    {"work": "string", "title": "string", "doi": "string"},
                    [(work.work_id, work.title, work.doi) for work in first],
                ),
                "folder": shown.place(f"{opened.lake.files.place}/works/year={year}"),
            }
        )


def _source(config: ContentDownloadConfig) -> str:
    """The source in words: its filter, snapshot or file."""
    openalex = config.openalex
    if openalex.source == "api" and not openalex.filter:
        remedy = "say which works, e.g. DTKG_OPENALEX__FILTER='topics.id:T10102', or name a configuration file in DTKG_CONFIG"
        raise SettingsError([f"openalex.filter is not set; {remedy}"])
    place = {"snapshot": openalex.snapshot, "ids": openalex.ids_file, "urls": openalex.urls_file}.get(openalex.source)
    return " ".join(str(part) for part in (openalex.source, place, openalex.filter) if part)


class _Position:
    """Up to which day a year was taken in from its source, kept in the catalog under a name that changes with the source."""

    def __init__(
        self, catalog: Catalog, config: ContentDownloadConfig, year: int, changed: ChangedSince | None
    ) -> None:
        selected = f"{_source(config)} {with_types(config, config.openalex.filter)}"
        of = hashlib.sha256(selected.encode()).hexdigest()[:12]
        self._catalog, self._name = catalog, f"works.{year}.{of}"
        # A year of which not all is wanted is counted from its beginning, every time.
        self._kept = config.openalex.max_works is None and changed is None
        self._stays = config.openalex.source == "snapshot"  # a folder that was read never changes
        days = catalog.export_position(self._name) if self._kept else 0
        self.through = dt.date.fromordinal(days) if days else None

    def keep(self, collected: Collected) -> None:
        if self._kept and collected.through:
            self._catalog.set_export_position(self._name, collected.through.toordinal())

    def end(self, collected: Collected, error: Exception | None) -> None:
        self.keep(collected)
        if error is None and not self._stays and self._kept:
            self._catalog.set_export_position(self._name, 0)  # a list is asked for anew next time: it may have grown


class _Trouble:
    """What came before a source failed is kept; the failure is told afterwards."""

    def __init__(self) -> None:
        self.error: SourceError | HttpError | None = None

    def ends(self, works: Iterator[Work]) -> Iterator[Work]:
        try:
            yield from works
        except (SourceError, HttpError) as error:
            self.error = error
