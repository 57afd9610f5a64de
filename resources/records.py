"""The records that travel unchanged from where they are made to the manifest row, and the closed lists of tokens in them.

Standard library only, so that every room can import it. Each reason says how it ends a work: `RETRYABLE` (the same work may
succeed later), `TERMINAL` (nothing will change by itself), or `NEVER` (policy; only a changed configuration helps).
What a token means for a person, and what to do about it, is in docs/reasons.md; a test keeps the two in step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

MANIFEST_SCHEMA_VERSION = 3
CATALOG_SCHEMA_VERSION = 4
DAY_S = 86_400


class Status(StrEnum):
    """What happened in one attempt."""

    HTTP_HEAD = "http-head"  # a HEAD was answered
    HTTP_GET = "http-get"  # a GET was answered (metadata, landing page, redirect hop, or a status that is no success)
    HTTP_200 = "http-200"  # an artifact GET delivered its whole body
    HTTP_304 = "http-304"
    ROBOTS_FETCH = "robots-fetch"
    ROBOTS_DISALLOWED = "robots-disallowed"
    RETRY = "retry"  # a try failed and will be repeated after extra.sleep_ms
    SIZE_MISMATCH = "size-mismatch"
    CONTENT_POLICY_SKIP = "content-policy-skip"
    DOWNLOAD_ERROR = "download-error"
    SKIPPED = "skipped"
    BREAKER_OPEN = "breaker-open"  # from here on the circuit breaker of a host is in another state
    BREAKER_HALF_OPEN = "breaker-half-open"
    BREAKER_CLOSED = "breaker-closed"


class Ending(StrEnum):
    """Whether a work that ended for a reason may be tried again."""

    SUCCESS = "success"
    RETRYABLE = "retryable"
    TERMINAL = "terminal"
    NEVER = "never"


class Reason(StrEnum):
    """Why an attempt or a work ended as it did. `ending` says whether the work may be tried again."""

    ending: Ending

    # The default is for `Reason(token)`, which looks one up.
    def __new__(cls, token: str, ending: Ending = Ending.TERMINAL) -> Reason:
        reason = str.__new__(cls, token)
        reason._value_, reason.ending = token, ending
        return reason

    OK = "ok", Ending.SUCCESS
    NOT_MODIFIED = "not-modified", Ending.SUCCESS
    RETRY_AFTER = "retry-after", Ending.RETRYABLE
    BACKOFF = "backoff", Ending.RETRYABLE
    BREAKER_OPEN = "breaker-open", Ending.RETRYABLE  # the host failed again and again and is left alone
    ROBOTS = "robots", Ending.NEVER
    ROBOTS_UNAVAILABLE = "robots-unavailable", Ending.RETRYABLE
    POLICY_TYPE = "policy-type", Ending.NEVER
    POLICY_SIZE = "policy-size", Ending.NEVER
    POLICY_VERSION = "policy-version", Ending.NEVER
    POLICY_LICENSE = "policy-license", Ending.NEVER
    NOT_ENTITLED = "not-entitled", Ending.TERMINAL  # the file exists; our key, token or address gives no right to it
    EMBARGOED = "embargoed", Ending.TERMINAL  # the file becomes available on the day that the row names
    TDM_RESERVED = (
        "tdm-reserved",
        Ending.NEVER,
    )  # the rightholder reserved text and data mining, and the settings respect it
    BUDGET_SPENT = "budget-spent", Ending.RETRYABLE  # a paid route may spend no more today
    TIMEOUT = "timeout", Ending.RETRYABLE
    CONN_ERROR = "conn-error", Ending.RETRYABLE
    TLS_ERROR = "tls-error", Ending.TERMINAL
    PROTOCOL_ERROR = "protocol-error", Ending.RETRYABLE
    TOO_LARGE = "too-large", Ending.TERMINAL
    UNEXPECTED_CT = "unexpected-ct", Ending.TERMINAL
    SIZE_MISMATCH = "size-mismatch", Ending.RETRYABLE
    TRUNCATED = "truncated", Ending.RETRYABLE
    CHECKSUM_MISMATCH = "checksum-mismatch", Ending.TERMINAL
    REDIRECT_LOOP = "redirect-loop", Ending.TERMINAL
    BLOCKED_ADDRESS = "blocked-address", Ending.NEVER
    BLOCKED_SCHEME = "blocked-scheme", Ending.NEVER
    BLOCKED_COOKIE = "blocked-cookie", Ending.TERMINAL
    BLOCKED_CAPTCHA = "blocked-captcha", Ending.TERMINAL
    BLOCKED_LOGIN = "blocked-login", Ending.TERMINAL
    BLOCKED_POW = "blocked-pow", Ending.TERMINAL
    BLOCKED_WAF = "blocked-waf", Ending.TERMINAL
    PDF_CORRUPT = "pdf-corrupt", Ending.TERMINAL
    WRONG_PAPER = "wrong-paper", Ending.TERMINAL  # a whole file, but not of this work; the evidence is on the row
    VALIDATOR_LIMIT = "validator-limit", Ending.TERMINAL  # looking into the file went past the limits of its check
    HTTP_4XX = "http-4xx", Ending.TERMINAL  # not there, or not for us; the exact status is on the row
    HTTP_5XX = "http-5xx", Ending.RETRYABLE
    RATE_LIMITED = "rate-limited", Ending.RETRYABLE  # a 429 outlived its retries
    BAD_ANSWER = "bad-answer", Ending.RETRYABLE  # a provider answered with something that is not what its API promises
    NO_PDF_LINK = "no-pdf-link", Ending.TERMINAL
    WRONG_CAPTURE = "wrong-capture", Ending.TERMINAL  # an archive replayed another moment than was asked for
    NO_CANDIDATE = "no-candidate", Ending.TERMINAL  # no resolver knows a copy
    WORK_DELETED = "work-deleted", Ending.NEVER  # OpenAlex has removed the work since
    DUPLICATE_URL_GLOBAL = "duplicate-url-global", Ending.NEVER
    HTML_ONLY = "html-only", Ending.SUCCESS
    DRY_RUN = "dry-run", Ending.NEVER
    INTERRUPTED = "interrupted", Ending.RETRYABLE
    INTERNAL_ERROR = "internal-error", Ending.TERMINAL  # a fault of ours; the stack trace is in the log


ITS_TURN = "its turn under the limit"  # why a work waits that no host refused; other waits are named by their Reason


class Kind(StrEnum):
    """What kind of file was got; PDF_UNKNOWN is a PDF whose header said something else."""

    PDF = "pdf"
    PDF_UNKNOWN = "pdf_unknown"
    PDF_CORRUPT = "pdf_corrupt"
    HTML = "html"
    XML = "xml"


class Classification(StrEnum):
    SUCCESS = "success"
    SKIP = "skip"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """One network action or one decision not to act. Keyed by (run_id, worker_id, seq), so that a replay changes nothing."""

    ts: datetime
    run_id: str | None
    resolver: str | None
    url: str  # without credentials, see resources.http.redact
    verb: str  # HEAD | GET | ROBOTS
    status: Status
    http_status: int | None = None
    content_type: str | None = None
    elapsed_ms: int | None = None
    bytes_written: int | None = None
    content_length_hdr: int | None = None
    reason: Reason | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    # where in the system the attempt belongs
    work_id: str | None = None
    year: int | None = None
    tier: str | None = None
    role: str | None = None
    host: str | None = None
    canonical_url: str | None = None
    attempt: int = 1  # 1 for the first try of a request, 2 for its first retry …
    retry_after_s: float | None = None
    cache_hit: bool = False
    worker_id: str = ""
    seq: int = 0


@dataclass(frozen=True, slots=True)
class DownloadOutcome:
    """How one candidate, and in the end one work, came out."""

    ok: bool
    path: str | None
    classification: Classification
    reason: Reason
    kind: Kind | None = None
    url: str | None = None
    resolver: str | None = None
    tier: str | None = None
    http_status: int | None = None
    sha256: str | None = None
    content_length: int | None = None
    content_type: str | None = None
    etag: str | None = None
    last_modified: str | None = None
    license: str | None = None
    version: str | None = None
    html_paths: tuple[str, ...] = ()
    beside: tuple[DownloadOutcome, ...] = ()  # files that were kept besides this one
    fallback_chain: tuple[str, ...] = ()
    meta: Mapping[str, Any] = field(default_factory=dict)

    @property
    def leaves_as_is(self) -> bool:
        """Good, but nothing new was stored: the copy that there was stands, and so does what is known of it."""
        return self.ok and self.classification is Classification.SKIP


class Answer(NamedTuple):
    """The result of a query in SQL."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    more: bool  # there were more rows than the limit


class Spent(NamedTuple):
    """Whether the amount was taken from the budget of `day` (UTC, days since the epoch); else nothing was."""

    taken: bool
    day: int

    @property
    def next_day_begins(self) -> float:
        return float((self.day + 1) * DAY_S)
