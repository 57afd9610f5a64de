"""The search for one work's full text: tier by tier, candidate by candidate, until one is good or nothing is left.

`ResolverPipeline.search` is a generator, as a Scrapy callback is: it yields Requests, receives Responses (or has an HttpError
thrown in) and returns the work's one DownloadOutcome. It never waits and uses no threads; the dispatcher drives it. What is known
so far is in a `SearchState`. The methods are in the order of a search: revalidate or adopt a stored file, else loop over guess,
ask resolvers, try a candidate (precheck, fetch, read a landing page), and conclude.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from docstokg_assets.domain.pdf_match import PdfValidator, strict
from docstokg_assets.domain.plans import Candidate, Target, Tier, url_key
from docstokg_assets.domain.url_patterns import UrlPatternCache
from docstokg_assets.domain.works import Work
from docstokg_assets.engine.concurrent_queries import ConcurrentQueries, query
from docstokg_assets.engine.download import (
    DownloadStreamResult,
    adopted,
    candidate_of,
    failed,
    finalize_candidate_download,
    left_as_is,
    prepare_candidate_download,
    still_current,
    stream_candidate_payload,
)
from docstokg_assets.engine.landing_pages import as_declared, recovered_files, sent_as
from docstokg_assets.engine.search_state import Failure, NextTry, SearchState, conclude, error_details, next_try
from docstokg_assets.engine.settings import DownloadSettings
from docstokg_assets.landing.extract import Found, extract
from docstokg_assets.landing.repositories import recover
from docstokg_assets.landing.walls import recognise_wall, wall_at
from docstokg_assets.resolvers.api import license_name
from docstokg_assets.resolvers.registry import Resolver, ResolverContext, ResolverResult, make_plan
from resources.artifacts.quarantine import Quarantine
from resources.artifacts.store import ArtifactStore
from resources.http.attempts import AttemptLog
from resources.http.canonical import host_of
from resources.http.errors import BreakerOpen, HttpError, Interrupted
from resources.http.exchange import reason_of_status
from resources.http.messages import Request, Response, Role
from resources.records import Classification, DownloadOutcome, Ending, Kind, Reason, Status

_GONE = frozenset({404, 410})
_UNWELCOME = frozenset({Reason.ROBOTS, Reason.RATE_LIMITED, Reason.RETRY_AFTER})
_UNKNOWN, _WALL_BYTES = "unknown", 65_536  # of a page, in which a wall is looked for
Search = Generator[Request | ConcurrentQueries, Any, DownloadOutcome]


@dataclass(slots=True)
class ResolverPipeline:
    """What the searches of a run share. Thread-safe; the data of one work is in its SearchState."""

    resolvers: Mapping[str, Resolver]
    store: ArtifactStore
    settings: DownloadSettings
    max_page_bytes: int
    context: ResolverContext = field(default_factory=ResolverContext)
    validator: PdfValidator | None = None  # checks whether a PDF is the wanted article; without it no URL is guessed
    recorded: Callable[[str, str], bool] = lambda work_id, sha256: True  # whether the catalog has this file of the work
    owner: str = ""  # this process, which is noted in the files that it stores
    dry_run: bool = False
    taken_urls: dict[str, str] = field(default_factory=dict)  # canonical URL -> work, for `global_url_dedupe`
    url_patterns: UrlPatternCache = field(default_factory=UrlPatternCache)
    max_depth: int = 4  # pages on the way from a candidate to its file (`resolvers.landing.max_depth`)
    quarantine: Quarantine = field(init=False)  # for PDFs that are another file type as well

    def __post_init__(self) -> None:
        self.quarantine = Quarantine(self.store, self.settings.quarantine_bytes)

    def begin(self, work: Work, progress: Mapping[str, Any] | None = None) -> SearchState:
        """Plan the work with the resolvers of this pipeline."""
        return SearchState.begin(make_plan(work, self.resolvers.values()), progress)

    def search(self, work: Work, state: SearchState, log: AttemptLog) -> Search:
        return WorkSearch(self, work, state, log).run()

    def next_try(self, outcome: DownloadOutcome, state: SearchState, now: float, tries: int) -> NextTry:
        """When a work without success is tried again."""
        return next_try(state, now, tries)

    def result_of(
        self, work: Work, outcome: DownloadOutcome, state: SearchState, following: NextTry, tries: int
    ) -> Mapping[str, Any] | None:
        """The row that is recorded instead of an outcome, for items that are no works."""


@dataclass(frozen=True, slots=True)
class WorkSearch:
    """The search for one work."""

    also_hash: ClassVar[tuple[str, ...]] = ()  # digests of a file besides SHA-256

    shared: ResolverPipeline
    work: Work
    state: SearchState
    log: AttemptLog

    def run(self) -> Search:
        state = self.state
        if state.kept is not None:
            return (yield from self._revalidate(state.kept))
        outcome = self._adopt() or (yield from self._search())
        if not state.replaces:
            return outcome
        outcome = replace(outcome, meta={**outcome.meta, "replaces": state.replaces})
        whole = not outcome.ok and state.files.restore(self.shared.store, self.shared.owner)
        return left_as_is(outcome) if whole else outcome

    # -- a file that is stored already --------------------------------------------------------------------------------

    def _revalidate(self, kept: DownloadOutcome) -> Search:
        """Send one conditional GET for the stored copy. Only another file of its kind replaces it; any other answer leaves it."""
        candidate = candidate_of(kept)
        self.state.add_to_chain(candidate.resolver)
        try:
            response = yield from self._stream(candidate, etag=kept.etag, last_modified=kept.last_modified)
        except Interrupted:
            raise
        except HttpError as error:
            return left_as_is(failed(candidate, error.reason))
        stream = response.payload if isinstance(response.payload, DownloadStreamResult) else None
        if response.status == 304 or (stream is not None and stream.sha256 == kept.sha256):
            return still_current(candidate, response, kept)
        if stream is not None and (stream.part is None or (stream.kind is Kind.XML) != (kept.kind is Kind.XML)):
            stream.discard()
            return left_as_is(failed(candidate, Reason.UNEXPECTED_CT))
        outcome = self._finalize(candidate, response, validator=self.shared.validator)
        return self._succeeded(outcome) if outcome.ok else left_as_is(outcome)

    def _adopt(self) -> DownloadOutcome | None:
        """Take a whole file that was stored for this work but never recorded, because its process was killed or the catalog is
        older than the file. A recorded file is not adopted: a forced search is to find it anew."""

        def wanted(noted: DownloadOutcome) -> bool:
            recorded = noted.sha256 is None or self.shared.recorded(self.work.work_id, noted.sha256)
            return not recorded and self._excluded_by(candidate_of(noted)) is None

        outcome = adopted(self.work, self.shared.store, self.state.files, wanted) if not self.shared.dry_run else None
        if outcome is None or self._taken_by_another(candidate := candidate_of(outcome)):
            return None
        self.state.add_to_chain(candidate.resolver)
        return self._succeeded(outcome)

    # -- the loop -----------------------------------------------------------------------------------------------------

    def _search(self) -> Search:
        work, state, dry_run = self.work, self.state, self.shared.dry_run
        while not work.deleted and (action := state.next_action()) is not None:
            named = isinstance(action, Candidate) and action.target is not Target.LANDING
            if not named and (guess := self._guess()) is not None:
                state.add(guess)
                action = guess  # before a resolver is asked or a page read
            if isinstance(action, str):
                yield from self._ask(state.next_queries(self.shared.settings.max_concurrent_resolvers))
            elif dry_run:
                state.visited.add(action.key)
                state.add_to_chain(action.resolver)
            else:
                outcome = yield from self._try(action)
                if outcome is not None and outcome.ok:
                    return self._succeeded(outcome)
                if action.guessed:
                    self._on_failed_guess(action, state.failures[action.key])
        if dry_run:
            urls = [{"url": c.url, "resolver": c.resolver, "tier": str(c.tier)} for c in state.candidates.values()]
            found: dict[str, Any] = {"fallback_chain": tuple(state.chain), "meta": {"candidates": urls}}
            return DownloadOutcome(False, None, Classification.SKIP, Reason.DRY_RUN, **found)
        if work.deleted and state.html is None:
            meta = {"deleted": work.deleted}
            return DownloadOutcome(False, None, Classification.SKIP, Reason.WORK_DELETED, meta=meta)
        return self._conclude()

    def _conclude(self) -> DownloadOutcome:
        return conclude(self.state)

    def _guess(self) -> Candidate | None:
        """The PDF URL that a landing page of this work should lead to, by the URL pattern of its publisher."""
        shared, doi = self.shared, self.work.doi
        if doi is None or not shared.settings.guess_files or shared.validator is None or shared.dry_run:
            return None
        url = shared.url_patterns.guess(doi)
        if url is None or url_key(url) in self.state.candidates:
            return None
        pages = [c for c in self.state.pending() if c.target is Target.LANDING and c.hop == 0]
        pages = [c for c in pages if c.host == host_of(url)] or [c for c in pages if c.tier is Tier.DOI_REDIRECT]
        return replace(pages[0], url=url, target=Target.PDF, instead_of=None, guessed=True) if pages else None

    def _on_failed_guess(self, guess: Candidate, failure: Failure) -> None:
        """Note failed guesses. A temporary failure says nothing about the URL pattern; a host that refuses guesses gets no more
        of them."""
        unwelcome = failure.is_guarded or failure.reason in _UNWELCOME
        if self.work.doi and (unwelcome or not failure.is_retryable):
            self.shared.url_patterns.record_failure(self.work.doi, guess.url, unwelcome=unwelcome)

    def _ask(self, names: Sequence[str]) -> Generator[Request | ConcurrentQueries, Any, None]:
        """Ask resolvers, concurrently where there are several. They count as asked only when all have answered: a work that is
        parked meanwhile asks again."""
        state, dead = self.state, self.state.dead_files()
        guarded = tuple(url for url, failure in dead.items() if failure.is_guarded)
        context = replace(self.shared.context, dead_urls=tuple(dead), guarded_urls=guarded)
        begun: list[str] = []
        queries = [query(self.shared.resolvers[name], self.work, context, begun) for name in names]
        results: Sequence[ResolverResult]
        if len(queries) == 1:
            results = [(yield from queries[0])]
        else:
            results = yield ConcurrentQueries(tuple(queries))
        for name, result in zip(names, results, strict=True):
            state.asked.add(name)
            if name in begun:
                state.add_to_chain(name)
            for candidate in result.candidates:
                state.add(state.with_rights(candidate))
            if not result.candidates and result.reason is not Reason.OK:
                details: dict[str, Any] = {"until": result.until, "host": result.host, "note": result.note}
                resolver = self.shared.resolvers[name]
                state.failures[f"ask:{name}"] = Failure(result.reason, name, resolver.tier, resolver.rank, **details)

    # -- one candidate ------------------------------------------------------------------------------------------------

    def _try(self, candidate: Candidate) -> Generator[Request, Response, DownloadOutcome | None]:
        state, doi = self.state, self.work.doi
        state.add_to_chain(candidate.resolver)
        if (wall := state.wall_of(candidate.host)) is not None:
            state.fail(candidate, wall, note="not requested: the host answered with a wall before")
            return None
        if (skipped := self._skip_reason(candidate)) is not None:
            state.fail(candidate, skipped[0], note=skipped[1])
            return None
        try:
            if candidate.target is Target.LANDING:
                response = yield self._request(candidate, repeatable=not state.has_given_up_on(candidate.host))
                yield from self._read_page(candidate, response, response.body)
                return None
            if not (yield from self._passes_precheck(candidate)):
                return None
            outcome = yield from self._fetch(candidate)
        except Interrupted:
            raise
        except HttpError as error:
            tried = isinstance(error, BreakerOpen) and error.tried
            state.fail(candidate, error.reason, tried=tried, **error_details(error))
            return None
        sure = outcome is not None and outcome.ok and "flags" not in outcome.meta
        if doi and sure and candidate.target is Target.PDF and candidate.tier is not Tier.WAYBACK:
            self.shared.url_patterns.learn(doi, candidate.url)
        return outcome

    def _skip_reason(self, candidate: Candidate) -> tuple[Reason, str] | None:
        """Why no request is sent for a candidate (a policy, another work that has its URL, or a URL that is known as a wall), and
        what exactly was found."""
        if (excluded := self._excluded_by(candidate)) is not None:
            reason, note = excluded
            request = self._request(candidate)
            self.log.write(request, candidate.url, Status.CONTENT_POLICY_SKIP, reason, extra={"note": note})
            return excluded
        if self._taken_by_another(candidate):
            return Reason.DUPLICATE_URL_GLOBAL, ""
        if (wall := wall_at(candidate.url)) is not None:
            self.log.write(self._request(candidate), candidate.url, Status.SKIPPED, wall)
            return wall, ""
        return None

    def _excluded_by(self, candidate: Candidate) -> tuple[Reason, str] | None:
        """The policy that excludes a candidate by its version or licence, as far as these are known before the request, and
        which of them was found."""
        settings, version = self.shared.settings, (candidate.version or _UNKNOWN).removesuffix("Version")
        if version not in settings.versions:
            return Reason.POLICY_VERSION, f"version: {version}"
        license_ = (license_name(candidate.license) or _UNKNOWN).lower()
        if not settings.wants_license(license_):
            return Reason.POLICY_LICENSE, f"licence: {license_}"
        return None

    def _taken_by_another(self, candidate: Candidate) -> bool:
        if not self.shared.settings.global_url_dedupe:
            return False
        owner = self.shared.taken_urls.setdefault(candidate.key, self.work.work_id)  # atomic
        if owner == self.work.work_id:
            return False
        request, reason = self._request(candidate), Reason.DUPLICATE_URL_GLOBAL
        self.log.write(request, candidate.url, Status.SKIPPED, reason, extra={"first": owner})
        return True

    def _passes_precheck(self, candidate: Candidate) -> Generator[Request, Response, bool]:
        """Send HEAD where it is useful. A refused HEAD decides nothing; an HTML answer makes the URL a page to read."""
        state, resolver = self.state, self.shared.resolvers.get(candidate.resolver)
        wanted = self.shared.settings.head_precheck and resolver is not None and resolver.prechecks
        if not wanted or candidate.guessed or candidate.key in state.retargeted:
            return True
        try:
            response = yield self._request(candidate, role=Role.ARTIFACT, verb="HEAD")
        except Interrupted:
            raise
        except HttpError as error:
            if error.reason.ending is Ending.RETRYABLE:
                return True
            state.fail(candidate, error.reason, note=str(error))
            return False
        if response.status in _GONE:
            state.fail(candidate, reason_of_status(response.status), response)
            return False
        if response.ok and response.content_type == "text/html" and candidate.target is not Target.HTML:
            state.retarget(candidate, Target.LANDING)
            return False
        return True

    def _fetch(self, candidate: Candidate) -> Generator[Request, Response, DownloadOutcome | None]:
        """GET the candidate and store it if it is the work's file; an HTML answer is read as a page."""
        state = self.state
        once = candidate.guessed or state.has_given_up_on(candidate.host)
        response = yield from self._stream(candidate, repeatable=not once)
        stream = response.payload if isinstance(response.payload, DownloadStreamResult) else None
        if stream is not None and stream.kind is Kind.HTML and not candidate.guessed:
            yield from self._read_page(candidate, response, stream.page)
            return None
        resolver = self.shared.resolvers.get(candidate.resolver)
        refusal = resolver.refuses(candidate, response) if resolver is not None and response.ok else None
        if candidate.guessed and stream is not None and stream.kind not in (Kind.PDF, Kind.PDF_UNKNOWN):
            refusal = _wall(response, stream.page) or Reason.UNEXPECTED_CT, ""
        if refusal is not None:
            if stream is not None:
                stream.discard()
            state.fail(candidate, refusal[0], response, note=refusal[1])
            return None
        validator = self.shared.validator
        doubtful = candidate.guessed or candidate.doubted
        validator = strict(validator) if doubtful and validator is not None else validator
        outcome = self._finalize(candidate, response, validator=validator, quarantine=self.shared.quarantine)
        if not outcome.ok:
            reason = _wall(response, response.body) or outcome.reason
            note = str(outcome.meta.get("evidence") or outcome.meta.get("fault", ""))
            note += f"; kept as {kept}" if (kept := outcome.meta.get("quarantined")) else ""
            state.fail(candidate, reason, response, kind=outcome.kind, note=note)
            if "flags" in outcome.meta or "quarantined" in outcome.meta:
                # The transfer succeeded, so its attempt says "ok"; this one says why the file is not the work's.
                request = self._request(candidate, role=Role.ARTIFACT)
                self.log.write(request, response.url, Status.CONTENT_POLICY_SKIP, reason, extra=outcome.meta)
        return outcome

    def _stream(self, candidate: Candidate, **changes: Any) -> Generator[Request, Response, Response]:
        plan = replace(prepare_candidate_download(candidate), obey_robots=self._obeys_robots(candidate), **changes)
        limits = self.shared.settings.max_bytes, self.shared.max_page_bytes
        return stream_candidate_payload(plan, self.shared.store, *limits, self.also_hash)

    def _request(self, candidate: Candidate, role: Role = Role.LANDING, **fields: Any) -> Request:
        fields |= {"referer": candidate.referer, "obey_robots": self._obeys_robots(candidate)}
        return Request(candidate.url, role, resolver=candidate.resolver, tier=str(candidate.tier), **fields)

    def _obeys_robots(self, candidate: Candidate) -> bool:
        resolver = self.shared.resolvers.get(candidate.resolver)
        return resolver is None or resolver.obeys_robots

    # -- an HTML answer -----------------------------------------------------------------------------------------------

    def _read_page(self, candidate: Candidate, response: Response, page: bytes) -> Generator[Request, Response, None]:
        """Read an HTML answer: a wall, a page that links to the file, a full text, or a dead end."""
        state, wall = self.state, _wall(response, page)
        if wall is not None or not response.ok:
            state.fail(candidate, wall or reason_of_status(response.status), response)
        elif page[:1024].find(b"%PDF-") >= 0:  # the "page" is the file itself: fetch it as a PDF
            state.retarget(candidate, Target.PDF)
        elif candidate.target is Target.PDF and response.content_type == "application/pdf":
            state.fail(candidate, Reason.PDF_CORRUPT, response, kind=Kind.PDF_CORRUPT)
        else:
            found = extract(page, response.headers.get("content-type"), response.url, response.headers)
            yield from self._follow(candidate, response, page, found)

    def _follow(
        self, candidate: Candidate, response: Response, page: bytes, found: Found
    ) -> Generator[Request, Response, None]:
        """Add the links of a page; keep the page itself if it is a full text."""
        state = self.state
        if state.html is None and found.is_full_text:
            state.html = self._keep_page(candidate, response, page)
        state.visited.add(url_key(response.url))  # another candidate may name the page that redirects led to
        described = as_declared(candidate, found, self.work)
        if state.add_links(described, response.url, found, self.shared.max_depth):
            state.visited.add(candidate.key)
            response.keep()  # a wall, an error or a dead end may be gone the next time
        else:
            yield from self._recover(described, response, page, found)

    def _keep_page(self, candidate: Candidate, response: Response, page: bytes) -> DownloadOutcome:
        digests = {name: hashlib.new(name, page, usedforsecurity=False).hexdigest() for name in self.also_hash}
        sha256, mime = hashlib.sha256(page).hexdigest(), response.content_type
        stream = DownloadStreamResult(None, len(page), response.status, mime, Kind.HTML, sha256, digests, page=page)
        return self._finalize(candidate, replace(response, payload=stream))

    def _recover(
        self, candidate: Candidate, response: Response, page: bytes, found: Found
    ) -> Generator[Request, Response, None]:
        """Ask the interface of the repository whose page names no file."""
        state, recovering = self.state, recover(response.url, page, found)
        if recovering is None or candidate.hop >= self.shared.max_depth:
            return state.fail(candidate, Reason.NO_PDF_LINK, response)
        own = {"max_bytes": self.shared.max_page_bytes, "obey_robots": self._obeys_robots(candidate)}
        recovery = yield from sent_as(candidate, recovering, **own)
        for file in recovered_files(candidate, recovery):
            state.visited.add(candidate.key)
            state.add(file)
        if not recovery.files:
            state.fail(candidate, recovery.reason, response, note=recovery.note)

    def _finalize(self, candidate: Candidate, response: Response, **options: Any) -> DownloadOutcome:
        options |= {"files": self.state.files, "owner": self.shared.owner}
        return finalize_candidate_download(self.work, candidate, response, self.shared.store, **options)

    def _succeeded(self, outcome: DownloadOutcome) -> DownloadOutcome:
        html = self.state.html
        paths, beside = ((html.path,), (html,)) if html is not None and html.path is not None else ((), ())
        return replace(outcome, fallback_chain=tuple(self.state.chain), html_paths=paths, beside=beside)


def _wall(response: Response, page: bytes) -> Reason | None:
    return recognise_wall(response.status, response.headers, page[:_WALL_BYTES], response.url)
