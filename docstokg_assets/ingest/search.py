"""The search for the file behind a URL: the engine's own search, with a route for each URL and one wanted type.

Each URL on the way (the given one, the target of a captured redirect, the links of a page) is fetched by the routes of its item,
in turn: a capture in the archive, live, or a capture made now (Save Page Now). Everything else (walls, landing pages, depth,
limits, guard, storing) is the engine's. A page from the archive is read as the page that it was on the web.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from docstokg_assets.domain.plans import Candidate, Plan, PlanStep, Target, Tier
from docstokg_assets.domain.works import FetchOrder, Work
from docstokg_assets.engine.search import ResolverPipeline, Search, WorkSearch
from docstokg_assets.engine.search_state import Failure, NextTry, SearchState
from docstokg_assets.ingest import archive
from docstokg_assets.ingest.archive import ARCHIVE_HOST, ArchiveFailed, Capture
from docstokg_assets.ingest.results import failed_outcome, next_try, result_row
from docstokg_assets.landing.extract import Found
from resources.http.attempts import AttemptLog
from resources.http.errors import HttpError, Interrupted
from resources.http.messages import Request, Response
from resources.http.redact import without_credentials
from resources.records import DownloadOutcome, Reason

ARCHIVE, LIVE, SAVE = "archive", "live", "save"
_RESOLVERS = {ARCHIVE: "wayback", LIVE: "landing", SAVE: "wayback"}  # whose settings apply to the requests of a route
_TARGETS = {"pdf": Target.PDF, "xml": Target.XML, "html": Target.HTML}
_LATER = 5  # added to the rank of a URL for its next route: what a capture led to is tried before
_MOST_URLS = 40  # of one item; more are a trap


@dataclass(slots=True)
class IngestPipeline(ResolverPipeline):
    """What the searches of ingest items share."""

    key: str | None = None  # of archive.org, for Save Page Now
    now: Callable[[], float] = lambda: 0.0  # epoch seconds

    def begin(self, work: Work, progress: Mapping[str, Any] | None = None) -> SearchState:
        order = work.ingest or FetchOrder("pdf")
        first = url_candidate(work.urls[0], order.routes[0], _TARGETS[order.type])
        step = PlanStep(first.tier, first.resolver, first.rank, first)
        state = SearchState.begin(Plan(work.work_id, (step,), " ".join(("ingest", *order.routes))), progress)
        state.fresh = ARCHIVE not in order.routes  # forced: the HTTP cache would bring the old answer
        return state

    def search(self, work: Work, state: SearchState, log: AttemptLog) -> Search:
        return UrlSearch(self, work, state, log).run()

    def next_try(self, outcome: DownloadOutcome, state: SearchState, now: float, tries: int) -> NextTry:
        return next_try(outcome, state, now, tries)

    def result_of(
        self, work: Work, outcome: DownloadOutcome, state: SearchState, following: NextTry, tries: int
    ) -> Mapping[str, Any] | None:
        return result_row(work, outcome, state, following, tries)


def url_candidate(url: str, route: str, target: Target, **fields: Any) -> Candidate:
    return Candidate(url, _RESOLVERS[route], Tier.LANDING_SCRAPE, target, **{"rank": 0, **fields}, route=route)


@dataclass(frozen=True, slots=True)
class UrlSearch(WorkSearch):
    """The search for one ingest item."""

    also_hash: ClassVar[tuple[str, ...]] = ("sha1", "md5")

    shared: IngestPipeline

    @property
    def order(self) -> FetchOrder:
        return self.work.ingest or FetchOrder("pdf")

    @property
    def wanted(self) -> Target:
        return _TARGETS[self.order.type]

    # -- one URL, by its routes ---------------------------------------------------------------------------------------

    def _try(self, candidate: Candidate) -> Generator[Request, Response, DownloadOutcome | None]:
        state = self.state
        if candidate.route in (ARCHIVE, SAVE):
            state.add_to_chain(candidate.resolver)
            if (skipped := self._skip_reason(candidate)) is not None:
                state.fail(candidate, skipped[0], note=skipped[1])
                return None
            yield from self._find_capture(candidate)
            return None
        state.hops.append(without_credentials(candidate.url))
        outcome = yield from WorkSearch._try(self, candidate)
        if (page := state.html) is not None and page.ok and outcome is None:
            state.html = None
            return page
        failure = state.failures.get(candidate.key)
        if failure is not None and candidate.captured_from is None:
            self._go_on(candidate, failure)
        elif failure is not None and failure.detail is None and failure.reason in _ARCHIVE_FAULTS:
            state.failures[candidate.key] = replace(failure, detail="replay")
        return outcome

    def _find_capture(self, candidate: Candidate) -> Generator[Request, Response, None]:
        """Ask the archive for the URL, and add the capture before the URL's next route."""
        found: Capture | ArchiveFailed | None
        try:
            if candidate.route == SAVE:
                found = yield from self._save(candidate.url)
            else:
                order = self.order
                found = yield from archive.find_capture(
                    candidate.url, order.type, order.max_age_days, self.shared.now()
                )
        except Interrupted:
            raise
        except HttpError as error:
            step = "save" if candidate.route == SAVE else "cdx"
            found = ArchiveFailed(error.reason, step, str(error), error.until)
        if isinstance(found, ArchiveFailed):
            details: dict[str, Any] = {
                "note": found.note,
                "detail": found.detail,
                "until": found.until,
                "host": ARCHIVE_HOST,
            }
            self.state.fail(candidate, found.reason, **details)
        elif found is None or (replay := found.replay_url) is None:
            self.state.fail(candidate, Reason.NO_CANDIDATE, note="the archive has no capture", detail="no-capture")
        elif found.is_redirect:
            yield from self._follow_captured_redirect(candidate, found)
        else:
            html = found.cdx["mimetype"] in archive.MIMETYPES["html"] and self.wanted is not Target.HTML
            target = Target.LANDING if html else self.wanted
            taken: dict[str, Any] = {
                "captured_from": found.cdx["url"],
                "capture": found.to_json(),
                "route": None,
                "referer": None,
            }
            self.state.add(replace(candidate, url=replay, target=target, resolver="wayback", **taken))
            self._go_on(candidate, None)
            return
        if (failure := self.state.failures.get(candidate.key)) is not None:
            self._go_on(candidate, failure)

    def _save(self, url: str) -> archive.Exchange:
        if self.shared.key is None:
            note = "Save Page Now needs resolvers.wayback.api_key"
            return ArchiveFailed(Reason.NO_CANDIDATE, "spn:unauthorized", note)
        return (yield from archive.save(url, self.shared.key))

    def _follow_captured_redirect(self, candidate: Candidate, found: Capture) -> Generator[Request, Response, None]:
        replay = replace(candidate, url=found.replay_url or "", resolver="wayback")
        self.state.hops.append(without_credentials(candidate.url))
        try:
            response = yield self._request(replay, follow_redirects=False)
        except Interrupted:
            raise
        except HttpError as error:
            self.state.fail(candidate, error.reason, note=str(error), detail="replay", host=ARCHIVE_HOST)
            return
        target = archive.redirect_target(response)
        known = target is not None and Candidate(target, "", Tier.LANDING_SCRAPE).key in self.state.candidates
        if target is None or known or len(self.state.candidates) >= _MOST_URLS:
            self.state.fail(candidate, Reason.REDIRECT_LOOP, note=f"a captured redirect to {target}")
            return
        self.state.add(replace(candidate, url=target, route=self.order.routes[0], resolver=self._first_resolver))
        self._go_on(candidate, None)

    @property
    def _first_resolver(self) -> str:
        return _RESOLVERS[self.order.routes[0]]

    def _go_on(self, candidate: Candidate, failure: Failure | None) -> None:
        """Let the URL be tried by its next route, after what its capture leads to. Without one its failure stands; a URL whose
        capture is being tried is done."""
        routes, state = self.order.routes, self.state
        rest = routes[routes.index(candidate.route) + 1 :] if candidate.route in routes else ()
        if failure is not None and failure.reason in _FINAL:
            rest = ()
        if rest:
            state.failures.pop(candidate.key, None)
            changes: dict[str, Any] = {
                "route": rest[0],
                "resolver": _RESOLVERS[rest[0]],
                "rank": candidate.rank + _LATER,
            }
            state.candidates[candidate.key] = replace(candidate, **changes)
            if failure is not None and failure.is_retryable:  # so that the item is tried again if nothing else helps
                state.failures[f"{candidate.route}:{candidate.key}"] = failure
        elif failure is None:
            state.visited.add(candidate.key)

    # -- what was fetched ---------------------------------------------------------------------------------------------

    def _read_page(self, candidate: Candidate, response: Response, page: bytes) -> Generator[Request, Response, None]:
        """A captured page is read as the page on the web: its links, its host and its walls are those of the original."""
        if candidate.captured_from is not None:
            refusal = self.shared.resolvers["wayback"].refuses(candidate, response)
            if refusal is not None:
                self.state.fail(candidate, refusal[0], note=refusal[1], host=ARCHIVE_HOST)
                return
            response = replace(response, url=candidate.captured_from)
        yield from WorkSearch._read_page(self, candidate, response, page)

    def _follow(
        self, candidate: Candidate, response: Response, page: bytes, found: Found
    ) -> Generator[Request, Response, None]:
        state = self.state
        if response.url != state.hops[-1]:
            state.hops.append(without_credentials(response.url))
        if self.wanted is Target.HTML and found.is_full_text:
            state.html = self._keep_page(candidate, response, page)
            state.visited.add(candidate.key)
            return
        links = list(self._links(candidate, response.url, found))
        new = [link for link in links if link.key not in state.candidates]
        too_deep = candidate.hop >= self.shared.max_depth or len(state.candidates) >= _MOST_URLS
        if new and not too_deep:
            for link in new:
                state.add(link)
            state.visited.add(candidate.key)
            response.keep()
            return
        others = [
            link for link in links if link.key not in (candidate.key, Candidate(response.url, "", Tier.WAYBACK).key)
        ]
        detail = "max-depth" if new else "link-loop" if others else None
        if detail is None and self.wanted is Target.PDF and candidate.captured_from is None:
            yield from self._recover(candidate, response, page, found)
            return
        if detail is None and self.wanted is Target.HTML:
            detail = "not-full-text"
        state.fail(candidate, Reason.NO_PDF_LINK, response, detail=detail)

    def _links(self, page: Candidate, page_url: str, found: Found) -> Iterator[Candidate]:
        """The links of a page to files of the wanted type, else to the next page."""
        route = self.order.routes[0]
        fields = {"rank": page.rank, "hop": page.hop + 1, "referer": page_url}
        files = {Target.PDF: found.pdf, Target.XML: found.xml, Target.HTML: found.html}[self.wanted]
        for link in files:
            yield url_candidate(link.url, route, self.wanted, **fields)
        next_page = found.next_page or (next((link.url for link in found.html), None) if not files else None)
        if next_page is not None and not files:
            yield url_candidate(next_page, route, self.wanted, **fields)

    def _finalize(self, candidate: Candidate, response: Response, **options: Any) -> DownloadOutcome:
        """Store the file, with what the result says about the last resource."""
        capture = candidate.capture or {}
        cdx = capture.get("cdx")
        at = {"terminal_url": response.url, "terminal_dt": None, "route": LIVE}
        if cdx is not None:
            made = cdx.get("sha1b32") is None
            at = {"terminal_url": cdx["url"], "terminal_dt": cdx["datetime"], "route": SAVE if made else ARCHIVE}
        facts = {**at, **capture, "terminal_status_code": response.status}
        return WorkSearch._finalize(self, candidate, response, **options, facts=facts)

    def _conclude(self) -> DownloadOutcome:
        return failed_outcome(self.state)


_FINAL = frozenset({Reason.BLOCKED_ADDRESS, Reason.BLOCKED_SCHEME})  # no other route helps
_ARCHIVE_FAULTS = frozenset(
    {Reason.TIMEOUT, Reason.CONN_ERROR, Reason.PROTOCOL_ERROR, Reason.HTTP_4XX, Reason.HTTP_5XX, Reason.RATE_LIMITED}
    | {Reason.RETRY_AFTER, Reason.BREAKER_OPEN, Reason.TLS_ERROR, Reason.SIZE_MISMATCH, Reason.TRUNCATED}
)
