"""What the configuration amounts to: who is asked in which order and how politely, and which layer decided it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from docstokg_assets.config.models import ContentDownloadConfig
from docstokg_assets.resolvers.registry import Resolver, lacks_key, load_resolvers
from resources.http.messages import Role
from resources.http.settings import RetrySettings
from resources.layers import SECRET_PREFIX
from resources.rate_limit.policies import DEFAULT_POLICIES, Policy, domain_interval, resolve_policy
from resources.rate_limit.settings import ANY, Backend
from resources.settings import Loaded

OTHER_HOST = "any other host"
_BESIDES, _EACH = ", besides ", "each process"
COUNTED: Mapping[Backend, str] = {
    "memory": "this process alone, which has the data root to itself",
    "multiprocess": "all processes of this data root",
    "sqlite": "all processes of this data root",
    "redis": "everybody who uses the Redis server",
    "postgres": "everybody who uses the PostgreSQL database",
}


@dataclass(frozen=True, slots=True)
class Effective:
    """A value that counts in the end, and where it came from."""

    value: str
    origin: str

    def __str__(self) -> str:
        return self.value if self.origin == "default" else f"{self.value} ({self.origin})"


@dataclass(frozen=True, slots=True)
class ResolverRow:
    position: int | None
    name: str
    tier: str
    state: Effective
    asks: tuple[str, ...]
    robots: Effective
    head_precheck: Effective
    limit: Effective
    retry: Effective
    timeouts: Effective
    wants: str | None = None  # the variable with the key for want of which it is off

    @property
    def has_own_limit(self) -> bool:
        return _BESIDES in self.limit.value


@dataclass(frozen=True, slots=True)
class HostRow:
    """The limits of a host. `counted` says by whom and for whom its tokens are counted, `cap_counted` its connections."""

    host: str
    role: str
    rate: str
    concurrency: int | None
    group: str
    origin: str
    concurrency_origin: str
    backend: str
    backend_origin: str
    counted: str
    cap_counted: str

    @property
    def cap_each(self) -> bool:
        return self.cap_counted == _EACH


def explain_resolvers(loaded: Loaded[ContentDownloadConfig]) -> list[ResolverRow]:
    """All resolvers that the configuration knows, as plans ask them: by tier, then by rank; last those not in the order."""
    known, resolvers = load_resolvers(), loaded.value.resolvers
    order, settings = resolvers.order, resolvers.by_name()

    def turn(name: str) -> tuple[bool, int, int]:
        resolver = known[name].from_config(settings[name], order.index(name) if name in order else None)
        return name not in order, resolver.tier.order, resolver.rank

    return [_resolver_row(loaded, known[name]) for name in sorted(resolvers.names(), key=turn)]


def explain_hosts(loaded: Loaded[ContentDownloadConfig]) -> list[HostRow]:
    """One line a host with a policy of its own, one a role where roles differ; last what counts for all the others."""
    settings = loaded.value.rate_limit
    named = [*settings.policies, *DEFAULT_POLICIES, *settings.concurrency, *settings.domains]
    hosts = [*sorted({name for name in named if name != ANY}), OTHER_HOST]
    counted, backend_origin = COUNTED[settings.backend], loaded.origin("rate_limit.backend")
    rows: list[HostRow] = []
    for host in hosts:
        policies = {str(role): resolve_policy(settings, host, role) for role in Role}
        shared = len({policy.key for policy in policies.values()}) == 1
        for role, policy in policies.items():
            rate, origin = _rate(loaded, host, policy)
            row = HostRow(
                host=host,
                role="all" if shared else role,
                rate=rate,
                concurrency=policy.concurrency,
                group=policy.group,
                origin=origin,
                concurrency_origin=_placed(loaded, "concurrency", policy.concurrency_origin),
                backend=settings.backend,
                backend_origin=backend_origin,
                counted=counted,
                cap_counted="all processes of this data root" if policy.exclusive else _EACH,
            )
            if row not in rows:
                rows.append(row)
    return rows


def _rate(loaded: Loaded[ContentDownloadConfig], host: str, policy: Policy) -> tuple[str, str]:
    """The rate with the least interval of its domain, if it has one, and where both came from."""
    rate, origin = str(policy.rate), _placed(loaded, "policies", policy.origin)
    interval = domain_interval(loaded.value.rate_limit, host)
    if interval is None:
        return rate, origin
    domain, seconds = interval
    return f"{rate}, {seconds:g} s apart", f"{origin}; {_placed(loaded, 'domains', f'configured {domain}')}"


def _placed(loaded: Loaded[ContentDownloadConfig], table: str, origin: str) -> str:
    """`configured a.org (file cd.yaml)`: what was configured, with the layer that says so."""
    if not origin.startswith("configured "):
        return origin
    places: set[str] = set()
    for name in origin.removeprefix("configured ").split(", "):
        places.add(loaded.origin(f"rate_limit.{table}.{ANY if name == 'default' else name}"))
    return f"{origin} ({', '.join(sorted(places))})"


def _resolver_row(loaded: Loaded[ContentDownloadConfig], resolver_class: type[Resolver]) -> ResolverRow:
    config, name = loaded.value, resolver_class.name
    order = config.resolvers.order
    resolver = resolver_class.from_config(config.resolvers.by_name()[name])
    return ResolverRow(
        position=order.index(name) + 1 if name in order else None,
        name=name,
        tier=str(resolver.tier),
        state=_state(loaded, resolver_class),
        asks=(resolver.api_host, *resolver.other_hosts) if resolver.api_host else (),
        robots=_robots(loaded, resolver),
        head_precheck=_head_precheck(loaded, resolver),
        limit=_limit(loaded, resolver),
        retry=_retry(loaded, resolver),
        timeouts=_timeouts(loaded, resolver),
        wants=f"{SECRET_PREFIX}{name.upper()}" if lacks_key(resolver_class, resolver.settings) else None,
    )


def _state(loaded: Loaded[ContentDownloadConfig], resolver: type[Resolver]) -> Effective:
    name = resolver.name
    if name not in loaded.value.resolvers.order:
        return Effective("not in resolvers.order", loaded.origin("resolvers.order"))
    settings = loaded.value.resolvers.by_name()[name]
    origin = loaded.origin(f"resolvers.{name}.enabled")
    if settings.enabled and lacks_key(resolver, settings):
        return Effective("off: no key", origin)
    return Effective("enabled" if settings.enabled else "disabled", origin)


def _robots(loaded: Loaded[ContentDownloadConfig], resolver: Resolver) -> Effective:
    if not loaded.value.robots.enabled:
        return Effective("ignored", loaded.origin("robots.enabled"))
    return Effective(
        "obeyed" if resolver.obeys_robots else "exempt", loaded.origin(f"resolvers.{resolver.name}.robots")
    )


def _head_precheck(loaded: Loaded[ContentDownloadConfig], resolver: Resolver) -> Effective:
    if not loaded.value.download.head_precheck:
        return Effective("no", loaded.origin("download.head_precheck"))
    return Effective("yes" if resolver.prechecks else "no", loaded.origin(f"resolvers.{resolver.name}.head_precheck"))


def _limit(loaded: Loaded[ContentDownloadConfig], resolver: Resolver) -> Effective:
    if resolver.api_host is None:
        hosts = Effective("that of each host", "default")
    else:
        policy = resolve_policy(loaded.value.rate_limit, resolver.api_host, Role.METADATA)
        hosts = Effective(str(policy.rate), policy.origin)
    own = resolver.own_rate
    if own is None:
        return hosts
    origin = loaded.origin(f"resolvers.{resolver.name}.rate_limit")
    return Effective(f"{own}{_BESIDES}{hosts.value}", origin)


def _retry(loaded: Loaded[ContentDownloadConfig], resolver: Resolver) -> Effective:
    own = resolver.settings.retry
    retry: RetrySettings = own or loaded.value.http.retry
    text = f"{retry.max_attempts} tries, {retry.strategy} from {retry.base_delay_ms} ms"
    return Effective(text, loaded.origin(f"resolvers.{resolver.name}.retry" if own else "http.retry"))


def _timeouts(loaded: Loaded[ContentDownloadConfig], resolver: Resolver) -> Effective:
    connect, read = resolver.timeouts(loaded.value.http)
    keys = ["http.timeout", "http.timeout_connect_s", "http.timeout_read_s"]
    keys += [f"resolvers.{resolver.name}.timeout_connect_s", f"resolvers.{resolver.name}.timeout_read_s"]
    origins = sorted({loaded.origin(key) for key in keys} - {"default"})
    return Effective(f"connect {connect:g} s, read {read:g} s", ", ".join(origins) or "default")
