"""Estimate a run before it starts: requests by host, time, disk. From the finished works of this collection, else from defaults.

Works are put into classes by what OpenAlex says about them; each class has its mean number of requests, its share of full texts
and its bytes. The defaults are estimates from runs on the sandbox.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from docstokg_assets.config import ContentDownloadConfig
from docstokg_assets.domain.works import Work
from resources.catalog.catalog import Catalog
from resources.catalog.database import Location
from resources.catalog.readonly_query import QueryRefused, run_readonly_query
from resources.http.canonical import host_of
from resources.rate_limit.policies import resolve_policy
from resources.records import Ending

OTHER = "other hosts"
_ENOUGH = 200  # finished works from which rates are taken
_MOST = 5_000
_PAGE = 100
_SECONDS_EACH = 1.0  # longest usual time of a request, of which `workers` run at once
_SLACK_S = 60.0  # retries and pauses of single hosts
_HOSTS = """
SELECT host, count(*) AS requests FROM attempts WHERE http_status IS NOT NULL AND cache_hit = 0 AND work_id IS NOT NULL
GROUP BY host ORDER BY requests DESC
"""


@dataclass(frozen=True, slots=True)
class ClassRate:
    """Means of one class of works."""

    requests: float
    found: float  # share with full text
    bytes: float


# class → means; see `class_of`
DEFAULTS: Mapping[str, ClassRate] = {
    "pdf, journal": ClassRate(2.7, 0.8, 1_500_000),
    "pdf, repository": ClassRate(1.03, 0.95, 1_500_000),
    "pdf, pmc": ClassRate(1.06, 0.95, 1_500_000),
    "open": ClassRate(1.8, 0.8, 1_500_000),
    "closed": ClassRate(2.5, 0.4, 1_500_000),
    "nothing": ClassRate(0.0, 0.0, 0.0),
}


@dataclass(frozen=True, slots=True)
class Rates:
    by_class: Mapping[str, ClassRate]
    source: str  # in words
    hosts: Mapping[str, float] = field(default_factory=dict)  # host → share of the requests, where known

    def of(self, work: Work) -> ClassRate:
        name = class_of(work)
        return self.by_class.get(name) or DEFAULTS[name]


@dataclass(frozen=True, slots=True)
class Estimate:
    works: int
    there: int  # finished before
    to_fetch: int
    requests: int
    listing_requests: int
    by_host: Mapping[str, int]
    full_texts: int
    bytes: int
    seconds: tuple[int, int]  # from, to
    slowest: str  # the host whose limit decides, in words
    source: str


def class_of(work: Work) -> str:
    places = [place for place in work.locations if place.is_oa]
    if any(place.pdf_url for place in places):
        kind = places[0].source_type == "repository"
        return "pdf, pmc" if work.pmcid else "pdf, repository" if kind else "pdf, journal"
    if places or work.urls:
        return "open"
    return "closed" if work.doi or work.arxiv_id or work.pmcid else "nothing"


def rates_of(catalog: Catalog | None, location: Location | None = None) -> Rates:
    """The rates of the latest finished works, or the defaults where there are too few."""
    entries = [] if catalog is None else list(islice(catalog.entries(), _MOST))
    if catalog is None or len(entries) < _ENOUGH:
        return Rates(DEFAULTS, "defaults estimated from the sandbox; this collection has too few finished works")
    records = dict(catalog.records_of(entry.work_id for entry in entries))
    seen: dict[str, list[tuple[int, bool, int]]] = defaultdict(list)
    for entry in entries:
        found = entry.reason.ending is Ending.SUCCESS
        seen[class_of(Work.from_json(records[entry.work_id]))].append((entry.requests, found, entry.bytes or 0))
    hosts = _shares(location) if location is not None else Counter[str]()
    counted, sent = sum(entry.requests for entry in entries), sum(hosts.values())
    scale = sent / counted if counted and sent and len(entries) < _MOST else 1.0  # one request may serve several works
    rates = {}
    for name, rows in seen.items():
        hits = sum(row[1] for row in rows)
        size = sum(row[2] for row in rows) / hits if hits else 0.0
        rates[name] = ClassRate(scale * sum(row[0] for row in rows) / len(rows), hits / len(rows), size)
    shares = {host: number / sent for host, number in hosts.items()} if sent else {}
    return Rates(rates, f"{len(entries):,} finished works of this collection", shares)


def _shares(location: Location) -> Counter[str]:
    try:
        answer = run_readonly_query(location, _HOSTS, timeout_s=30, max_rows=10_000)
    except QueryRefused:
        return Counter()
    return Counter({str(host): int(number) for host, number in answer.rows})


def estimate(
    works: Sequence[Work], done: set[str], rates: Rates, config: ContentDownloadConfig, total: int | None = None
) -> Estimate:
    """`done`: works that are finished already. `total`: the number of works of which `works` are a sample."""
    requests, found, size, fetched = 0.0, 0.0, 0.0, 0
    each = 1.0 if not total or not works else total / len(works)
    hosts: dict[str, float] = defaultdict(float)
    for work in works:
        if work.work_id in done:
            continue
        rate = rates.of(work)
        fetched, requests = fetched + 1, requests + rate.requests
        found, size = found + rate.found, size + rate.found * rate.bytes
        if not rates.hosts and rate.requests:
            first = min(1.0, rate.requests)
            hosts[_first_host(work)] += first
            hosts[OTHER] += rate.requests - first
    total, fetched = total or len(works), round(each * fetched)
    requests, found, size = each * requests, each * found, each * size
    hosts = defaultdict(float, {host: each * number for host, number in hosts.items()})
    if rates.hosts:
        hosts = defaultdict(float, {host: share * requests for host, share in rates.hosts.items()})
    pages = math.ceil(total / _PAGE)
    limits = {host: number / _per_second(config, host) for host, number in hosts.items() if host != OTHER}
    limits["api.openalex.org"] = limits.get("api.openalex.org", 0.0) + pages / _per_second(config, "api.openalex.org")
    slowest = max(limits, key=lambda host: limits[host])
    least = limits[slowest]
    most = 2 * least + requests * _SECONDS_EACH / config.workers + _SLACK_S
    by_host = {
        host: round(number) for host, number in sorted(hosts.items(), key=lambda item: -item[1]) if number >= 0.5
    }
    return Estimate(
        total,
        total - fetched,
        fetched,
        round(requests),
        pages,
        by_host,
        round(found),
        round(size),
        (int(least), math.ceil(most)),
        f"{slowest} ({_per_second(config, slowest):g} requests a second)",
        rates.source,
    )


def _first_host(work: Work) -> str:
    urls = (place.pdf_url or place.landing_url for place in work.locations if place.is_oa)
    url = next(filter(None, (*work.urls, *urls)), None)
    return host_of(url) if url else "doi.org" if work.doi else OTHER


def _per_second(config: ContentDownloadConfig, host: str) -> float:
    return resolve_policy(config.rate_limit, host, "artifact").rate.per_second
