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
from typing import Any

MANIFEST_SCHEMA_VERSION = 3
CATALOG_SCHEMA_VERSION = 4


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
    """Why an attempt or a work ended as it did. The order is of no meaning; `ENDINGS` classifies them."""

    OK = "ok"
    NOT_MODIFIED = "not-modified"
    RETRY_AFTER = "retry-after"
    BACKOFF = "backoff"
    BREAKER_OPEN = "breaker-open"  # the host failed again and again and is left alone
    ROBOTS = "robots"
    ROBOTS_UNAVAILABLE = "robots-unavailable"
    POLICY_TYPE = "policy-type"
    POLICY_SIZE = "policy-size"
    POLICY_VERSION = "policy-version"
    POLICY_LICENSE = "policy-license"
    BUDGET_SPENT = "budget-spent"  # a paid route may spend no more today
    TIMEOUT = "timeout"
    CONN_ERROR = "conn-error"
    TLS_ERROR = "tls-error"
    PROTOCOL_ERROR = "protocol-error"
    TOO_LARGE = "too-large"
    UNEXPECTED_CT = "unexpected-ct"
    SIZE_MISMATCH = "size-mismatch"
    TRUNCATED = "truncated"
    CHECKSUM_MISMATCH = "checksum-mismatch"
    REDIRECT_LOOP = "redirect-loop"
    BLOCKED_ADDRESS = "blocked-address"
    BLOCKED_SCHEME = "blocked-scheme"
    BLOCKED_COOKIE = "blocked-cookie"
    BLOCKED_CAPTCHA = "blocked-captcha"
    BLOCKED_LOGIN = "blocked-login"
    BLOCKED_POW = "blocked-pow"
    BLOCKED_WAF = "blocked-waf"
    PDF_CORRUPT = "pdf-corrupt"
    WRONG_PAPER = "wrong-paper"  # a whole file, but not of this work; the evidence is on the row
    VALIDATOR_LIMIT = "validator-limit"  # looking into the file went past the limits of its check
    HTTP_4XX = "http-4xx"  # not there, or not for us; the exact status is on the row
    HTTP_5XX = "http-5xx"
    RATE_LIMITED = "rate-limited"  # a 429 outlived its retries
    BAD_ANSWER = "bad-answer"  # a provider answered with something that is not what its API promises
    NO_PDF_LINK = "no-pdf-link"
    WRONG_CAPTURE = "wrong-capture"  # an archive replayed another moment than was asked for
    NO_CANDIDATE = "no-candidate"  # nobody knows a copy
    WORK_DELETED = "work-deleted"  # whoever listed the work has taken it out since
    DUPLICATE_URL_GLOBAL = "duplicate-url-global"
    HTML_ONLY = "html-only"
    DRY_RUN = "dry-run"
    INTERRUPTED = "interrupted"
    INTERNAL_ERROR = "internal-error"  # a fault of ours; the stack trace is in the log


ENDINGS: Mapping[Reason, Ending] = {
    Reason.OK: Ending.SUCCESS,
    Reason.NOT_MODIFIED: Ending.SUCCESS,
    Reason.HTML_ONLY: Ending.SUCCESS,
    Reason.RETRY_AFTER: Ending.RETRYABLE,
    Reason.BACKOFF: Ending.RETRYABLE,
    Reason.BREAKER_OPEN: Ending.RETRYABLE,
    Reason.ROBOTS_UNAVAILABLE: Ending.RETRYABLE,
    Reason.TIMEOUT: Ending.RETRYABLE,
    Reason.CONN_ERROR: Ending.RETRYABLE,
    Reason.SIZE_MISMATCH: Ending.RETRYABLE,
    Reason.TRUNCATED: Ending.RETRYABLE,
    Reason.PROTOCOL_ERROR: Ending.RETRYABLE,
    Reason.HTTP_5XX: Ending.RETRYABLE,
    Reason.RATE_LIMITED: Ending.RETRYABLE,
    Reason.BAD_ANSWER: Ending.RETRYABLE,
    Reason.INTERRUPTED: Ending.RETRYABLE,
    Reason.BUDGET_SPENT: Ending.RETRYABLE,
    Reason.INTERNAL_ERROR: Ending.TERMINAL,
    Reason.TLS_ERROR: Ending.TERMINAL,
    Reason.TOO_LARGE: Ending.TERMINAL,
    Reason.CHECKSUM_MISMATCH: Ending.TERMINAL,
    Reason.UNEXPECTED_CT: Ending.TERMINAL,
    Reason.REDIRECT_LOOP: Ending.TERMINAL,
    Reason.BLOCKED_COOKIE: Ending.TERMINAL,
    Reason.BLOCKED_CAPTCHA: Ending.TERMINAL,
    Reason.BLOCKED_LOGIN: Ending.TERMINAL,
    Reason.BLOCKED_POW: Ending.TERMINAL,
    Reason.BLOCKED_WAF: Ending.TERMINAL,
    Reason.PDF_CORRUPT: Ending.TERMINAL,
    Reason.WRONG_PAPER: Ending.TERMINAL,
    Reason.VALIDATOR_LIMIT: Ending.TERMINAL,
    Reason.HTTP_4XX: Ending.TERMINAL,
    Reason.NO_PDF_LINK: Ending.TERMINAL,
    Reason.WRONG_CAPTURE: Ending.TERMINAL,
    Reason.NO_CANDIDATE: Ending.TERMINAL,
    Reason.ROBOTS: Ending.NEVER,
    Reason.POLICY_TYPE: Ending.NEVER,
    Reason.POLICY_SIZE: Ending.NEVER,
    Reason.POLICY_VERSION: Ending.NEVER,
    Reason.POLICY_LICENSE: Ending.NEVER,
    Reason.BLOCKED_ADDRESS: Ending.NEVER,
    Reason.BLOCKED_SCHEME: Ending.NEVER,
    Reason.DUPLICATE_URL_GLOBAL: Ending.NEVER,
    Reason.WORK_DELETED: Ending.NEVER,
    Reason.DRY_RUN: Ending.NEVER,
}


ITS_TURN = "its turn under the limit"  # why a work waits that nobody refused; the other waits are named by their Reason


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


@dataclass(frozen=True, slots=True)
class Answer:
    """What a query in SQL gave."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    more: bool  # there were more rows than the limit
