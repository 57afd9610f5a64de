"""Plans: which copies of a work will be tried, in which order, and who must still be asked. Pure: no network here.

A plan is made from the work and the resolvers alone, so it can be shown, stored and hashed. What is learnt on the way
(new candidates, failed ones) is the pipeline's `Pursuit`.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, Protocol

import orjson

from docstokg_assets.works import Work
from resources.http.canonical import canonical_url, host_of

log = logging.getLogger(__name__)


class Tier(StrEnum):
    """In the order in which they are tried."""

    DIRECT_OA = "direct_oa"
    DOI_REDIRECT = "doi_redirect"
    LANDING_SCRAPE = "landing_scrape"
    WAYBACK = "wayback"

    @property
    def order(self) -> int:
        return _TIER_ORDER[self]


_TIER_ORDER = {tier: place for place, tier in enumerate(Tier)}


class Target(StrEnum):
    """What is expected behind a candidate's URL."""

    PDF = "pdf"
    XML = "xml"
    HTML = "html"
    LANDING = "landing"


def url_key(url: str) -> str:
    """By which a URL is known in the search for one work. http and https are one: the former is asked as the latter."""
    return canonical_url(url).replace("http://", "https://", 1)


@dataclass(frozen=True)
class Candidate:
    """A URL worth asking. `rank` orders candidates inside a tier: lower is more promising."""

    url: str
    resolver: str
    tier: Tier
    target: Target = Target.PDF
    rank: int = 50
    referer: str | None = None
    version: str | None = None
    license: str | None = None
    checksum: str | None = None  # `md5:<hex>`, `sha1:…` or `sha256:…`, where whoever names the copy says so
    hop: int = 0  # landing pages that lie between the plan and this URL
    captured_from: str | None = None  # the address that an archive saw what it has here at
    instead_of: str | None = None  # a URL that leads to this one, and so need not be asked
    guessed: bool = False  # nobody named it: when it fails, nothing was lost

    @cached_property
    def key(self) -> str:
        return url_key(self.url)

    @cached_property
    def host(self) -> str:
        return host_of(self.url)


@dataclass(frozen=True, slots=True)
class PlanStep:
    """Either a candidate, or a resolver that must be asked first (`deferred`, then `candidate` is None)."""

    tier: Tier
    resolver: str
    rank: int
    candidate: Candidate | None = None
    asks_host: str | None = None

    @property
    def deferred(self) -> bool:
        return self.candidate is None


@dataclass(frozen=True)
class Plan:
    work_id: str
    steps: tuple[PlanStep, ...]

    @cached_property
    def hash(self) -> str:
        """Changes when there is something new to try; then a work without success is opened again."""
        rows = [[s.tier, s.resolver, s.candidate.key if s.candidate else None] for s in self.steps]
        return hashlib.sha256(orjson.dumps(rows)).hexdigest()[:16]


class Planner(Protocol):
    """What a plan needs of a resolver; `docstokg_assets.resolvers.registry.Resolver` has it."""

    @property
    def name(self) -> str: ...
    @property
    def tier(self) -> Tier: ...
    @property
    def rank(self) -> int: ...
    @property
    def api_host(self) -> str | None: ...
    def applies(self, work: Work) -> bool: ...
    def ask_tier(self, work: Work) -> Tier: ...
    def candidates(self, work: Work) -> Sequence[Candidate]: ...


def make_plan(work: Work, resolvers: Iterable[Planner]) -> Plan:
    """Candidates in tier order and by rank, each URL once; resolvers that must ask stand where they will be asked."""
    steps = [step for resolver in resolvers for step in _steps_of(resolver, work)]
    steps.sort(key=lambda step: (step.tier.order, step.rank))
    unique: dict[str, PlanStep] = {}
    for step in steps:
        unique.setdefault(step.candidate.key if step.candidate else f"deferred {step.resolver}", step)
    return Plan(work.work_id, tuple(unique.values()))


def _steps_of(resolver: Planner, work: Work) -> list[PlanStep]:
    """A resolver that fails at a work is left out of the plan; it costs neither the work nor the others."""
    steps: list[PlanStep] = []
    try:
        if resolver.applies(work):
            if resolver.api_host is not None:
                tier = resolver.ask_tier(work)
                steps.append(PlanStep(tier, resolver.name, resolver.rank, asks_host=resolver.api_host))
            steps.extend(PlanStep(c.tier, c.resolver, c.rank, candidate=c) for c in resolver.candidates(work))
    except Exception:
        log.exception("the resolver %s failed at %s; it is left out of its plan", resolver.name, work.work_id)
        return []
    return steps


def plan_rows(work: Work, plan: Plan) -> list[dict[str, Any]]:
    """One row a step, for Parquet and for people."""
    return [
        {
            "work_id": work.work_id,
            "year": work.year,
            "position": position,
            "tier": str(step.tier),
            "resolver": step.resolver,
            "deferred": step.deferred,
            "url": step.candidate.url if step.candidate else None,
            "host": step.candidate.host if step.candidate else step.asks_host,
            "target": str(step.candidate.target) if step.candidate else None,
            "version": step.candidate.version if step.candidate else None,
            "license": step.candidate.license if step.candidate else None,
            "plan_hash": plan.hash,
        }
        for position, step in enumerate(plan.steps)
    ]
