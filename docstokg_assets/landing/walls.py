"""Recognising a wall: a page that stands between a program and the article. It is left alone, never climbed.

Conservative, because a wall ends a candidate: signs that only challenge pages carry count everywhere; words count only
on a short page that does not describe an article. An article that mentions cookies is no wall.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from resources.records import Reason

_LOOKED_AT = 64 * 1024
_SHORT_PAGE = 3000  # characters of visible text

# Only the machinery of a challenge writes these.
SIGNS: tuple[tuple[str, Reason], ...] = (
    ("cloudpmc-viewer-pow", Reason.BLOCKED_POW),
    ("pow_challenge", Reason.BLOCKED_POW),
    ("/.within.website/x/cmd/anubis", Reason.BLOCKED_POW),
    ("making sure you&#39;re not a bot", Reason.BLOCKED_POW),
    ("making sure you're not a bot", Reason.BLOCKED_POW),
    ("__cf_chl", Reason.BLOCKED_WAF),
    ("cf-browser-verification", Reason.BLOCKED_WAF),
    ("/_fs-ch-", Reason.BLOCKED_WAF),
    ("_incapsula_resource", Reason.BLOCKED_WAF),
    ("awswafintegration", Reason.BLOCKED_WAF),
    ("captcha-delivery.com", Reason.BLOCKED_CAPTCHA),
    ("px-captcha", Reason.BLOCKED_CAPTCHA),
    ("validate.perfdrive.com", Reason.BLOCKED_CAPTCHA),
)
# Titles of pages that are nothing but a wall.
TITLES: tuple[tuple[re.Pattern[str], Reason], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), reason)
    for pattern, reason in (
        (r"preparing to download", Reason.BLOCKED_POW),
        (
            r"just a moment|attention required|client challenge|access denied|request rejected|security check",
            Reason.BLOCKED_WAF,
        ),
        (
            r"captcha|are you (?:a )?(?:human|robot)|robot check|human verification|unusual traffic",
            Reason.BLOCKED_CAPTCHA,
        ),
        (r"cookies? (?:absent|required|disabled|not supported|not enabled)|enable cookies", Reason.BLOCKED_COOKIE),
        (r"(?:log|sign)[ -]?(?:in|on)\b|institutional login|authentication required", Reason.BLOCKED_LOGIN),
    )
)
# Words that mean a wall when the page says little else.
PHRASES: tuple[tuple[str, Reason], ...] = (
    ("g-recaptcha", Reason.BLOCKED_CAPTCHA),
    ("h-captcha", Reason.BLOCKED_CAPTCHA),
    ("recaptcha/api.js", Reason.BLOCKED_CAPTCHA),
    ("cf-turnstile", Reason.BLOCKED_CAPTCHA),
    ("please enable cookies", Reason.BLOCKED_COOKIE),
    ("cookies are required", Reason.BLOCKED_COOKIE),
    ("your browser does not accept cookies", Reason.BLOCKED_COOKIE),
    ("cookies must be enabled", Reason.BLOCKED_COOKIE),
    ("enable javascript and cookies to continue", Reason.BLOCKED_WAF),
    ("the requested url was rejected", Reason.BLOCKED_WAF),
    ("please verify you are a human", Reason.BLOCKED_CAPTCHA),
)
ADDRESSES: tuple[tuple[re.Pattern[str], Reason], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), reason)
    for pattern, reason in (
        (r"cookieAbsent|/cookie[-_]?(?:error|required|wall)\b", Reason.BLOCKED_COOKIE),
        (r"//validate\.perfdrive\.com|/captcha\b|captcha-delivery\.com", Reason.BLOCKED_CAPTCHA),
        (
            r"//(?:login|idp|sso|signin)\.|/(?:login|signin|sign-in|logon|wayf|idp|sso|ssostart)(?:\.[a-z]{2,4})?(?=[/?#]|$)|shibboleth",
            Reason.BLOCKED_LOGIN,
        ),
    )
)
_ARTICLE = re.compile(r"(?i)<meta[^<>]{0,200}citation_(?:title|pdf_url|doi)")
_TITLE = re.compile(r"(?i)<title[^<>]{0,200}>([^<]{0,300})")
_TAG = re.compile(r"<[^<>]*>")


def recognise_wall(status: int, headers: Mapping[str, str], body_start: bytes, url: str) -> Reason | None:
    """The kind of wall that an answer is, or None. `headers` have lower-case names; `url` is the last one."""
    if by_header := _by_header(status, headers, body_start):
        return by_header
    if b"%PDF-" in body_start[:1024]:
        return None
    text = body_start[:_LOOKED_AT].decode("utf-8", "replace")
    lowered = text.lower()
    if lowered.strip() in ("rate exceeded.", "error code: 1015"):
        return Reason.RATE_LIMITED
    if sign := next((reason for sign, reason in SIGNS if sign in lowered), None):
        return sign
    if "<" not in text or _ARTICLE.search(text):
        return None
    return _by_address(url) or _by_words(lowered)


def _by_header(status: int, headers: Mapping[str, str], body_start: bytes) -> Reason | None:
    if headers.get("cf-mitigated", "").lower() == "challenge":
        return Reason.BLOCKED_WAF
    action = headers.get("x-amzn-waf-action", "").lower()
    if action:
        return Reason.BLOCKED_CAPTCHA if action == "captcha" else Reason.BLOCKED_WAF
    # Nobody else answers a GET of a page or file with "accepted" and nothing.
    return Reason.BLOCKED_WAF if status == 202 and not body_start.strip() else None


def _by_address(url: str) -> Reason | None:
    """An article's parameters may name a login page to come back from; only host and path say where we are."""
    parts = urlsplit(url)
    where = f"//{parts.netloc}{parts.path}"
    return next((reason for pattern, reason in ADDRESSES if pattern.search(where)), None)


def _by_words(lowered: str) -> Reason | None:
    visible = _without(_without(lowered, "script"), "style")
    if len(" ".join(_TAG.sub(" ", visible).split())) > _SHORT_PAGE:
        return None
    title = _TITLE.search(lowered)
    if title and (reason := next((reason for pattern, reason in TITLES if pattern.search(title[1])), None)):
        return reason
    if phrase := next((reason for phrase, reason in PHRASES if phrase in lowered), None):
        return phrase
    return Reason.BLOCKED_LOGIN if 'type="password"' in lowered else None


def _without(lowered: str, tag: str) -> str:
    """The page without one kind of element. Split, because a pattern takes quadratic time on hostile nesting."""
    first, *rest = lowered.split(f"<{tag}")
    return " ".join([first, *(piece.partition(f"</{tag}")[2] for piece in rest)])
