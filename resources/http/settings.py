"""Settings of the HTTP client and of robots, as pydantic models; what they mean is decided in the modules that read them."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, model_validator

from resources.settings import Section


class RetrySettings(Section):
    """When and how often a request is repeated. `max_attempts` counts the first try."""

    max_attempts: int = Field(4, ge=1, le=20, description="tries of one request, the first included")
    retry_statuses: tuple[int, ...] = Field((429, 500, 502, 503, 504), description="answers that are asked for again")
    base_delay_ms: int = Field(750, ge=0, description="pause before the first retry")
    max_delay_ms: int = Field(8_000, ge=0, description="longest pause of our own making")
    jitter_ms: int = Field(100, ge=0, description="at most so much is added to a pause by chance")
    strategy: Literal["exponential", "constant"] = Field("exponential", description="whether pauses double")
    max_retry_after_s: float = Field(60.0, ge=0, description="a longer Retry-After pauses the host for all requests")


class BreakerSettings(Section):
    """When a host that fails is left alone for a while, so that neither it nor we waste time."""

    enabled: bool = Field(True, description="leave a host alone that fails again and again")
    failures: int = Field(5, ge=1, description="failed tries in a row, inside the window, that open the breaker")
    window_s: float = Field(60.0, gt=0, description="how long a failure counts")
    open_s: float = Field(30.0, gt=0, description="first pause; doubles each time the host fails again")
    max_open_s: float = Field(3600.0, gt=0, description="longest pause")
    probes: int = Field(3, ge=1, description="requests that must succeed after a pause before all may go again")


class CacheTtlSettings(Section):
    """How long an answer counts as fresh where its host does not say."""

    metadata_s: float = Field(86_400.0, ge=0, description="answers of APIs")
    landing_s: float = Field(86_400.0, ge=0, description="landing pages and redirects")
    negative_s: float = Field(3_600.0, ge=0, description="answers that say: not there (404, 410)")


class HttpSettings(Section):
    user_agent: str = Field("DocsToKG-ContentDownload/0.1", description="product name; contact_email is added to it")
    contact_email: str | None = Field(None, description="who answers for this crawler; required on the real web")
    proxy: str | None = Field(None, description="forward proxy for everything, e.g. http://127.0.0.1:8899")
    ca_bundle: Path | None = Field(None, description="PEM file of the authorities to trust instead of the usual ones")
    verify_tls: bool = Field(True, description="switch certificate checks off for testing only")
    allow_http_hosts: tuple[str, ...] = Field((), description="hosts that may be asked over plain http")
    allow_private_hosts: tuple[str, ...] = Field((), description="hosts that may have private or loopback addresses")
    timeout: float | None = Field(None, gt=0, description="short for timeout_connect_s and timeout_read_s at once")
    timeout_connect_s: float = Field(10.0, gt=0, description="time to reach the host")
    timeout_read_s: float = Field(60.0, gt=0, description="time without a byte; for the head of an answer, in total")
    deadline_s: float = Field(300.0, gt=0, description="total time of one answer, body included")
    max_redirects: int = Field(10, ge=0, le=30, description="hops after which it is a loop")
    max_page_bytes: int = Field(16 * 1024 * 1024, gt=0, description="cap of a metadata answer or landing page")
    remember_cookies_s: float = Field(
        3600.0, ge=0, description="how long cookies are sent back to their host; 0: only within one chain of redirects"
    )
    accept: str | None = Field(None, description="Accept header of landing and artifact requests, instead of our own")
    retry: RetrySettings = RetrySettings()
    breaker: BreakerSettings = BreakerSettings()
    cache_enabled: bool = Field(True, description="keep answers of APIs and landing pages (RFC 9111); files never")
    cache_backend: Literal["sqlite", "redis"] = Field("sqlite", description="where they are kept")
    cache_dir: Path | None = Field(None, description="folder of the SQLite cache; the data root when not set")
    cache_url: SecretStr | None = Field(None, description="for cache_backend `redis`, e.g. redis://localhost:6379/0")
    cache_max_bytes: int = Field(
        1024**3, ge=1024**2, description="size of the SQLite cache; what was not used for longest goes first"
    )
    cache_ttl: CacheTtlSettings = CacheTtlSettings()

    @model_validator(mode="after")
    def _redis_has_its_address(self) -> HttpSettings:
        if self.cache_backend == "redis" and self.cache_url is None:
            raise ValueError("cache_backend redis needs cache_url")
        return self


class RobotsSettings(Section):
    enabled: bool = Field(True, description="obey robots.txt; off for debugging only")
    ttl_seconds: int = Field(86_400, ge=60, description="how long a robots.txt counts before it is read again")
