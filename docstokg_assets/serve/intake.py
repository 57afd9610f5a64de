"""Takes requests in for HTTP and gRPC: validates, stores, counts. The answers are the same for both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, Field

from docstokg_assets.ingest.records import IngestRequest, InvalidRequest
from docstokg_assets.ingest.service import IngestService, QueueFull
from docstokg_assets.serve.metrics import Metrics
from resources.catalog.ingest import LoadCounts
from resources.scope import Lane

MAX_LISTED = 100  # problems in the answer to a stream


class Accepted(BaseModel):
    """The answer to an accepted request."""

    id: str = Field(description="the id of the request, for its result and its events")
    item_id: str = Field(description="the id of the search; all requests for the same URL and type share it")
    new: bool = Field(description="false when the same request was stored before; its result answers this one too")
    reopened: bool = Field(description="whether the URL is fetched again, as the request demands")
    after: float | None = Field(None, description="for a reopened one: an answer older than this does not count")


class LineProblem(BaseModel):
    line: int
    problems: list[str]


class StreamAnswer(BaseModel):
    """The answer to a stream of requests."""

    requests: int = Field(0, description="valid requests")
    new: int = Field(0, description="of these, not known before")
    items: int = Field(0, description="URLs that were queued")
    reopened: int = Field(0, description="URLs that are fetched again")
    refused: int = Field(0, description="lines that are no valid request; nothing is stored for them")
    problems: list[LineProblem] = Field(
        default_factory=list, description=f"what is wrong with them, for the first {MAX_LISTED}"
    )


@dataclass
class Intake:
    service: IngestService
    metrics: Metrics

    def submit(self, raw: Any, lane: Lane, way: str) -> Accepted:
        """Validate and store one request. Raises InvalidRequest and QueueFull."""
        try:
            request = self.service.validate(raw)
            began = self.service.catalog.now() if _demands(request) else None
            submitted = self.service.submit(request, lane)
        except (InvalidRequest, QueueFull) as error:
            self._refused(way, error)
            raise
        self.metrics.count("docstokg_ingest_submitted_total", way=way)
        after = began if submitted.reopened else None
        fields = (submitted.id, submitted.item_id, submitted.new, submitted.reopened, after)
        return Accepted(**dict(zip(Accepted.model_fields, fields, strict=True)))

    def begin_stream(self, lane: Lane, way: str) -> Stream:
        return Stream(self, lane, way)

    def _refused(self, way: str, error: Exception) -> None:
        cause = "queue-full" if isinstance(error, QueueFull) else "invalid"
        self.metrics.count("docstokg_ingest_refused_total", way=way, cause=cause)


@dataclass
class Stream:
    """Many requests in portions. What was stored stays, whatever happens to the rest."""

    intake: Intake
    lane: Lane
    way: str
    lines: int = 0
    counts: LoadCounts = field(default_factory=LoadCounts)
    refused: int = 0
    problems: list[LineProblem] = field(default_factory=list)

    def add(self, portion: Iterable[Any]) -> list[IngestRequest | LineProblem]:
        """Validate and store a portion; each element is a JSON text or a mapping. Raises QueueFull. Returns what became of
        each."""
        parsed = list(self._parsed(portion))
        valid = [each for each in parsed if isinstance(each, IngestRequest)]
        try:
            if valid:
                self.counts += self.intake.service.submit_many(valid, self.lane)
        except QueueFull as error:
            self.intake._refused(self.way, error)
            raise
        self.intake.metrics.count("docstokg_ingest_submitted_total", len(valid), way=self.way)
        return parsed

    def _parsed(self, portion: Iterable[Any]) -> Iterator[IngestRequest | LineProblem]:
        for raw in portion:
            self.lines += 1
            try:
                if isinstance(raw, InvalidRequest):  # found before, by the way in
                    raise raw
                yield self.intake.service.validate(raw)
            except InvalidRequest as error:
                self.intake._refused(self.way, error)
                self.refused += 1
                problem = LineProblem(line=self.lines, problems=error.problems)
                if len(self.problems) < MAX_LISTED:
                    self.problems.append(problem)
                yield problem

    def answer(self) -> StreamAnswer:
        return StreamAnswer(**self.counts._asdict(), refused=self.refused, problems=self.problems)


def _demands(request: IngestRequest) -> bool:
    return request.force_recrawl or request.max_age_days is not None
