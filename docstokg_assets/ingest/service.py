"""The one way in for ingest requests: validate, submit, watch, read results, count. Command line, HTTP, gRPC and Kafka use it.

```python
service = IngestService(catalog, config)
request = service.validate({"base_url": "https://doi.org/10.5555/12345678"})  # InvalidRequest names every problem
submitted = service.submit(request)  # id, item_id, new
for state in service.watch(submitted.id, timeout_s=60):  # FileIngestResult; `pending` until there is an answer
    print(state.status)
```

Nothing here sends a request to the web. Items are searched by a process that runs `ingest.run.IngestRun`, in this process or in
another one on the same catalog. All methods can be called from any thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from docstokg_assets.config import ContentDownloadConfig
from docstokg_assets.domain.works import FetchOrder, Work
from docstokg_assets.ingest.archive import ARCHIVE_HOST
from docstokg_assets.ingest.records import (
    PENDING,
    SEARCHED_TYPES,
    FileIngestResult,
    IngestRequest,
    InvalidRequest,
    item_id,
    parse_json,
    parse_request,
    request_id,
)
from docstokg_assets.ingest.statuses import NOT_IMPLEMENTED
from resources.catalog.catalog import Catalog
from resources.catalog.ingest import IngestCount, IngestRow, IngestState, LoadCounts
from resources.errors import ExplainedError
from resources.http.canonical import host_of
from resources.http.messages import Role
from resources.rate_limit.policies import resolve_policy
from resources.scope import Lane

_POLL_S = 0.25
_DAY_S = 86_400.0


class QueueFull(ExplainedError):
    """More ingest items are open than `ingest.max_open` allows."""


@dataclass(frozen=True, slots=True)
class Submitted:
    id: str  # for `result` and `watch`
    item_id: str  # under which attempts and file are recorded; the same for all requests of one URL and type
    new: bool  # False: the same request was stored before; its result, if there is one, answers this one too
    reopened: bool = False  # the URL is fetched again, as the request demands


class IngestService:
    """Works on an open catalog; the caller closes it. `on_submit` is called after requests were stored, so that a run in the same
    process looks for them at once."""

    def __init__(
        self, catalog: Catalog, config: ContentDownloadConfig, on_submit: Callable[[], None] = lambda: None
    ) -> None:
        self.catalog, self.config, self._on_submit = catalog, config, on_submit
        self._archive_group = self._group_of(ARCHIVE_HOST, Role.METADATA)

    # -- requests -----------------------------------------------------------------------------------------------------

    def validate(self, raw: Any) -> IngestRequest:
        """The request in a JSON object (a mapping), or in JSON text. InvalidRequest names every problem."""
        if isinstance(raw, str | bytes):
            return parse_json(raw, self.config.http)
        return parse_request(raw, self.config.http)

    def submit(self, request: IngestRequest, lane: Lane = Lane.PRIORITY) -> Submitted:
        """Store a request and make its URL due, unless it is queued or was fetched before. QueueFull when there is no room."""
        self._need_room(1)
        counts = self.catalog.add_ingest_requests([self.row(request, lane)])
        self._on_submit()
        return Submitted(request.id, request.item_id, counts.new > 0, counts.reopened > 0)

    def submit_many(self, requests: Iterable[IngestRequest], lane: Lane = Lane.BULK) -> LoadCounts:
        """Store any number of requests in bounded memory; each portion is durable before the next is read. The id of each is
        `request.id`. QueueFull when there is no room for them; what was stored before stays."""
        self._need_room(1)
        counts = self.catalog.add_ingest_requests(self.row(request, lane) for request in requests)
        self._on_submit()
        return counts

    def row(self, request: IngestRequest, lane: Lane) -> IngestRow:
        """What the catalog stores for a request."""
        stored = IngestRow(
            request.item_id,
            request.ingest_type,
            request.base_url,
            request.link_source or "url",
            request.link_source_id or "-",
            request.ingest_request_source,
            request.release_stage,
            orjson.dumps(request.to_json(), default=str).decode(),
            int(lane),
            None,
        )
        if request.ingest_type not in SEARCHED_TYPES:
            message = f"ingest type {request.ingest_type!r} is not implemented; pdf, xml and html are"
            return replace(stored, answer={"hit": False, "status": NOT_IMPLEMENTED, "error_message": message})
        routes, age = self.config.ingest.routes_of(lane, force_recrawl=request.force_recrawl), request.max_age_days
        live = routes[0] == "live"
        work = Work(request.item_id, urls=(request.base_url,), ingest=FetchOrder(request.ingest_type, routes, age))
        return replace(
            stored,
            record=orjson.dumps(work.to_json()).decode(),
            plan_hash=f"ingest {' '.join(routes)} {age or ''}".strip(),
            next_group=self._group_of(host_of(request.base_url), Role.ARTIFACT) if live else self._archive_group,
            again_after_s=0.0 if request.force_recrawl else age * _DAY_S if age is not None else None,
        )

    def _need_room(self, count: int) -> None:
        most = self.config.ingest.max_open
        if self.catalog.open_ingest_items(most) + count > most:
            raise QueueFull(
                f"{most:,} ingest requests are open, as many as ingest.max_open allows. Try again when some are answered."
            )

    def _group_of(self, host: str, role: Role) -> str:
        return resolve_policy(self.config.rate_limit, host, str(role)).group

    # -- results ------------------------------------------------------------------------------------------------------

    def result(self, id: str) -> FileIngestResult | None:
        """What is known of a request, by its id or by the id of its item (then of its first request); None when it is unknown.
        The status is `pending` until there is an answer."""
        states = self.catalog.ingest_states("-".join(id.split("-")[:2]))
        of_item = id.count("-") == 1
        chosen = next((state for state in states if of_item or _id_of(state.request) == id), None)
        return _result_of(chosen) if chosen is not None else None

    def watch(
        self,
        id: str,
        timeout_s: float | None = None,
        stop: threading.Event | None = None,
        after: float | None = None,
    ) -> Iterator[FileIngestResult]:
        """What is known of a request, now and after each change, until there is an answer, `timeout_s` is over or `stop` is set.
        `after`: an answer older than this (epoch seconds by the catalog's clock) does not count, as for a URL that is fetched
        again. Yields nothing for an unknown id."""
        end = None if timeout_s is None else time.monotonic() + timeout_s
        stop, last = stop or threading.Event(), None
        while (state := self.result(id)) is not None:
            if after is not None and state.is_final and (state.updated or 0.0) < after:
                state = state.model_copy(update={"status": PENDING})
            if state != last:
                yield state
                last = state
            if state.is_final or stop.is_set() or (end is not None and time.monotonic() >= end):
                return
            stop.wait(_POLL_S)

    def results(
        self, after: int = 0, *, statuses: Sequence[str] = (), limit: int | None = None
    ) -> Iterator[tuple[int, FileIngestResult]]:
        """(revision, result) of every answered request, in the order in which the answers were recorded, beginning after a
        revision. To follow the results, store the revision of the last one that was passed on (`catalog.set_export_position`);
        results come at least once."""
        for request, row in self.catalog.ingest_results(after, statuses=statuses, limit=limit):
            yield row["revision"], _result_of(IngestState(request, None, row))

    def counts(self) -> list[IngestCount]:
        """Requests by type, link source and status; status None: no answer yet. Reads all requests."""
        return self.catalog.ingest_counts()


def _id_of(request: dict[str, Any]) -> str:
    item = item_id(request["ingest_type"], request["base_url"])
    return request_id(item, request["link_source"], request["link_source_id"])


def archive_url(terminal_dt: str | None, terminal_url: str | None) -> str | None:
    return f"https://{ARCHIVE_HOST}/web/{terminal_dt}/{terminal_url}" if terminal_dt and terminal_url else None


def _result_of(state: IngestState) -> FileIngestResult:
    request, row, item = state.request, state.result, state.item
    named = {"id": _id_of(request), "request": orjson.loads(request["request"])}
    if row is None:
        waits = item.not_before if item is not None and item.not_before else None
        tries = item.tries if item is not None else 0
        return FileIngestResult(**named, status=PENDING, hit=False, tries=tries, next_try=waits)
    terminal = {name: value for name, value in row.items() if name.startswith("terminal_")}
    same = ("status", "hit", "error_message", "hops", "file_meta", "cdx", "revisit_cdx", "flags", "route", "path")
    return FileIngestResult(
        **named,
        **{name: list(row[name]) if isinstance(row[name], tuple) else row[name] for name in same},
        terminal=terminal if row["terminal_url"] else None,
        archive_url=archive_url(row["terminal_dt"], row["terminal_url"]),
        tries=row["tries"],
        next_try=row["next_try"],
        updated=row["updated"],
    )


__all__ = ["IngestService", "InvalidRequest", "QueueFull", "Submitted", "archive_url"]
