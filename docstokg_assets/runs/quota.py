"""What is left of budgets: OpenAlex's own count, what paid routes have spent, and requests to providers with a daily limit."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path

from docstokg_assets.config import ContentDownloadConfig
from docstokg_assets.domain.json_access import dig
from docstokg_assets.runs.services import temporary_driver
from docstokg_assets.sources.listing import BlockingDriver
from docstokg_assets.sources.openalex_api import HOST
from resources.catalog.readonly_query import QueryRefused, run_readonly_query
from resources.http.errors import HttpError
from resources.http.messages import Request, Response, Role

_DAILY = {"api.unpaywall.org": 100_000}  # requests a day, as the providers publish
_SPENT = "SELECT name, micros FROM spending WHERE day = {day:d}"
_ASKED = """
SELECT count(*) FROM attempts
WHERE host = '{host}' AND http_status IS NOT NULL AND cache_hit = 0 AND ts >= {since:f}
"""


@dataclass(frozen=True, slots=True)
class Quota:
    name: str
    limit: str = ""
    used: str = ""
    left: str = ""
    resets: str = ""
    note: str = ""
    problem: str = ""


def read_quotas(config: ContentDownloadConfig) -> list[Quota]:
    """Sends one request, which costs nothing, to OpenAlex; the others are counted in the catalog, where there is one."""
    with temporary_driver(config) as driver:
        quotas = [openalex_quota(driver, config)]
    return [*quotas, *_counted(config)]


def openalex_quota(driver: BlockingDriver, config: ContentDownloadConfig) -> Quota:
    key = config.openalex.api_key
    name = "OpenAlex" if key is not None else "OpenAlex (without a key)"
    try:
        response = driver.ask(ask_rate_limit(key.get_secret_value() if key is not None else None))
    except HttpError as error:
        return Quota(name, problem=f"could not be asked: {error}")
    if response.status == 401:
        return Quota(
            name, problem="the key was rejected; correct DOCSTOKG_CONTENT_API_KEY_OPENALEX or openalex.api_key"
        )
    try:
        found = dig(response.json(), "rate_limit") if response.ok else None
    except ValueError:
        found = None
    if not isinstance(found, dict):
        return Quota(name, problem=f"answered HTTP {response.status}")
    note = "" if key is not None else "a free key has ten times as much"
    most, used, left = (f"{found.get(f'credits_{part}', '?')} credits" for part in ("limit", "used", "remaining"))
    return Quota(name, most, used, left, str(found.get("resets_at", ""))[:16], note)


def ask_rate_limit(key: str | None) -> Generator[Request, Response, Response]:
    secret = {"api_key": key} if key else {}
    request = Request(f"https://{HOST}/rate-limit", Role.METADATA, secret_params=secret, obey_robots=False, cache=False)
    response = yield request
    return response


def _counted(config: ContentDownloadConfig) -> Iterator[Quota]:
    """Budgets that only we count: since midnight UTC, by all processes that share the catalog."""
    location = config.catalog_location
    if isinstance(location, Path) and not location.is_file():
        return
    midnight = time.time() // 86_400 * 86_400
    try:
        spent = run_readonly_query(location, _SPENT.format(day=int(midnight // 86_400)), timeout_s=10, max_rows=100)
        for name, micros in spent.rows:
            most = getattr(config.resolvers.by_name().get(name), "max_usd_per_day", None)
            left = f"${most - micros / 1e6:.2f}" if most is not None else ""
            yield Quota(
                f"{name} (paid files)",
                f"${most:.2f}" if most is not None else "",
                f"${micros / 1e6:.2f}",
                left,
                "00:00 UTC",
            )
        for host, most in _DAILY.items():
            asked = run_readonly_query(location, _ASKED.format(host=host, since=midnight), timeout_s=30, max_rows=1)
            used = int(asked.rows[0][0])
            yield Quota(host, f"{most:,} requests", f"{used:,}", f"{most - used:,}", "00:00 UTC", "as counted here")
    except QueryRefused as error:
        yield Quota("catalog", problem=str(error))
