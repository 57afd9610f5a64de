"""Request headers by role, and their spelling as a key. Every User-Agent names us and, where configured, a contact address."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from resources.http.guard import guarded_url
from resources.http.messages import Request, Role
from resources.http.redact import without_credentials
from resources.http.settings import HttpSettings

_ACCEPT = {
    Role.METADATA: "application/json",
    Role.LANDING: "text/html",
    Role.ARTIFACT: "application/pdf, application/xml",
}
_URL_CHARACTERS = "%/:?#[]@!$&'()*+,;=~"


def user_agent(settings: HttpSettings, role: Role) -> str:
    """The name we go by; landing pages get the browser-like form, because many refuse anything else, and it still names us."""
    contact = settings.contact_email
    if role is Role.LANDING:
        return f"Mozilla/5.0 (compatible; {settings.user_agent}{f'; mailto:{contact}' if contact else ''})"
    if contact is None or "mailto:" in settings.user_agent:
        return settings.user_agent
    return f"{settings.user_agent} (mailto:{contact})"


def robots_token(settings: HttpSettings) -> str:
    """The product token that robots.txt rules are matched with."""
    return settings.user_agent.partition("/")[0].strip() or "*"


def headers_cache_key(headers: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The same for the same headers, however their names are spelt and ordered; values are kept as they are."""
    return tuple(sorted((name.lower(), value) for name, value in headers.items()))


def request_headers(settings: HttpSettings, request: Request) -> dict[str, str]:
    """All but the secret ones. A RefusedError when the referer cannot be sent."""
    configured = settings.accept if request.role is not Role.METADATA else None
    headers = {
        "User-Agent": user_agent(settings, request.role),
        "Accept": _ACCEPT[request.role] if configured is None else configured,
        "Accept-Encoding": "identity" if request.sink is not None else "gzip, deflate",
    }
    if request.referer is not None:
        # It comes from metadata or another server, so it passes the same guard. A key is for the page that it was given to.
        referer = without_credentials(guarded_url(request.referer, settings))
        headers["Referer"] = quote(referer, safe=_URL_CHARACTERS)
    return headers | dict(request.headers)
