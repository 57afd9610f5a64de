"""The registry of resolvers and the contract that each of them fulfils. One file a resolver; no other file changes.

A resolver computes: it names candidates that follow from the work alone (`candidates`), and, when it must ask an API,
it is a generator that yields Requests and receives Responses (`resolve`). It opens no connection, waits for and retries
nothing; the pipeline and its driver do. That makes it testable by feeding it answers: each class carries `EXAMPLES`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, ClassVar, Protocol, TypeVar

from pydantic import Field, SecretStr

import docstokg_assets.resolvers as package
from docstokg_assets.domain.plans import Candidate, Tier
from docstokg_assets.domain.works import Work
from resources.catalog.spending import Spent
from resources.http.messages import Request, Response
from resources.http.settings import HttpSettings, RetrySettings
from resources.layers import SECRET_PREFIX
from resources.rate_limit.settings import Rate
from resources.records import Reason
from resources.settings import Section, SettingsError


class ResolverRateLimit(Section):
    """A limit of the resolver's own, besides those of the hosts it asks."""

    capacity: int = Field(1, ge=1, description="requests that may go out at once after a pause, at most")
    refill_per_sec: float = Field(1.0, gt=0, description="requests a second in the long run")
    burst: int = Field(1, ge=1, description="requests at once after a pause")


class ResolverSettings(Section):
    """What every resolver can be told; a resolver with more to set extends it in its own file."""

    enabled: bool = Field(True, description="whether it is asked at all")
    priority: int | None = Field(
        None, description="order inside the tier; lower comes first; the resolver's own by default"
    )
    timeout_connect_s: float | None = Field(None, gt=0, description="instead of http.timeout_connect_s")
    timeout_read_s: float | None = Field(None, gt=0, description="instead of http.timeout_read_s")
    retry: RetrySettings | None = Field(None, description="instead of http.retry, as a whole")
    rate_limit: ResolverRateLimit | None = Field(None, description="a limit besides those of the hosts it asks")
    robots: bool | None = Field(None, description="obey robots.txt; the resolver's own default when not set")
    head_precheck: bool | None = Field(None, description="ask HEAD before GET; the resolver's own default when not set")


class KeyedSettings(ResolverSettings):
    """For a provider with keys. The key reaches the resolver as `context.api_keys[name]`."""

    api_key: SecretStr | None = Field(None, description="also read from DOCSTOKG_CONTENT_API_KEY_ and its name")


class Budget(Protocol):
    """What a paid route may spend, counted for all runs and processes together; amounts in US dollars."""

    def spend(self, name: str, amount: float, per_day: float) -> Spent: ...

    def give_back(self, name: str, amount: float, day: int) -> None: ...


@dataclass(frozen=True, slots=True)
class ResolverContext:
    """What a resolver may know of its surroundings."""

    contact_email: str | None = None
    api_keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    dead_urls: tuple[str, ...] = ()  # files of this work that could not be had, the most promising first
    guarded_urls: tuple[str, ...] = ()  # those of them that are there, but not for us
    budget: Budget | None = None


@dataclass(frozen=True, slots=True)
class ResolverResult:
    """What was learnt. An empty result with `reason` NO_CANDIDATE is an ordinary answer, not an error."""

    candidates: tuple[Candidate, ...] = ()
    reason: Reason = Reason.OK
    note: str = ""
    until: float | None = None  # epoch seconds: when asking again may help,
    host: str | None = None  # and whom


Resolution = Generator[Request, Response, ResolverResult]


@dataclass(frozen=True)
class Example:
    """A case that the test suite picks up by itself: the work, the answers fed in order, and the URLs expected back."""

    work: Work
    answers: Sequence[Response] = ()
    urls: Sequence[str] = ()
    context: ResolverContext = field(default_factory=ResolverContext)
    reason: Reason = Reason.OK


class Resolver:
    """Base of all resolvers. Class attributes are the provider's defaults, the settings override them."""

    name: ClassVar[str]
    tier: ClassVar[Tier]
    default_rank: ClassVar[int] = 50
    api_host: ClassVar[str | None] = None  # set: deferred, `resolve` must be driven
    other_hosts: ClassVar[tuple[str, ...]] = ()  # which `resolve` asks besides
    needs_key: ClassVar[bool] = False  # off until its settings have an `api_key`
    aliases: ClassVar[tuple[str, ...]] = ()  # other names by which the configuration may call it
    robots: ClassVar[bool] = True
    head_precheck: ClassVar[bool] = True
    Settings: ClassVar[type[ResolverSettings]] = ResolverSettings
    EXAMPLES: ClassVar[Sequence[Example]] = ()

    def __init__(self, settings: ResolverSettings, position: int | None = None) -> None:
        self.settings, self._position = settings, position

    @classmethod
    def from_config(cls, settings: ResolverSettings, position: int | None = None) -> Resolver:
        """`position` is the place in the configured order, from 0."""
        return cls(settings, position)

    @property
    def rank(self) -> int:
        """Its place inside the tier: the configured priority, else by the configured order, ten apart."""
        if self.settings.priority is not None:
            return self.settings.priority
        return self.default_rank if self._position is None else 10 * (self._position + 1)

    @property
    def own_rate(self) -> Rate | None:
        """The limit of its own that the settings give it."""
        own = self.settings.rate_limit
        return None if own is None else Rate(own.refill_per_sec, max(own.capacity, own.burst))

    def timeouts(self, http: HttpSettings) -> tuple[float, float]:
        """Connect and read, in seconds."""
        connect = self.settings.timeout_connect_s or http.timeout or http.timeout_connect_s
        return connect, self.settings.timeout_read_s or http.timeout or http.timeout_read_s

    @property
    def obeys_robots(self) -> bool:
        return self.robots if self.settings.robots is None else self.settings.robots

    @property
    def prechecks(self) -> bool:
        return self.head_precheck if self.settings.head_precheck is None else self.settings.head_precheck

    def applies(self, work: Work) -> bool:
        """Whether this resolver can say anything about the work at all."""
        raise NotImplementedError

    def ask_tier(self, work: Work) -> Tier:
        """The tier in which it is asked: a later one than its own when it hardly knows more than is known already."""
        return self.tier

    def candidates(self, work: Work) -> Sequence[Candidate]:
        """What follows from the work alone, without asking anybody."""
        return ()

    def refuses(self, candidate: Candidate, response: Response) -> tuple[Reason, str] | None:
        """Why an answer with a file is not the file that was meant, where only the resolver can tell."""
        return None

    def resolve(self, work: Work, context: ResolverContext) -> Resolution:
        """Ask. Only called when `api_host` is set."""
        raise NotImplementedError
        yield  # makes this a generator, as every override is


R = TypeVar("R", bound=Resolver)
REGISTRY: dict[str, type[Resolver]] = {}
ENTRY_POINTS = "docstokg.resolvers"


def register(name: str) -> Callable[[type[R]], type[R]]:
    """Class decorator: makes a resolver known under `name`."""

    def decorate(cls: type[R]) -> type[R]:
        cls.name = name
        REGISTRY[name] = cls
        return cls

    return decorate


def load_resolvers() -> Mapping[str, type[Resolver]]:
    """All that there are: those of this package, and those that installed distributions bring. SettingsError when one of
    the latter cannot be used."""
    _find_resolvers()
    return REGISTRY


def clear_resolver_caches() -> None:
    """Have the next `load_resolvers` look again, for what was installed meanwhile. The configuration's models were made when the
    process began and do not learn of it."""
    _find_resolvers.cache_clear()


@cache
def _find_resolvers() -> None:
    """Import every module of the package, so that each registers itself; then whatever the entry points name."""
    for module in pkgutil.iter_modules(package.__path__):
        if module.name != "registry":
            importlib.import_module(f"{package.__name__}.{module.name}")
    for point in entry_points(group=ENTRY_POINTS):
        _register_from_outside(point)


def _register_from_outside(point: EntryPoint) -> None:
    where = f"resolver {point.name} of {point.dist.name if point.dist else 'an unknown distribution'} ({point.value})"
    remedy = "repair it, or uninstall it"
    known = REGISTRY.get(point.name)
    try:
        found = point.load()
    except Exception as error:
        raise SettingsError([f"{where} cannot be loaded: {type(error).__name__}: {error}; {remedy}"]) from error
    if not (isinstance(found, type) and issubclass(found, Resolver)):
        raise SettingsError([f"{where} is no Resolver class; {remedy}"])
    if known is not None and known is not found:
        REGISTRY[point.name] = known
        raise SettingsError([f"{where}: there is a resolver of that name already ({known.__module__}); {remedy}"])
    register(point.name)(found)


def build_resolvers(order: Sequence[str], settings: Mapping[str, Any]) -> tuple[Resolver, ...]:
    """The enabled resolvers in configured order, without those whose key is missing. `settings[name]` is that resolver's settings
    model."""
    known = load_resolvers()
    return tuple(
        known[name].from_config(settings[name], position)
        for position, name in enumerate(order)
        if settings[name].enabled and not lacks_key(known[name], settings[name])
    )


def key_of(settings: ResolverSettings) -> str | None:
    key = getattr(settings, "api_key", None)
    return key.get_secret_value() if isinstance(key, SecretStr) else None


def lacks_key(resolver: type[Resolver], settings: ResolverSettings) -> bool:
    return resolver.needs_key and not key_of(settings)


def key_variables(registry: Mapping[str, type[Resolver]]) -> dict[str, str]:
    """Environment variable -> key in the configuration, for all whose settings have an `api_key`."""
    return {
        f"{SECRET_PREFIX}{called.upper()}": f"resolvers.{name}.api_key"
        for name, resolver in registry.items()
        if "api_key" in resolver.Settings.model_fields
        for called in (name, *resolver.aliases)
    }
