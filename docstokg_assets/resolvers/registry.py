"""The registry of resolvers, their interface, and the plans they make. A resolver is one class in one file.

A resolver does no I/O: it derives candidates from the work (`candidates`), and, when it must query an API, it is a
generator that yields Requests and receives Responses (`resolve`). The engine sends, waits and retries. So a resolver is
tested by feeding it answers: each class carries `EXAMPLES`.
"""

from __future__ import annotations

import hashlib
import importlib
import logging
import pkgutil
import secrets
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

import orjson
from pydantic import Field, SecretStr

from docstokg_assets.domain.plans import DELETED_PLAN, Candidate, Plan, PlanStep, Target, Tier
from docstokg_assets.domain.works import Work
from resources.http.messages import Request, Response
from resources.http.settings import HttpSettings, RetrySettings
from resources.layers import SECRET_PREFIX
from resources.rate_limit.settings import Rate
from resources.records import Reason, Spent
from resources.settings import Section, SettingsError

log = logging.getLogger(__name__)


class ResolverRateLimit(Section):
    """A limit for the resolver as a whole, in addition to those of the hosts that it queries."""

    capacity: int = Field(1, ge=1, description="requests that may go out at once after a pause, at most")
    refill_per_sec: float = Field(1.0, gt=0, description="requests a second in the long run")
    burst: int = Field(1, ge=1, description="requests at once after a pause")


class ResolverSettings(Section):
    """Settings that every resolver has; a resolver with further settings extends this class in its own file."""

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
    """Settings of a provider with API keys. The resolver receives its key as `context.api_keys[name]`."""

    api_key: SecretStr | None = Field(None, description="also read from DOCSTOKG_CONTENT_API_KEY_ and its name")


class Budget(Protocol):
    """What a paid resolver may spend, counted for all runs and processes together; amounts in US dollars."""

    def spend(self, name: str, amount: float, per_day: float) -> Spent: ...

    def give_back(self, name: str, amount: float, day: int) -> None: ...


@dataclass(frozen=True, slots=True)
class ResolverContext:
    """What a resolver receives from the run."""

    contact_email: str | None = None
    api_keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    dead_urls: tuple[str, ...] = ()  # files of this work that could not be downloaded, the most promising first
    guarded_urls: tuple[str, ...] = ()  # those of them that exist but were refused to us
    budget: Budget | None = None


@dataclass(frozen=True, slots=True)
class ResolverResult:
    """What a query found. An empty result with `reason` NO_CANDIDATE is an ordinary answer, not an error."""

    candidates: tuple[Candidate, ...] = ()
    reason: Reason = Reason.OK
    note: str = ""
    until: float | None = None  # epoch seconds: when querying again may help,
    host: str | None = None  # and which host
    detail: str | None = None  # which step failed, see `Failure.detail` of the engine


Resolution = Generator[Request, Response, ResolverResult]
Candidates = Iterator[Candidate]


@dataclass
class Example:
    """A test case that the test suite collects: the work, the answers fed in order, and the expected URLs or reason.

    An answer is a Response, or the body of one as `answer` takes it. Answers without URLs in them mean NO_CANDIDATE, unless
    there is a reason.
    """

    work: Work
    answers: Sequence[Any] = ()
    urls: Sequence[str] = ()
    context: ResolverContext = field(default_factory=ResolverContext)
    reason: Reason | None = None

    def __post_init__(self) -> None:
        self.answers = tuple(given if isinstance(given, Response) else answer(given) for given in self.answers)
        self.reason = self.reason or (Reason.NO_CANDIDATE if self.answers and not self.urls else Reason.OK)


def answer(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """An answer for an example: bytes as they are, anything else as JSON."""
    kind, content = ("text/html", body) if isinstance(body, bytes) else ("application/json", orjson.dumps(body))
    return Response(status, "", {"content-type": kind, **(headers or {})}, content)


class Resolver:
    """Base class of all resolvers. Class attributes are the provider's defaults; the settings override them."""

    name: ClassVar[str]
    tier: ClassVar[Tier]
    asked_in: ClassVar[Tier | None] = None  # a later tier, for a resolver that is queried only when others have failed
    default_rank: ClassVar[int] = 50  # the place in the default order, inside the tier in which it is queried
    api_host: ClassVar[str | None] = None  # set: `resolve` is called
    other_hosts: ClassVar[tuple[str, ...]] = ()  # further hosts that `resolve` queries
    needs_key: ClassVar[bool] = False  # off until its settings have an `api_key`
    aliases: ClassVar[tuple[str, ...]] = ()  # other names for it in the configuration
    robots: ClassVar[bool] = True
    head_precheck: ClassVar[bool] = True
    Settings: ClassVar[type[ResolverSettings]] = ResolverSettings
    EXAMPLES: ClassVar[Sequence[Example]] = ()

    settings: ResolverSettings

    def __init__(self, settings: ResolverSettings, position: int | None = None) -> None:
        self.settings, self._position = settings, position

    @classmethod
    def from_config(cls, settings: ResolverSettings, position: int | None = None) -> Resolver:
        """The resolver for these settings; `position` is its index in the configured order."""
        return cls(settings, position)

    @property
    def rank(self) -> int:
        """The place inside the tier: the configured priority, else by the configured order, in steps of ten."""
        if self.settings.priority is not None:
            return self.settings.priority
        return self.default_rank if self._position is None else 10 * (self._position + 1)

    @property
    def own_rate(self) -> Rate | None:
        """The rate limit for this resolver alone, if the settings have one."""
        own = self.settings.rate_limit
        return None if own is None else Rate(own.refill_per_sec, max(own.capacity, own.burst))

    def timeouts(self, http: HttpSettings) -> tuple[float, float]:
        """Connect and read timeouts in seconds."""
        connect = self.settings.timeout_connect_s or http.timeout or http.timeout_connect_s
        return connect, self.settings.timeout_read_s or http.timeout or http.timeout_read_s

    @property
    def obeys_robots(self) -> bool:
        return self.robots if self.settings.robots is None else self.settings.robots

    @property
    def prechecks(self) -> bool:
        return self.head_precheck if self.settings.head_precheck is None else self.settings.head_precheck

    def candidate(self, url: str, target: Target = Target.PDF, **fields: Any) -> Candidate:
        """A candidate of this resolver, in its tier and at its rank unless `fields` say otherwise."""
        tier, rank = fields.pop("tier", self.tier), fields.pop("rank", self.rank)
        return Candidate(url, self.name, tier, target, rank, **fields)

    def applies(self, work: Work) -> bool:
        """Whether this resolver can find anything for the work."""
        raise NotImplementedError

    def ask_tier(self, work: Work) -> Tier:
        """The tier in which it is queried: later than its own when it rarely knows more than is known already."""
        return self.asked_in or self.tier

    def candidates(self, work: Work) -> Iterable[Candidate]:
        """Candidates that follow from the work alone, without a request."""
        return ()

    def refuses(self, candidate: Candidate, response: Response) -> tuple[Reason, str] | None:
        """Why a downloaded file is not the one that the candidate meant, where only the resolver can tell."""
        return None

    def resolve(self, work: Work, context: ResolverContext) -> Resolution:
        """Query the provider. Only called when `api_host` is set."""
        raise NotImplementedError
        yield  # makes this a generator, as every override is


R = TypeVar("R", bound=Resolver)
REGISTRY: dict[str, type[Resolver]] = {}
ENTRY_POINTS = "docstokg.resolvers"


def register(name: str) -> Callable[[type[R]], type[R]]:
    """Class decorator: register a resolver under `name`."""

    def decorate(cls: type[R]) -> type[R]:
        cls.name = name
        REGISTRY[name] = cls
        return cls

    return decorate


@cache
def load_resolvers() -> Mapping[str, type[Resolver]]:
    """All resolvers: those of this package, whose modules register them when imported, and those of installed distributions.
    Raises SettingsError when one of the latter cannot be used."""
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        importlib.import_module(f"{__package__}.{module.name}")
    for point in entry_points(group=ENTRY_POINTS):
        _register_entry_point(point)
    return REGISTRY


def clear_resolver_caches() -> None:
    """Make the next `load_resolvers` search again, for distributions installed meanwhile. The configuration models were
    built when the process started and do not change."""
    load_resolvers.cache_clear()


def _register_entry_point(point: EntryPoint) -> None:
    where = f"resolver {point.name} of {point.dist.name if point.dist else 'an unknown distribution'} ({point.value})"
    remedy = "repair it, or uninstall it"
    known = REGISTRY.get(point.name)
    try:
        found = point.load()
    except Exception as error:
        raise SettingsError([f"{where} cannot be loaded: {type(error).__name__}: {error}; {remedy}"]) from error
    if not (isinstance(found, type) and issubclass(found, Resolver)):
        raise SettingsError([f"{where} is not a Resolver class; {remedy}"])
    if known is not None and known is not found:
        REGISTRY[point.name] = known
        raise SettingsError([f"{where}: there is a resolver of that name already ({known.__module__}); {remedy}"])
    register(point.name)(found)


def default_order(registry: Mapping[str, type[Resolver]]) -> tuple[str, ...]:
    """The order where none is configured: by the tier in which a resolver is queried, then by its `default_rank`."""
    places = {name: ((cls.asked_in or cls.tier).order, cls.default_rank, name) for name, cls in registry.items()}
    return tuple(sorted(registry, key=places.__getitem__))


def build_resolvers(order: Sequence[str], settings: Mapping[str, Any]) -> tuple[Resolver, ...]:
    """The enabled resolvers in configured order, without those whose key is missing. `settings[name]` is that resolver's
    settings model."""
    known = load_resolvers()
    return tuple(
        known[name].from_config(settings[name], position)
        for position, name in enumerate(order)
        if settings[name].enabled and not lacks_key(known[name], settings[name])
    )


def make_plan(work: Work, resolvers: Iterable[Resolver]) -> Plan:
    """Candidates by tier and rank, each URL once; resolvers to query stand where they will be queried."""
    if work.deleted:
        return Plan(work.work_id, (), DELETED_PLAN)
    steps: list[PlanStep] = []
    complete = True
    for resolver in resolvers:
        try:
            if resolver.applies(work):
                own = [PlanStep(c.tier, c.resolver, c.rank, c) for c in resolver.candidates(work)]
                if host := resolver.api_host:
                    steps.append(_deferred_step(resolver.ask_tier(work), resolver.name, resolver.rank, host))
                steps += own
        except Exception:  # it costs neither the work nor the other resolvers
            complete = False
            log.exception("the resolver %s failed at %s; it is left out of its plan", resolver.name, work.work_id)
    steps.sort(key=_place)
    unique: dict[str, PlanStep] = {}
    for step in steps:
        unique.setdefault(step.candidate.key if step.candidate else f"deferred {step.resolver}", step)
    rows = [(step.tier.value, step.resolver, key if step.candidate else None) for key, step in unique.items()]
    digest = hashlib.sha256(orjson.dumps(rows)).hexdigest()[:16]
    return Plan(work.work_id, tuple(unique.values()), digest, complete)


def rules_hash(resolvers: Iterable[Resolver]) -> str:
    """Changes when the same works could get other plans: with the resolvers, their settings or their code."""
    digest, modules = hashlib.sha256(), {"docstokg_assets.domain.works", "resources.http.canonical"}
    for resolver in resolvers:
        digest.update(f"{resolver.name} {resolver.rank} {resolver.settings.model_dump_json()}\n".encode())
        modules |= {each.__module__ for each in type(resolver).__mro__ if each is not object}
    for kit in ("domain.identifiers", "domain.plans", "resolvers.routes"):
        modules.add(f"docstokg_assets.{kit}")
    for name in sorted(modules):
        file = getattr(sys.modules.get(name), "__file__", None)
        code = Path(file).read_bytes() if file and Path(file).is_file() else secrets.token_bytes()
        digest.update(hashlib.sha256(code).digest())
    return digest.hexdigest()[:16]


def _place(step: PlanStep) -> tuple[int, int]:
    return step.tier.order, step.rank


@lru_cache(1_024)  # the same for all works
def _deferred_step(tier: Tier, resolver: str, rank: int, host: str) -> PlanStep:
    return PlanStep(tier, resolver, rank, asks_host=host)


def key_of(settings: ResolverSettings) -> str | None:
    key = getattr(settings, "api_key", None)
    return key.get_secret_value() if isinstance(key, SecretStr) else None


def lacks_key(resolver: type[Resolver], settings: ResolverSettings) -> bool:
    return resolver.needs_key and not key_of(settings)


def key_variables(registry: Mapping[str, type[Resolver]]) -> dict[str, str]:
    """Environment variable -> configuration key, for all resolvers whose settings have an `api_key`."""
    return {
        f"{SECRET_PREFIX}{called.upper()}": f"resolvers.{name}.api_key"
        for name, resolver in registry.items()
        if "api_key" in resolver.Settings.model_fields
        for called in (name, *resolver.aliases)
    }
