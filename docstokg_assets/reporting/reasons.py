"""What every reason token means to a person and what can be done about it. `docs/reasons.md` is made from this table.

How a reason ends a work (`ENDINGS`) is decided in `resources.records`; a test keeps tokens, table and page in step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from docstokg_assets.domain.pdf_match import Flag
from resources.records import ENDINGS, Ending, Reason, Status


class Plain(NamedTuple):
    meaning: str
    remedy: str


_TRIED_AGAIN = "None needed: it is tried again by itself."

REASON_TEXT: Mapping[Reason, Plain] = {
    Reason.OK: Plain("A whole file was got and stored.", "None needed."),
    Reason.NOT_MODIFIED: Plain("The host says that our copy is still the current one.", "None needed."),
    Reason.HTML_ONLY: Plain(
        "Only an HTML full text was found, and kept.", "Enable more resolvers, or try again later."
    ),
    Reason.RETRY_AFTER: Plain(
        "The host asked for a pause that is longer than we hold a work.", "None needed: the work waits until then."
    ),
    Reason.BACKOFF: Plain("A try failed and is repeated after a growing pause.", _TRIED_AGAIN),
    Reason.BREAKER_OPEN: Plain(
        "The host failed again and again; it is left alone for a while.", "None needed: the work waits until then."
    ),
    Reason.ROBOTS: Plain(
        "The host's robots.txt forbids the request.", "Ask the host for permission, or find another copy."
    ),
    Reason.ROBOTS_UNAVAILABLE: Plain("robots.txt could not be read, so nothing may be asked for now.", _TRIED_AGAIN),
    Reason.POLICY_TYPE: Plain("The file is of another type than was wanted.", "Allow the type if you want such files."),
    Reason.POLICY_SIZE: Plain("The file is announced larger than the size cap.", "Raise the size cap of `download`."),
    Reason.POLICY_VERSION: Plain(
        "The copy is of a version that is not wanted.", "Add the version to `download.versions`."
    ),
    Reason.POLICY_LICENSE: Plain(
        "The copy is under a licence that is not wanted.", "Add the licence to `download.licenses`."
    ),
    Reason.BUDGET_SPENT: Plain(
        "A paid route has spent what it may spend in a day.",
        "None needed: it is tried again after midnight UTC. Or raise its `budget_usd_per_day`.",
    ),
    Reason.TIMEOUT: Plain("The request took longer than its deadline.", _TRIED_AGAIN + " Or raise the timeouts."),
    Reason.CONN_ERROR: Plain("No connection could be made, or it broke.", _TRIED_AGAIN + " Check the network."),
    Reason.TLS_ERROR: Plain(
        "The host's certificate could not be verified.",
        "Behind a proxy, set `http.ca_bundle`; else the host must repair it.",
    ),
    Reason.PROTOCOL_ERROR: Plain("The host's answer broke the rules of HTTP.", _TRIED_AGAIN),
    Reason.TOO_LARGE: Plain("The body went past the size cap and was cut off.", "Raise the size cap of `download`."),
    Reason.UNEXPECTED_CT: Plain(
        "The answer is neither PDF, XML nor a usable page.", "None here: report the link to its provider."
    ),
    Reason.SIZE_MISMATCH: Plain("Fewer bytes came than the host announced; nothing is kept.", _TRIED_AGAIN),
    Reason.CHECKSUM_MISMATCH: Plain(
        "The file is not the one whose checksum was stated, also after the retries; nothing is kept.",
        "None here: the host must repair it.",
    ),
    Reason.TRUNCATED: Plain("The transfer ended early inside its coding; nothing is kept.", _TRIED_AGAIN),
    Reason.REDIRECT_LOOP: Plain("Redirects went in a circle or past ten hops.", "None here: open it in a browser."),
    Reason.BLOCKED_ADDRESS: Plain(
        "The link leads to an address that is not public.", "List the host if it is truly meant."
    ),
    Reason.BLOCKED_SCHEME: Plain(
        "The link is not https, and the host is not on the http allow-list.",
        "Put the host on that list if you trust it.",
    ),
    Reason.BLOCKED_COOKIE: Plain("A cookie wall stands before the file.", "Fetch it by hand."),
    Reason.BLOCKED_CAPTCHA: Plain("A captcha stands before the file.", "Ask the host for an API or bulk route."),
    Reason.BLOCKED_LOGIN: Plain("The file is behind a login or a paywall.", "Fetch it through your library."),
    Reason.BLOCKED_POW: Plain("A proof-of-work page stands before the file.", "Ask the host for an API or bulk route."),
    Reason.BLOCKED_WAF: Plain("The host's firewall turned the request away.", "Slow down, and write to the host."),
    Reason.PDF_CORRUPT: Plain(
        "The file is no whole PDF and was not kept; one with an HTML page behind it is in quarantine.",
        "None here: the host must repair it. `content gc --quarantine` lists what is kept.",
    ),
    Reason.WRONG_PAPER: Plain(
        "The file is plainly another paper, or a supplement, and was not kept.",
        "Report the link to its provider; `download.on_suspect: keep` keeps such files.",
    ),
    Reason.VALIDATOR_LIMIT: Plain(
        "Reading the PDF took more memory or time than its check allows; it was not kept.",
        "Look at it with care; `download.on_suspect: keep` keeps such files.",
    ),
    Reason.HTTP_4XX: Plain("The host says: not there, or not for you.", "Look at the status on the row."),
    Reason.HTTP_5XX: Plain("The host had an error of its own, also after the retries.", _TRIED_AGAIN),
    Reason.RATE_LIMITED: Plain(
        "The host answered 429 until the retries were used up.", _TRIED_AGAIN + " Or lower the host's rate."
    ),
    Reason.BAD_ANSWER: Plain("A provider's API answered with something it does not promise.", _TRIED_AGAIN),
    Reason.NO_PDF_LINK: Plain("The landing page was read and names no full text.", "Add a landing rule for the site."),
    Reason.WRONG_CAPTURE: Plain(
        "The archive replayed a capture of another time than was asked for.",
        "None here: look at the archive's calendar.",
    ),
    Reason.NO_CANDIDATE: Plain("No resolver knows a copy of this work.", "Enable more resolvers."),
    Reason.WORK_DELETED: Plain(
        "OpenAlex has deleted this work, or merged it into another; it was not looked for.",
        "None needed: a work that it was merged into is listed by itself.",
    ),
    Reason.DUPLICATE_URL_GLOBAL: Plain("Another work has this URL already.", "Switch off `global_url_dedupe`."),
    Reason.DRY_RUN: Plain("A dry run: it would have been fetched.", "Run again without `--dry-run`."),
    Reason.INTERNAL_ERROR: Plain(
        "A fault of this program ended the work; the log has its trace.",
        "Report the fault; once mended, launch the year with `force`.",
    ),
    Reason.INTERRUPTED: Plain("The run was stopped in the middle of this work.", _TRIED_AGAIN),
}

STATUS_TEXT: Mapping[Status, str] = {
    Status.HTTP_HEAD: "a HEAD was answered",
    Status.HTTP_GET: "a GET was answered: metadata, a landing page, a redirect, or a status that is no success",
    Status.HTTP_200: "a file was delivered whole",
    Status.HTTP_304: "the host says that our copy is current",
    Status.ROBOTS_FETCH: "robots.txt was asked for",
    Status.ROBOTS_DISALLOWED: "robots.txt forbids it; nothing was sent",
    Status.RETRY: "a try failed and is repeated after `extra.sleep_ms`",
    Status.SIZE_MISMATCH: "fewer bytes came than announced",
    Status.CONTENT_POLICY_SKIP: "type, size, version or licence is not wanted, or the file is not what it says; not kept",
    Status.DOWNLOAD_ERROR: "no whole answer came",
    Status.SKIPPED: "decided not to ask",
    Status.BREAKER_OPEN: "the host failed too often: nobody asks it for the next `retry_after_s`",
    Status.BREAKER_HALF_OPEN: "its pause is over: a few requests try whether the host is well again",
    Status.BREAKER_CLOSED: "the host is well again",
}

FLAG_TEXT: Mapping[Flag, str] = {
    Flag.SUSPECT_MISMATCH: "the PDF names another DOI, or does not show the title; `meta.evidence` says which",
    Flag.SUPPLEMENT: "the PDF is a supplement, not the article",
    Flag.ABSTRACT_ONLY: "one page with an abstract, and nothing of a body",
    Flag.FRONT_MATTER: "contents, boards and the like of an issue, and nothing of a body",
    Flag.ENCRYPTED: "the PDF is encrypted; what needs a password was not looked into",
    Flag.UNREADABLE: "the PDF could not be read, though its beginning and end are those of a whole file",
    Flag.VALIDATOR_LIMIT: "reading the PDF went past the limits of its check",
}

_ENDING_TEXT: Mapping[Ending, str] = {
    Ending.SUCCESS: "the work has its full text",
    Ending.RETRYABLE: "the same work may succeed later and is tried again",
    Ending.TERMINAL: "nothing will change by itself; a changed plan opens the work again",
    Ending.NEVER: "policy; only a changed configuration helps",
}


def reasons_page() -> str:
    """The text of docs/reasons.md."""
    lines = [
        "# Reasons and statuses",
        "",
        "Every work ends with exactly one reason; every attempt has a status and mostly a reason. The tokens are",
        "part of the public contract. Made by `python -m docstokg_assets.reporting.reasons > docs/reasons.md`.",
        "",
        "## How a reason ends a work",
        "",
        *(f"- **{ending}**: {text}." for ending, text in _ENDING_TEXT.items()),
        "",
        "## Reasons",
        "",
        "| Reason | What it means | Ends | What to do |",
        "|--|--|--|--|",
        *(
            f'| <a id="{reason}"></a>`{reason}` | {means} | {ENDINGS[reason]} | {remedy} |'
            for reason, (means, remedy) in REASON_TEXT.items()
        ),
        "",
        "## Flags",
        "",
        "What was noticed about a PDF that came whole: on the outcome's row, also of works that succeeded. Plain evidence",
        "rejects a file, unless `download.on_suspect` is `keep`; the rest is for queries, such as",
        "`SELECT work_id, flags FROM outcomes WHERE len(flags) > 0`.",
        "",
        "| Flag | What was noticed |",
        "|--|--|",
        *(f'| <a id="flag-{flag}"></a>`{flag}` | {text} |' for flag, text in FLAG_TEXT.items()),
        "",
        "## Statuses of an attempt",
        "",
        "| Status | What happened |",
        "|--|--|",
        *(f"| `{status}` | {text} |" for status, text in STATUS_TEXT.items()),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(reasons_page(), end="")
