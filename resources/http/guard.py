"""Decides whether a URL may be asked at all: its scheme, its spelling, and addresses that are plainly not public.

http:// is tried as https:// unless the host is on the allow-list. What a name resolves to is seen only when a connection is
made; behind a proxy the proxy is the only address that is dialled.
"""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit, urlunsplit

from resources.http.canonical import host_of
from resources.http.errors import AddressRefused, SchemeRefused
from resources.http.settings import HttpSettings

_CONTROL = re.compile(r"[\x00-\x20\x7f]")
_NUMERIC_HOST = re.compile(r"^(0x[0-9a-f]+|\d+)(\.(0x[0-9a-f]+|\d+)){0,3}$")
_LOCAL_NAMES = ("localhost", ".localhost", ".local", ".internal", ".home.arpa")


def guarded_url(url: str, settings: HttpSettings) -> str:
    """The URL to request, upgraded to https where needed; SchemeRefused or AddressRefused otherwise."""
    text = url.strip(" ").replace(" ", "%20")
    if _CONTROL.search(text):
        raise SchemeRefused("the URL contains control characters", url=url)
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise SchemeRefused(f"the URL cannot be read: {error}", url=url) from None
    host = host_of(text)
    if parts.scheme.lower() not in ("http", "https") or not host:
        raise SchemeRefused(f"only https URLs are fetched, this one is {parts.scheme or 'relative'!s}", url=url)
    _refuse_private(host, url, settings)
    netloc = parts.netloc.rpartition("@")[2]  # credentials in URLs are never sent
    if parts.scheme.lower() == "http" and not _listed(host, settings.allow_http_hosts):
        netloc = netloc.removesuffix(":80") if port == 80 else netloc
        return urlunsplit(("https", netloc, parts.path or "/", parts.query, ""))
    return urlunsplit((parts.scheme.lower(), netloc, parts.path or "/", parts.query, ""))


def _listed(host: str, hosts: tuple[str, ...]) -> bool:
    return host in {entry.lower() for entry in hosts}


def _refuse_private(host: str, url: str, settings: HttpSettings) -> None:
    if _listed(host, settings.allow_private_hosts):
        return
    if host == "localhost" or host.endswith(_LOCAL_NAMES):
        raise AddressRefused(f"{host} is a local name; list it in http.allow_private_hosts to allow it", url=url)
    if ":" not in host and not _NUMERIC_HOST.match(host):
        return
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
        public = address.is_global and not address.is_multicast and not address.is_reserved
    except ValueError:
        public = False  # an address in another spelling (decimal, hexadecimal, octal): nobody publishes papers there
    if not public:
        raise AddressRefused(
            f"{host} is not a public address; list it in http.allow_private_hosts to allow it", url=url
        )
