"""The simulated hosts: one module per family, each with a `hosts(state)` table of host -> handler.

To simulate another service, write such a module and name it in `_FAMILIES`. `robots.txt` is answered here for all.
"""

from __future__ import annotations

from ..state import SandboxState
from ..wire import Handler, Request, Response, text
from . import (
    arxiv,
    base,
    core,
    crossref,
    deposits,
    doaj,
    doi,
    hal,
    openaire,
    openalex,
    pmc,
    publisher_keys,
    semantic_scholar,
    silent,
    unpaywall,
    venues,
    wayback,
)

_INDEXES = (core, doaj, hal, openaire, base, semantic_scholar)
_FAMILIES = (
    openalex,
    unpaywall,
    crossref,
    doi,
    arxiv,
    pmc,
    *_INDEXES,
    deposits,
    silent,
    publisher_keys,
    wayback,
    venues,
)
_PLAIN_ROBOTS = "User-agent: *\nDisallow:\n"


def _with_robots(handler: Handler, status: int, rules: str) -> Handler:
    def answer(request: Request) -> Response:
        if request.raw_path == "/robots.txt":
            return text(rules, status)
        return handler(request)

    return answer


def table(state: SandboxState) -> dict[str, Handler]:
    """Return all hosts of the sandbox, each with its robots.txt."""
    result: dict[str, Handler] = {}
    for family in _FAMILIES:
        robots: dict[str, tuple[int, str]] = getattr(family, "ROBOTS", {})
        for host, handler in family.hosts(state).items():
            result[host] = _with_robots(handler, *robots.get(host, (200, _PLAIN_ROBOTS)))
    return result
