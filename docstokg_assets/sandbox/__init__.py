"""The simulated scholarly web (the sandbox): a seeded, repeatable server on loopback.

A forward proxy with its own throw-away CA answers as OpenAlex, Unpaywall, Crossref, doi.org, arXiv, PMC, Europe PMC,
the Wayback Machine and a few dozen invented publishers do. The package imports nothing from the rest of the project,
and production code reaches it only through `http.proxy` and `http.ca_bundle`.
"""

from __future__ import annotations

from .handle import Sandbox
from .mix import PROFILES, Mix
from .universe import Truth, Universe, Work

__all__ = ["PROFILES", "Mix", "Sandbox", "Truth", "Universe", "Work"]
