"""Recognise walls: login, cookie, captcha and firewall pages in place of the article. Walls are never circumvented.

Conservative, because a wall ends a candidate. A page that describes an article (`citation_…`, JSON-LD of an article) is not a
wall, whatever scripts it loads: firewalls add theirs to every page, comment forms have captchas, cookie banners are common.
On other pages, the code of a challenge counts always, phrases only when the page has little other text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from resources.records import Reason

LOOKED_AT = 64 * 1024  # bytes
_SHORT_PAGE = 3000  # characters of visible text

# Only the machinery of a challenge writes these.
SIGNS: tuple[tuple[str, Reason], ...] = (
    ("cloudpmc-viewer-pow", Reason.BLOCKED_POW),
    ("pow_challenge", Reason.BLOCKED_POW),
    ("/.within.website/x/cmd/anubis", Reason.BLOCKED_POW),
    ("anubis_challenge", Reason.BLOCKED_POW),
    ("making sure you&#39;re not a bot", Reason.BLOCKED_POW),
    ("making sure you're not a bot", Reason.BLOCKED_POW),
    ("_cf_chl_opt", Reason.BLOCKED_WAF),
    ("__cf_chl_", Reason.BLOCKED_WAF),
    ("cf-browser-verification", Reason.BLOCKED_WAF),
    ("cf-error-details", Reason.BLOCKED_WAF),
    ("/_fs-ch-", Reason.BLOCKED_WAF),
    ("gokuprops", Reason.BLOCKED_WAF),
    ("sec-if-cpt-container", Reason.BLOCKED_WAF),
    ("/_sec/cp_challenge/", Reason.BLOCKED_WAF),
    ("sucuri_cloudproxy_js", Reason.BLOCKED_WAF),
    ("vercel security checkpoint", Reason.BLOCKED_WAF),
    ("/.well-known/ddos-guard/", Reason.BLOCKED_WAF),
    ("captcha-delivery.com", Reason.BLOCKED_CAPTCHA),
    ("px-captcha", Reason.BLOCKED_CAPTCHA),
    ("validate.perfdrive.com", Reason.BLOCKED_CAPTCHA),
    ("stormcaster.js", Reason.BLOCKED_CAPTCHA),
)
# Titles of pages that are nothing but a wall.
TITLES: tuple[tuple[re.Pattern[str], Reason], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), reason)
    for pattern, reason in (
        (r"preparing to download", Reason.BLOCKED_POW),
        (
            r"just a moment|attention required|client challenge|access (?:to this page has been )?denied|request rejected"
            r"|security (?:check|verification)|checking your browser|ddos protection|pardon our interruption|\b403 forbidden",
            Reason.BLOCKED_WAF,
        ),
        (
            r"captcha|are you (?:a )?(?:human|robot)|robot check|human verification|unusual traffic|access check"
            r"|validate user|verify you are (?:a )?human|bot (?:check|detection)",
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
    ("hcaptcha.com", Reason.BLOCKED_CAPTCHA),
    ("recaptcha/api.js", Reason.BLOCKED_CAPTCHA),
    ("cf-turnstile", Reason.BLOCKED_CAPTCHA),
    ("_incapsula_resource", Reason.BLOCKED_WAF),
    ("incapsula incident id", Reason.BLOCKED_WAF),
    ("awswafintegration", Reason.BLOCKED_WAF),
    ("please enable cookies", Reason.BLOCKED_COOKIE),
    ("cookies are required", Reason.BLOCKED_COOKIE),
    ("your browser does not accept cookies", Reason.BLOCKED_COOKIE),
    ("your browser is not accepting cookies", Reason.BLOCKED_COOKIE),
    ("cookies must be enabled", Reason.BLOCKED_COOKIE),
    ("cookies are disabled", Reason.BLOCKED_COOKIE),
    ("enable javascript and cookies to continue", Reason.BLOCKED_WAF),
    ("please enable js and disable any ad blocker", Reason.BLOCKED_WAF),
    ("the requested url was rejected", Reason.BLOCKED_WAF),
    ("you don't have permission to access", Reason.BLOCKED_WAF),
    ("there was a problem providing the content you requested", Reason.BLOCKED_WAF),
    ("your request has been blocked", Reason.BLOCKED_WAF),
    ("unusual traffic", Reason.BLOCKED_CAPTCHA),
    ("please verify you are a human", Reason.BLOCKED_CAPTCHA),
    ("confirm you are a human", Reason.BLOCKED_CAPTCHA),
    ("press & hold", Reason.BLOCKED_CAPTCHA),
    ("you must be logged in", Reason.BLOCKED_LOGIN),
    ("log in or purchase", Reason.BLOCKED_LOGIN),
    ("purchase access to this article", Reason.BLOCKED_LOGIN),
)
ADDRESSES: tuple[tuple[re.Pattern[str], Reason], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), reason)
    for pattern, reason in (
        (r"cookieAbsent|/cookie[-_]?(?:error|required|wall)(?=[/.]|$)", Reason.BLOCKED_COOKIE),
        (
            r"//validate\.perfdrive\.com|/captcha(?=[/.]|$)|captcha-delivery\.com|//www\.google\.com/sorry/",
            Reason.BLOCKED_CAPTCHA,
        ),
        (
            r"//(?:login|idp|sso|signin|auth|accounts)\.|/shibboleth(?:\.sso)?(?=/|$)|/idp/"
            r"|/(?:login|signin|sign-in|logon|wayf|idp|sso|ssostart|showlogin|institutional-login)(?:\.[a-z]{2,4})?(?=[/?#]|$)",
            Reason.BLOCKED_LOGIN,
        ),
    )
)
_ARTICLE = re.compile(
    r"(?i)<meta[^<>]{0,200}(?:citation_(?:title|pdf_url|doi|author)|bepress_citation_title|eprints\.title)"
    r"|\"@type\"\s{0,5}:\s{0,5}\"(?:ScholarlyArticle|MedicalScholarlyArticle)\""
)
_TITLE = re.compile(r"(?i)<title[^<>]{0,200}>([^<]{0,300})")
_TAG = re.compile(r"<[^<>]*>")


def recognise_wall(status: int, headers: Mapping[str, str], body_start: bytes, url: str) -> Reason | None:
    """The kind of wall that a response is, or None. `headers` have lower-case names; `url` is the final one."""
    if by_header := _by_header(status, headers, body_start):
        return by_header
    if b"%PDF-" in body_start[:1024]:
        return None
    text = body_start[:LOOKED_AT].decode("utf-8", "replace")
    lowered = text.lower()
    if lowered.strip() in ("rate exceeded.", "error code: 1015"):
        return Reason.RATE_LIMITED
    if "<" not in text or _ARTICLE.search(text):
        return None
    if sign := next((reason for sign, reason in SIGNS if sign in lowered), None):
        return sign
    return wall_at(url) or _by_words(lowered)


def wall_at(url: str) -> Reason | None:
    """The kind of wall that a URL leads to, or None. Only host and path count: the query of an article's URL may name a login
    page to return from."""
    parts = urlsplit(url)
    where = f"//{parts.netloc}{parts.path}"
    return next((reason for pattern, reason in ADDRESSES if pattern.search(where)), None)


def _by_header(status: int, headers: Mapping[str, str], body_start: bytes) -> Reason | None:
    if headers.get("cf-mitigated", "").lower() == "challenge":
        return Reason.BLOCKED_WAF
    action = headers.get("x-amzn-waf-action", "").lower()
    if action:
        return Reason.BLOCKED_CAPTCHA if action == "captcha" else Reason.BLOCKED_WAF
    if headers.get("x-datadome", "").lower() == "protected" and status in (401, 403):
        return Reason.BLOCKED_CAPTCHA
    # Nobody else answers a GET of a page or file with "accepted" and nothing.
    return Reason.BLOCKED_WAF if status == 202 and not body_start.strip() else None


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
