"""The one place where a URL is turned into its key (limits, dedupe, catalog). The key is never requested; the original is."""

from __future__ import annotations

from urllib.parse import quote, unquote, urlsplit, urlunsplit

_TRACKING_PREFIXES = ("utm_", "mc_", "hsa_", "pk_", "piwik_", "matomo_")
_TRACKING = frozenset(
    {"fbclid", "gclid", "dclid", "gbraid", "wbraid", "msclkid", "yclid", "igshid", "twclid", "ttclid", "mkt_tok", "_ga"}
    | {"_gl", "_hsenc", "_hsmi", "vero_id", "oly_anon_id", "oly_enc_id", "s_cid", "spm"}
)
_DEFAULT_PORTS = {"http": 80, "https": 443}
_SAFE_PATH = "/:@!$&'()*+,;=~-._"
_SAFE_QUERY = "/:@!$'()*,;~-._?"


def canonical_url(url: str) -> str:
    """Lower-case scheme and host, no default port, credentials, fragment, trailing slash or tracking parameters; sorted query."""
    parts = urlsplit(url.strip())
    scheme = parts.scheme.lower()
    host = host_of(url)
    port = _port(parts)
    netloc = host if port is None or port == _DEFAULT_PORTS.get(scheme) else f"{host}:{port}"
    path = _normal_escapes(parts.path, _SAFE_PATH).rstrip("/")
    pairs = sorted(pair for pair in parts.query.split("&") if pair and not _is_tracking(pair.partition("=")[0]))
    query = "&".join(_normal_escapes(pair, _SAFE_QUERY + "=+") for pair in pairs)
    return urlunsplit((scheme, netloc, path, query, ""))


def host_of(url: str) -> str:
    """Host name in lower case, without port, brackets, trailing dot; the empty string when there is none."""
    try:
        return (urlsplit(url).hostname or "").rstrip(".").lower()
    except ValueError:
        return ""


def _port(parts: object) -> int | None:
    try:
        return parts.port  # type: ignore[attr-defined,no-any-return]
    except ValueError:
        return None


def _is_tracking(name: str) -> bool:
    lowered = unquote(name).lower()
    return lowered in _TRACKING or lowered.startswith(_TRACKING_PREFIXES)


def _normal_escapes(text: str, safe: str) -> str:
    """One spelling for each escape: what needs none is bare, the rest in upper-case hex. Escaped delimiters stay escaped."""
    pieces = []
    for index, piece in enumerate(text.split("%")):
        if index == 0:
            pieces.append(quote(piece, safe=safe))
        elif len(piece) >= 2 and all(c in "0123456789abcdefABCDEF" for c in piece[:2]):
            character = chr(int(piece[:2], 16))
            bare = character.isascii() and (character.isalnum() or character in "-._~")
            pieces.append((character if bare else f"%{piece[:2].upper()}") + quote(piece[2:], safe=safe))
        else:
            pieces.append("%25" + quote(piece, safe=safe))
    return "".join(pieces)
