"""The one place where a URL is turned into its key (limits, dedupe, catalog). The key is never requested; the original is."""

from __future__ import annotations

import re
import string
from functools import lru_cache
from urllib.parse import quote, unquote, urlsplit, urlunsplit

import idna

_TRACKING_PREFIXES = ("utm_", "mc_", "hsa_", "pk_", "piwik_", "matomo_")
_TRACKING = frozenset(
    {"fbclid", "gclid", "dclid", "gbraid", "wbraid", "msclkid", "yclid", "igshid", "twclid", "ttclid", "mkt_tok", "_ga"}
    | {"_gl", "_hsenc", "_hsmi", "vero_id", "oly_anon_id", "oly_enc_id", "s_cid", "spm"}
)
_DEFAULT_PORTS = {"http": 80, "https": 443}
_REMEMBERED = 2_048  # the same few URLs are asked about a dozen times while a request is under way
_SAFE_PATH = "/:@!$&'()*+,;=~-._"
_PLAIN = re.compile(r"https?://((?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z]+)(?:/[A-Za-z0-9/:@!$&'()*+,;=~._-]*)?")
_ESCAPE_CODE = re.compile(r"%[0-9a-fA-F]{2}")
_ESCAPE = re.compile(r"%[0-9a-fA-F]{2}|%|[^%]+")
_UNRESERVED = frozenset(string.ascii_letters + string.digits + "-._~")
_SAFE_QUERY = "/:@!$'()*,;~-._?=+"
_KEEPS_NONE = {
    safe: str.maketrans("", "", string.ascii_letters + string.digits + safe) for safe in (_SAFE_PATH, _SAFE_QUERY)
}


@lru_cache(_REMEMBERED)
def plain_host(url: str) -> str | None:
    """The host of a URL in which nothing is unusual: lower case, no port, escape, query or fragment. Most are so, and taking
    the others apart costs thirty times as much."""
    match = _PLAIN.fullmatch(url)
    return match[1] if match else None


@lru_cache(_REMEMBERED)
def canonical_url(url: str) -> str:
    """Lower-case scheme and host, no default port, credentials, fragment, trailing slash or tracking parameters; sorted query.
    A text that cannot be read as a URL is its own key."""
    text = url.strip()
    if plain_host(text):
        return text.rstrip("/")
    try:
        parts = urlsplit(text)
        netloc = authority_of(text)
    except ValueError:
        return text
    path = _normal_escapes(parts.path, _SAFE_PATH).rstrip("/")
    pairs = [pair for pair in parts.query.split("&") if pair and not _is_tracking(pair.partition("=")[0])]
    query = "&".join(sorted(_normal_escapes(pair, _SAFE_QUERY) for pair in pairs))
    return urlunsplit((parts.scheme.lower(), netloc, path, query, ""))


@lru_cache(_REMEMBERED)
def host_of(url: str) -> str:
    """Host name as it is sent: ASCII, in lower case, without port, brackets, trailing dot; empty when there is none."""
    if plain := plain_host(url):
        return plain
    try:
        host = urlsplit(url).hostname or ""
        # the mapping that the HTTP library uses, so that a name in look-alike letters is judged by what it becomes
        return (host if host.isascii() else idna.encode(host, uts46=True).decode()).rstrip(".")
    except ValueError:
        return ""


@lru_cache(_REMEMBERED)
def authority_of(url: str) -> str:
    """Host and, unless it is the scheme's own, port. ValueError when it cannot be read."""
    parts = urlsplit(url)
    host, port = host_of(url), parts.port
    name = f"[{host}]" if ":" in host else host
    return name if port in (None, _DEFAULT_PORTS.get(parts.scheme)) else f"{name}:{port}"


def _is_tracking(name: str) -> bool:
    lowered = unquote(name).lower()
    return lowered in _TRACKING or lowered.startswith(_TRACKING_PREFIXES)


def _normal_escapes(text: str, safe: str) -> str:
    """One spelling for each escape: what needs none is bare, the rest in upper-case hex. Escaped delimiters stay escaped."""
    if "%" not in text and text.isascii() and not text.translate(_KEEPS_NONE[safe]):
        return text  # nearly all
    return _ESCAPE.sub(lambda found: _normal_escape(found[0], safe), text)


def _normal_escape(text: str, safe: str) -> str:
    """One escape, or the text between two of them."""
    if not _ESCAPE_CODE.fullmatch(text):
        return quote(text, safe=safe, errors="replace")
    character = chr(int(text[1:], 16))
    return character if character in _UNRESERVED else text.upper()
