"""Explain the configuration: which resolvers and hosts are queried, in which order, within which limits, and from which layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from docstokg_assets.config.models import ContentDownloadConfig
from docstokg_assets.resolvers.registry import Resolver, lacks_key, load_resolvers
from resources.http.messages import Role
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
    """The value that is used, and the layer that it comes from."""

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
    wants: str | None = None  # the environment variable of the key that it needs and does not have

    @property
    def has_own_limit(self) -> bool:
        return _BESIDES in self.limit.value


@dataclass(frozen=True, slots=True)
class HostRow:
    """The limits of a host. `counted`: the processes that share its tokens; `cap_counted`: those that share its connections."""

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
    """All known resolvers in the order in which plans query them: by tier, then by rank; last those not in `resolvers.order`."""
    known, order = load_resolvers(), loaded.value.resolvers.order
    resolvers = [
        known[name].from_config(settings, order.index(name) if name in order else None)
        for name, settings in loaded.value.resolvers.by_name().items()
    ]
    resolvers.sort(key=lambda resolver: (resolver.name not in order, resolver.tier.order, resolver.rank))
    return [_resolver_row(loaded, resolver) for resolver in resolvers]


def _resolver_row(loaded: Loaded[ContentDownloadConfig], resolver: Resolver) -> ResolverRow:
    config, name, settings = loaded.value, resolver.name, resolver.settings
    order, own, keyless = config.resolvers.order, f"resolvers.{name}", lacks_key(type(resolver), settings)
    retry = settings.retry or config.http.retry
    connect, read = resolver.timeouts(config.http)
    timeouts = ("timeout_connect_s", "timeout_read_s")

    def effective(value: str, *keys: str) -> Effective:
        return Effective(value, loaded.origin(*keys))

    state = effective("disabled" if not settings.enabled else "off: no key" if keyless else "enabled", f"{own}.enabled")
    robots = effective("obeyed" if resolver.obeys_robots else "exempt", f"{own}.robots")
    head = effective("yes" if resolver.prechecks else "no", f"{own}.head_precheck")
    limit = Effective("that of each host", "default")
    if resolver.api_host is not None:
        policy = resolve_policy(config.rate_limit, resolver.api_host, Role.METADATA)
        limit = Effective(str(policy.rate), policy.origin)
    if resolver.own_rate is not None:
        limit = effective(f"{resolver.own_rate}{_BESIDES}{limit.value}", f"{own}.rate_limit")
    return ResolverRow(
        position=order.index(name) + 1 if name in order else None,
        name=name,
        tier=str(resolver.tier),
        state=state if name in order else effective("not in resolvers.order", "resolvers.order"),
        asks=(resolver.api_host, *resolver.other_hosts) if resolver.api_host else (),
        robots=robots if config.robots.enabled else effective("ignored", "robots.enabled"),
        head_precheck=head if config.download.head_precheck else effective("no", "download.head_precheck"),
        limit=limit,
        retry=effective(
            f"{retry.max_attempts} tries, {retry.strategy} from {retry.base_delay_ms} ms",
            f"{own}.retry" if settings.retry else "http.retry",
        ),
        timeouts=effective(
            f"connect {connect:g} s, read {read:g} s",
            "http.timeout",
            *(f"{section}.{key}" for section in ("http", own) for key in timeouts),
        ),
        wants=f"{SECRET_PREFIX}{name.upper()}" if keyless else None,
    )


def explain_hosts(loaded: Loaded[ContentDownloadConfig]) -> list[HostRow]:
    """One row for each host with a policy of its own, or one for each role where roles differ; last the row of all others."""
    settings = loaded.value.rate_limit
    named = [*settings.policies, *DEFAULT_POLICIES, *settings.concurrency, *settings.domains]
    rows: dict[HostRow, None] = {}
    for host in [*sorted({name for name in named if name != ANY}), OTHER_HOST]:
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
                concurrency_origin=_with_layer(loaded, "concurrency", policy.concurrency_origin),
                backend=settings.backend,
                backend_origin=loaded.origin("rate_limit.backend"),
                counted=COUNTED[settings.backend],
                cap_counted="all processes of this data root" if policy.exclusive else _EACH,
            )
            rows[row] = None
    return list(rows)


def _rate(loaded: Loaded[ContentDownloadConfig], host: str, policy: Policy) -> tuple[str, str]:
    """The rate, with the minimum interval of its domain if it has one, and the origin of both."""
    rate, origin = str(policy.rate), _with_layer(loaded, "policies", policy.origin)
    interval = domain_interval(loaded.value.rate_limit, host)
    if interval is None:
        return rate, origin
    domain, seconds = interval
    return f"{rate}, {seconds:g} s apart", f"{origin}; {_with_layer(loaded, 'domains', f'configured {domain}')}"


def _with_layer(loaded: Loaded[ContentDownloadConfig], table: str, origin: str) -> str:
    """`configured a.org (file cd.yaml)`: what was configured, with the layer that says so."""
    if not origin.startswith("configured "):
        return origin
    names = origin.removeprefix("configured ").split(", ")
    layers = {loaded.origin(f"rate_limit.{table}.{ANY if name == 'default' else name}") for name in names}
    return f"{origin} ({', '.join(sorted(layers))})"
