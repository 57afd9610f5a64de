"""Which copies are wanted at all, and which URL may be guessed for a work. Pure: nothing is sent."""

from __future__ import annotations

from dataclasses import replace

from docstokg_assets.domain.plans import Candidate, Target, Tier, url_key
from docstokg_assets.domain.url_patterns import UrlPatternCache
from docstokg_assets.engine.search_state import Failure, SearchState
from docstokg_assets.engine.settings import DownloadSettings
from docstokg_assets.resolvers.api import license_name
from resources.http.canonical import host_of
from resources.records import Reason

UNKNOWN = "unknown"
_UNWELCOME = frozenset({Reason.ROBOTS, Reason.RATE_LIMITED, Reason.RETRY_AFTER})


def excluded_by(settings: DownloadSettings, candidate: Candidate) -> tuple[Reason, str] | None:
    """The policy that excludes a candidate by its version or licence, as far as these are known before the request, and which of
    them was found."""
    version = (candidate.version or UNKNOWN).removesuffix("Version")
    if version not in settings.versions:
        return Reason.POLICY_VERSION, f"version: {version}"
    license_ = (license_name(candidate.license) or UNKNOWN).lower()
    if not settings.wants_license(license_):
        return Reason.POLICY_LICENSE, f"licence: {license_}"
    return None


def guessed_file(doi: str, patterns: UrlPatternCache, state: SearchState) -> Candidate | None:
    """The PDF URL that a landing page of this work should lead to, by the URL pattern of its publisher."""
    url = patterns.guess(doi)
    if url is None or url_key(url) in state.candidates:
        return None
    pages = [c for c in state.pending() if c.target is Target.LANDING and c.hop == 0]
    pages = [c for c in pages if c.host == host_of(url)] or [c for c in pages if c.tier is Tier.DOI_REDIRECT]
    return replace(pages[0], url=url, target=Target.PDF, instead_of=None, guessed=True) if pages else None


def note_failed_guess(doi: str, patterns: UrlPatternCache, guess: Candidate, failure: Failure) -> None:
    """A temporary failure says nothing about the URL pattern; a host that refuses guesses gets no more of them."""
    unwelcome = failure.is_guarded or failure.reason in _UNWELCOME
    if unwelcome or not failure.is_retryable:
        patterns.record_failure(doi, guess.url, unwelcome=unwelcome)
