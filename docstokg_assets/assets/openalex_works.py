"""`openalex_works`: the works of a year, from OpenAlex into the lake. Paging is the source's business, asking the client's."""

from collections.abc import Iterator

import dagster as dg

from docstokg_assets.assets import shown
from docstokg_assets.assets.steps import plain_failures, services, year_of
from docstokg_assets.config import ContentDownloadConfig
from docstokg_assets.openalex import SourceError
from docstokg_assets.orchestrator import DownloadRun
from docstokg_assets.partitions import years
from docstokg_assets.sources import Collected
from docstokg_assets.works import Work
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


@dg.asset(
    partitions_def=years,
    group_name="content_download",
    kinds={"python", "parquet"},
    owners=["team:content-download"],
    code_version="1",
)
def openalex_works(
    context: dg.AssetExecutionContext,
    catalog: CatalogResource,
    artifact_store: ArtifactStoreResource,
    rate_limiter: RateLimiterResource,
    http_client: HttpClientResource,
) -> dg.MaterializeResult[None]:
    """Which works there are: the records of one publication year that `openalex.filter` selects.

    Asks the OpenAlex API month by month and keeps the records as Parquet under `lake/works`. Materialise it again to see
    what is new; the latest record of each work counts. Nothing is downloaded here.
    """
    year = year_of(context)
    with plain_failures(), services(catalog, artifact_store, rate_limiter, http_client) as opened:
        config = opened.config
        works_filter = _filter_of(config)
        collected, trouble = Collected(), _Trouble()
        with DownloadRun(opened, context.run.run_id, kind="dagster", scope={"year": year}, account=False) as run:
            opened.catalog.report_progress(run.run_id, {"year": year, "phase": "listing works"})
            found = _Sample(trouble.ends(run.collect(works_filter, year, collected)))
            run.store(found)
        asides = [
            SetAside(run.run_id, works_filter, f"{a.where} {a.text}".strip(), a.reason) for a in collected.set_aside
        ]
        opened.catalog.add_set_aside(asides)
        if trouble.error is not None:
            context.log.warning(f"{collected.works} works came before OpenAlex stopped, and are kept.")
            raise trouble.error
        return dg.MaterializeResult(
            metadata={
                "dagster/row_count": collected.works,
                "announced by OpenAlex": collected.announced,
                "pages": collected.pages,
                "set aside": len(collected.set_aside),
                "records set aside": shown.table(
                    {"record": "string", "reason": "string"}, [(a.item, a.reason) for a in asides[:100]]
                ),
                "filter": works_filter,
                "sample": shown.table(
                    {"work": "string", "title": "string", "doi": "string"},
                    [(work.work_id, work.title, work.doi) for work in found.first],
                ),
                "folder": shown.place(config.data_root / "lake" / "works" / f"year={year}"),
            }
        )


def _filter_of(config: ContentDownloadConfig) -> str:
    if config.openalex.source != "api":
        raise SettingsError(
            [
                f"openalex.source is {config.openalex.source}, which has no years; set it to api for Dagster, "
                f"or run `content pull --{config.openalex.source} FILE`"
            ]
        )
    if not config.openalex.filter:
        remedy = "say which works, e.g. DTKG_OPENALEX__FILTER='topics.id:T10102', or name a configuration file in DTKG_CONFIG"
        raise SettingsError([f"openalex.filter is not set; {remedy}"])
    return config.openalex.filter


class _Trouble:
    """What came before a source failed is kept; the failure is told afterwards."""

    def __init__(self) -> None:
        self.error: SourceError | HttpError | None = None

    def ends(self, works: Iterator[Work]) -> Iterator[Work]:
        try:
            yield from works
        except (SourceError, HttpError) as error:
            self.error = error


class _Sample:
    """Passes works on and remembers the first few."""

    def __init__(self, works: Iterator[Work]) -> None:
        self._works = works
        self.first: list[Work] = []

    def __iter__(self) -> Iterator[Work]:
        for work in self._works:
            if len(self.first) < _SHOWN:
                self.first.append(work)
            yield work
