"""The closed list of statuses of an ingest result, and how the reasons of the engine and the answers of Save Page Now map to it.

Each status has one ending: retryable with its pace, terminal, or never. Two depend on more: a bad status of a server is retried
when its code says so; a loop or cookie wall in a capture is retried, because a fresh capture may not have it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from resources.records import Ending, Reason


class Pace(StrEnum):
    """How soon a retryable status is tried again."""

    HOURS = "hours"  # 1 h, doubling, up to five tries
    NEXT_DAY = "next day"
    DAYS = "days"  # 2 days, doubling, up to three tries


class Rule(NamedTuple):
    ending: Ending
    pace: Pace | None
    meaning: str


SUCCESS, NOT_IMPLEMENTED, NO_CAPTURE = "success", "not-implemented", "no-capture"
CDX_ERROR, WAYBACK_ERROR, WAYBACK_CONTENT_ERROR = "cdx-error", "wayback-error", "wayback-content-error"
TERMINAL_BAD_STATUS, REDIRECT_LOOP, BLOCKED_COOKIE = "terminal-bad-status", "redirect-loop", "blocked-cookie"
SPN_UNKNOWN = "spn2-error:unknown"
RETRIED_CODES = frozenset({420, 429, *range(500, 600)})
_FRESH_MAY_HELP = frozenset({REDIRECT_LOOP, BLOCKED_COOKIE})


def _rules(ending: Ending, pace: Pace | None, *rows: tuple[str, str]) -> dict[str, Rule]:
    return {status: Rule(ending, pace, meaning) for status, meaning in rows}


STATUSES: Mapping[str, Rule] = {
    **_rules(Ending.SUCCESS, None, (SUCCESS, "A file of the wanted type was got.")),
    **_rules(
        Ending.RETRYABLE,
        Pace.HOURS,
        (CDX_ERROR, "The archive's index could not be asked."),
        (WAYBACK_ERROR, "The archive could not replay the capture."),
        ("timeout", "The search was cut off by the end of the run."),
        ("spn2-error", "Save Page Now could not be asked."),
        ("spn2-backoff", "Save Page Now has no free place for us."),
        ("spn2-cdx-lookup-failure", "Save Page Now reports a capture that cannot be replayed yet."),
        ("spn2-recent-capture", "Save Page Now captured the URL a moment ago."),
        ("spn2-error:job-failed", "The capture failed in the archive."),
        ("spn2-error:proxy-error", "The archive's proxy failed."),
        ("spn2-error:browser-running-error", "The archive's browser failed."),
        ("spn2-error:browsing-timeout", "The archive's browser took too long."),
        ("spn2-error:soft-time-limit-exceeded", "The capture took too long."),
        ("spn2-error:no-browsers-available", "The archive had no free browser."),
        ("spn2-error:celery", "The archive's job queue failed."),
        ("spn2-error:capture-location-error", "The archive could not store the capture."),
        ("spn2-error:cannot-fetch", "The archive could not fetch the URL."),
        ("spn2-error:pending", "The capture was not finished in time."),
        ("spn2-error:invalid-server-response", "The site's answer could not be read by the archive."),
        ("spn2-error:service-unavailable", "The site was not available to the archive."),
        ("spn2-error:too-many-requests", "The site or the archive limits requests."),
        ("spn2-error:host-crawling-paused", "The archive has paused captures of the host."),
    ),
    **_rules(Ending.RETRYABLE, Pace.NEXT_DAY, ("too-many-daily-captures", "The URL was captured too often today.")),
    **_rules(
        Ending.RETRYABLE,
        Pace.DAYS,
        (NO_CAPTURE, "The archive has no capture, and no other route is allowed; terminal_url is the missing URL."),
        ("gateway-timeout", "A gateway of the site gave up."),
        ("read-timeout", "The site did not answer in time, or the connection was lost."),
        ("remote-server-error", "The site failed."),
        (WAYBACK_CONTENT_ERROR, "The archive replayed other bytes than its index promises."),
    ),
    **_rules(
        Ending.TERMINAL,
        None,
        ("no-pdf-link", "The page has no link to a file of the wanted type."),
        ("link-loop", "The page links only to pages that were read already."),
        ("max-hops-exceeded", "The file is more pages away than resolvers.landing.max_depth."),
        ("wrong-mimetype", "The resource is of another type than wanted, or damaged."),
        ("wrong-scope", "The resource is not the full text."),
        ("not-found", "The archive's browser found nothing there."),
        ("forbidden", "The site refused the archive's browser."),
        ("invalid-host-resolution", "The host does not exist."),
        ("too-many-redirects", "The archive's browser met too many redirects."),
        (REDIRECT_LOOP, "The redirects go in a circle, or are too many."),
        ("blocked-wall", "The site asks for a login."),
        ("blocked-captcha", "The site asks for a captcha or another proof."),
        (BLOCKED_COOKIE, "The site asks for cookies."),
        ("blocked-forbidden", "The site's firewall refused us."),
        ("tls-error", "The site's certificate cannot be verified."),
        (TERMINAL_BAD_STATUS, "The server answered with an error; retried for the codes 420, 429 and 5xx."),
        (SPN_UNKNOWN, "Save Page Now gave an answer that we do not know; error_message has it."),
        ("internal-error", "A fault of this program; the log has the stack trace."),
    ),
    **_rules(
        Ending.NEVER,
        None,
        ("skip-url-blocklist", "The URL is not fetched, by policy: address, robots.txt or settings."),
        (NOT_IMPLEMENTED, "The ingest type is not implemented."),
        ("body-too-large", "The file is larger than download.max_bytes."),
        ("invalid-url", "The URL cannot be fetched."),
        ("spn2-error:invalid-url-syntax", "Save Page Now cannot read the URL."),
        ("spn2-error:filesize-limit", "The file is too large for Save Page Now."),
        ("spn2-error:blocked-url", "Save Page Now does not capture this URL."),
        ("spn2-error:unauthorized", "Save Page Now, or the site, asks for a login; check resolvers.wayback.api_key."),
        ("spn2-error:bad-request", "The site refused the archive's request."),
        ("spn2-error:network-authentication-required", "The archive's network was asked to log in."),
    ),
}

# Every reason of the engine has its status; for a failure of the archive itself, `of_archive` comes first.
REASONS: Mapping[Reason, str] = {
    Reason.OK: SUCCESS,
    Reason.NOT_MODIFIED: SUCCESS,
    Reason.HTML_ONLY: "no-pdf-link",
    Reason.RETRY_AFTER: TERMINAL_BAD_STATUS,
    Reason.BACKOFF: "spn2-error:pending",
    Reason.BREAKER_OPEN: "remote-server-error",
    Reason.ROBOTS: "skip-url-blocklist",
    Reason.ROBOTS_UNAVAILABLE: "remote-server-error",
    Reason.POLICY_TYPE: "wrong-mimetype",
    Reason.POLICY_SIZE: "body-too-large",
    Reason.POLICY_VERSION: "skip-url-blocklist",
    Reason.POLICY_LICENSE: "skip-url-blocklist",
    Reason.TDM_RESERVED: "skip-url-blocklist",
    Reason.BUDGET_SPENT: "spn2-backoff",
    Reason.TIMEOUT: "read-timeout",
    Reason.CONN_ERROR: "read-timeout",
    Reason.TLS_ERROR: "tls-error",
    Reason.PROTOCOL_ERROR: "remote-server-error",
    Reason.TOO_LARGE: "body-too-large",
    Reason.UNEXPECTED_CT: "wrong-mimetype",
    Reason.SIZE_MISMATCH: "remote-server-error",
    Reason.TRUNCATED: "remote-server-error",
    Reason.CHECKSUM_MISMATCH: "wrong-mimetype",
    Reason.REDIRECT_LOOP: REDIRECT_LOOP,
    Reason.BLOCKED_ADDRESS: "skip-url-blocklist",
    Reason.BLOCKED_SCHEME: "invalid-url",
    Reason.BLOCKED_COOKIE: BLOCKED_COOKIE,
    Reason.BLOCKED_CAPTCHA: "blocked-captcha",
    Reason.BLOCKED_LOGIN: "blocked-wall",
    Reason.NOT_ENTITLED: "blocked-wall",
    Reason.EMBARGOED: "blocked-wall",
    Reason.BLOCKED_POW: "blocked-captcha",
    Reason.BLOCKED_WAF: "blocked-forbidden",
    Reason.PDF_CORRUPT: "wrong-mimetype",
    Reason.WRONG_PAPER: "wrong-scope",
    Reason.VALIDATOR_LIMIT: "wrong-scope",
    Reason.HTTP_4XX: TERMINAL_BAD_STATUS,
    Reason.HTTP_5XX: TERMINAL_BAD_STATUS,
    Reason.RATE_LIMITED: TERMINAL_BAD_STATUS,
    Reason.BAD_ANSWER: CDX_ERROR,
    Reason.NO_PDF_LINK: "no-pdf-link",
    Reason.WRONG_CAPTURE: WAYBACK_CONTENT_ERROR,
    Reason.NO_CANDIDATE: NO_CAPTURE,
    Reason.WORK_DELETED: "skip-url-blocklist",
    Reason.DUPLICATE_URL_GLOBAL: "skip-url-blocklist",
    Reason.DRY_RUN: "skip-url-blocklist",
    Reason.INTERRUPTED: "timeout",
    Reason.INTERNAL_ERROR: "internal-error",
}

# `status_ext` of Save Page Now, without "error:". What is not here becomes SPN_UNKNOWN with the raw text in the message.
SAVE_PAGE_NOW: Mapping[str, str] = {
    **{
        status.removeprefix("spn2-error:"): status
        for status in STATUSES
        if status.startswith("spn2-error:") and status != SPN_UNKNOWN
    },
    "recent-capture": "spn2-recent-capture",
    "user-session-limit": "spn2-backoff",
    "too-many-daily-captures": "too-many-daily-captures",
    "not-found": "not-found",
    "no-access": "forbidden",
    "gateway-timeout": "gateway-timeout",
    "bad-gateway": "gateway-timeout",
    "read-timeout": "read-timeout",
    "connection-timeout": "read-timeout",
    "internal-server-error": "remote-server-error",
    "invalid-host-resolution": "invalid-host-resolution",
    "too-many-redirects": "too-many-redirects",
    "blocked": "spn2-error:blocked-url",
    "blocked-client-ip": "spn2-error:blocked-url",
    "method-not-allowed": "spn2-error:bad-request",
    "not-implemented": "spn2-error:bad-request",
    "http-version-not-supported": "spn2-error:bad-request",
    "ftp-access-denied": "invalid-url",
    "protocol-error": "spn2-error:invalid-server-response",
    "bandwidth-limit-exceeded": "spn2-error:too-many-requests",
}

# What the engine says besides a reason (`Failure.detail`), where the reason alone does not tell.
DETAILS: Mapping[str, str] = {
    "cdx": CDX_ERROR,
    "replay": WAYBACK_ERROR,
    "save": "spn2-error",
    "save:backoff": "spn2-backoff",
    "save:replay": "spn2-cdx-lookup-failure",
    "no-capture": NO_CAPTURE,
    "link-loop": "link-loop",
    "max-depth": "max-hops-exceeded",
    "not-full-text": "wrong-scope",
}


def status_of(reason: Reason, detail: str | None = None) -> str:
    """The status for a reason of the engine and its detail."""
    if detail is not None and detail.startswith("spn:"):
        return SAVE_PAGE_NOW.get(detail.removeprefix("spn:"), SPN_UNKNOWN)
    return DETAILS.get(detail or "") or REASONS[reason]


def rule_of(status: str, *, code: int | None = None, route: str | None = None) -> Rule:
    """Whether and how soon a status is tried again. Statuses of older versions count as terminal."""
    rule = STATUSES.get(status, Rule(Ending.TERMINAL, None, "of another version of this program"))
    fresh = (status == TERMINAL_BAD_STATUS and code in RETRIED_CODES) or (
        status in _FRESH_MAY_HELP and route == "archive"
    )
    return rule._replace(ending=Ending.RETRYABLE, pace=Pace.DAYS) if fresh else rule
