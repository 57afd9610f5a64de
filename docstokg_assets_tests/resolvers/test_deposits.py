"""The repositories with a resolver of their own, asked over sockets: found, not there, refused, and paid for."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from docstokg_assets.domain.works import Work
from docstokg_assets.resolvers import answer
from docstokg_assets.resolvers.openalex_content import (
    LINK_LASTS_S,
    OpenAlexContentResolver,
    OpenAlexContentSettings,
)
from docstokg_assets.resolvers.registry import ResolverContext
from docstokg_assets.sandbox import Sandbox
from docstokg_assets_tests.support.configs import spent_today
from resources.catalog.catalog import Catalog
from resources.clock import SystemClock
from resources.http.errors import AddressRefused, BreakerOpen, HostClosed, HttpError
from resources.http.messages import Response

DEPOSITS = ("zenodo", "figshare", "osf", "biorxiv", "medrxiv", "datacite")
CHALLENGE = {"status": 202, "headers": {"x-amzn-waf-action": "challenge"}, "body": ""}
PAYING = {"resolvers.openalex_content.enabled": True, "resolvers.openalex_content.api_key": "sandbox-CANARY-0815"}


@pytest.mark.requirement("RES-3")
def test_every_deposit_is_found_by_the_resolver_of_its_repository(
    box_of: Callable[..., Sandbox], collect: Callable[..., Any]
) -> None:
    box = box_of(*DEPOSITS, works=24)
    entries, _ = collect(box, "openalex", "zenodo", "figshare", "osf", "biorxiv", "datacite")
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
)
def test_what_a_repository_refuses_has_its_reason(
    box_of: Callable[..., Sandbox],
    collect: Callable[..., Any],
    archetype: str,
    host: str,
    fault: dict[str, Any],
    reason: str,
) -> None:
    box = box_of(archetype)
    box.add_fault(host=host, **fault)
    entries, _ = collect(box, archetype)
    assert [str(entry.reason) for entry in entries.values()] == [reason]


@pytest.mark.requirement("RES-3")
def test_what_openalex_sells_is_bought_within_the_budget_of_the_day(
    tmp_path: Path, box_of: Callable[..., Sandbox], collect: Callable[..., Any]
) -> None:
    box = box_of("sold", works=6)
    budget = {"resolvers.openalex_content.budget_usd_per_day": 0.045}
    entries, services = collect(box, "openalex", "openalex_content", **PAYING, **budget)
    assert sorted(str(entry.reason) for entry in entries.values()) == ["budget-spent"] * 2 + ["ok"] * 4
    assert spent_today(services.catalog, "openalex_content") == pytest.approx(0.04)
    poor = [entry for entry in entries.values() if entry.reason == "budget-spent"]
    assert all(entry.retry_at and entry.retry_at % 86_400 == 0 for entry in poor)  # when the next day begins
    assert "budget_usd_per_day" in str(poor[0].meta)
    assert len(box.arrivals("content.openalex.org")) == 4
    written = b"".join(path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file())
    assert b"CANARY-0815" not in written
    entries, _ = collect(box, "openalex", "openalex_content", root="other")
    assert {str(entry.reason) for entry in entries.values()} == {"no-candidate"}  # off by default
    assert len(box.arrivals("content.openalex.org")) == 4


@pytest.mark.requirement("RES-3")
def test_a_file_that_openalex_does_not_have_costs_a_credit(
    box_of: Callable[..., Sandbox], collect: Callable[..., Any]
) -> None:
    box = box_of("sold")
    box.add_fault(host="content.openalex.org", status=404)
    entries, services = collect(box, "openalex_content", **PAYING)
    assert [str(entry.reason) for entry in entries.values()] == ["no-candidate"]
    assert spent_today(services.catalog, "openalex_content") == pytest.approx(0.0001)


@pytest.mark.requirement("RES-3", "TRU-8")
@pytest.mark.parametrize(
    ("fault", "spent"),
    [({"delay": 30.0}, 0.01), ({"close": True}, 0.01), ({"status": 503}, 0.0), ({"status": 429}, 0.0)],
)
def test_a_paid_request_whose_answer_is_lost_is_spent_and_sent_once(
    box_of: Callable[..., Sandbox], collect: Callable[..., Any], fault: dict[str, Any], spent: float
) -> None:
    box = box_of("sold")
    box.add_fault(host="content.openalex.org", **fault)
    patience = {"http.timeout_read_s": 0.5, "http.retry.max_attempts": 3, "http.retry.base_delay_ms": 10}
    _, services = collect(box, "openalex_content", **PAYING, **patience)
    assert spent_today(services.catalog, "openalex_content") == pytest.approx(spent)
    assert fault == {"status": 429} or len(box.arrivals("content.openalex.org")) == 1


@pytest.mark.requirement("RES-3")
@pytest.mark.parametrize("refused", [AddressRefused("no"), HostClosed("later"), BreakerOpen("later")])
def test_a_paid_request_that_was_never_sent_costs_nothing(tmp_path: Path, refused: HttpError) -> None:
    with Catalog.open(tmp_path / "catalog.sqlite3") as budget:
        context = ResolverContext(api_keys={"openalex_content": "key"}, budget=budget)
        asking = OpenAlexContentResolver(OpenAlexContentSettings()).resolve(Work("W1", has_content=True), context)
        next(asking)
        with pytest.raises(type(refused)):
            asking.throw(refused)
        assert spent_today(budget, "openalex_content") == 0.0


class _Clock(SystemClock):
    ahead = 0.0

    def monotonic(self) -> float:
        return self.ahead


@pytest.mark.requirement("RES-3")
def test_a_work_that_must_wait_costs_nothing_before_its_request_and_buys_its_link_once(tmp_path: Path) -> None:
    resolver = OpenAlexContentResolver(OpenAlexContentSettings())
    resolver.clock = clock = _Clock()
    bought = answer(b"", 302, {"location": "https://r2.example/1.pdf?X-Amz-Signature=1"})
    with Catalog.open(tmp_path / "catalog.sqlite3") as budget:
        context = ResolverContext(api_keys={"openalex_content": "key"}, budget=budget)

        def spent_after(reply: Response | None) -> float:
            asking = resolver.resolve(Work("W1", has_content=True), context)
            with suppress(StopIteration):
                next(asking)
                if reply is not None:
                    asking.send(reply)
            asking.close()  # as when the work is given back
            return round(spent_today(budget, "openalex_content"), 4)

        assert spent_after(None) == 0.0
        assert spent_after(bought) == 0.01
        assert spent_after(None) == 0.01  # it has the link
        clock.ahead = LINK_LASTS_S + 1
        assert spent_after(bought) == 0.02
