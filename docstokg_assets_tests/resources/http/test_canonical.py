"""The key of a URL: one for all its spellings, and never one for two different things."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from resources.http.canonical import authority_of, canonical_url, host_of

PART = st.text("abzAZ09-._~%/?&=+;:@ é☃\"'()[]|", max_size=20)
URLS = st.builds(
    lambda scheme, user, host, port, path, query, fragment: f"{scheme}://{user}{host}{port}/{path}{query}{fragment}",
    st.sampled_from(["http", "https", "HTTPS"]),
    st.sampled_from(["", "user@", "user:pass@"]),
    st.sampled_from(["a.org", "A.Org.", "[2001:DB8::1]", "bücher.example", "xn--bcher-kva.example", "127.0.0.1"]),
    st.sampled_from(["", ":80", ":443", ":8080"]),
    PART,
    PART.map(lambda text: f"?{text}"),
    PART.map(lambda text: f"#{text}"),
)


@pytest.mark.requirement("HTTP-8")
@given(url=URLS)
@example("https://a.org/?%61=1&Z=1")
@example("https://a.org/%zz%2f%2F%7e")
def test_a_key_is_its_own_key(url: str) -> None:
    key = canonical_url(url)
    assert canonical_url(key) == key
    assert host_of(key) == host_of(url)
    assert "@" not in authority_of(key)


@given(text=st.text(max_size=80) | st.text(":/?#[]@%. \ud800", max_size=20).map("http://".__add__))
def test_any_text_has_a_key(text: str) -> None:
    canonical_url(text)
    host_of(text)


@pytest.mark.requirement("HTTP-8")
@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("HTTPS://ArXiv.org/abs/1", "https://arxiv.org/abs/1"),
        ("https://a.org:443/x/", "https://a.org/x"),
        ("http://a.org:80", "http://a.org"),
        ("https://a.org:80/x", "https://a.org:80/x"),
        ("https://a.org/x#part", "https://a.org/x"),
        ("https://a.org/x?b=2&a=1", "https://a.org/x?a=1&b=2"),
        ("https://a.org/x?utm_source=t&a=1&fbclid=2&UTM_Medium=x&gclid=3", "https://a.org/x?a=1"),
        ("https://a.org/x?u%74m_id=1", "https://a.org/x"),
        ("https://user:pw@a.org/x", "https://a.org/x"),
        ("https://a.org/%7Euser/%e9", "https://a.org/~user/%E9"),
        ("https://a.org/é", "https://a.org/%C3%A9"),
        (" https://a.org./x \n", "https://a.org/x"),
        ("https://bücher.example/", "https://xn--bcher-kva.example"),
        ("https://[2001:DB8::1]:443/x", "https://[2001:db8::1]/x"),
        ("https://[broken/x", "https://[broken/x"),
    ],
)
def test_spellings_of_one_thing_have_one_key(url: str, key: str) -> None:
    assert canonical_url(url) == key


@pytest.mark.requirement("HTTP-8")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://a.org/x", "http://a.org/x"),
        ("https://a.org/x", "https://a.org/X"),
        ("https://a.org/x", "https://b.org/x"),
        ("https://a.org/x", "https://a.org:8443/x"),
        ("https://a.org/a%2Fb", "https://a.org/a/b"),
        ("https://a.org/a//b", "https://a.org/a/b"),
        ("https://a.org/x?a=1%26b=2", "https://a.org/x?a=1&b=2"),
        ("https://a.org/x?q=a+b", "https://a.org/x?q=a%2Bb"),
        ("https://a.org/x?ref=1", "https://a.org/x"),
        ("https://a.org/x?source=1", "https://a.org/x?source=2"),
        ("https://a.org/x%3Fa", "https://a.org/x?a"),
        ("https://a.org/x;v=1", "https://a.org/x;v=2"),
        ("https://a.org/x?a", "https://a.org/x?a="),
    ],
)
def test_different_things_have_different_keys(one: str, other: str) -> None:
    assert canonical_url(one) != canonical_url(other)


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://User@A.Org.:8443/x", "a.org"),
        ("http://ｌｏｃａｌｈｏｓｔ/", "localhost"),
        ("http://127。0。0。1/", "127.0.0.1"),
        ("http://[::FFFF:1]/", "::ffff:1"),
        ("mailto:me@a.org", ""),
        ("https://[broken", ""),
        ("https://" + "ü" * 300 + ".org/", ""),
    ],
)
def test_a_host_is_told_as_it_would_be_asked(url: str, host: str) -> None:
    assert host_of(url) == host
