"""What indexes of repositories and journals know about a work, derived from the locations of its copies.

Shared by the simulated services in `hosts/`, each of which formats it in its own way.
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
    """Return the publisher's own copy if the journal is open access."""
    first = scenario.locations[0] if scenario.locations else None
    return first if first and first.is_oa and first.license and first.venue and first.venue.kind == "journal" else None


def quoted_works(universe: Universe, query: str) -> list[Work]:
    """Return the works whose DOIs are quoted in a query."""
    found = (universe.by_doi(re.sub(r"\\(.)", r"\1", doi)) for doi in _DOI.findall(query))
    return [work for work in found if work is not None]


def bearer(request: Request) -> str:
    kind, _, key = request.headers.get("authorization", "").partition(" ")
    return key if kind == "Bearer" else ""


def is_good_key(key: str) -> bool:
    """Whether a key is valid: as for OpenAlex, any key with this prefix is."""
    return key.startswith("sandbox-")
