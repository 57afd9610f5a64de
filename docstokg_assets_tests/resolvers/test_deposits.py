"""The repositories with a resolver of their own, asked over sockets: found, not there, refused, and paid for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from docstokg_assets.config import load_config
from docstokg_assets.orchestrator import DownloadRun, Services, open_services
from docstokg_assets.sandbox import Sandbox
from docstokg_assets.sandbox.mix import ARCHETYPES
from docstokg_assets.sources import Collected
from resources.catalog.rows import Entry

YEAR = 2024
DEPOSITS = ("zenodo", "figshare", "osf", "biorxiv", "medrxiv", "datacite")
CHALLENGE = {"status": 202, "headers": {"x-amzn-waf-action": "challenge"}, "body": ""}
FAST = "1000/second burst 100"


def only(*archetypes: str) -> dict[str, float]:
    return {**dict.fromkeys(ARCHETYPES, 0.0), **dict.fromkeys(archetypes, 1.0), "strange": 0.0}


@pytest.fixture
def collect(tmp_path: Path) -> Iterator[Callable[..., tuple[dict[str, Entry], Services]]]:
    """Run over all works of the box; every run in a data root of its own unless it is told otherwise."""
    stack: list[Any] = []

    def run(box: Sandbox, root: str = "data", **settings: Any) -> tuple[dict[str, Entry], Services]:
        given = {
            "data_root": str(tmp_path / root),
            "http.proxy": box.proxy_url,
            "http.ca_bundle": str(box.ca_bundle),
            "http.contact_email": "tests@library-of-tests.edu",
            "http.retry.max_attempts": 1,
            "resolvers.order": ["openalex", "zenodo", "figshare", "osf", "biorxiv", "datacite", "openalex_content"],
            "rate_limit.policies": dict.fromkeys([*box.stats()["hosts"], "*"], FAST),
        }
        services = open_services(load_config(None, {}, given | settings).value)
        opened = services.__enter__()
        stack.append(services)
        with DownloadRun(opened) as under_way:
            under_way.take_in(under_way.collect(f"publication_year:{YEAR}", None, Collected()))
            under_way.drain(of_run=True)
        return {entry.work_id: entry for entry in opened.catalog.entries(run_id=under_way.run_id)}, opened

    yield run
    for services in stack:
        services.__exit__(None, None, None)


@pytest.mark.requirement("RES-3")
def test_every_deposit_is_found_by_the_resolver_of_its_repository(
    tmp_path: Path, collect: Callable[..., tuple[dict[str, Entry], Services]]
) -> None:
    with Sandbox.start(tmp_path / "box", works_per_year=24, years=(YEAR, YEAR), mix=only(*DEPOSITS)) as box:
        entries, _ = collect(box)
        truths = {work_id: box.universe.truth(work_id) for work_id in entries}
        assert {truth.archetype for truth in truths.values()} == set(DEPOSITS) and len(entries) == 24
        assert {i: (e.classification, e.resolver, e.url) for i, e in entries.items()} == {
            work_id: ("success", truth.resolver, truth.url) for work_id, truth in truths.items()
        }
        assert {entries[i].license for i, t in truths.items() if t.archetype != "osf"} == {"cc-by"}
        assert box.violations() == []


@pytest.mark.requirement("RES-3")
@pytest.mark.parametrize(
    ("archetype", "host", "fault", "reason"),
    [
        ("zenodo", "zenodo.org", {"status": 410}, "no-candidate"),
        ("zenodo", "zenodo.org", {"status": 429, "path": "/api/*"}, "rate-limited"),
        ("figshare", "api.figshare.com", {"status": 503}, "http-5xx"),
        ("figshare", "ndownloader.figshare.com", CHALLENGE, "blocked-waf"),
        ("osf", "api.osf.io", {"status": 429, "headers": {"Retry-After": "3528"}}, "retry-after"),
        ("biorxiv", "api.biorxiv.org", {"status": 200, "body": ""}, "bad-answer"),
        ("biorxiv", "www.biorxiv.org", {"status": 429, "body": "error code: 1015", "path": "*.pdf"}, "rate-limited"),
        ("datacite", "api.datacite.org", {"status": 404}, "no-candidate"),
    ],
)  # fmt: skip
def test_what_a_repository_refuses_has_its_reason(
    tmp_path: Path,
    collect: Callable[..., tuple[dict[str, Entry], Services]],
    archetype: str,
    host: str,
    fault: dict[str, Any],
    reason: str,
) -> None:
    with Sandbox.start(tmp_path / "box", works_per_year=1, years=(YEAR, YEAR), mix=only(archetype)) as box:
        box.add_fault(host=host, **fault)
        entries, _ = collect(box, **{"resolvers.order": [archetype]})
        assert [str(entry.reason) for entry in entries.values()] == [reason]


@pytest.mark.requirement("RES-3")
def test_what_openalex_sells_is_bought_within_the_budget_of_the_day_across_runs(
    tmp_path: Path, collect: Callable[..., tuple[dict[str, Entry], Services]]
) -> None:
    key = {"resolvers.openalex_content.enabled": True, "resolvers.openalex_content.api_key": "sandbox-CANARY-0815"}
    with Sandbox.start(tmp_path / "box", works_per_year=6, years=(YEAR, YEAR), mix=only("sold")) as box:
        entries, services = collect(box, **key, **{"resolvers.openalex_content.budget_usd_per_day": 0.045})
        assert sorted(str(entry.reason) for entry in entries.values()) == ["budget-spent"] * 2 + ["ok"] * 4
        assert services.catalog.spent_today("openalex_content") == pytest.approx(0.04)
        poor = [entry for entry in entries.values() if entry.reason == "budget-spent"]
        assert all(entry.retry_at and entry.retry_at % 86_400 == 0 for entry in poor)  # when the next day begins
        assert "budget_usd_per_day" in str(poor[0].meta)
        assert len(box.arrivals("content.openalex.org")) == 4
        shown = (tmp_path / "data").rglob("*")
        written = b"".join(path.read_bytes() for path in shown if path.is_file())
        assert b"CANARY-0815" not in written
        entries, _ = collect(box, "other")
        assert {str(entry.reason) for entry in entries.values()} == {"no-candidate"}  # off by default
        assert len(box.arrivals("content.openalex.org")) == 4


@pytest.mark.requirement("RES-3")
def test_a_file_that_openalex_does_not_have_costs_a_credit(
    tmp_path: Path, collect: Callable[..., tuple[dict[str, Entry], Services]]
) -> None:
    key = {"resolvers.openalex_content.enabled": True, "resolvers.openalex_content.api_key": "sandbox-CANARY-0815"}
    with Sandbox.start(tmp_path / "box", works_per_year=1, years=(YEAR, YEAR), mix=only("sold")) as box:
        box.add_fault(host="content.openalex.org", status=404)
        entries, services = collect(box, **key)
        assert [str(entry.reason) for entry in entries.values()] == ["no-candidate"]
        assert services.catalog.spent_today("openalex_content") == pytest.approx(0.0001)
