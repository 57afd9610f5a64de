"""Settings of the rate limits, and the notation in which a rate is written. Which policy counts is in `policies.py`."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, field_validator, model_validator

from resources.settings import Section

ANY = "*"
_SECONDS = {"s": 1, "second": 1, "min": 60, "minute": 60, "h": 3600, "hour": 3600, "d": 86_400, "day": 86_400}
_UNITS = (("second", 1), ("minute", 60), ("hour", 3600), ("day", 86_400))
_RATE = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*/\s*([a-z]+)(?:\s+burst\s+(\d+))?", re.ASCII)
_REDIS_URL = re.compile(r"(rediss?|unix)://[^\s]+$")
_POSTGRES = re.compile(r"postgres(ql)?://\S+$|\s*\w+\s*=")
_HOST = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*|\*")


@dataclass(frozen=True, slots=True)
class Rate:
    """So many a second on average, and at most `burst` at once after a pause."""

    per_second: float
    burst: int = 1

    def __str__(self) -> str:
        seconds, unit = next((s, u) for u, s in _UNITS if self.per_second * s >= 0.1 or u == "day")
        number = f"{self.per_second * seconds:.10g}/{unit}"
        return number if self.burst == 1 else f"{number} burst {self.burst}"


def parse_rate(text: str) -> Rate:
    """`0.33/second`, `24/minute burst 6`; units second, minute, hour, day or s, min, h, d."""
    match = _RATE.fullmatch(text.strip().lower())
    if match is None or match[2] not in _SECONDS:
        raise ValueError(f"{text!r} is not a rate; write for example '0.33/second' or '24/minute burst 6'")
    per_second, burst = float(match[1]) / _SECONDS[match[2]], int(match[3] or 1)
    if not 0 < per_second < math.inf or burst < 1:
        raise ValueError(f"{text!r}: a rate and its burst must be greater than 0")
    return Rate(per_second, burst)


def _checked_rate(text: str) -> str:
    parse_rate(text)
    return text


def _host(name: str) -> str:
    lowered = name.strip().rstrip(".").lower()
    if not _HOST.fullmatch(lowered):
        raise ValueError("must be a host name such as 'arxiv.org', without scheme, port or path, or '*' for all others")
    return lowered


def _domain(name: str) -> str:
    if name.strip() == ANY:
        raise ValueError("must name one domain; a rate for all others is rate_limit.policies '*'")
    return _host(name)


def _for_all_roles(value: Any) -> Any:
    return {ANY: value} if isinstance(value, str) else value


Host = Annotated[str, AfterValidator(_host)]
Domain = Annotated[str, AfterValidator(_domain)]
RoleName = Literal["metadata", "landing", "artifact", "*"]
RateText = Annotated[str, AfterValidator(_checked_rate)]
RolePolicies = Annotated[dict[RoleName, RateText], BeforeValidator(_for_all_roles)]


Backend = Literal["memory", "multiprocess", "sqlite", "redis", "postgres"]


class RateLimitSettings(Section):
    backend: Backend = Field(
        "sqlite",
        description="who counts: `sqlite` or `multiprocess` for all processes of this data root, `redis` or `postgres` for all "
        "machines that use the server, `memory` for one process, which then has the data root to itself",
    )
    redis_url: SecretStr | None = Field(
        None, description="for backend `redis`: redis://user:password@host:6379/0, or rediss:// over TLS"
    )
    connection_string: SecretStr | None = Field(
        None, description="for backend `postgres`: postgresql://user:password@host:5432/database"
    )
    policies: dict[Host, RolePolicies] = Field(
        {},
        description="host → rate, or host → role → rate; `*` is every other host or role; override the built-in ones",
    )
    domains: dict[Domain, Annotated[float, Field(gt=0)]] = Field(
        {}, description="domain → least seconds between two requests, besides its rate"
    )
    concurrency: dict[Host, Annotated[int, Field(ge=1)] | None] = Field(
        {}, description="host → most requests at once; null lifts the built-in cap"
    )

    @model_validator(mode="after")
    def _server_is_named(self) -> RateLimitSettings:
        for backend, key in (("redis", "redis_url"), ("postgres", "connection_string")):
            if self.backend == backend and getattr(self, key) is None:
                raise ValueError(f"backend {backend} needs {key}")
        return self

    @field_validator("redis_url")
    @classmethod
    def _redis_url(cls, url: SecretStr | None) -> SecretStr | None:
        if url is not None and not _REDIS_URL.match(url.get_secret_value()):
            raise ValueError("must begin with redis://host, rediss://host or unix://path")
        return url

    @field_validator("connection_string")
    @classmethod
    def _connection_string(cls, text: SecretStr | None) -> SecretStr | None:
        if text is not None and not _POSTGRES.match(text.get_secret_value()):
            raise ValueError("must be like postgresql://user:password@host:5432/database, or host=… dbname=…")
        return text
