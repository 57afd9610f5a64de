"""What those who index other people's repositories and journals know of a work: derived from where its copies are.

Shared by the played services in `hosts/`; how each of them says it is its own business.
"""

from __future__ import annotations

import re

from .scenario import Location, Scenario
from .universe import Universe, Work
from .wire import Request

_DOI = re.compile(r'"((?:[^"\\]|\\.)*)"')


def open_copies(scenario: Scenario) -> list[Location]:
    return [location for location in (*scenario.locations, *scenario.unpaywall) if location.is_oa]


def repository_copies(scenario: Scenario) -> list[Location]:
    return [c for c in open_copies(scenario) if c.venue is not None and c.venue.kind == "repository"]


def journal_copy(scenario: Scenario) -> Location | None:
    """The publisher's own copy, where the journal is an open one."""
    first = scenario.locations[0] if scenario.locations else None
    return first if first and first.is_oa and first.license and first.venue and first.venue.kind == "journal" else None


def quoted_works(universe: Universe, query: str) -> list[Work]:
    """The works whose DOIs stand in quotation marks in a query."""
    found = (universe.by_doi(re.sub(r"\\(.)", r"\1", doi)) for doi in _DOI.findall(query))
    return [work for work in found if work is not None]


def bearer(request: Request) -> str:
    kind, _, key = request.headers.get("authorization", "").partition(" ")
    return key if kind == "Bearer" else ""


def is_good_key(key: str) -> bool:
    """In the sandbox, as for OpenAlex, every key that begins like this is somebody's."""
    return key.startswith("sandbox-")
