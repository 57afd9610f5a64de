"""Plans: which copies of a work to try, in which order, and which resolvers to query. Pure: no network.

A plan depends on the work and the resolvers alone, so it can be shown, stored and hashed. What the search finds later (new
candidates, failures) is in `SearchState`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from itertools import repeat
from typing import Any

from docstokg_assets.domain.works import Work
from resources.http.canonical import canonical_url, host_of


class Tier(StrEnum):
    """In the order in which they are tried."""

    order: int

    def __new__(cls, name: str) -> Tier:
        tier = str.__new__(cls, name)
        tier._value_, tier.order = name, len(cls.__members__)
        return tier

    DIRECT_OA = "direct_oa"
    DOI_REDIRECT = "doi_redirect"
    LANDING_SCRAPE = "landing_scrape"
    WAYBACK = "wayback"


class Target(StrEnum):
    """What is expected behind a candidate's URL."""

    PDF = "pdf"
    XML = "xml"
    HTML = "html"
    LANDING = "landing"


@lru_cache(2_048)  # asked for a dozen times while a work is planned or looked for
def url_key(url: str) -> str:
    """The key of a URL within the search for one work. http and https are the same: https is requested for both."""
    return canonical_url(url).replace("http://", "https://", 1)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A URL to try. `rank` orders candidates inside a tier: lower is more promising."""

    url: str
    resolver: str
    tier: Tier
    target: Target = Target.PDF
    rank: int = 50
    referer: str | None = None
    version: str | None = None
    license: str | None = None
    checksum: str | None = None  # `md5:<hex>`, `sha1:…` or `sha256:…`, if the provider gives one
    hop: int = 0  # landing pages that lie between the plan and this URL
    captured_from: str | None = None  # the URL that an archive captured
    instead_of: str | None = None  # a URL that redirects to this one, and so need not be tried
    guessed: bool = False  # from a URL pattern, not named by any provider
    doubted: bool = False  # its page says that it is about another DOI; a PDF is then rejected on any flag
    route: str | None = None  # of an ingest item: how the URL is fetched next (archive, live or save)
    capture: Mapping[str, Any] | None = field(default=None, hash=False)  # rows of the archive's index: cdx, revisit_cdx

    @property
    def key(self) -> str:
        return url_key(self.url)

    @property
    def host(self) -> str:
        return host_of(self.url)


@dataclass(frozen=True, slots=True)
class PlanStep:
    """Either a candidate, or a resolver to query (`deferred`; then `candidate` is None)."""

    tier: Tier
    resolver: str
    rank: int
    candidate: Candidate | None = None
    asks_host: str | None = None

    @property
    def deferred(self) -> bool:
        return self.candidate is None


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps for a work. `hash` changes when there is something new to try; then a work without success is reopened."""

    work_id: str
    steps: tuple[PlanStep, ...]
    hash: str
    complete: bool = True  # no resolver failed while it was made


DELETED_PLAN = "deleted"  # instead of the hash, for a work that is not searched for; no plan has this hash


def plan_columns(plans: Iterable[tuple[Work, Plan]], planned_at: datetime) -> dict[str, list[Any]]:
    """One row per step, as columns for Parquet: a year has millions of them."""
    rows = [
        (work.work_id, work.year, plan.hash, place, *_step_cells(step))
        for work, plan in plans
        for place, step in enumerate(plan.steps)
    ]
    cells = zip(*rows, strict=True) if rows else repeat(())
    columns = {name: list(column) for name, column in zip(_STEP_COLUMNS, cells, strict=False)}
    return {**columns, "planned_at": [planned_at] * len(rows)}


_STEP_COLUMNS = (
    *("work_id", "year", "plan_hash", "position"),
    *("tier", "resolver", "deferred", "url", "host", "target", "version", "license"),
)


def _step_cells(step: PlanStep) -> tuple[Any, ...]:
    found = step.candidate
    if found is None:
        return step.tier.value, step.resolver, True, None, step.asks_host, None, None, None
    copy = found.url, found.host, found.target.value, found.version, found.license
    return step.tier.value, step.resolver, False, *copy
