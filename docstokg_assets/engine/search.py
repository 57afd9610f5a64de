"""The state of one work: tier by tier, candidate by candidate, until one is good or nothing is left.

A generator that yields Requests and receives Responses (or has an HttpError thrown in) and returns the work's one
DownloadOutcome. It waits for nothing and knows no threads; the dispatcher drives it. What is known so far is a `SearchState`,
plain data that goes to the database when the work must wait and comes back later, so nothing is asked twice.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from docstokg_assets.domain.pdf_match import PdfValidator, Verdict
from docstokg_assets.domain.plans import Candidate, Plan, Target, Tier, make_plan, url_key
from docstokg_assets.domain.url_patterns import UrlPatternCache
from docstokg_assets.domain.works import Work
from docstokg_assets.engine.download import (
    DownloadLimits,
    DownloadStreamResult,
    adopted,
    failed,
    finalize_candidate_download,
    outcome_from_json,
    prepare_candidate_download,
    stream_candidate_payload,
    without_secrets,
)
from docstokg_assets.landing.extract import Found, extract
from docstokg_assets.landing.walls import recognise_wall, wall_at
from docstokg_assets.resolvers.answers import license_name
from docstokg_assets.resolvers.registry import Resolution, Resolver, ResolverContext, ResolverResult
from resources.artifacts.quarantine import Quarantine
from resources.artifacts.store import ArtifactStore, StoreError
from resources.catalog.errors import CatalogError
from resources.http.attempts import AttemptLog
from resources.http.canonical import host_of
from resources.http.errors import HttpError, Interrupted
from resources.http.exchange import reason_of_status
from resources.http.messages import Request, Response, Role
from resources.http.redact import carries_credentials, without_credentials
from resources.rate_limit.stores import LimiterUnavailable
from resources.records import ENDINGS, Classification, DownloadOutcome, Ending, Kind, Reason, Status

log = logging.getLogger(__name__)

PASS_ENDING_ERRORS = (StoreError, CatalogError, LimiterUnavailable)  # they end the pass, not the search that met them
MAX_HOPS = 2  # landing pages between a plan's URL and a file
MOST_WAITS = 1  # a host that is still broken after its first pause may stay so for long; the work ends with its time
_GONE = frozenset({404, 410})
_WALLS_OF_HOSTS = frozenset({Reason.BLOCKED_CAPTCHA, Reason.BLOCKED_COOKIE, Reason.BLOCKED_POW, Reason.BLOCKED_WAF})
_MINDS = frozenset({Reason.ROBOTS, Reason.RATE_LIMITED, Reason.RETRY_AFTER})
_UNKNOWN = "unknown"
_FILES = frozenset({Target.PDF, Target.XML})


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a candidate, or a resolver that was asked, brought nothing."""

    reason: Reason
    resolver: str
    tier: Tier
    rank: int
    url: str | None = None
    http_status: int | None = None
    kind: Kind | None = None
    until: float | None = None
    host: str | None = None  # who answered, after redirects, and is to be asked again then
    note: str = ""

    @property
    def is_guarded(self) -> bool:
        """Whether the file is there, as far as we can tell, and only we were turned away."""
        return str(self.reason).startswith("blocked-") or self.http_status in (401, 403, 451)

    @property
    def counts_without_url(self) -> bool:
        """Whether a resolver that named no copy may still be why there is none: it could not answer, or is at fault itself."""
        return ENDINGS[self.reason] is Ending.RETRYABLE or self.reason is Reason.INTERNAL_ERROR

    @property
    def promise(self) -> tuple[bool, int, int]:
        """Sorts the most promising first; a candidate that failed says more than an API that was silent."""
        return (self.url is None, self.tier.order, self.rank)


@dataclass(frozen=True, slots=True)
class KeptCopy:
    """The file that we have of a work, for a search that only asks whether it is still the current one."""

    url: str
    resolver: str
    tier: Tier
    kind: Kind
    sha256: str
    etag: str | None = None
    last_modified: str | None = None
    version: str | None = None
    license: str | None = None


@dataclass(slots=True)
class SearchState:
    """All that is known in the search for one work."""

    candidates: dict[str, Candidate] = field(default_factory=dict)  # by canonical URL, in the order of discovery
    to_ask: list[tuple[Tier, int, str]] = field(default_factory=list)
    asked: set[str] = field(default_factory=set)
    visited: set[str] = field(default_factory=set)  # pages that were read and led on
    retargeted: set[str] = field(
        default_factory=set
    )  # URLs that turned out to be something else; a HEAD is not believed twice
    failures: dict[str, Failure] = field(default_factory=dict)  # by canonical URL, or `ask:<resolver>`
    chain: list[str] = field(default_factory=list)
    html: DownloadOutcome | None = None
    requests: int = 0
    active_ms: int = 0
    waits: int = 0  # how often the work was given back for a broken host that would soon be tried again
    kept: KeptCopy | None = None  # then nothing else is asked
    replaces: Mapping[str, Any] | None = None  # the stored file that was found missing or damaged
    plan_hash: str | None = None  # of the plan that this search executes

    @classmethod
    def begin(cls, plan: Plan, progress: Mapping[str, Any] | None = None) -> SearchState:
        """From the plan, and from what an earlier part of the same search left."""
        state = cls(plan_hash=plan.hash)
        for step in plan.steps:
            if step.candidate is None:
                state.to_ask.append((step.tier, step.rank, step.resolver))
            else:
                state.add(step.candidate)
        if progress:
            state._restore(progress)
        return state

    def add(self, candidate: Candidate) -> None:
        """A URL is tried once for each work; one that was only guessed so far, once more when somebody names it."""
        if candidate.instead_of is not None:
            self.visited.add(url_key(candidate.instead_of))
        known = self.candidates.get(candidate.key)
        if known is None or (known.guessed and not candidate.guessed):
            self.candidates[candidate.key] = candidate
            self.failures.pop(candidate.key, None)

    def retarget(self, candidate: Candidate, target: Target) -> None:
        """Try the same URL again as what it turned out to be."""
        self.candidates[candidate.key] = replace(candidate, target=target)
        self.retargeted.add(candidate.key)

    def tried(self, resolver: str) -> None:
        if not self.chain or self.chain[-1] != resolver:
            self.chain.append(resolver)

    def pending(self) -> Iterator[Candidate]:
        """What is known and was not tried."""
        return (c for key, c in self.candidates.items() if key not in self.failures and key not in self.visited)

    def losses(self) -> Iterator[tuple[str, Failure]]:
        """The failures that count. Of what was guessed nobody had said that there is anything."""
        known = self.candidates
        return ((key, f) for key, f in self.failures.items() if key not in known or not known[key].guessed)

    def next_action(self) -> Candidate | str | None:
        """The candidate to try or the name of the resolver to ask next; None when nothing is left."""
        best: tuple[tuple[int, int, int], Candidate | str] | None = None
        for candidate in self.pending():
            order = (candidate.tier.order, candidate.rank, 0)
            if best is None or order < best[0]:
                best = (order, candidate)
        for tier, rank, name in self.to_ask:
            order = (tier.order, rank, 1)
            if name not in self.asked and (best is None or order < best[0]):
                best = (order, name)
        return None if best is None else best[1]

    def next_asks(self, most: int) -> tuple[str, ...]:
        """The resolvers to ask next, of one tier."""
        waiting = sorted((tier.order, rank, name) for tier, rank, name in self.to_ask if name not in self.asked)
        return tuple(name for order, _, name in waiting if order == waiting[0][0])[:most]

    def wall_of(self, host: str) -> Reason | None:
        """The wall that a host has put before us in this search. It stands before the visitor, not before one page."""
        walls = (f.reason for _, f in self.losses() if f.reason in _WALLS_OF_HOSTS and f.host == host)
        return next(walls, None)

    def has_given_up_on(self, host: str) -> bool:
        """Whether a host has failed in this search as often as it is asked again. Its next URL is then tried once."""
        worn = (f.url for _, f in self.losses() if ENDINGS[f.reason] is Ending.RETRYABLE and f.url is not None)
        return any(host_of(url) == host for url in worn)

    def dead_files(self) -> dict[str, Failure]:
        """Files that were known and could not be had, by the URL under which an archive may have kept them, the most promising
        first."""
        dead = [
            (failure.promise, failure.url, failure)
            for key, failure in self.losses()
            if failure.url is not None and failure.tier is not Tier.WAYBACK and self.candidates[key].target in _FILES
        ]
        found: dict[str, Failure] = {}
        for _, url, failure in sorted(dead, key=lambda known: known[:2]):
            found.setdefault(without_credentials(url), failure)
        return found

    def opens_soon(self, now: float, within_s: float) -> Failure | None:
        """The broken host, if any, that is worth waiting for before the work ends: it is tried again soon, and has not been
        waited for too often."""
        broken = [f for _, f in self.losses() if f.reason is Reason.BREAKER_OPEN]
        soon = [(f.until, f.rank, f) for f in broken if f.until is not None and f.until <= now + within_s]
        return min(soon, key=lambda known: known[:2])[2] if soon and self.waits < MOST_WAITS else None

    def to_json(self) -> dict[str, Any]:
        """What must survive: discovered candidates, failures that will not mend by themselves, and the counters. A URL that
        carries a key is not written down; whoever named it is asked, and the pages are read, once more."""
        lasting = {
            k: f
            for k, f in self.failures.items()
            if ENDINGS[f.reason] is not Ending.RETRYABLE and not carries_credentials(f.url or "")
        }
        secret = {key: c for key, c in self.candidates.items() if carries_credentials(c.url)}
        again = {c.resolver for c in secret.values()}
        passing = {
            key for key, c in self.candidates.items() if c.guessed and key not in lasting
        }  # guessed anew, or not
        return {
            "candidates": [
                asdict(_without_key(c))
                for key, c in self.candidates.items()
                if key not in secret and key not in passing
            ],
            "asked": sorted(
                name
                for name in self.asked
                if name not in again and (f"ask:{name}" not in self.failures or f"ask:{name}" in lasting)
            ),
            "visited": [] if secret else sorted(key for key in self.visited if not carries_credentials(key)),
            "failures": {key: asdict(failure) for key, failure in lasting.items()},
            "chain": self.chain,
            "html": asdict(without_secrets(self.html)) if self.html is not None else None,
            "requests": self.requests,
            "waits": self.waits,
            "active_ms": self.active_ms,
            "kept": asdict(self.kept) if self.kept is not None else None,
            "replaces": self.replaces,
        }

    def _restore(self, progress: Mapping[str, Any]) -> None:
        for raw in progress.get("candidates", ()):
            candidate = Candidate(**raw | {"tier": Tier(raw["tier"]), "target": Target(raw["target"])})
            self.candidates[candidate.key] = candidate
        self.asked |= set(progress.get("asked", ()))
        self.visited |= set(progress.get("visited", ()))
        for key, raw in progress.get("failures", {}).items():
            kind = Kind(raw["kind"]) if raw["kind"] else None
            self.failures[key] = Failure(
                **raw | {"reason": Reason(raw["reason"]), "tier": Tier(raw["tier"]), "kind": kind}
            )
        self.chain = list(progress.get("chain", ()))
        self.requests = int(progress.get("requests", 0))
        self.waits = int(progress.get("waits", 0))
        self.active_ms = int(progress.get("active_ms", 0))
        self.replaces = progress.get("replaces")
        if kept := progress.get("kept"):
            self.kept = KeptCopy(**kept | {"tier": Tier(kept["tier"]), "kind": Kind(kept["kind"])})
        if progress.get("html"):
            self.html = outcome_from_json(progress["html"])


def _without_key(candidate: Candidate) -> Candidate:
    return replace(candidate, referer=without_credentials(candidate.referer)) if candidate.referer else candidate


@dataclass(frozen=True, slots=True)
class ConcurrentQueries:
    """Questions to be asked side by side; the search goes on with the results of all, in this order."""

    questions: tuple[Resolution, ...]


Search = Generator[Request | ConcurrentQueries, Any, DownloadOutcome]


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    limits: DownloadLimits
    head_precheck: bool = True
    global_url_dedupe: bool = False
    guess_files: bool = True  # only where they are judged, too
    dry_run: bool = False
    judge: PdfValidator | None = None  # whether a PDF is the article that was wanted
    recorded: Callable[[str, str], bool] = lambda work_id, sha256: (
        True
    )  # whether this file of the work is known already
    quarantine: Quarantine | None = None  # where to put one that is something else as well
    max_concurrent_resolvers: int = 1
    versions: tuple[str, ...] = ("*",)  # patterns, as are the licences
    licenses: tuple[str, ...] = ("*",)
    context: ResolverContext = field(default_factory=ResolverContext)


class ResolverPipeline:
    """Shared by all works of a run. Thread-safe; what belongs to one work is in its SearchState."""

    def __init__(
        self,
        resolvers: Sequence[Resolver],
        store: ArtifactStore,
        settings: PipelineSettings,
        taken: dict[str, str] | None = None,
    ) -> None:
        """`taken`: canonical URL -> the work that has it, when URLs are deduplicated across works."""
        self.resolvers = {resolver.name: resolver for resolver in resolvers}
        self._store, self._settings = store, settings
        self._taken = {} if taken is None else taken
        self._url_patterns = UrlPatternCache()

    def begin(self, work: Work, progress: Mapping[str, Any] | None = None) -> SearchState:
        return SearchState.begin(make_plan(work, self.resolvers.values()), progress)

    def search(self, work: Work, state: SearchState, log: AttemptLog) -> Search:
        if state.kept is not None:
            return (yield from self._revalidate(state.kept, work, state))
        outcome = self._adopt(work, state, log) or (yield from self._search(work, state, log))
        return replace(outcome, meta={**outcome.meta, "replaces": state.replaces}) if state.replaces else outcome

    def _adopt(self, work: Work, state: SearchState, log: AttemptLog) -> DownloadOutcome | None:
        """A whole file that was stored for this work and never recorded, because its process was killed, or because the catalog
        is older than the file. One that is recorded is what a search by force is to find anew."""

        def wanted(noted: DownloadOutcome) -> bool:
            recorded = noted.sha256 is None or self._settings.recorded(work.work_id, noted.sha256)
            return not recorded and self._unwanted(_candidate_of(noted)) is None

        outcome = adopted(work, self._store, wanted) if not self._settings.dry_run else None
        if outcome is None or self._taken_by_another(candidate := _candidate_of(outcome), work, log):
            return None
        state.tried(candidate.resolver)
        return self._succeeded(outcome, state)

    def _search(self, work: Work, state: SearchState, log: AttemptLog) -> Search:
        while not work.deleted and (action := state.next_action()) is not None:
            named = isinstance(action, Candidate) and action.target is not Target.LANDING
            if not named and (guess := self._guess(work, state)) is not None:
                state.add(guess)
                action = guess  # before anybody is asked, or a page read
            if isinstance(action, str):
                yield from self._ask(state.next_asks(self._settings.max_concurrent_resolvers), work, state)
            elif self._settings.dry_run:
                state.visited.add(action.key)
                state.tried(action.resolver)
            else:
                outcome = yield from self._try(action, work, state, log)
                if outcome is not None and outcome.ok:
                    return self._succeeded(outcome, state)
                if action.guessed:
                    self._doubt(action, work, state.failures[action.key])
        if self._settings.dry_run:
            return _dry_run_outcome(state)
        if work.deleted and state.html is None:
            gone = {"deleted": work.deleted}
            return DownloadOutcome(False, None, Classification.SKIP, Reason.WORK_DELETED, meta=gone)
        return conclude(state)

    def _ask(
        self, names: Sequence[str], work: Work, state: SearchState
    ) -> Generator[Request | ConcurrentQueries, Any, None]:
        """Ask resolvers, several of them side by side where that is allowed. They count as asked only when all have answered: a
        work that is parked meanwhile asks again."""
        dead = state.dead_files()
        guarded = tuple(url for url, failure in dead.items() if failure.is_guarded)
        context = replace(self._settings.context, dead_urls=tuple(dead), guarded_urls=guarded)
        begun: list[str] = []
        questions = [_question(self.resolvers[name], work, context, begun) for name in names]
        results: Sequence[ResolverResult]
        if len(questions) == 1:
            results = [(yield from questions[0])]
        else:
            results = yield ConcurrentQueries(tuple(questions))
        for name, result in zip(names, results, strict=True):
            resolver = self.resolvers[name]
            state.asked.add(name)
            if name in begun:
                state.tried(name)
            for candidate in result.candidates:
                state.add(candidate)
            if not result.candidates and result.reason is not Reason.OK:
                state.failures[f"ask:{name}"] = Failure(
                    result.reason,
                    name,
                    resolver.tier,
                    resolver.rank,
                    until=result.until,
                    host=result.host,
                    note=result.note,
                )

    def _try(
        self, candidate: Candidate, work: Work, state: SearchState, log: AttemptLog
    ) -> Generator[Request, Response, DownloadOutcome | None]:
        state.tried(candidate.resolver)
        if (wall := state.wall_of(candidate.host)) is not None:
            self._fail(state, candidate, wall, note="not asked: the same host has put up a wall before")
            return None
        if (unwanted := self._unwanted(candidate)) is not None:
            log.write(self._landing_request(candidate), candidate.url, Status.CONTENT_POLICY_SKIP, unwanted)
            self._fail(state, candidate, unwanted)
            return None
        if self._taken_by_another(candidate, work, log):
            self._fail(state, candidate, Reason.DUPLICATE_URL_GLOBAL)
            return None
        if (wall := wall_at(candidate.url)) is not None:  # known for what it is; nobody need be asked
            log.write(self._landing_request(candidate), candidate.url, Status.SKIPPED, wall)
            self._fail(state, candidate, wall)
            return None
        try:
            if candidate.target is Target.LANDING:
                once = state.has_given_up_on(candidate.host)
                response = yield replace(self._landing_request(candidate), repeatable=not once)
                return self._read_page(candidate, work, state, response, response.body)
            if not (yield from self._passes_precheck(candidate, state)):
                return None
            outcome = yield from self._fetch(candidate, work, state, log)
            sure = outcome is not None and outcome.ok and "flags" not in outcome.meta
            if work.doi and sure and candidate.target is Target.PDF and candidate.tier is not Tier.WAYBACK:
                self._url_patterns.learn(work.doi, candidate.url)
            return outcome
        except Interrupted:
            raise
        except HttpError as error:
            self._fail(state, candidate, error.reason, **_told(error))
            return None

    def _guess(self, work: Work, state: SearchState) -> Candidate | None:
        """The file that a page of this work should lead to, by what is known of its publisher."""
        settings = self._settings
        if work.doi is None or not settings.guess_files or settings.judge is None or settings.dry_run:
            return None
        url = self._url_patterns.guess(work.doi)
        if url is None or url_key(url) in state.candidates:
            return None
        pages = [c for c in state.pending() if c.target is Target.LANDING and c.hop == 0]
        pages = [c for c in pages if c.host == host_of(url)] or [c for c in pages if c.tier is Tier.DOI_REDIRECT]
        return replace(pages[0], url=url, target=Target.PDF, instead_of=None, guessed=True) if pages else None

    def _doubt(self, guess: Candidate, work: Work, failure: Failure) -> None:
        """A host that is only out of order now says nothing of where its files are; one that minds is not bothered again."""
        unwelcome = failure.is_guarded or failure.reason in _MINDS
        if work.doi and (unwelcome or ENDINGS[failure.reason] is not Ending.RETRYABLE):
            self._url_patterns.record_failure(work.doi, guess.url, unwelcome=unwelcome)

    def _fetch(
        self, candidate: Candidate, work: Work, state: SearchState, log: AttemptLog
    ) -> Generator[Request, Response, DownloadOutcome | None]:
        plan = prepare_candidate_download(candidate)
        plan = replace(plan, repeatable=not (candidate.guessed or state.has_given_up_on(candidate.host)))
        response = yield from stream_candidate_payload(
            plan, candidate, self._store, self._settings.limits, self._obeys_robots(candidate)
        )
        stream = response.payload
        streamed = isinstance(stream, DownloadStreamResult)
        if streamed and stream.kind is Kind.HTML and not candidate.guessed:
            return self._read_page(candidate, work, state, response, stream.page)
        resolver = self.resolvers.get(candidate.resolver)
        refusal = resolver.refuses(candidate, response) if resolver is not None and response.ok else None
        if candidate.guessed and streamed and stream.kind not in (Kind.PDF, Kind.PDF_UNKNOWN):
            wall = recognise_wall(response.status, response.headers, stream.page[:65_536], response.url)
            refusal = wall or Reason.UNEXPECTED_CT, ""
        if refusal is not None:
            if isinstance(stream, DownloadStreamResult) and stream.part is not None:
                stream.part.discard()
            self._turned_away(state, candidate, refusal[0], response, note=refusal[1])
            return None
        judge, quarantine = self._settings.judge, self._settings.quarantine
        judge = _strictly(judge) if candidate.guessed and judge is not None else judge
        outcome = finalize_candidate_download(
            work, candidate, response, self._store, judge=judge, quarantine=quarantine
        )
        if not outcome.ok:
            wall = recognise_wall(response.status, response.headers, response.body[:65_536], response.url)
            reason = wall or outcome.reason
            note = str(outcome.meta.get("evidence") or outcome.meta.get("fault", ""))
            note += f"; kept as {kept}" if (kept := outcome.meta.get("quarantined")) else ""
            self._turned_away(state, candidate, reason, response, kind=outcome.kind, note=note)
            if "flags" in outcome.meta or "quarantined" in outcome.meta:
                # it came whole, and so its attempt is a good one; this says why it is not the work's file
                judged = replace(self._landing_request(candidate), role=Role.ARTIFACT)
                log.write(judged, response.url, Status.CONTENT_POLICY_SKIP, reason, extra=outcome.meta)
        return outcome

    def _revalidate(self, kept: KeptCopy, work: Work, state: SearchState) -> Search:
        """One GET that names our copy. Only another file of its kind takes its place; whatever else comes leaves it there."""
        candidate = _candidate_of(kept)
        state.tried(candidate.resolver)
        plan = replace(prepare_candidate_download(candidate), etag=kept.etag, last_modified=kept.last_modified)
        try:
            response = yield from stream_candidate_payload(
                plan, candidate, self._store, self._settings.limits, self._obeys_robots(candidate)
            )
        except Interrupted:
            raise
        except HttpError as error:
            return _left_as_is(failed(candidate, error.reason))
        stream = response.payload
        if isinstance(stream, DownloadStreamResult):
            same, other_kind = stream.sha256 == kept.sha256, (stream.kind is Kind.XML) != (kept.kind is Kind.XML)
            if same or other_kind or stream.part is None:
                if stream.part is not None:
                    stream.part.discard()
                return _left_as_is(failed(candidate, Reason.NOT_MODIFIED if same else Reason.UNEXPECTED_CT))
        judge = self._settings.judge
        outcome = finalize_candidate_download(work, candidate, response, self._store, conditional=True, judge=judge)
        return self._succeeded(outcome, state) if outcome.ok else _left_as_is(outcome)

    def _passes_precheck(self, candidate: Candidate, state: SearchState) -> Generator[Request, Response, bool]:
        """HEAD where it tells something. A refused HEAD tells nothing; an HTML answer makes the URL a page to read."""
        resolver = self.resolvers.get(candidate.resolver)
        wanted = self._settings.head_precheck and resolver is not None and resolver.prechecks
        if not wanted or candidate.guessed or candidate.key in state.retargeted:
            return True
        try:
            response = yield replace(self._landing_request(candidate), role=Role.ARTIFACT, verb="HEAD")
        except Interrupted:
            raise
        except HttpError as error:
            if ENDINGS[error.reason] is Ending.RETRYABLE:
                return True
            self._fail(state, candidate, error.reason, note=str(error))
            return False
        if response.status in _GONE:
            self._turned_away(state, candidate, reason_of_status(response.status), response)
            return False
        if response.ok and response.content_type == "text/html" and candidate.target is not Target.HTML:
            state.retarget(candidate, Target.LANDING)
            return False
        return True

    def _landing_request(self, candidate: Candidate) -> Request:
        return Request(
            candidate.url,
            Role.LANDING,
            resolver=candidate.resolver,
            tier=str(candidate.tier),
            referer=candidate.referer,
            obey_robots=self._obeys_robots(candidate),
        )

    def _obeys_robots(self, candidate: Candidate) -> bool:
        resolver = self.resolvers.get(candidate.resolver)
        return resolver is None or resolver.obeys_robots

    def _read_page(
        self, candidate: Candidate, work: Work, state: SearchState, response: Response, page: bytes
    ) -> DownloadOutcome | None:
        """An HTML answer: a wall, a page that leads to the file, a full text, or a dead end."""
        wall = recognise_wall(response.status, response.headers, page[:65_536], response.url)
        if wall is not None or not response.ok:
            reason = wall or reason_of_status(response.status)
            self._turned_away(state, candidate, reason, response)
            return None
        if page[:1024].find(b"%PDF-") >= 0:  # the "page" is the file itself: ask again as what it is
            state.retarget(candidate, Target.PDF)
            return None
        if candidate.target is Target.PDF and response.content_type == "application/pdf":
            self._turned_away(state, candidate, Reason.PDF_CORRUPT, response, kind=Kind.PDF_CORRUPT)
            return None
        found = extract(page, response.headers.get("content-type"), response.url)
        if state.html is None and found.is_full_text:
            state.html = self._keep_html(candidate, work, response, page)
        state.visited.add(replace(candidate, url=response.url).key)  # another may name the page that redirects led to
        if self._follow_links(candidate, state, response, found):
            state.visited.add(candidate.key)
        else:
            self._turned_away(state, candidate, Reason.NO_PDF_LINK, response)
        return None

    def _follow_links(self, candidate: Candidate, state: SearchState, response: Response, found: Found) -> bool:
        """Adds what the page links to; True when that is anything, even if it was known before."""
        if candidate.hop >= MAX_HOPS:
            return False
        child = replace(candidate, referer=response.url, checksum=None, hop=candidate.hop + 1)
        links = [replace(child, url=link.url, target=Target.PDF) for link in found.pdf]
        links += [replace(child, url=link.url, target=Target.XML, rank=candidate.rank + 1) for link in found.xml]
        onward = found.next_page or next((link.url for link in found.html), None)
        if not links and onward is not None:
            links.append(replace(child, url=onward, target=Target.LANDING))
        own = candidate.key
        for link in links:
            state.add(link)
        return any(link.key != own for link in links)

    def _keep_html(self, candidate: Candidate, work: Work, response: Response, page: bytes) -> DownloadOutcome:
        stream = DownloadStreamResult(
            None,
            len(page),
            response.status,
            response.content_type,
            Kind.HTML,
            hashlib.sha256(page).hexdigest(),
            page=page,
        )
        return finalize_candidate_download(work, candidate, replace(response, payload=stream), self._store)

    def _unwanted(self, candidate: Candidate) -> Reason | None:
        """Which policy leaves the candidate out, by what is known of its version and licence before it is asked for."""
        version = (candidate.version or _UNKNOWN).removesuffix("Version")
        license_ = (license_name(candidate.license) or _UNKNOWN).lower()
        if not any(fnmatchcase(version, pattern) for pattern in self._settings.versions):
            return Reason.POLICY_VERSION
        if not any(fnmatchcase(license_, pattern.lower()) for pattern in self._settings.licenses):
            return Reason.POLICY_LICENSE
        return None

    def _turned_away(
        self, state: SearchState, candidate: Candidate, reason: Reason, response: Response, **details: Any
    ) -> None:
        self._fail(state, candidate, reason, http_status=response.status, host=host_of(response.url), **details)

    def _fail(self, state: SearchState, candidate: Candidate, reason: Reason, **details: Any) -> None:
        details["host"] = details.get("host") or candidate.host
        state.failures[candidate.key] = Failure(
            reason, candidate.resolver, candidate.tier, candidate.rank, url=candidate.url, **details
        )

    def _taken_by_another(self, candidate: Candidate, work: Work, log: AttemptLog) -> bool:
        if not self._settings.global_url_dedupe:
            return False
        owner = self._taken.setdefault(candidate.key, work.work_id)  # looks and takes in one step, for all threads
        if owner == work.work_id:
            return False
        request = self._landing_request(candidate)
        log.write(request, candidate.url, Status.SKIPPED, Reason.DUPLICATE_URL_GLOBAL, extra={"first": owner})
        return True

    def _succeeded(self, outcome: DownloadOutcome, state: SearchState) -> DownloadOutcome:
        beside = (state.html,) if state.html is not None and state.html.path is not None else ()
        html = tuple(page.path for page in beside if page.path is not None)
        return replace(outcome, fallback_chain=tuple(state.chain), html_paths=html, beside=beside)


def _strictly(judge: PdfValidator) -> PdfValidator:
    """Reject guessed URLs on any flag."""

    def strict(work: Work, url: str, path: Path) -> Verdict:
        verdict = judge(work, url, path)
        return replace(verdict, reason=verdict.reason or Reason.WRONG_PAPER) if verdict.flags else verdict

    return strict


def _candidate_of(file: KeptCopy | DownloadOutcome) -> Candidate:
    """The candidate that a stored PDF or XML file came from."""
    assert file.url and file.resolver and file.tier
    target = Target.XML if file.kind is Kind.XML else Target.PDF
    return Candidate(file.url, file.resolver, Tier(file.tier), target, version=file.version, license=file.license)


def _told(error: HttpError) -> dict[str, Any]:
    """What a Failure keeps of an error."""
    return {"until": error.until, "host": host_of(error.url) if error.url else None, "note": str(error)}


def _left_as_is(outcome: DownloadOutcome) -> DownloadOutcome:
    return replace(outcome, ok=True, classification=Classification.SKIP)


def _question(resolver: Resolver, work: Work, context: ResolverContext, begun: list[str]) -> Resolution:
    """Drive a deferred resolver; whatever it does wrong costs its answer, not the work. `begun`: who really asked somebody."""
    try:
        resolution = resolver.resolve(work, context)
        request = next(resolution)
        begun.append(resolver.name)
        while True:
            try:
                response = yield replace(request, resolver=resolver.name, tier=str(resolver.tier))
            except HttpError as error:
                request = resolution.throw(error)
            else:
                request = resolution.send(response)
    except StopIteration as done:
        result: ResolverResult = done.value
        return result
    except (Interrupted, *PASS_ENDING_ERRORS):
        raise
    except HttpError as error:
        return ResolverResult(reason=error.reason, **_told(error))
    except Exception as error:
        log.exception("the resolver %s failed at %s; the search goes on without it", resolver.name, work.work_id)
        return ResolverResult(reason=Reason.INTERNAL_ERROR, note=f"{resolver.name} failed: {type(error).__name__}")


def conclude(state: SearchState) -> DownloadOutcome:
    """The outcome of a search that found no file: a kept HTML full text, or the reason of the most promising failure."""
    chain = tuple(state.chain)
    if state.html is not None and state.html.path is not None:
        return replace(state.html, reason=Reason.HTML_ONLY, fallback_chain=chain, html_paths=(state.html.path,))
    ranked = sorted((f for _, f in state.losses()), key=lambda failure: failure.promise)
    lost = [f for f in ranked if f.url is not None or f.counts_without_url]
    if not lost:
        return DownloadOutcome(False, None, Classification.ERROR, Reason.NO_CANDIDATE, fallback_chain=chain)
    best = lost[0]
    skip = ENDINGS[best.reason] is Ending.NEVER
    others = [
        {"resolver": f.resolver, "reason": str(f.reason), "url": f.url, "http_status": f.http_status} for f in lost[1:]
    ]
    return DownloadOutcome(
        ok=False,
        path=None,
        classification=Classification.SKIP if skip else Classification.ERROR,
        reason=best.reason,
        kind=best.kind,
        url=best.url,
        resolver=best.resolver,
        tier=str(best.tier),
        http_status=best.http_status,
        fallback_chain=chain,
        meta={"others": others, "note": best.note} if others or best.note else {},
    )


def retry_time(state: SearchState, now: float, tries: int, base_s: float, max_tries: int) -> float | None:
    """When a work without success is worth another pass: the latest pause that a host asked for, or a growing one of our own."""
    waits = [f.until or 0.0 for _, f in state.losses() if ENDINGS[f.reason] is Ending.RETRYABLE]
    if not waits or tries >= max_tries:
        return None
    return max(now + base_s * 2.0**tries, *waits)


def _dry_run_outcome(state: SearchState) -> DownloadOutcome:
    urls = [{"url": c.url, "resolver": c.resolver, "tier": str(c.tier)} for c in state.candidates.values()]
    return DownloadOutcome(
        False, None, Classification.SKIP, Reason.DRY_RUN, fallback_chain=tuple(state.chain), meta={"candidates": urls}
    )
