"""What is never asked for: other schemes, addresses that are not public in any spelling, and text that is no URL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstokg_assets.sandbox import Sandbox
from resources.http.errors import AddressRefused, RefusedError, SchemeRefused
from resources.http.guard import guarded_url, refuse_private_peer
from resources.http.messages import Request, Role
from resources.http.redact import redact_url
from resources.http.settings import HttpSettings
from resources.records import Reason, Status

SETTINGS = HttpSettings(allow_http_hosts=("Old.example.org",))

PRIVATE = [
    "127.0.0.1",
    "127.1",
    "2130706433",
    "0x7f000001",
    "0x7f.0.0.1",
    "0x7f.1",
    "0177.0.0.1",
    "017700000001",
    "127.0.0.1.",
    "１２７.0.0.1",
    "127。0。0。1",
    "①②⑦.0.0.1",
    "[::1]",
    "[::]",
    "[0:0:0:0:0:0:0:1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[64:ff9b:1::a00:1]",
    "[2002:7f00:1::]",
    "[fe80::1%25eth0]",
    "[fc00::1]",
    "[fd00:ec2::254]",
    "[fec0::1]",
    "[ff02::1]",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "100.100.100.200",
    "169.254.169.254",
    "192.0.0.192",
    "192.88.99.1",
    "198.18.0.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "0.0.0.0",
    "0",
    "168.63.129.16",
    "localhost",
    "LOCALHOST",
    "ｌｏｃａｌｈｏｓｔ",
    "me.localhost",
    "printer.local",
    "metadata.google.internal",
    "intranet",
]

ODD = [
    "file:///etc/passwd",
    "ftp://a.org/x.pdf",
    "data:text/plain,hello",
    "javascript:alert(1)",
    "gopher://a.org/",
    "mailto:a@a.org",
    "//a.org/x",
    "/x.pdf",
    "x.pdf",
    "",
    "https:///x",
    "https://",
    "https://a.org:99999/",
    "https://a.org:x/",
    "https://[broken/",
    "https://a..org/",
    "https://.a.org/",
    "https://127.0.0.1\\.a.org/",
    "https://a.org\\@b.org/x\r\nHost: c.org",
    "https://a.org/x\r\nX-Injected: 1",
    "https://a.org/x\ny",
    "https://a.org/\x00",
    "https://a.org/\ud800",
    "https://*.a.org/",
    "https://a%2eorg/",
    f"https://{'a' * 64}.org/",
    f"https://{'a.' * 130}org/",
]


@pytest.mark.requirement("HTTP-6")
@pytest.mark.parametrize(
    ("url", "asked"),
    [
        ("http://a.org/x?y=1", "https://a.org/x?y=1"),
        ("http://a.org:80/x", "https://a.org/x"),
        ("HTTP://A.org", "https://a.org/"),
        ("https://a.org/x#part", "https://a.org/x"),
        ("http://old.EXAMPLE.org/x", "http://old.example.org/x"),
        ("https://old.example.org/x", "https://old.example.org/x"),
        ("http://sub.old.example.org/x", "https://sub.old.example.org/x"),
        ("https://user:secret@a.org/x", "https://a.org/x"),
        ("https://a.org\\@b.org/x", "https://b.org/x"),
        ("https://a.org:8443/x", "https://a.org:8443/x"),
        ("https://a.org./x", "https://a.org/x"),
        (" https://a.org/a b ", "https://a.org/a%20b"),
        ("https://bücher.example/x", "https://xn--bcher-kva.example/x"),
        ("https://8.8.8.8/x", "https://8.8.8.8/x"),
        ("https://[2606:4700::1]:8443/x", "https://[2606:4700::1]:8443/x"),
        ("https://under_score.a.org/(SICI)1<2::AID>3.0;2-#", "https://under_score.a.org/(SICI)1<2::AID>3.0;2-"),
    ],
)
def test_links_are_asked_over_https_and_without_credentials(url: str, asked: str) -> None:
    assert guarded_url(url, SETTINGS) == asked
    assert guarded_url(asked, SETTINGS) == asked


@pytest.mark.requirement("HTTP-6")
@pytest.mark.parametrize("host", PRIVATE)
def test_addresses_that_are_not_public_are_refused_in_every_spelling(host: str) -> None:
    for url in (f"https://{host}/x", f"http://{host}:8080/x", f"https://user@{host}/"):
        with pytest.raises(AddressRefused):
            guarded_url(url, SETTINGS)


@pytest.mark.requirement("HTTP-6")
@pytest.mark.parametrize("url", ODD)
def test_what_is_no_web_address_is_refused(url: str) -> None:
    with pytest.raises(SchemeRefused):
        guarded_url(url, SETTINGS)


@given(text=st.text(max_size=60) | st.text("0x7f.:[]@/\\%1a。", max_size=20).map("https://".__add__))
def test_any_text_is_either_refused_or_asked_as_it_was_understood(text: str) -> None:
    try:
        asked = guarded_url(text, SETTINGS)
    except RefusedError:
        return
    assert asked.startswith("https://")
    assert guarded_url(asked, SETTINGS) == asked


def test_listed_hosts_may_be_private() -> None:
    listed = HttpSettings(allow_private_hosts=("127.0.0.1", "LocalHost"), allow_http_hosts=("127.0.0.1",))
    assert guarded_url("http://127.0.0.1:80/x", listed) == "http://127.0.0.1/x"
    assert guarded_url("http://localhost:8080/x", listed) == "https://localhost:8080/x"
    with pytest.raises(AddressRefused):
        guarded_url("http://127.0.0.2/x", listed)


def test_the_address_that_a_name_leads_to_is_judged_as_well() -> None:
    refuse_private_peer("a.org", "8.8.8.8", SETTINGS)
    refuse_private_peer("a.org", "10.0.0.1", HttpSettings(allow_private_hosts=("a.org",)))
    for address in ("127.0.0.1", "::1", "fe80::1%eth0", "::ffff:10.0.0.1"):
        with pytest.raises(AddressRefused, match="allow_private_hosts"):
            refuse_private_peer("a.org", address, SETTINGS)


# -- over real sockets ------------------------------------------------------------------------------------------------


@pytest.mark.requirement("HTTP-6")
@pytest.mark.parametrize(
    "spelling", ["127.0.0.1", "127.1", "2130706433", "0x7f000001", "[::ffff:127.0.0.1]", "localhost"]
)
def test_nothing_is_sent_to_a_private_address(
    polite: Callable[..., Any], serve: Callable[..., Any], answers: Any, spelling: str
) -> None:
    server = serve(answers.ok())
    client = polite(http={"allow_private_hosts": ()})
    with pytest.raises(AddressRefused):
        client.ask(Request(f"http://{spelling}:{server.port}/", Role.LANDING))
    assert server.connections == 0
    assert client.told("status", "reason", "http_status") == [(Status.DOWNLOAD_ERROR, Reason.BLOCKED_ADDRESS, None)]


def test_a_public_name_that_leads_to_a_private_address_is_sent_nothing(
    polite: Callable[..., Any], serve: Callable[..., Any], answers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault 17: the name is looked up once, by the connection itself, and what it led to is judged then."""
    import socket

    server = serve(answers.ok())
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", server.port))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **options: found)
    client = polite(http={"allow_private_hosts": (), "allow_http_hosts": ("rebound.example.org",)})
    with pytest.raises(AddressRefused):
        client.ask(Request(f"http://rebound.example.org:{server.port}/", Role.LANDING))
    assert server.requests == []
    assert client.told("reason", "attempt") == [(Reason.BLOCKED_ADDRESS, 1)]


@pytest.mark.requirement("HTTP-6")
def test_an_http_link_arrives_over_tls_at_the_same_host(polite: Callable[..., Any], sandbox: Sandbox) -> None:
    host = "www.plainpages.example"
    response = polite(through=sandbox).ask(Request(f"http://{host}/", Role.LANDING))
    assert (response.status, response.url, response.hops) == (200, f"https://{host}/", ())
    assert len(sandbox.arrivals(host)) == 1


@pytest.mark.requirement("HTTP-6")
def test_a_listed_host_is_asked_over_http(polite: Callable[..., Any], sandbox: Sandbox) -> None:
    host = "www.plainpages.example"
    client = polite(through=sandbox, http={"allow_http_hosts": (host,)})
    response = client.ask(Request(f"http://{host}/", Role.LANDING))  # the sandbox sends http visitors on to https
    assert response.hops == (f"http://{host}/",)
    assert [arrival["status"] for arrival in sandbox.arrivals(host)] == [301, 200]


@pytest.mark.requirement("HTTP-6")
@pytest.mark.parametrize(
    ("referer", "sent"),
    [
        ("https://me:secret@a.org/é?q=☃#part", "https://a.org/%C3%A9?q=%E2%98%83"),
        ("https://a.org/a%20b", "https://a.org/a%20b"),
    ],
)
def test_a_referer_is_clean_before_it_is_sent(
    polite: Callable[..., Any], serve: Callable[..., Any], answers: Any, referer: str, sent: str
) -> None:
    server = serve(answers.ok())
    polite().ask(Request(server.url, Role.ARTIFACT, referer=referer))
    assert server.requests[0].headers["referer"] == sent


@pytest.mark.requirement("HTTP-6")
@pytest.mark.parametrize(
    "spoiled",
    [
        {"referer": "https://a.org/\r\nX-Injected: 1"},
        {"headers": {"X-Name": "a\r\nX-Injected: 1"}},
        {"headers": {"X-Name": "☃"}},
        {"secret_headers": {"X-Key": "with a line break\n"}},
    ],
)
def test_line_breaks_in_headers_are_refused(
    polite: Callable[..., Any], serve: Callable[..., Any], answers: Any, spoiled: Any
) -> None:
    server = serve(answers.ok())
    client = polite()
    with pytest.raises(SchemeRefused):
        client.ask(Request(server.url, Role.ARTIFACT, **spoiled))
    assert server.requests == []
    assert client.told("reason") == [(Reason.BLOCKED_SCHEME,)]


@pytest.mark.parametrize("url", ODD)
def test_a_refusal_is_recorded_whatever_the_url_looks_like(polite: Callable[..., Any], url: str) -> None:
    client = polite()
    with pytest.raises(SchemeRefused):
        client.ask(Request(url, Role.LANDING))
    assert client.told("status", "reason") == [(Status.DOWNLOAD_ERROR, Reason.BLOCKED_SCHEME)]


# -- credentials in what is written down ------------------------------------------------------------------------------


@pytest.mark.requirement("HTTP-14")
@pytest.mark.parametrize(
    "url",
    [
        "https://me:CANARY@a.org/x",
        "https://CANARY@a.org/x",
        "https://me:p@CANARY@a.org/x",
        "https://a.org/web/http://me:CANARY@b.org/x",
        "https://a.org/x?api_key=CANARY",
        "https://a.org/x?a=1&APIKEY=CANARY&b=2",
        "https://a.org/x?access_token=CANARY#y",
        "https://a.org/x;token=CANARY",
        "https://a.org/x?client_secret=CANARY",
        "https://a.org/x?insttoken=CANARY",
        "https://a.org/x?subscription-key=CANARY",
        "https://a.org/x?X-Amz-Signature=CANARY&X-Amz-Credential=CANARY",
    ],
)
def test_credentials_are_taken_out_of_urls(url: str) -> None:
    assert "CANARY" not in redact_url(url)
    assert redact_url(redact_url(url)) == redact_url(url)


def test_ordinary_parameters_stay() -> None:
    url = "https://a.org/x?author=b&keyword=c&monkey=d&sequence=1&isAllowed=y&email=e@f.org"
    assert redact_url(url) == url
