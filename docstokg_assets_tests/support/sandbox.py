"""A client of the sandbox that is not production code."""

from __future__ import annotations

import requests

from docstokg_assets.sandbox import Sandbox


def proxied_session(sandbox: Sandbox) -> requests.Session:
    """Return a session that reaches the sandbox as production code does: by its proxy and its CA bundle alone."""
    session = requests.Session()
    session.trust_env = False
    session.proxies = {"http": sandbox.proxy_url, "https": sandbox.proxy_url}
    session.verify = str(sandbox.ca_bundle)
    return session
