"""Who may call the server: hosts, origins, proxies, tokens, sessions, limits, and what must be set off loopback."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import pytest

from docstokg_assets.config import ContentDownloadConfig, load_config
from docstokg_assets.config.render import as_yaml
from docstokg_assets.config.serve import ServeSettings
from docstokg_assets.serve.access import SESSION_COOKIE, Access, Call, RateLimiter, Refused
from resources.settings import Loaded, SettingsError

TOKEN, OTHER = "a-token-of-thirty-two-characters", "another-token-of-many-characters"
EXPOSED: dict[str, Any] = {
    "host": "0.0.0.0",
    "tokens": [TOKEN, OTHER],
    "hostnames": ["papers.example.org"],
    "tls_cert": "c",
    "tls_key": "k",
}


def call(path: str = "/ingest", method: str = "GET", peer: str = "127.0.0.1", **headers: str) -> Call:
    given = {"host": "127.0.0.1:8080"} | {name.replace("_", "-"): value for name, value in headers.items()}
    return Call(peer, method, path, given, {})


def refused(access: Access, each: Call) -> HTTPStatus:
    with pytest.raises(Refused) as caught:
        access.admit(each)
    return caught.value.status


@pytest.mark.requirement("ING-8")
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:8080", "[::1]:8080", "LOCALHOST"])
def test_loopback_names_are_answered(host: str) -> None:
    assert Access(ServeSettings()).admit(call(host=host)).address == "127.0.0.1"


@pytest.mark.requirement("ING-8")
@pytest.mark.parametrize("host", ["evil.example.org", "", "127.0.0.1.evil.org", "localhost@evil.org", "[::1"])
def test_other_host_names_are_refused(host: str) -> None:
    assert refused(Access(ServeSettings()), call(host=host)) == HTTPStatus.MISDIRECTED_REQUEST


@pytest.mark.requirement("ING-8")
@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example.org"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site", "origin": "http://127.0.0.1:8080"},
    ],
)
def test_posts_from_pages_of_other_sites_are_refused(headers: dict[str, str]) -> None:
    access = Access(ServeSettings())
    assert refused(access, call(method="POST", **headers)) == HTTPStatus.FORBIDDEN
    access.admit(call(method="POST", origin="http://127.0.0.1:8080", sec_fetch_site="same-origin"))


def test_a_link_from_another_site_may_be_followed_but_no_data_read() -> None:
    access = Access(ServeSettings())
    access.admit(call("/", sec_fetch_site="cross-site", sec_fetch_mode="navigate"))
    assert refused(access, call("/ingest/x", sec_fetch_site="cross-site", sec_fetch_mode="cors")) == 403


@pytest.mark.requirement("ING-8")
def test_a_token_is_needed_for_everything_but_health() -> None:
    access = Access(ServeSettings(tokens=(TOKEN, OTHER)))  # type: ignore[arg-type]
    assert refused(access, call()) == HTTPStatus.UNAUTHORIZED
    assert refused(access, call("/metrics")) == HTTPStatus.UNAUTHORIZED
    assert refused(access, call(authorization="Bearer wrong-token-of-some-length")) == HTTPStatus.UNAUTHORIZED
    assert refused(access, call(authorization=f"Basic {TOKEN}")) == HTTPStatus.UNAUTHORIZED
    access.admit(call("/healthz"))
    names = {access.admit(call(authorization=f"Bearer {token}")).name for token in (TOKEN, OTHER)}
    assert len(names) == 2
    assert TOKEN not in str(names)


def test_wrong_tokens_of_one_address_are_slowed_down() -> None:
    access = Access(ServeSettings(tokens=(TOKEN,)))  # type: ignore[arg-type]
    statuses = [refused(access, call(authorization=f"Bearer wrong-token-number-{n}")) for n in range(12)]
    assert statuses == [HTTPStatus.UNAUTHORIZED] * 10 + [HTTPStatus.TOO_MANY_REQUESTS] * 2
    assert refused(access, call(authorization=f"Bearer {TOKEN}")) == HTTPStatus.TOO_MANY_REQUESTS
    access.admit(call(authorization=f"Bearer {TOKEN}", peer="127.0.0.2"))


def test_a_session_is_as_good_as_its_token_and_cannot_be_made_up() -> None:
    access, other = (Access(ServeSettings(tokens=(TOKEN,))) for _ in range(2))  # type: ignore[arg-type]
    session = access.new_session(TOKEN, "127.0.0.1")
    assert TOKEN not in session

    def with_session(value: str) -> Call:
        return Call("127.0.0.1", "GET", "/", {"host": "localhost"}, {SESSION_COOKIE: value})

    assert access.admit(with_session(session)).name == access.admit(call(authorization=f"Bearer {TOKEN}")).name
    until, _, mac = session.partition(".")
    for forged in (f"{int(until) + 1}.{mac}", f"{until}.{'0' * 64}", f"1.{mac}", "", ".", "é"):
        assert refused(access, with_session(forged)) == HTTPStatus.UNAUTHORIZED
    assert refused(other, with_session(session)) == HTTPStatus.UNAUTHORIZED


def test_a_caller_has_its_own_limit() -> None:
    now = [0.0]
    access = Access(ServeSettings(tokens=(TOKEN, OTHER), requests_per_minute=60), lambda: now[0])  # type: ignore[arg-type]
    mine, theirs = call(authorization=f"Bearer {TOKEN}"), call(authorization=f"Bearer {OTHER}")
    for _ in range(60):
        access.admit(mine)
    with pytest.raises(Refused) as caught:
        access.admit(mine)
    assert (caught.value.status, caught.value.retry_after_s) == (429, 2)
    access.admit(theirs)
    now[0] = 1.0
    access.admit(mine)


def test_the_limiter_remembers_a_bounded_number_of_callers() -> None:
    limiter = RateLimiter(1, lambda: 0.0)
    for number in range(20_000):
        limiter.wait_s(str(number))
    assert len(limiter._buckets) == 10_000


# -- off loopback ------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("ING-8")
def test_off_loopback_token_tls_and_names_are_required() -> None:
    assert ServeSettings().problems() == []
    assert len(ServeSettings(host="0.0.0.0").problems()) == 3
    assert ServeSettings(**EXPOSED).problems() == []
    without = {
        name: ServeSettings(**{**EXPOSED, name: empty}).problems()
        for name, empty in (("tokens", []), ("hostnames", []))
    }
    assert [len(found) for found in without.values()] == [1, 1]
    bare = {**EXPOSED, "tls_cert": None, "tls_key": None}
    assert "trusted_proxies" in ServeSettings(**bare).problems()[0]
    assert ServeSettings(**bare, trusted_proxies=["10.0.0.0/8"]).problems() == []


def test_behind_a_proxy_only_it_may_connect_and_callers_are_told_apart() -> None:
    given = {**EXPOSED, "tls_cert": None, "tls_key": None, "trusted_proxies": ["10.0.0.0/8"]}
    access = Access(ServeSettings(**given))
    headers = {"authorization": f"Bearer {TOKEN}", "host": "papers.example.org"}
    assert refused(access, call(peer="192.0.2.1", **headers)) == HTTPStatus.FORBIDDEN
    seen = access.admit(call(peer="10.1.2.3", x_forwarded_for="6.6.6.6, 192.0.2.9, 10.9.9.9", **headers))
    assert (seen.address, seen.https) == ("192.0.2.9", True)  # what the client wrote there itself does not count


def test_an_undeclared_proxy_before_a_server_without_tokens_is_refused() -> None:
    access = Access(ServeSettings())
    assert refused(access, call(x_forwarded_for="192.0.2.1")) == HTTPStatus.FORBIDDEN


def test_settings_are_checked_and_tokens_never_shown() -> None:
    for wrong in ({"tokens": ["short"]}, {"tls_cert": "c"}, {"trusted_proxies": ["proxy.example.org"]}):
        with pytest.raises(SettingsError) as caught:
            load_config(None, {}, {f"serve.{key}": value for key, value in wrong.items()})
        assert f"serve.{next(iter(wrong))}" in str(caught.value) or "tls_cert" in str(caught.value)
        assert "short" not in str(caught.value)
    given = load_config(None, {"DTKG_SERVE__TOKENS": f"{TOKEN}, {OTHER}"}).value
    assert len(given.serve.tokens) == 2
    assert len(ServeSettings(tokens=f"{TOKEN}, {OTHER}").tokens) == 2  # type: ignore[arg-type]
    config = ContentDownloadConfig(serve=ServeSettings(tokens=(TOKEN,)))  # type: ignore[arg-type]
    shown = as_yaml(Loaded(config, {}))
    assert TOKEN not in shown
    assert "***" in shown
