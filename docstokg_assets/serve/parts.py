"""What the endpoints work with, and how errors become answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from docstokg_assets.config import ContentDownloadConfig
from docstokg_assets.ingest.records import InvalidRequest
from docstokg_assets.ingest.service import IngestService, QueueFull
from docstokg_assets.serve.access import Access, Refused
from docstokg_assets.serve.intake import Intake
from docstokg_assets.serve.metrics import Metrics
from docstokg_assets.serve.progress import ProgressHub, TooManyWatched, UnknownRequest
from docstokg_assets.serve.worker import Worker
from resources.artifacts.store import ArtifactStore
from resources.errors import ExplainedError
from resources.settings import Loaded

_STATUS: Mapping[type[ExplainedError], tuple[HTTPStatus, int | None]] = {
    InvalidRequest: (HTTPStatus.UNPROCESSABLE_ENTITY, None),
    QueueFull: (HTTPStatus.SERVICE_UNAVAILABLE, 60),
    UnknownRequest: (HTTPStatus.NOT_FOUND, None),
    TooManyWatched: (HTTPStatus.SERVICE_UNAVAILABLE, 30),
}


@dataclass(frozen=True)
class Parts:
    loaded: Loaded[ContentDownloadConfig]
    service: IngestService
    intake: Intake
    hub: ProgressHub
    store: ArtifactStore
    access: Access
    metrics: Metrics
    worker: Worker | None  # None: this process only accepts

    def is_healthy(self) -> bool:
        """Whether the catalog answers and the engine, if it belongs here, runs."""
        try:
            self.service.catalog.now()
        except ExplainedError:
            return False
        return self.worker is None or self.worker.is_healthy


def parts_of(request: Request) -> Parts:
    parts: Parts = request.app.state.parts
    return parts


def refusal(error: ExplainedError) -> Refused:
    """The answer to an error of the service. What is not the caller's fault is a 503: it passes, and nothing is lost."""
    status, wait = _STATUS.get(type(error), (HTTPStatus.SERVICE_UNAVAILABLE, 30))
    return Refused(status, str(error), wait)


def problem_response(
    status: int, detail: str, problems: list[str] | None = None, retry_after: int | None = None
) -> Response:
    """An error as JSON, in the form of RFC 9457."""
    told: dict[str, Any] = {"status": int(status), "title": HTTPStatus(status).phrase, "detail": detail}
    if problems:
        told["problems"] = problems
    headers = {"retry-after": str(retry_after)} if retry_after is not None else None
    return Response(orjson.dumps(told), status, headers, media_type="application/problem+json")
