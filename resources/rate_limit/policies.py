"""Which limit counts for a request: built-in policies as data, and the pure rule that picks one; `limiter.py` enforces.

A policy for a domain covers its subdomains, and the most specific one wins. What the user configured for a host goes
before everything that is built in; `*` goes last. The built-in rates stay below what each provider publishes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from resources.rate_limit.settings import ANY, Rate, RateLimitSettings, parse_rate

DEFAULT_POLICIES: Mapping[str, Mapping[str, str]] = {
    "arxiv.org": {ANY: "0.33/second"},  # one request in 3 s, all machines together
    "api.crossref.org": {ANY: "3/second"},
    "api.openalex.org": {ANY: "8/second"},  # 10 without a key
    "api.unpaywall.org": {ANY: "10/second"},
    "doi.org": {ANY: "5/second"},
    # CDX answers 30 a minute and blocks those who ignore a 429; replay is another service behind the same name.
    "web.archive.org": {"metadata": "24/minute burst 6", ANY: "1/second"},
    "www.ebi.ac.uk": {ANY: "5/second"},
    "europepmc.org": {ANY: "2/second"},
    "pmc-oa-opendata.s3.amazonaws.com": {ANY: "5/second"},
    "pmc.ncbi.nlm.nih.gov": {ANY: "2.5/second"},  # 3 without a key
    "api.semanticscholar.org": {ANY: "1/second"},
    "api.core.ac.uk": {ANY: "0.4/second"},
    "doaj.org": {ANY: "2/second burst 5"},
    "api.archives-ouvertes.fr": {ANY: "1/second"},
    "api.openaire.eu": {ANY: "1.9/second"},  # 7200 with a token; 60 without, which is why one is needed
    "api.base-search.net": {ANY: "1/second"},
    "zenodo.org": {ANY: "30/minute burst 3"},  # guests: 60 a minute and 2000 an hour, pages and files together
    "figshare.com": {ANY: "1/second"},  # as they ask
    "api.osf.io": {ANY: "95/hour burst 5"},  # 100 an hour without a token
    "osf.io": {ANY: "1/second"},
    "api.biorxiv.org": {ANY: "1/second"},
    "api.datacite.org": {ANY: "1.5/second"},  # 500 in five minutes for strangers
    "content.openalex.org": {ANY: "8/second"},
    "scholar.archive.org": {ANY: "1/second"},
    "api.elsevier.com": {ANY: "2/second"},
    "api.wiley.com": {ANY: "6/minute burst 3"},  # 60 in ten minutes, 3 a second
    "api.springernature.com": {ANY: "2/second"},  # 150 a minute
    ANY: {ANY: "2/second burst 2"},
}
# Named hosts publish a cap, which then counts for all processes together; `*` is our own manners, in each process.
DEFAULT_CONCURRENCY: Mapping[str, int | None] = {"arxiv.org": 1, "api.crossref.org": 3, ANY: 2}
GROUPS: Mapping[str, tuple[str, ...]] = {"arxiv": ("arxiv.org", "export.arxiv.org")}
"""Hosts, with their subdomains, that share one limit and one connection whatever the role."""


@dataclass(frozen=True, slots=True)
class Policy:
    """`key` names the bucket: equal keys share one. `group` is whom the concurrency cap and the queue belong to."""

    group: str
    key: str
    rate: Rate
    concurrency: int | None
    origin: str
    exclusive: bool = False  # the cap counts for all processes together
    concurrency_origin: str = "built-in default"


def resolve_policy(settings: RateLimitSettings, host: str, role: str) -> Policy:
    host = host.rstrip(".").lower()
    group, key, rate, origin = _rate(settings, host, role)
    cap, exclusive, cap_origin = _concurrency(settings, host)
    return Policy(group, key, rate, cap, origin, exclusive, cap_origin)


def _rate(settings: RateLimitSettings, host: str, role: str) -> tuple[str, str, Rate, str]:
    """Group, bucket, rate, and where the rate came from."""
    shared = shared_group(host)
    if shared is not None:
        return shared, shared, *_shared_rate(settings, shared)
    for origin, policies in _sources(settings):
        for name in _covering(host, policies):
            found = _for_role(policies[name], role)
            if found is not None:
                return name, _bucket_key(name, found[0]), parse_rate(found[1]), f"{origin} {name}"
    for origin, policies in _sources(settings):
        found = _for_role(policies.get(ANY, {}), role)
        if found is not None:
            # each host that nobody named has buckets of its own
            return host, _bucket_key(host, found[0]), parse_rate(found[1]), f"{origin} default"
    raise AssertionError("the built-in default covers every role")


def _bucket_key(name: str, role: str) -> str:
    return name if role == ANY else f"{name}|{role}"


def shared_group(host: str) -> str | None:
    """The name of the group that the host belongs to, if it shares its limit with others."""
    return next((group for group, members in GROUPS.items() if any(_covers(m, host) for m in members)), None)


def _sources(settings: RateLimitSettings) -> tuple[tuple[str, Mapping[str, Mapping[str, str]]], ...]:
    configured = {name: {str(role): rate for role, rate in roles.items()} for name, roles in settings.policies.items()}
    return ("configured", configured), ("built-in", DEFAULT_POLICIES)


def _for_role(roles: Mapping[str, str], role: str) -> tuple[str, str] | None:
    return next(((name, roles[name]) for name in (role, ANY) if name in roles), None)


def _shared_rate(settings: RateLimitSettings, group: str) -> tuple[Rate, str]:
    """One bucket serves all hosts and roles of a shared group, so the slowest of the rates given for it counts."""
    for origin, policies in _sources(settings):
        names = [name for name in policies if shared_group(name) == group]
        rates = [parse_rate(rate) for name in names for rate in policies[name].values()]
        if rates:
            return min(rates, key=lambda rate: rate.per_second), f"{origin} {', '.join(names)}"
    raise AssertionError(f"the shared group {group} has a built-in rate")


def _concurrency(settings: RateLimitSettings, host: str) -> tuple[int | None, bool, str]:
    """The cap, whether it is that of a named host, and where it came from."""
    caps: tuple[tuple[str, Mapping[str, int | None]], ...] = (
        ("configured", settings.concurrency),
        ("built-in", DEFAULT_CONCURRENCY),
    )
    group = shared_group(host)
    for origin, table in caps:
        # for a shared group any member's cap is everybody's
        names = _covering(host, table) if group is None else [n for n in table if shared_group(n) == group]
        if names:
            return table[names[0]], table[names[0]] is not None, f"{origin} {names[0]}"
    return next((table[ANY], False, f"{origin} default") for origin, table in caps if ANY in table)


def _covering(host: str, table: Mapping[str, Any]) -> list[str]:
    """The names in the table that are the host or a domain above it, the most specific first."""
    return sorted((name for name in table if name != ANY and _covers(name, host)), key=len, reverse=True)


def _covers(name: str, host: str) -> bool:
    return host == name or host.endswith(f".{name}")


def domain_interval(settings: RateLimitSettings, host: str) -> tuple[str, float] | None:
    """The configured minimum interval of the nearest domain above `host`."""
    wanted = {domain.lower(): seconds for domain, seconds in settings.domains.items()}
    labels = host.lower().split(".")
    for start in range(len(labels)):
        domain = ".".join(labels[start:])
        if domain in wanted:
            return domain, wanted[domain]
    return None
