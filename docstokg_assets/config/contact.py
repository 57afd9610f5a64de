"""Requests to the real web need a contact address. Decides whether a configuration needs and has one; sends nothing."""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from urllib.parse import urlsplit

from docstokg_assets.config.models import ContentDownloadConfig
from resources.http.settings import HttpSettings
from resources.settings import SettingsError

SANDBOX_CA = "DocsToKG Sandbox CA"
_ADDRESS = re.compile(r"[^@\s<>()\[\],;:\\\"]+@(?P<domain>(?:[a-z0-9-]+\.)+[a-z]{2,})", re.IGNORECASE)
_RESERVED = re.compile(r"(?:^|\.)(?:example\.(?:com|org|net|edu)|example|invalid|test|localhost)$", re.IGNORECASE)


def require_contact(config: ContentDownloadConfig) -> None:
    """Raise SettingsError unless `http.contact_email` is a usable address, or all requests go to the sandbox."""
    bundle = config.http.ca_bundle
    if bundle is not None and not bundle.is_file():
        raise SettingsError(
            [f"http.ca_bundle: there is no file {bundle}; `content sandbox serve` prints the right path"]
        )
    if is_sandbox(config.http):
        return
    address = config.http.contact_email
    if not address:
        problem = "http.contact_email is not set; server operators must be able to reach you"
    elif (match := _ADDRESS.fullmatch(address)) is None:
        problem = f"http.contact_email: {address!r} is not an e-mail address"
    elif _RESERVED.search(match["domain"]):
        problem = f"http.contact_email: {address!r} is a placeholder that nobody reads"
    else:
        return
    remedy = (
        "set it in the configuration file or with DTKG_HTTP__CONTACT_EMAIL, or use the sandbox (content sandbox serve)"
    )
    raise SettingsError([f"{problem}; {remedy}"])


def is_sandbox(http: HttpSettings) -> bool:
    """Whether all requests go through a proxy on this machine, and only the sandbox's own CA is trusted."""
    return _is_loopback(http.proxy) and http.ca_bundle is not None and _authorities(http.ca_bundle) == {SANDBOX_CA}


def _is_loopback(url: str | None) -> bool:
    try:
        host = urlsplit(url or "").hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _authorities(bundle: Path) -> set[str]:
    """The common names in a PEM file; empty when it cannot be read."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    try:
        certificates = x509.load_pem_x509_certificates(bundle.read_bytes())
    except (OSError, ValueError):
        return set()
    names = [cert.subject.get_attributes_for_oid(NameOID.COMMON_NAME) for cert in certificates]
    return {str(attributes[0].value) if attributes else "" for attributes in names}
