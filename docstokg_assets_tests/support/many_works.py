"""Run the download of many works, one URL each, through a raw server that answers as a proxy for every host."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from docstokg_assets.config import load_config
from docstokg_assets.domain.works import Location, Work
from docstokg_assets.runs.run import DownloadRun
from docstokg_assets.runs.services import open_services
from docstokg_assets_tests.support.polite import RawServer
from resources.records import AttemptRecord

PDF = b"%PDF-1.7\n" + b"x" * 5000 + b"\n%%EOF\n"


@dataclass(frozen=True)
class ManyWorks:
    reasons: dict[str, str | None]  # by URL; None without an outcome
    attempts: list[AttemptRecord]
    breakers: dict[str, str | None]  # by host, as the catalog has them


def run_works(root: Path, server: RawServer, urls: list[str], **values: Any) -> ManyWorks:
    """`values` are configuration, dots as double underscores."""
    hosts = sorted({urlsplit(url).hostname or "" for url in urls})
    config: dict[str, Any] = {
        "data_root": str(root),
        "http.proxy": server.url,
        "http.contact_email": "crawler@library-of-tests.edu",
        "http.allow_http_hosts": hosts,
        "http.retry.base_delay_ms": 5,
        "http.retry.jitter_ms": 0,
        "robots.enabled": False,
        "rate_limit.policies": {"*": "1000/second burst 100"},
        "resolvers.order": ["openalex"],
        "download.head_precheck": False,
    }
    config |= {key.replace("__", "."): value for key, value in values.items()}
    works = {f"W{n}": url for n, url in enumerate(urls)}
    with open_services(load_config(None, {}, config).value) as services:
        with DownloadRun(services) as download:
            download.store_and_enqueue(
                Work(work_id, title=f"Title {work_id}", year=2024, locations=(Location(pdf_url=url, is_oa=True),))
                for work_id, url in works.items()
            )
            download.drain(download.own_works)
        entries = {url: services.catalog.entry(work_id) for work_id, url in works.items()}
        reasons = {url: str(entry.reason) if entry else None for url, entry in entries.items()}
        attempts = [stored.record for stored in services.catalog.attempts_after(0, 100_000)]
        breakers = {host: services.catalog.host_pause(host).breaker for host in hosts}
    return ManyWorks(reasons, attempts, breakers)
