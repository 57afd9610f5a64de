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

_POW, _WAF, _CAPTCHA = Reason.BLOCKED_POW, Reason.BLOCKED_WAF, Reason.BLOCKED_CAPTCHA
_COOKIE, _LOGIN = Reason.BLOCKED_COOKIE, Reason.BLOCKED_LOGIN


def _texts(*rows: tuple[Reason, str]) -> tuple[tuple[str, Reason], ...]:
    """Texts in lower case, each with its kind of wall; a row has several, with ` | ` between them."""
    return tuple((text, reason) for reason, texts in rows for text in texts.split(" | "))


def _patterns(*rows: tuple[Reason, str]) -> tuple[tuple[re.Pattern[str], Reason], ...]:
    return tuple((re.compile(pattern, re.IGNORECASE), reason) for reason, pattern in rows)


# Only the code of a challenge contains these.
SIGNS = _texts(
    (_POW, "cloudpmc-viewer-pow | pow_challenge | /.within.website/x/cmd/anubis | anubis_challenge"),
    (_POW, "making sure you&#39;re not a bot | making sure you're not a bot"),
    (_WAF, "_cf_chl_opt | __cf_chl_ | cf-browser-verification | cf-error-details | /_fs-ch- | gokuprops"),
    (_WAF, "sec-if-cpt-container | /_sec/cp_challenge/ | sucuri_cloudproxy_js | vercel security checkpoint"),
    (_WAF, "/.well-known/ddos-guard/"),
    (_CAPTCHA, "captcha-delivery.com | px-captcha | validate.perfdrive.com | stormcaster.js"),
)
# Titles of pages that are nothing but a wall.
TITLES = _patterns(
    (_POW, r"preparing to download"),
    (_WAF, r"just a moment|attention required|client challenge|access (?:to this page has been )?denied"),
    (_WAF, r"request rejected|security (?:check|verification)|checking your browser|ddos protection"),
    (_WAF, r"pardon our interruption|\b403 forbidden"),
    (_CAPTCHA, r"captcha|are you (?:a )?(?:human|robot)|robot check|human verification|unusual traffic|access check"),
    (_CAPTCHA, r"validate user|verify you are (?:a )?human|bot (?:check|detection)"),
    (_COOKIE, r"cookies? (?:absent|required|disabled|not supported|not enabled)|enable cookies"),
    (_LOGIN, r"(?:log|sign)[ -]?(?:in|on)\b|institutional login|authentication required"),
)
# Words that mean a wall when the page has little other text.
PHRASES = _texts(
    (_CAPTCHA, "g-recaptcha | h-captcha | hcaptcha.com | recaptcha/api.js | cf-turnstile"),
    (_WAF, "_incapsula_resource | incapsula incident id | awswafintegration"),
    (_COOKIE, "please enable cookies | cookies are required | your browser does not accept cookies"),
    (_COOKIE, "your browser is not accepting cookies | cookies must be enabled | cookies are disabled"),
    (_WAF, "enable javascript and cookies to continue | please enable js and disable any ad blocker"),
    (_WAF, "the requested url was rejected | you don't have permission to access"),
    (_WAF, "there was a problem providing the content you requested | your request has been blocked"),
    (_CAPTCHA, "unusual traffic | please verify you are a human | confirm you are a human | press & hold"),
    (_LOGIN, "you must be logged in | log in or purchase | purchase access to this article"),
)
# URLs of walls: host and path.
ADDRESSES = _patterns(
    (_COOKIE, r"cookieAbsent|/cookie[-_]?(?:error|required|wall)(?=[/.]|$)"),
    (_CAPTCHA, r"//validate\.perfdrive\.com|/captcha(?=[/.]|$)|captcha-delivery\.com|//www\.google\.com/sorry/"),
    (_LOGIN, r"//(?:login|idp|sso|signin|auth|accounts)\.|/shibboleth(?:\.sso)?(?=/|$)|/idp/"),
    (_LOGIN, r"/(?:login|signin|sign-in|logon|wayf|idp|sso|ssostart|showlogin)(?:\.[a-z]{2,4})?(?=[/?#]|$)"),
    (_LOGIN, r"/institutional-login(?:\.[a-z]{2,4})?(?=[/?#]|$)"),
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
    return _first_in(lowered, SIGNS) or wall_at(url) or _by_words(lowered)


def wall_at(url: str) -> Reason | None:
    """The kind of wall that a URL leads to, or None. Only host and path count: the query of an article's URL may name a login
    page to return from."""
    parts = urlsplit(url)
    return _first_found(f"//{parts.netloc}{parts.path}", ADDRESSES)


def _first_in(lowered: str, texts: tuple[tuple[str, Reason], ...]) -> Reason | None:
    return next((reason for text, reason in texts if text in lowered), None)


def _first_found(text: str, patterns: tuple[tuple[re.Pattern[str], Reason], ...]) -> Reason | None:
    return next((reason for pattern, reason in patterns if pattern.search(text)), None)


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
    found = (_first_found(title[1], TITLES) if title else None) or _first_in(lowered, PHRASES)
    return found or (Reason.BLOCKED_LOGIN if 'type="password"' in lowered else None)


def _without(lowered: str, tag: str) -> str:
    """The page without one kind of element. Split, because a pattern takes quadratic time on hostile nesting."""
    first, *rest = lowered.split(f"<{tag}")
    return " ".join([first, *(piece.partition(f"</{tag}")[2] for piece in rest)])
