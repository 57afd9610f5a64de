"""What is known in the search for one work: candidates, resolvers still to be asked, failures, counters.

`SearchState` is plain data without I/O. The search (`search.py`) fills it. When the work must wait, `to_json` goes to the catalog
as the work's progress and `begin` restores it, so that nothing is asked twice. `conclude` and `next_try` derive the outcome of
a search that found no file, and when to try again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from docstokg_assets.domain.plans import Candidate, Plan, Target, Tier, url_key
from docstokg_assets.engine.custody import WorkFiles
from docstokg_assets.engine.download import outcome_from_json, without_secrets
from resources.http.canonical import host_of
from resources.http.errors import HttpError
from resources.http.messages import Response
from resources.http.redact import carries_credentials, without_credentials
from resources.records import Classification, DownloadOutcome, Ending, Kind, Reason

if TYPE_CHECKING:
    from docstokg_assets.landing.extract import Found

# A host that is still broken after its first pause may stay so for long; the work then ends with a retry time.
MAX_WAITS = 1
SOON_S = 60.0  # a work waits at most so long for a broken host, before it ends without success
RETRY_BASE_S = 3600.0  # pause before the second try of a work; it doubles with each further one
MAX_TRIES = 5
MAX_REFUSALS = 24  # a work waits so many times for a broken host without using up a try; then the host counts as dead
_WALLS = frozenset({Reason.BLOCKED_CAPTCHA, Reason.BLOCKED_COOKIE, Reason.BLOCKED_POW, Reason.BLOCKED_WAF})
_FILES = frozenset({Target.PDF, Target.XML})
_UNWANTED = frozenset({Reason.POLICY_LICENSE, Reason.POLICY_VERSION})  # an archive's copy would be excluded as well
_SAVED_AS_IS = frozenset({"requests", "waits", "active_ms", "replaces", "fresh", "hops"})  # fields of a SearchState
# What a search must know about a stored file to ask whether it is still current.
KEPT = ("url", "resolver", "tier", "kind", "sha256", "etag", "last_modified", "version", "license")


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a candidate, or a resolver that was asked, produced no file."""

    reason: Reason
    resolver: str
    tier: Tier
    rank: int
    url: str | None = None
    http_status: int | None = None
    kind: Kind | None = None
    until: float | None = None
    host: str | None = None  # the host that answered, after redirects; the one to ask again at `until`
    note: str = ""
    detail: str | None = (
        None  # which step failed, where the reason alone does not tell (docstokg_assets.ingest.statuses)
    )
    tried: bool = False  # with `breaker-open`: the link itself had failed before its host's breaker opened

    @property
    def is_guarded(self) -> bool:
        """Whether the file seems to exist and only our access was refused."""
        return str(self.reason).startswith("blocked-") or self.http_status in (401, 403, 451)

    @property
    def is_retryable(self) -> bool:
        return self.reason.ending is Ending.RETRYABLE

    @property
    def is_refusal(self) -> bool:
        """Whether the copy was not tried, only because the breaker of its host was open."""
        return self.reason is Reason.BREAKER_OPEN and self.until is not None and not self.tried

    @property
    def explains_outcome(self) -> bool:
        """Whether this may be the work's reason. A resolver that named no URL counts only if it could not answer or is itself
        at fault."""
        return self.url is not None or self.is_retryable or self.reason is Reason.INTERNAL_ERROR

    @property
    def promise(self) -> tuple[bool, int, int]:
        """Sort key, most promising first. A failed candidate says more than an API without an answer."""
        return (self.url is None, self.tier.order, self.rank)


def error_details(error: HttpError) -> dict[str, Any]:
    """The fields of a Failure or ResolverResult that an error sets."""
    return {"until": error.until, "host": host_of(error.url) if error.url else None, "note": str(error)}


@dataclass(slots=True)
class SearchState:
    """What is known in the search for one work."""

    plan_hash: str | None = None  # of the plan that this search executes
    candidates: dict[str, Candidate] = field(default_factory=dict)  # by canonical URL, in the order of discovery
    to_ask: list[tuple[Tier, int, str]] = field(default_factory=list)
    asked: set[str] = field(default_factory=set)
    visited: set[str] = field(default_factory=set)  # pages that were read and had links to follow
    retargeted: set[str] = field(default_factory=set)  # URLs that were not what they seemed; HEAD is not asked again
    failures: dict[str, Failure] = field(default_factory=dict)  # by canonical URL, or `ask:<resolver>`
    chain: list[str] = field(default_factory=list)
    html: DownloadOutcome | None = None
    requests: int = 0
    active_ms: int = 0
    waits: int = 0  # how often the work waited for a broken host that would be tried again
    tried: set[str] = field(default_factory=set)  # links that failed just before the breaker of their host opened
    only_refused: bool = False  # the work waits for a broken host only; other failed copies are not tried again with it
    kept: DownloadOutcome | None = None  # the stored file; if set, the search only asks whether it is still current
    replaces: Mapping[str, Any] | None = None  # the stored file that was found missing or damaged
    fresh: bool = False  # a forced search, which ignores the HTTP cache
    hops: list[str] = field(default_factory=list)  # of an ingest item: the URLs that were fetched, in order
    files: WorkFiles = field(default_factory=WorkFiles)

    @classmethod
    def begin(cls, plan: Plan, progress: Mapping[str, Any] | None = None) -> SearchState:
        """Start from the plan and from the progress that an earlier part of the same search saved."""
        state = cls(plan.hash)
        for step in plan.steps:
            if step.candidate is None:
                state.to_ask.append((step.tier, step.rank, step.resolver))
            else:
                state.add(step.candidate)
        if progress:
            state._restore(progress)
        return state

    # -- what happened ------------------------------------------------------------------------------------------------

    def add(self, candidate: Candidate) -> None:
        """Add a candidate. A URL is tried once per work; a guessed one once more when a resolver names it."""
        if candidate.instead_of is not None:
            self.visited.add(url_key(candidate.instead_of))
        known = self.candidates.get(candidate.key)
        if known is None or (known.guessed and not candidate.guessed):
            self.candidates[candidate.key] = candidate
            self.failures.pop(candidate.key, None)

    def add_links(self, page: Candidate, page_url: str, found: Found, max_depth: int) -> bool:
        """Add the links of a landing page; True if there is any other than the page itself, even a known one. At most
        `max_depth` pages are read on the way to a file."""
        if page.hop >= max_depth:
            return False
        child = replace(page, referer=page_url, checksum=None, hop=page.hop + 1)
        links = [replace(child, url=link.url, target=Target.PDF) for link in found.pdf]
        links += [replace(child, url=link.url, target=Target.XML, rank=page.rank + 1) for link in found.xml]
        next_page = found.next_page or next((link.url for link in found.html), None)
        if not links and next_page is not None and child.hop < max_depth:
            links.append(replace(child, url=next_page, target=Target.LANDING))
        for link in links:
            self.add(link)
        return any(link.key != page.key for link in links)

    def with_rights(self, candidate: Candidate) -> Candidate:
        """An archived copy has the licence and the version of the URL that was captured, where these are known."""
        original = self.candidates.get(url_key(candidate.captured_from)) if candidate.captured_from else None
        if original is None or candidate.license or candidate.version:
            return candidate
        return replace(candidate, license=original.license, version=original.version)

    def retarget(self, candidate: Candidate, target: Target) -> None:
        """Try the same URL again as what it turned out to be."""
        self.candidates[candidate.key] = replace(candidate, target=target)
        self.retargeted.add(candidate.key)

    def add_to_chain(self, resolver: str) -> None:
        if not self.chain or self.chain[-1] != resolver:
            self.chain.append(resolver)

    def fail(self, candidate: Candidate, reason: Reason, response: Response | None = None, **details: Any) -> None:
        """Note why a candidate failed. `response`: the answer that it failed with, if there was one."""
        if response is not None:
            details |= {"host": host_of(response.url), "http_status": response.status}
        details["host"] = details.get("host") or candidate.host
        if details.get("tried"):
            self.tried.add(candidate.key)
        elif reason is Reason.BREAKER_OPEN and candidate.key in self.tried:
            details["tried"] = True
        resolver, tier, rank = candidate.resolver, candidate.tier, candidate.rank
        self.failures[candidate.key] = Failure(reason, resolver, tier, rank, candidate.url, **details)

    # -- what is next -------------------------------------------------------------------------------------------------

    def pending(self) -> Iterator[Candidate]:
        """Candidates that were not tried yet."""
        return (c for key, c in self.candidates.items() if key not in self.failures and key not in self.visited)

    def next_action(self) -> Candidate | str | None:
        """The candidate to try or the name of the resolver to ask next; None when nothing is left."""
        left: list[tuple[tuple[int, int, int], Candidate | str]]
        left = [((candidate.tier.order, candidate.rank, 0), candidate) for candidate in self.pending()]
        left += [((tier.order, rank, 1), name) for tier, rank, name in self.to_ask if name not in self.asked]
        return min(left, key=lambda action: action[0])[1] if left else None

    def next_queries(self, limit: int) -> tuple[str, ...]:
        """The resolvers to ask next, all of one tier."""
        waiting = sorted((tier.order, rank, name) for tier, rank, name in self.to_ask if name not in self.asked)
        return tuple(name for order, _, name in waiting if order == waiting[0][0])[:limit]

    # -- what the failures say ----------------------------------------------------------------------------------------

    def counted_failures(self) -> Iterator[tuple[str, Failure]]:
        """The failures of URLs that a resolver or a page named; guessed URLs are left out."""
        known = self.candidates
        return ((key, f) for key, f in self.failures.items() if key not in known or not known[key].guessed)

    def wall_of(self, host: str) -> Reason | None:
        """The wall that a host answered with in this search. It applies to all its pages."""
        walls = (f.reason for _, f in self.counted_failures() if f.reason in _WALLS and f.host == host)
        return next(walls, None)

    def has_given_up_on(self, host: str) -> bool:
        """Whether all retries of a host were used up in this search. Its next URL is then tried once."""
        retried = (f.url for _, f in self.counted_failures() if f.is_retryable and f.url is not None)
        return any(host_of(url) == host for url in retried)

    def dead_files(self) -> dict[str, Failure]:
        """Known files that could not be fetched, the most promising first, by the URL under which an archive may have them."""
        dead = [
            (failure.promise, failure.url, failure)
            for key, failure in self.counted_failures()
            if failure.url is not None
            and failure.tier is not Tier.WAYBACK
            and failure.reason not in _UNWANTED
            and self.candidates[key].target in _FILES
        ]
        found: dict[str, Failure] = {}
        for _, url, failure in sorted(dead, key=lambda known: known[:2]):
            found.setdefault(without_credentials(url), failure)
        return found

    def opens_soon(self, now: float) -> Failure | None:
        """The broken host, if any, to wait for before the work ends: it is tried again within `SOON_S`, and the work has not
        waited `MAX_WAITS` times yet."""
        broken = [f for _, f in self.counted_failures() if f.reason is Reason.BREAKER_OPEN]
        soon = [f for f in broken if f.until is not None and f.until <= now + SOON_S]
        return _first_due(soon) if self.waits < MAX_WAITS else None

    def refused(self) -> Failure | None:
        """The copy that was only refused by an open breaker and can be tried again first."""
        return _first_due(f for _, f in self.counted_failures() if f.is_refusal)

    def wait_for_host(self) -> None:
        """Let the work wait for a broken host. Copies that have just failed are not used as its probes."""
        self.waits += 1
        self.only_refused = True

    # -- saving and restoring -----------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """What must survive a pause: discovered candidates, failures that are not retryable (and those of other copies, while
        one waits for a broken host), and the counters. URLs that carry a key are left out; the resolvers that named them are
        asked, and the pages read, once more."""

        def lasts(failure: Failure) -> bool:
            failed = failure.url is not None and failure.reason is not Reason.BREAKER_OPEN
            return not failure.is_retryable or (self.only_refused and failed)

        lasting = {k: f for k, f in self.failures.items() if lasts(f) and not carries_credentials(f.url or "")}
        secret = {key: c for key, c in self.candidates.items() if carries_credentials(c.url)}
        ask_again = {c.resolver for c in secret.values()}
        ask_again |= {name for name in self.asked if f"ask:{name}" in self.failures and f"ask:{name}" not in lasting}
        kept = (
            replace(c, referer=without_credentials(c.referer)) if c.referer else c
            for key, c in self.candidates.items()
            if key not in secret and (not c.guessed or key in lasting)  # other guesses are made anew
        )
        return {
            "candidates": [asdict(candidate) for candidate in kept],
            "asked": sorted(self.asked - ask_again),
            "visited": [] if secret else sorted(key for key in self.visited if not carries_credentials(key)),
            "failures": {key: asdict(failure) for key, failure in lasting.items()},
            "chain": self.chain,
            "html": asdict(without_secrets(self.html)) if self.html is not None else None,
            **{name: getattr(self, name) for name in _SAVED_AS_IS},
            "kept": {name: getattr(self.kept, name) for name in KEPT} if self.kept is not None else None,
            "tried": sorted(key for key in self.tried if not carries_credentials(key)) if self.only_refused else [],
            "stored": dict(self.files.earlier),
            "main": self.files.main,
            "aside": dict(self.files.aside),
        }

    def _restore(self, progress: Mapping[str, Any]) -> None:
        for raw in progress.get("candidates", ()):
            candidate = Candidate(**raw | {"tier": Tier(raw["tier"]), "target": Target(raw["target"])})
            self.candidates[candidate.key] = candidate
        self.asked |= set(progress.get("asked", ()))
        self.visited |= set(progress.get("visited", ()))
        self.tried |= set(progress.get("tried", ()))
        for key, raw in progress.get("failures", {}).items():
            tokens = {"reason": Reason(raw["reason"]), "tier": Tier(raw["tier"])}
            self.failures[key] = Failure(**raw | tokens | {"kind": Kind(raw["kind"]) if raw["kind"] else None})
        self.chain = list(progress.get("chain", ()))
        for name in progress.keys() & _SAVED_AS_IS:
            setattr(self, name, progress[name])
        self.files = WorkFiles(progress.get("stored", {}), progress.get("main"), progress.get("aside", {}))
        if kept := progress.get("kept"):
            kept = {**kept, "kind": Kind(kept["kind"])}
            self.kept = DownloadOutcome(True, None, Classification.SUCCESS, Reason.OK, **kept)
        if progress.get("html"):
            self.html = outcome_from_json(progress["html"])


def conclude(state: SearchState) -> DownloadOutcome:
    """The outcome of a search that found no file: a kept HTML full text, or the reason of the most promising failure."""
    chain = tuple(state.chain)
    if state.html is not None and state.html.path is not None:
        return replace(state.html, reason=Reason.HTML_ONLY, fallback_chain=chain, html_paths=(state.html.path,))
    failures = [failure for _, failure in state.counted_failures() if failure.explains_outcome]
    if not failures:
        return DownloadOutcome(False, None, Classification.ERROR, Reason.NO_CANDIDATE, fallback_chain=chain)
    best, *rest = sorted(failures, key=lambda failure: failure.promise)
    others = [
        {"resolver": f.resolver, "reason": str(f.reason), "url": f.url, "http_status": f.http_status} for f in rest
    ]
    return DownloadOutcome(
        ok=False,
        path=None,
        classification=Classification.SKIP if best.reason.ending is Ending.NEVER else Classification.ERROR,
        reason=best.reason,
        kind=best.kind,
        url=best.url,
        resolver=best.resolver,
        tier=str(best.tier),
        http_status=best.http_status,
        fallback_chain=chain,
        meta={"others": others, "note": best.note} if others or best.note else {},
    )


def _first_due(failures: Iterable[Failure]) -> Failure | None:
    return min(failures, key=lambda failure: (failure.until or 0.0, failure.rank), default=None)


@dataclass(frozen=True, slots=True)
class NextTry:
    """When a work without success is tried again, if it is. `counts`: this was one of its tries; else it waits for `host`."""

    at: float | None = None
    counts: bool = True
    host: str | None = None


def next_try(state: SearchState, now: float, tries: int) -> NextTry:
    """When to try a work without success again. If a copy was only refused by an open breaker: when that host is tried again.
    Else after the latest pause that a host asked for, or our own exponential backoff. Never when no failure is retryable or all
    tries are used up."""
    refused = state.refused()
    if refused is not None and state.waits < MAX_REFUSALS:
        state.wait_for_host()
        return NextTry(max(refused.until or 0.0, now + 1.0), False, refused.host)
    waits = [f.until or 0.0 for _, f in state.counted_failures() if f.is_retryable]
    over = not waits or tries >= MAX_TRIES
    return NextTry() if over else NextTry(max(now + RETRY_BASE_S * 2.0**tries, *waits))
