"""How often each kind of work occurs: archetypes, their weights, and the named profiles.

An archetype is one way in which the full text is available, or not. This module holds the numbers and checks overrides
from YAML or JSON; `scenario.py` defines what each archetype looks like on the web.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

# archetype -> (expected family of failure or "", resolver by which the good copy is found or "")
ARCHETYPES: dict[str, tuple[str, str]] = {
    "gold": ("", "openalex"),
    "repository": ("", "openalex"),
    "later_location": ("", "openalex"),
    "arxiv_only": ("", "arxiv"),
    "unpaywall_only": ("", "unpaywall"),
    "crossref_link": ("", "crossref"),
    "doi_redirect": ("", "doi"),
    "landing": ("", "landing"),
    "pmc": ("", "pmc"),
    "html_only": ("", "landing"),
    "jats_only": ("", "crossref"),
    "wayback_only": ("", "wayback"),
    **{name: ("", name) for name in ("zenodo", "figshare", "osf", "biorxiv", "datacite")},
    "medrxiv": ("", "biorxiv"),
    "sold": ("", "openalex_content"),
    "loop_pdf": ("redirect-loop", ""),
    "loop_doi": ("redirect-loop", ""),
    "nothing_closed": ("nothing", ""),
    "nothing_404": ("nothing", ""),
    "bad_status": ("bad-status", ""),
    "no_pdf_link": ("no-pdf-link", ""),
    "no_pdf_link_closed": ("no-pdf-link", ""),
    "wall": ("wall", ""),
    "corrupt": ("corrupt", ""),
    "robots": ("robots", ""),
    "wrong_paper": ("", "openalex"),
    "wrong_only": ("wrong-paper", ""),
    "abstract_only": ("", "openalex"),
    "dspace": ("", "landing"),
    "dspace_elsewhere": ("", "landing"),
    "embargoed": ("embargoed", ""),
    "preserved": ("", "ia_scholar"),
    "elsevier": ("", "elsevier"),
    "elsevier_preview": ("", "elsevier"),
    "elsevier_closed": ("not-entitled", ""),
    "wiley": ("", "wiley"),
    "springer": ("", "springer_nature"),
}


@dataclass(frozen=True)
class Mix:
    """Weights of the archetypes (any scale), and three rates between 0 and 1."""

    gold: float = 21.0
    repository: float = 12.0
    later_location: float = 6.0
    arxiv_only: float = 6.0
    unpaywall_only: float = 6.0
    crossref_link: float = 5.0
    doi_redirect: float = 6.0
    landing: float = 6.0
    pmc: float = 6.0
    html_only: float = 1.0
    jats_only: float = 1.0
    wayback_only: float = 2.0
    zenodo: float = 0.0  # the default mix has no repositories with their own resolver
    figshare: float = 0.0
    osf: float = 0.0
    biorxiv: float = 0.0
    medrxiv: float = 0.0
    datacite: float = 0.0
    sold: float = 0.0
    loop_pdf: float = 4.0
    loop_doi: float = 4.0
    nothing_closed: float = 3.0
    nothing_404: float = 2.0
    bad_status: float = 4.0
    no_pdf_link: float = 1.5
    no_pdf_link_closed: float = 0.5
    wall: float = 2.0
    corrupt: float = 0.7
    robots: float = 0.3
    wrong_paper: float = 0.0  # these three only on request
    wrong_only: float = 0.0
    abstract_only: float = 0.0
    dspace: float = (
        0.0  # so do the rest: repositories with empty pages, and publishers' interfaces for those with a key
    )
    dspace_elsewhere: float = 0.0
    embargoed: float = 0.0
    preserved: float = 0.0
    elsevier: float = 0.0
    elsevier_preview: float = 0.0
    elsevier_closed: float = 0.0
    wiley: float = 0.0
    springer: float = 0.0
    strange: float = 0.005  # share of records with strange fields
    extra_arxiv: float = 0.02  # share of other works that also have an arXiv copy
    huge_locations: int = 300  # locations of the record that has too many (10000 to try the limits)

    def weights(self) -> list[tuple[str, float]]:
        return [(name, float(getattr(self, name))) for name in ARCHETYPES]

    def override(self, values: Mapping[str, Any]) -> Mix:
        """Return a copy with some numbers changed; an unknown name raises an error that lists the known ones."""
        known = {f.name for f in fields(self)}
        unknown = sorted(set(values) - known)
        if unknown:
            raise ValueError(f"unknown in mix: {', '.join(unknown)}; known: {', '.join(sorted(known))}")
        return replace(self, **dict(values))

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def load(cls, profile: str = "default", overrides: str | Mapping[str, Any] | None = None) -> Mix:
        """Return a profile by name, with overrides as a mapping or as YAML/JSON text."""
        if profile not in PROFILES:
            raise ValueError(f"unknown profile {profile!r}; known: {', '.join(sorted(PROFILES))}")
        mix = PROFILES[profile]
        if isinstance(overrides, str):
            import yaml

            overrides = yaml.safe_load(overrides) or {}
        return mix.override(overrides) if overrides else mix


# The demo keeps the proportions of the outcomes, but the slow services (arXiv 1 request/3 s, CDX 24/min) see few works:
# failing works are mostly closed ones, without a URL that an archive could be asked for.
_DEMO = Mix(
    gold=24.0,
    arxiv_only=3.0,
    loop_pdf=2.5,
    loop_doi=5.5,
    nothing_closed=5.0,
    nothing_404=0.0,
    bad_status=4.0,
    no_pdf_link=0.0,
    no_pdf_link_closed=2.0,
    extra_arxiv=0.0,
)

PROFILES: Mapping[str, Mix] = {"default": Mix(), "demo": _DEMO}
