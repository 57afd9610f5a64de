"""Helpers of the flow tests: submit requests, drain them, and return their results."""

from __future__ import annotations

from typing import Any

from docstokg_assets.config import ContentDownloadConfig
from docstokg_assets.ingest.records import FileIngestResult
from docstokg_assets.ingest.run import IngestRun
from docstokg_assets.ingest.service import IngestService
from docstokg_assets.runs.services import open_services
from resources.scope import ALL_LANES, Lane

PDF_TYPE = "application/pdf"
PAGE = "<html><head><title>{title}</title>{head}</head><body>{body}</body></html>"


def page(body: str = "", head: str = "", title: str = "An article") -> str:
    return PAGE.format(title=title, head=head, body=body)


def linking(url: str) -> str:
    """A landing page of an article that names its PDF."""
    return page(
        "<h1>An article</h1>", f'<meta name="citation_title" content="x"><meta name="citation_pdf_url" content="{url}">'
    )


def ingest(
    config: ContentDownloadConfig, *requests: dict[str, Any], lane: Lane = Lane.PRIORITY
) -> list[FileIngestResult]:
    """The results of requests after one pass."""
    with open_services(config) as services:
        service = IngestService(services.catalog, config)
        submitted = [service.submit(service.validate(request), lane) for request in requests]
        with IngestRun(services, kind="ingest") as run:
            run.drain_lanes(ALL_LANES, deadline_s=60)
        results = [service.result(each.id) for each in submitted]
    return [result for result in results if result is not None]
