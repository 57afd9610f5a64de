"""The meaning of every reason token and what to do about it. `docs/reasons.md` is generated from this table.

`Reason.ending` in `resources.records` decides how a reason ends a work; a test keeps tokens, table and page in step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from docstokg_assets.domain.pdf_match import Flag
from resources.records import Ending, Reason, Status


class Explanation(NamedTuple):
    meaning: str
    remedy: str


NO_ACTION = "No action needed"
_RETRIED = f"{NO_ACTION}: retried automatically."
_WAITS = f"{NO_ACTION}: the work is retried after the pause."

_REASONS: Mapping[Reason, tuple[str, str]] = {  # meaning, remedy
    Reason.OK: ("Full text downloaded.", f"{NO_ACTION}."),
    Reason.NOT_MODIFIED: ("The stored file is still current (HTTP 304).", f"{NO_ACTION}."),
    Reason.HTML_ONLY: ("Only an HTML full text was found; it is stored.", "Enable more resolvers, or try again later."),
    Reason.RETRY_AFTER: ("The host asked for a long pause (Retry-After).", _WAITS),
    Reason.BACKOFF: ("An attempt failed and is repeated after a growing delay.", _RETRIED),
    Reason.BREAKER_OPEN: ("The host failed repeatedly; its circuit breaker is open.", _WAITS),
    Reason.ROBOTS: (
        "The host's robots.txt disallows the request.",
        "Ask the host for permission, or find another copy.",
    ),
    Reason.ROBOTS_UNAVAILABLE: ("robots.txt could not be fetched, so no request was sent.", _RETRIED),
    Reason.POLICY_TYPE: ("The file type is not allowed.", "Allow the type if you want such files."),
    Reason.POLICY_SIZE: ("The stated file size exceeds the size limit.", "Raise the size limit of `download`."),
    Reason.POLICY_VERSION: ("The version of the copy is not allowed.", "Add the version to `download.versions`."),
    Reason.POLICY_LICENSE: ("The licence of the copy is not allowed.", "Add the licence to `download.licenses`."),
    Reason.NOT_ENTITLED: (
        "The file exists, but access is restricted: the key, token or address has no right to it.",
        "Check your subscription and the key's entitlements, or ask the repository or author for a copy.",
    ),
    Reason.EMBARGOED: (
        "The file is under embargo; the note on the row has the date, if one is stated.",
        "Launch the work again with `force` after that date.",
    ),
    Reason.TDM_RESERVED: (
        "The rightholder reserved text and data mining; nothing was kept.",
        "Ask the rightholder for a licence.",
    ),
    Reason.BUDGET_SPENT: (
        "The daily budget of a paid resolver is spent.",
        f"{NO_ACTION}: retried after midnight UTC. Or raise its `budget_usd_per_day`.",
    ),
    Reason.TIMEOUT: ("The request exceeded its time limit.", f"{_RETRIED} Or raise the timeouts."),
    Reason.CONN_ERROR: ("The connection failed or was lost.", f"{_RETRIED} Check the network."),
    Reason.TLS_ERROR: (
        "The host's TLS certificate could not be verified.",
        "Behind a proxy, set `http.ca_bundle`; otherwise the host must fix it.",
    ),
    Reason.PROTOCOL_ERROR: ("The response violated the HTTP protocol.", _RETRIED),
    Reason.TOO_LARGE: (
        "The body exceeded the size limit; the download was cancelled.",
        "Raise the size limit of `download`.",
    ),
    Reason.UNEXPECTED_CT: ("The response is neither PDF, XML nor a usable page.", "Report the link to its provider."),
    Reason.SIZE_MISMATCH: ("The body is shorter than its Content-Length; nothing is stored.", _RETRIED),
    Reason.CHECKSUM_MISMATCH: (
        "The file does not match its stated checksum, even after retries; nothing is stored.",
        "The host must fix it.",
    ),
    Reason.TRUNCATED: ("The compressed body ended early; nothing is stored.", _RETRIED),
    Reason.REDIRECT_LOOP: ("The redirects form a loop or exceed ten hops.", "Open the link in a browser."),
    Reason.BLOCKED_ADDRESS: ("The link leads to an address that is not public.", "Allow the host if it is intended."),
    Reason.BLOCKED_SCHEME: (
        "The link is not https, and the host is not on the http allow-list.",
        "Add the host to that list if you trust it.",
    ),
    Reason.BLOCKED_COOKIE: ("The site requires cookies to be accepted.", "Download the file by hand."),
    Reason.BLOCKED_CAPTCHA: ("The site requires a captcha.", "Ask the host for an API or bulk access."),
    Reason.BLOCKED_LOGIN: ("The file is behind a login or paywall.", "Download it through your library."),
    Reason.BLOCKED_POW: ("The site requires a browser challenge.", "Ask the host for an API or bulk access."),
    Reason.BLOCKED_WAF: ("The host's firewall rejected the request.", "Slow down, and contact the host."),
    Reason.PDF_CORRUPT: (
        "The PDF is incomplete or damaged and was not stored; one that ends as an HTML page is in quarantine.",
        "The host must fix it. `content gc --quarantine` lists the files in quarantine.",
    ),
    Reason.WRONG_PAPER: (
        "The file is another paper or a supplement and was not stored.",
        "Report the link to its provider; `download.on_suspect: keep` keeps such files.",
    ),
    Reason.VALIDATOR_LIMIT: (
        "Checking the PDF exceeded the memory or time limit; it was not stored.",
        "Open it with care; `download.on_suspect: keep` keeps such files.",
    ),
    Reason.HTTP_4XX: ("Not found or access denied (HTTP 4xx).", "See the HTTP status on the row."),
    Reason.HTTP_5XX: ("The host returned a server error (HTTP 5xx), even after retries.", _RETRIED),
    Reason.RATE_LIMITED: (
        "The host returned HTTP 429 until the retries were used up.",
        f"{_RETRIED} Or lower the host's rate.",
    ),
    Reason.BAD_ANSWER: ("An API returned a response that does not match its documentation.", _RETRIED),
    Reason.NO_PDF_LINK: ("The landing page contains no full-text link.", "Add a landing-page rule for the site."),
    Reason.WRONG_CAPTURE: (
        "The web archive returned a capture of another date than requested.",
        "Look at the archive's calendar.",
    ),
    Reason.NO_CANDIDATE: ("No resolver found a copy of this work.", "Enable more resolvers."),
    Reason.WORK_DELETED: (
        "OpenAlex has deleted this work or merged it into another; it was not searched for.",
        f"{NO_ACTION}: the work that it was merged into is listed separately.",
    ),
    Reason.DUPLICATE_URL_GLOBAL: (
        "Another work already has this URL.",
        "Switch off `global_url_dedupe` to fetch it for both.",
    ),
    Reason.DRY_RUN: ("Dry run: the file would have been fetched.", "Run again without `--dry-run`."),
    Reason.INTERNAL_ERROR: (
        "A bug in this program ended the work; the log has the stack trace.",
        "Report the bug; once it is fixed, launch the year with `force`.",
    ),
    Reason.INTERRUPTED: ("The run was stopped while this work was in progress.", _RETRIED),
}
REASON_TEXT = {reason: Explanation(*texts) for reason, texts in _REASONS.items()}

STATUS_TEXT: Mapping[Status, str] = {
    Status.HTTP_HEAD: "response to a HEAD request",
    Status.HTTP_GET: "response to a GET request: metadata, a landing page, a redirect, or an error status",
    Status.HTTP_200: "a complete file was downloaded",
    Status.HTTP_304: "the stored file is still current",
    Status.ROBOTS_FETCH: "robots.txt was requested",
    Status.ROBOTS_DISALLOWED: "robots.txt disallows the request; nothing was sent",
    Status.RETRY: "an attempt failed and is repeated after `extra.sleep_ms`",
    Status.SIZE_MISMATCH: "the body is shorter than its Content-Length",
    Status.CONTENT_POLICY_SKIP: "type, size, version or licence is not allowed, or the file was rejected; not stored",
    Status.DOWNLOAD_ERROR: "no complete response was received",
    Status.SKIPPED: "no request was sent",
    Status.BREAKER_OPEN: "the host failed too often: no requests for the next `retry_after_s`",
    Status.BREAKER_HALF_OPEN: "the pause is over: a few requests test whether the host has recovered",
    Status.BREAKER_CLOSED: "the host has recovered",
}

FLAG_TEXT: Mapping[Flag, str] = {
    Flag.SUSPECT_MISMATCH: "the PDF names another DOI, or does not contain the title; `meta.evidence` has the details",
    Flag.SUPPLEMENT: "the PDF is a supplement, not the article",
    Flag.ABSTRACT_ONLY: "one page with an abstract and no body text",
    Flag.FRONT_MATTER: "front matter of an issue (contents, editorial board) and no body text",
    Flag.ENCRYPTED: "the PDF is encrypted; parts that need a password were not checked",
    Flag.UNREADABLE: "the PDF could not be read, although its beginning and end are those of a complete file",
    Flag.VALIDATOR_LIMIT: "checking the PDF exceeded the memory or time limit",
}

_ENDING_TEXT: Mapping[Ending, str] = {
    Ending.SUCCESS: "the work has its full text",
    Ending.RETRYABLE: "the work may succeed later and is retried",
    Ending.TERMINAL: "retrying does not help; a changed plan reopens the work",
    Ending.NEVER: "excluded by policy; only a changed configuration helps",
}


def reasons_page() -> str:
    """The text of docs/reasons.md."""
    lines = [
        "# Reasons and statuses",
        "",
        "Every work ends with exactly one reason; every attempt has a status and usually a reason. The tokens are",
        "part of the public contract. Generated by `python -m docstokg_assets.reporting.reasons > docs/reasons.md`.",
        "",
        "## How a reason ends a work",
        "",
        *(f"- **{ending}**: {text}." for ending, text in _ENDING_TEXT.items()),
        "",
        "## Reasons",
        "",
        "| Reason | Meaning | Ends | What to do |",
        "|--|--|--|--|",
        *(
            f'| <a id="{reason}"></a>`{reason}` | {means} | {reason.ending} | {remedy} |'
            for reason, (means, remedy) in REASON_TEXT.items()
        ),
        "",
        "## Flags",
        "",
        "Findings about a complete PDF, on the row of the outcome, also for works that succeeded. Clear evidence rejects a",
        "file, unless `download.on_suspect` is `keep`; the other flags are for queries, such as",
        "`SELECT work_id, flags FROM outcomes WHERE len(flags) > 0`.",
        "",
        "| Flag | Finding |",
        "|--|--|",
        *(f'| <a id="flag-{flag}"></a>`{flag}` | {text} |' for flag, text in FLAG_TEXT.items()),
        "",
        "## Statuses of an attempt",
        "",
        "| Status | Meaning |",
        "|--|--|",
        *(f"| `{status}` | {text} |" for status, text in STATUS_TEXT.items()),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(reasons_page(), end="")
