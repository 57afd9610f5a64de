"""Examine the set-up: the machine, the data folder, the network, the contact address and every key. Changes nothing."""

from __future__ import annotations

import email.utils
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from docstokg_assets.config import ContentDownloadConfig, require_contact, resolvers_of
from docstokg_assets.reporting.rendering import format_bytes
from docstokg_assets.resolvers.registry import Resolver, ResolverContext, key_of
from docstokg_assets.runs.quota import ask_rate_limit, openalex_quota
from docstokg_assets.runs.services import temporary_driver
from docstokg_assets.sources.listing import BlockingDriver
from resources.catalog.catalog import Catalog
from resources.errors import ExplainedError
from resources.http.errors import HttpError, TlsFailed
from resources.http.messages import Request, Response
from resources.http.redact import redact_url
from resources.mounts import network_filesystem
from resources.rate_limit.limiter import Limiter
from resources.settings import SettingsError

State = Literal["ok", "warning", "error"]
_LOW_DISK, _FULL_DISK = 5_000_000_000, 200_000_000
_CLOCK_S = 60.0
_PACKAGES = ("docstokg-contentdownload", "dagster", "duckdb", "pyarrow", "pydantic", "requests", "urllib3")
_PAID = frozenset({"openalex_content"})  # a request would cost money


@dataclass(frozen=True, slots=True)
class Finding:
    name: str
    state: State
    message: str
    remedy: str = ""


def examine(config: ContentDownloadConfig, *, offline: bool = False) -> list[Finding]:
    """All findings; one that fails does not hide the others."""
    found = [*_machine(), *_data_folder(config), *_stores(config), *_contact(config)]
    if offline:
        return [*found, Finding("network", "warning", "not checked (--offline)")]
    try:
        with temporary_driver(config) as driver:
            found += _network(config, driver)
    except (ExplainedError, OSError) as error:
        found.append(Finding("network", "error", f"no request can be sent: {error}"))
    return found


def _machine() -> Iterator[Finding]:
    supported = sys.version_info >= (3, 11)
    remedy = "" if supported else "Install Python 3.11 or newer and run `make setup`."
    yield Finding(
        "Python", "ok" if supported else "error", f"{platform.python_version()} on {platform.platform()}", remedy
    )
    versions = []
    for name in _PACKAGES:
        try:
            versions.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    yield Finding("packages", "ok", ", ".join(versions))


def _data_folder(config: ContentDownloadConfig) -> Iterator[Finding]:
    root = config.data_root.absolute()
    there = next(path for path in (root, *root.parents) if path.exists())
    if not there.is_dir():
        yield Finding("data folder", "error", f"{there} is a file", "Name another folder with --out or data_root.")
        return
    try:
        with tempfile.NamedTemporaryFile(prefix=".doctor-", dir=there):
            pass
        made = "" if root == there else "; it will be created"
        yield Finding("data folder", "ok", f"{root} is writable{made}")
    except OSError as error:
        remedy = "Change its permissions, or name another folder with --out or data_root."
        yield Finding("data folder", "error", f"{there} cannot be written: {error.strerror}", remedy)
    free = shutil.disk_usage(there).free
    state: State = "error" if free < _FULL_DISK else "warning" if free < _LOW_DISK else "ok"
    yield Finding(
        "disk", state, f"{format_bytes(free)} free", "" if state == "ok" else "A PDF takes 1 to 3 MB: make room."
    )
    try:
        kind = network_filesystem(root, Path("/proc/mounts").read_text(encoding="utf-8", errors="surrogateescape"))
    except OSError:
        kind = None
    if kind is not None and isinstance(config.catalog_location, Path):
        remedy = "Put data_root on a local disk; artifacts.root may stay on the network."
        yield Finding("file system", "error", f"{kind} is a network file system, where SQLite loses data", remedy)
    else:
        yield Finding("file system", "ok", kind or "local")


def _stores(config: ContentDownloadConfig) -> Iterator[Finding]:
    location = config.catalog_location
    if isinstance(location, Path) and not location.is_file():
        yield Finding("catalog", "ok", "there is none yet; the first `content pull` creates it")
    else:
        try:
            with Catalog.open(location) as catalog:
                counts = catalog.queue_counts()
            yield Finding("catalog", "ok", f"{counts.total:,} works, of this program's version")
        except ExplainedError as error:
            yield Finding("catalog", "error", str(error))
    try:
        with tempfile.TemporaryDirectory(prefix="content-doctor-") as folder:
            Limiter.open(config.rate_limit, Path(folder) / "limits.sqlite3", owner="doctor").close()
        yield Finding("limits", "ok", f"backend {config.rate_limit.backend} answers")
    except (ExplainedError, OSError) as error:
        yield Finding("limits", "error", str(error))


def _contact(config: ContentDownloadConfig) -> Iterator[Finding]:
    try:
        require_contact(config)
        yield Finding("contact", "ok", config.http.contact_email or "not needed: requests go to the sandbox only")
    except SettingsError as error:
        yield Finding("contact", "error", "; ".join(error.problems), "`content init` writes a file with it.")


def _network(config: ContentDownloadConfig, driver: BlockingDriver) -> Iterator[Finding]:
    proxy = config.http.proxy
    given = next((name for name in ("HTTPS_PROXY", "https_proxy") if os.environ.get(name)), None)
    if proxy is None and given:
        yield Finding("proxy", "warning", f"{given} is set, but not used", "Set http.proxy where requests must use it.")
    else:
        yield Finding("proxy", "ok", redact_url(proxy) if proxy else "none")
    try:
        began = time.time()
        response = driver.ask(ask_rate_limit(None))
        yield Finding(
            "TLS", "ok", f"certificates of {'http.ca_bundle' if config.http.ca_bundle else 'the system'} are accepted"
        )
        yield from _clock(response, began)
    except TlsFailed as error:
        remedy = "Where a proxy signs certificates itself, name its CA in http.ca_bundle."
        yield Finding("TLS", "error", str(error), remedy)
        return
    except HttpError as error:
        yield Finding("network", "error", f"api.openalex.org: {error}", "Check the network and http.proxy.")
        return
    budget = openalex_quota(driver, config)
    if budget.problem:
        yield Finding("OpenAlex", "error", budget.problem, "`content quota` shows the budgets.")
    else:
        state: State = "ok" if config.openalex.api_key is not None else "warning"
        remedy = (
            "" if state == "ok" else "https://openalex.org/users gives a free key: DOCSTOKG_CONTENT_API_KEY_OPENALEX."
        )
        yield Finding("OpenAlex", state, f"{budget.name}: {budget.left} of {budget.limit} left today", remedy)
    for resolver in resolvers_of(config):
        if resolver.name not in _PAID and (key := key_of(resolver.settings)) is not None:
            yield _try_key(driver, config, resolver, key)


def _clock(response: Response, began: float) -> Iterator[Finding]:
    stamp = email.utils.parsedate_tz(response.headers.get("date", ""))
    if stamp is None:
        yield Finding("clock", "ok", "not checked: the server sent no date")
        return
    off = email.utils.mktime_tz(stamp) - began
    state: State = "ok" if abs(off) < _CLOCK_S else "warning"
    remedy = "" if state == "ok" else "Set the clock (NTP): waiting times and TLS depend on it."
    yield Finding("clock", state, f"{abs(off):.0f} s {'ahead of' if off < 0 else 'behind'} api.openalex.org", remedy)


def _try_key(driver: BlockingDriver, config: ContentDownloadConfig, resolver: Resolver, key: str) -> Finding:
    """Send the first request that the resolver makes for one of its example works."""
    name = f"key of {resolver.name}"
    context = ResolverContext(config.http.contact_email, {resolver.name: key})
    work = next((one.work for one in type(resolver).EXAMPLES if resolver.applies(one.work)), None)
    if work is None or resolver.api_host is None:
        return Finding(name, "ok", "set; not tried")

    def first() -> Generator[Request, Response, Response | None]:
        request = next(resolver.resolve(work, context), None)
        if request is None:
            return None
        response = yield request
        return response

    try:
        response = driver.ask(first())
    except HttpError as error:
        return Finding(name, "warning", f"{resolver.api_host}: {error}", "Try again later.")
    if response is not None and response.status in (401, 403):
        remedy = f"Correct resolvers.{resolver.name}.api_key or its environment variable."
        return Finding(name, "error", f"{resolver.api_host} rejects it (HTTP {response.status})", remedy)
    return Finding(name, "ok", f"{resolver.api_host} accepts it")
