"""Walls are recognised; articles are not taken for walls."""

from __future__ import annotations

import time

import pytest

from docstokg_assets.landing.walls import recognise_wall, wall_at
from resources.records import Reason

URL = "https://www.example.org/article/1"
POW = b"""<!DOCTYPE html><html><head><title>Preparing to download ...</title></head><body><p>Preparing ...</p>
<script>const POW_CHALLENGE = "c2Ft"; const POW_COOKIE_NAME = "cloudpmc-viewer-pow";</script></body></html>"""
COOKIES = (
    b"<p>We use cookies. Please enable cookies, or log in. This site is protected by reCAPTCHA.</p>"
    b'<div class="g-recaptcha"></div><input type="password">'
)


def wall(body: bytes, *, status: int = 200, url: str = URL, **headers: str) -> Reason | None:
    return recognise_wall(status, {name.replace("_", "-"): value for name, value in headers.items()}, body, url)


@pytest.mark.requirement("RES-9")
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (POW, Reason.BLOCKED_POW),
        (b"<title>Making sure you&#39;re not a bot!</title>", Reason.BLOCKED_POW),
        (b"<html><title>Just a moment...</title></html>", Reason.BLOCKED_WAF),
        (b"<script>window._cf_chl_opt={}; a='/?__cf_chl_tk=1'</script>", Reason.BLOCKED_WAF),
        (b'<title>Client Challenge</title><script src="/_fs-ch-1/script.js">', Reason.BLOCKED_WAF),
        (b'<title>Paper</title><form><div class="g-recaptcha"></div></form>', Reason.BLOCKED_CAPTCHA),
        (b"<title>Robot Check</title>", Reason.BLOCKED_CAPTCHA),
        (b"<title>Cookie Absent</title>", Reason.BLOCKED_COOKIE),
        (b"<p>Your browser does not accept cookies.</p>", Reason.BLOCKED_COOKIE),
        (b"<title>Sign in to your account</title>", Reason.BLOCKED_LOGIN),
        (b'<form><input name="p" type="password"></form>', Reason.BLOCKED_LOGIN),
        (
            b'<title>Oh noes!</title><script id="anubis_challenge" type="application/json">{}</script>',
            Reason.BLOCKED_POW,
        ),
        (b'<html><script src="/_Incapsula_Resource?SWJIYLWA=1"></script><iframe></iframe></html>', Reason.BLOCKED_WAF),
        (b"<html><p>Request unsuccessful. Incapsula incident ID: 1-2</p></html>", Reason.BLOCKED_WAF),
        (
            b'<script>window.gokuProps = {"key":"x"};</script><noscript>JavaScript is disabled</noscript>',
            Reason.BLOCKED_WAF,
        ),
        (b'<div id="sec-if-cpt-container"></div>', Reason.BLOCKED_WAF),
        (b"<title>Access Denied</title><p>You don't have permission to access this server.</p>", Reason.BLOCKED_WAF),
        (
            b"<html><head><title>Request Rejected</title></head><p>The requested URL was rejected.</p></html>",
            Reason.BLOCKED_WAF,
        ),
        (b"<title>Pardon Our Interruption</title>", Reason.BLOCKED_WAF),
        (b'<title>Access to this page has been denied</title><div id="px-captcha"></div>', Reason.BLOCKED_CAPTCHA),
        (b"<script>var dd={'host':'geo.captcha-delivery.com'}</script>", Reason.BLOCKED_CAPTCHA),
        (b"<title>Radware Bot Manager Captcha</title>", Reason.BLOCKED_CAPTCHA),
        (b'<form><div class="h-captcha" data-sitekey="x"></div></form>', Reason.BLOCKED_CAPTCHA),
        (b'<div class="cf-turnstile"></div>', Reason.BLOCKED_CAPTCHA),
        (b"<p>Please confirm you are a human by completing the captcha challenge below.</p>", Reason.BLOCKED_CAPTCHA),
        (b"<p>There was a problem providing the content you requested</p>", Reason.BLOCKED_WAF),
        (b"<p>Our systems have detected unusual traffic activity from your network.</p>", Reason.BLOCKED_CAPTCHA),
        (b"<p>Log in or purchase access to this article</p>".lower(), Reason.BLOCKED_LOGIN),
        (b"Rate exceeded.", Reason.RATE_LIMITED),
        (b"error code: 1015", Reason.RATE_LIMITED),
    ],
)
def test_a_wall_is_recognised_by_what_it_says(body: bytes, reason: Reason) -> None:
    assert wall(body) is reason


@pytest.mark.requirement("RES-9")
@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("https://press.example/action/cookieAbsent", Reason.BLOCKED_COOKIE),
        ("https://validate.perfdrive.com/?ssa=1", Reason.BLOCKED_CAPTCHA),
        ("https://press.example/captcha?next=/1", Reason.BLOCKED_CAPTCHA),
        ("https://press.example/user/login?destination=/1", Reason.BLOCKED_LOGIN),
        ("https://login.press.example/as/authorize", Reason.BLOCKED_LOGIN),
        ("https://press.example/login.jsp", Reason.BLOCKED_LOGIN),
        ("https://press.example/action/ssostart?redirectUri=/doi/1", Reason.BLOCKED_LOGIN),
        ("https://press.example/action/showLogin?uri=/doi/1", Reason.BLOCKED_LOGIN),
    ],
)
def test_a_wall_is_recognised_by_where_the_redirects_ended(url: str, reason: Reason) -> None:
    assert wall(b"<html><p>Welcome</p></html>", url=url) is reason
    assert wall_at(url) is reason  # and so it need not be asked


@pytest.mark.requirement("RES-9")
def test_a_firewall_is_recognised_by_its_headers() -> None:
    assert wall(b"", status=202, x_amzn_waf_action="challenge") is Reason.BLOCKED_WAF
    assert wall(b"", status=405, x_amzn_waf_action="captcha") is Reason.BLOCKED_CAPTCHA
    assert wall(b"<html>", status=403, cf_mitigated="challenge") is Reason.BLOCKED_WAF
    assert wall(b"", status=202) is Reason.BLOCKED_WAF


@pytest.mark.requirement("RES-9")
@pytest.mark.parametrize(
    "body",
    [
        b'<meta name="citation_title" content="On cookies and captchas">' + COOKIES,
        b"<title>Captcha security: a survey</title>" + b"<p>An article of many words about captchas.</p>" * 200,
        COOKIES + b"<p>And now for the article itself, at some length.</p>" * 100,
        b'<meta name="citation_doi" content="10.5555/1"><iframe src="https://ads.example/?ref=%3F__cf_chl_tk%3Dx"></iframe>',
        b'<meta name="citation_title" content="A"><script src="/_Incapsula_Resource?x=1"></script><p>An abstract.</p>',
        b'<meta name="citation_title" content="A"><p>An abstract.</p><form id="comment"><div class="g-recaptcha"></div></form>'
        b'<script src="https://www.google.com/recaptcha/api.js"></script><div id="onetrust">We use cookies.</div>',
        b'<script type="application/ld+json">{"@type":"ScholarlyArticle"}</script><div class="g-recaptcha"></div>',
        b'<meta name="eprints.title" content="A"><form action="/cgi/users/login"><input type="password"></form>',
        b"%PDF-1.7 login captcha __cf_chl",
        b"\n\n%PDF-1.4",
        b"",
        b"plain text that mentions a captcha",
        b"<html><title>Genes</title><p>A short abstract.</p></html>",
    ],
)
def test_an_article_that_mentions_walls_is_none(body: bytes) -> None:
    assert wall(body) is None


@pytest.mark.requirement("RES-9")
@pytest.mark.parametrize(
    "url",
    [
        "https://press.example/article/1?returnUrl=/login",
        "https://press.example/articles/login-behaviour-of-users",
        "https://catalogin.example/1",
        "https://id.erudit.example/iderudit/1",
        "https://press.example/captcha-security-a-survey",
        "https://press.example/article/shibboleth-of-judges",
    ],
)
def test_an_address_that_only_contains_the_word_is_none(url: str) -> None:
    assert wall(b"<html><p>An abstract.</p></html>", url=url) is None


@pytest.mark.requirement("RES-9")
@pytest.mark.parametrize("piece", [b"<script ", b"<", b"<title>", b"<meta ", b"<style></", b"a"])
def test_hostile_pages_take_less_than_a_second(piece: bytes) -> None:
    started = time.process_time()
    wall(piece * (1_000_000 // len(piece)))
    assert time.process_time() - started < 1
