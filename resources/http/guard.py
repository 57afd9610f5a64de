"""Refuse URLs that may not be requested: wrong scheme, invalid syntax, or an address that is not public.

http:// is upgraded to https:// unless the host is on the allow-list. The address that a name resolves to is known only when a
connection is made: then the wire calls `refuse_private_peer`. Behind a proxy only the proxy is dialled.
"""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache
from urllib.parse import urlsplit, urlunsplit

from resources.http.canonical import authority_of, host_of
from resources.http.errors import AddressRefused, SchemeRefused
from resources.http.settings import HttpSettings

_CONTROL = re.compile(r"[\x00-\x20\x7f\ud800-\udfff]")
_NAME = re.compile(r"(?=.{1,253}$)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*")
_NUMERIC_HOST = re.compile(r"(0x[0-9a-f]*|[0-9]+)(\.(0x[0-9a-f]*|[0-9]+)){0,3}")
_LOCAL_NAMES = (".localhost", ".local", ".internal", ".home.arpa")
# Not for everybody, though `is_global` says so: protocol assignments, 6to4 and its relays, site-local, documentation, and
# the address at which one provider's machines find their own metadata service.
_NOT_PUBLIC = [
    ipaddress.ip_network(network)
    for network in ("192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32", "2002::/16", "fec0::/10", "3fff::/20")
]


def guarded_url(url: str, settings: HttpSettings) -> str:
    """The URL to request, upgraded to https where needed; SchemeRefused or AddressRefused otherwise."""
    text = url.strip(" ").replace(" ", "%20")
    if _CONTROL.search(text):
        raise SchemeRefused("the URL contains control characters", url=url)
    try:
        parts = urlsplit(text)
        # made anew from what was understood: no credentials, and nothing that another parser would read differently
        netloc = authority_of(text)
    except ValueError:
        raise SchemeRefused("the URL cannot be read", url=url) from None
    host = host_of(text)
    if parts.scheme not in ("http", "https"):
        raise SchemeRefused(f"only https URLs are fetched, this one is {parts.scheme or 'relative'}", url=url)
    _refuse_private(host, url, settings)
    scheme = "http" if parts.scheme == "http" and _listed(host, settings.allow_http_hosts) else "https"
    return urlunsplit((scheme, netloc, parts.path or "/", parts.query, ""))


def refuse_private_peer(host: str, address: str, settings: HttpSettings) -> None:
    """AddressRefused when the name led to an address that is not public."""
    if not _listed(host, settings.allow_private_hosts) and not _is_public(address):
        raise AddressRefused(
            f"{host} leads to an address that is not public; list it in http.allow_private_hosts to allow it"
        )


def _listed(host: str, hosts: tuple[str, ...]) -> bool:
    return host in _lower_case(hosts)


@lru_cache(maxsize=16)
def _lower_case(hosts: tuple[str, ...]) -> frozenset[str]:
    return frozenset(entry.lower() for entry in hosts)


def _refuse_private(host: str, url: str, settings: HttpSettings) -> None:
    if _listed(host, settings.allow_private_hosts):
        return
    if ":" in host or _NUMERIC_HOST.fullmatch(host):
        public = _is_public(host)
    elif not _NAME.fullmatch(host):
        raise SchemeRefused("the URL has no valid host name", url=url)
    else:
        public = "." in host and not host.endswith(_LOCAL_NAMES)
    if not public:
        raise AddressRefused(
            f"{host} is not a public address; list it in http.allow_private_hosts to allow it", url=url
        )


def _is_public(text: str) -> bool:
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False  # an address in another spelling (decimal, hexadecimal, octal): nobody publishes papers there
    special = address.is_multicast or address.is_reserved or any(address in network for network in _NOT_PUBLIC)
    return address.is_global and not special
