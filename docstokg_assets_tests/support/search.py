"""Drive the search for one work by hand: a fake web answers its requests, nothing is sent."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from docstokg_assets.config.models import resolvers_model
from docstokg_assets.domain.works import Location, Work
from docstokg_assets.engine.download import ArtifactSink
from docstokg_assets.engine.search import ResolverPipeline
from docstokg_assets.engine.search_state import SearchState
from docstokg_assets.engine.settings import DownloadSettings
from docstokg_assets.resolvers.registry import ResolverContext, ResolverSettings, build_resolvers, load_resolvers
from resources.artifacts.file_system import FileSystemStore
from resources.clock import SystemClock
from resources.http.attempts import AttemptLog
from resources.http.errors import HttpError
from resources.http.messages import Request, Response, ResponseHead
from resources.records import AttemptRecord, DownloadOutcome

PDF = b"%PDF-1.7\n" + b"x" * 5000 + b"\n%%EOF\n"
ORDER = ("openalex", "arxiv", "unpaywall", "crossref", "doi", "landing", "wayback")
Answer = Response | HttpError | tuple[int, str, bytes]


class Web:
    """Answers by URL prefix; remembers what was asked. What is not listed is not there."""

    def __init__(self, answers: Mapping[str, Answer]) -> None:
        self.answers = answers
        self.asked: list[tuple[str, str]] = []

    def answer(self, request: Request) -> Response | HttpError:
        self.asked.append((request.verb, request.url))
        found = next((a for url, a in self.answers.items() if request.url.startswith(url)), (404, "text/html", b"gone"))
        if not isinstance(found, tuple):
            return found
        status, content_type, body = found
        headers = {"content-type": content_type}
        if request.verb == "HEAD" or request.sink is None or status != 200:
            return Response(status, request.url, headers, b"" if request.verb == "HEAD" else body)
        sink = request.sink(ResponseHead(status, request.url, headers))
        assert isinstance(sink, ArtifactSink)
        try:
            sink.write(body)
            return Response(status, request.url, headers, payload=sink.finish())
        except HttpError as error:
            sink.abort()
            return error

    @property
    def urls(self) -> list[str]:
        return [url for verb, url in self.asked if verb == "GET"]


def pipeline(
    tmp_path: Path, order: tuple[str, ...] = ORDER, prechecked: tuple[str, ...] = (), **settings: Any
) -> ResolverPipeline:
    given = {name: ResolverSettings(head_precheck=True) for name in prechecked}
    resolvers = build_resolvers(order, {**resolvers_model(load_resolvers())().by_name(), **given})
    by_name = {resolver.name: resolver for resolver in resolvers}
    configured = {name: settings.pop(name) for name in list(settings) if name in DownloadSettings.model_fields}
    download = DownloadSettings.model_validate({"max_bytes": 1_000_000, **configured})
    context = ResolverContext("me@library-of-tests.edu")
    return ResolverPipeline(by_name, FileSystemStore(tmp_path), download, 100_000, context, **settings)


def log_to(records: list[AttemptRecord], work: Work) -> AttemptLog:
    numbers = itertools.count()
    return AttemptLog(records.append, SystemClock(), "run", "worker", lambda: next(numbers), work.work_id, work.year)


def search(
    made: ResolverPipeline,
    work: Work,
    web: Web,
    state: SearchState | None = None,
    records: list[AttemptRecord] | None = None,
) -> DownloadOutcome:
    search = made.search(work, state or made.begin(work), log_to([] if records is None else records, work))
    try:
        request = next(search)
        while True:
            assert isinstance(request, Request)  # resolvers are asked one after the other here
            answer = web.answer(request)
            request = search.throw(answer) if isinstance(answer, HttpError) else search.send(answer)
    except StopIteration as done:
        outcome: DownloadOutcome = done.value
        return outcome


def located(*pdf_urls: str, landing: str | None = None, **fields: Any) -> Work:
    places = tuple(Location(pdf_url=url, is_oa=True) for url in pdf_urls)
    if landing:
        places += (Location(landing_url=landing, is_oa=True),)
    return Work("W1", title="A title", year=2024, locations=places, **fields)


def page(*links: str) -> tuple[int, str, bytes]:
    return 200, "text/html", ("<html><head>" + "".join(links) + "</head><body>an article</body></html>").encode()


def pdf_meta(url: str) -> str:
    return f'<meta name="citation_pdf_url" content="{url}">'
