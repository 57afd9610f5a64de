"""Works that wait for an endpoint that takes many ids: one request for all, nobody waits for more, failures do not grow."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from docstokg_assets.config import ContentDownloadConfig
from docstokg_assets.domain.works import Work
from docstokg_assets.engine.batching import gather, log_for_batch, must_retry_alone, separate, share
from docstokg_assets.engine.progress import PassResult
from docstokg_assets.engine.request_queues import RequestQueue, Task
from docstokg_assets.runs.run import DownloadRun
from docstokg_assets.runs.services import Services, open_services
from docstokg_assets.sandbox import Sandbox
from docstokg_assets_tests.support.tasks import FakeLimiter, task
from resources.http.errors import ConnectionFailed
from resources.http.exchange import Exchange
from resources.http.messages import BatchableRequest, Request, Response, Role
from resources.records import AttemptRecord, Status

ConfigFor = Callable[..., ContentDownloadConfig]
S2, CONVERTER = "api.semanticscholar.org", "pmc.ncbi.nlm.nih.gov"
CLOSED = ("crossref_link", "doi_redirect", "no_pdf_link_closed")  # Semantic Scholar knows no file of these


SANDBOX: dict[str, Any] = {"works_per_year": 900, "years": (2022, 2024), "mix": {"strange": 0}}


def closed_works(box: Sandbox, count: int) -> list[Work]:
    found = (w for w in box.universe.works() if w.archetype in CLOSED)
    return [Work(w.id, title=w.title, year=w.year, doi=w.doi) for w, _ in zip(found, range(count), strict=False)]


def settings(**more: Any) -> dict[str, Any]:
    return {"resolvers__order": ["s2"], "resolvers__semantic_scholar__api_key": "sandbox-key", **more}


def drain(services: Services, works: list[Work], **how: Any) -> PassResult:
    with DownloadRun(services) as run:
        run.store_and_enqueue(works)
        return run.drain(run.own_works, **how)


def attempts_of(services: Services) -> list[AttemptRecord]:
    return [stored.record for stored in services.catalog.attempts_after(0, 10_000)]


@pytest.mark.requirement("RES-3")
def test_three_hundred_works_cost_a_few_requests_and_none_waits_for_the_others(
    box: Sandbox, config_for: ConfigFor
) -> None:
    works = closed_works(box, 300)
    with open_services(config_for(box, limits=True, **settings())) as services:
        result = drain(services, works)
        entries = [services.catalog.entry(work.work_id) for work in works]
        attempts = attempts_of(services)
    arrivals = box.arrivals(S2)
    assert (len(works), result.finished, result.requests) == (300, 300, len(arrivals))
    assert 10 * len(arrivals) <= 300, [a.extra for a in attempts]
    assert {(a["method"], a["status"]) for a in arrivals} == {("POST", 200)}
    assert all(
        e is not None and (str(e.reason), e.fallback_chain) == ("no-candidate", ("semantic_scholar",)) for e in entries
    )
    assert len(attempts) == len(arrivals)  # a row a request
    asked_for = [a.extra.get("works", 1) for a in attempts]  # whoever was alone says nothing of others
    assert sum(asked_for) == 300 and asked_for[0] <= 64  # the first took who was there
    told = [str(a.work_id) for a in attempts] + [other for a in attempts for other in a.extra.get("also_for", ())]
    assert sorted(told) == sorted(work.work_id for work in works)  # so that the story of each work can tell of it
    assert box.violations() == []


@pytest.mark.requirement("RES-3")
def test_each_work_gets_its_own_part_of_the_answer(box: Sandbox, config_for: ConfigFor) -> None:
    """Known and unknown ones mixed, and two works with the same DOI; `requests` counts what was sent for each."""
    known = [w for w in box.universe.works() if w.archetype == "unpaywall_only"][:6]
    works = [Work(w.id, title=w.title, year=w.year, doi=w.doi) for w in known]
    works += [Work("W1", year=2024, doi="10.5555/unknown"), Work("W2", year=2024, doi=known[0].doi)]
    slow_start = {"rate_limit__policies": {S2: "1/second", "*": "500/second burst 50"}}
    with open_services(config_for(box, **settings(**slow_start))) as services:
        drain(services, works)
        entries = {work.work_id: services.catalog.entry(work.work_id) for work in works}
    for w in known:
        entry = entries[w.id]
        assert entry is not None and (entry.url, entry.resolver) == (box.universe.truth(w.id).url, "semantic_scholar")
    assert [str(e.reason) for name in ("W1", "W2") if (e := entries[name])] == ["no-candidate", "ok"]
    assert len(box.arrivals(S2)) < len(works) / 2


@pytest.mark.requirement("RES-3")
def test_a_converter_is_asked_with_one_kind_of_id_at_a_time(box: Sandbox, config_for: ConfigFor) -> None:
    known = [w for w in box.universe.works() if w.archetype == "pmc"][:40]
    works = [Work(w.id, title=w.title, year=w.year, doi=w.doi) for w in known[:20]]
    works += [Work(w.id, title=w.title, year=w.year, pmid=str(w.pmid)) for w in known[20:]]
    config = config_for(box)
    rates = dict(config.rate_limit.policies) | {CONVERTER: {"*": "2.5/second"}}
    with open_services(config_for(box, resolvers__order=["pmc"], rate_limit__policies=rates)) as services:
        result = drain(services, works)
    asked = [arrival["path"] for arrival in box.arrivals(CONVERTER)]
    assert result.saved == 40
    assert len(asked) <= 10 and sum("idtype=doi" in path for path in asked) >= 1


@pytest.mark.requirement("HTTP-2")
def test_a_request_for_many_that_fails_fails_each_of_them_and_is_not_repeated_for_each(
    box: Sandbox, config_for: ConfigFor
) -> None:
    box.add_fault(host=S2, status=500)
    works = closed_works(box, 60)
    with open_services(config_for(box, **settings(http__retry__max_attempts=3))) as services:
        result = drain(services, works)
        attempts = attempts_of(services)
    assert (result.finished, result.to_retry, result.outcomes) == (60, 60, {"http-5xx": 60})
    assert [(a.http_status, a.extra["works"]) for a in attempts] == [(500, 60)] * 3
    assert len(box.arrivals(S2)) == 3


@pytest.mark.requirement("RES-3")
def test_when_a_request_for_many_is_refused_each_is_asked_for_alone(
    box: Sandbox, config_for: ConfigFor, tmp_path: Path
) -> None:
    """The id of one may be to blame; the others get their answer. A refusal of who asks is one for all."""
    box.add_fault(host=S2, status=400, times=1)
    known = [w for w in box.universe.works() if w.archetype == "unpaywall_only"][:3]
    works = [Work(w.id, title=w.title, year=w.year, doi=w.doi) for w in known]
    with open_services(config_for(box, limits=True, **settings())) as services:
        assert drain(services, works).outcomes == {"ok": 3}
        asked = [a for a in attempts_of(services) if a.url and S2 in a.url]
    assert [(a.http_status, a.extra.get("works")) for a in asked] == [(400, 3)] + [(200, None)] * 3
    box.reset()
    box.add_fault(host=S2, status=403)
    with open_services(config_for(box, data_root=str(tmp_path / "other"), **settings())) as services:
        assert drain(services, works).outcomes == {"no-candidate": 3}
    assert len(box.arrivals(S2)) == 1


@pytest.mark.requirement("RES-3")
def test_works_of_which_the_provider_knows_none_are_not_asked_for_again_one_by_one(
    box: Sandbox, config_for: ConfigFor
) -> None:
    works = [Work(f"W{number}", year=2024, doi=f"10.5555/unknown.{number}") for number in range(40)]
    slow_start = {"rate_limit__policies": {S2: "1/second", "*": "500/second burst 50"}}
    with open_services(config_for(box, **settings(**slow_start))) as services:
        drain(services, works)
        reasons = {str(entry.reason) for work in works if (entry := services.catalog.entry(work.work_id))}
    assert reasons == {"no-candidate"}
    assert len(box.arrivals(S2)) < 8


@pytest.mark.requirement("CAT-2")
def test_a_fault_in_a_request_for_many_costs_one_work_and_the_others_ask_alone(
    box: Sandbox, config_for: ConfigFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults: list[str] = []

    def raising(exchange: Exchange) -> Exchange:
        yield next(exchange)
        raise KeyError("a fault of ours")

    with open_services(config_for(box, limits=True, **settings())) as services:
        real = services.client.exchange

        def exchange(request: Request, *args: Any, **how: Any) -> Exchange:
            made = real(request, *args, **how)
            if request.batchable is None and not faults:
                faults.append(request.url)
                return raising(made)
            return made

        monkeypatch.setattr(services.client, "exchange", exchange)
        result = drain(services, closed_works(box, 4), deadline_s=60.0)
    assert (result.ended, result.outcomes) == ("drained", {"internal-error": 1, "no-candidate": 3})


@pytest.mark.requirement("HTTP-2")
def test_a_request_for_many_is_tried_again_as_it_was(box: Sandbox, config_for: ConfigFor) -> None:
    box.add_fault(host=S2, status=429, times=1)
    with open_services(config_for(box, **settings())) as services:
        result = drain(services, closed_works(box, 30))
        first, second, *_ = attempts_of(services)
    assert result.outcomes == {"no-candidate": 30}
    assert (first.http_status, first.attempt, second.attempt) == (429, 1, 2)
    assert first.extra["works"] == second.extra["works"]


@pytest.mark.requirement("CAT-3")
def test_works_that_wait_for_another_ones_request_are_given_back_with_it(box: Sandbox, config_for: ConfigFor) -> None:
    box.add_fault(host=S2, status=503, headers={"Retry-After": "30"}, times=1)
    works = closed_works(box, 20)
    config = config_for(box, **settings(rate_limit__policies={"*": "500/second burst 50"}))
    with open_services(config) as services:
        first = drain(services, works, deadline_s=1.0)
        counts = services.catalog.queue_counts()
        assert (first.ended, first.finished, first.parked) == ("deadline", 0, 20)
        assert (counts.leased, counts.parked) == (0, 20)


@pytest.mark.requirement("CAT-3")
def test_a_stop_gives_back_whoever_waits_for_an_answer(box: Sandbox, config_for: ConfigFor, tmp_path: Path) -> None:
    box.add_fault(host=S2, delay=60.0)
    with open_services(config_for(box, **settings(http__timeout_read_s=90))) as services:
        result = drain(services, closed_works(box, 20), deadline_s=1.0)
        counts = services.catalog.queue_counts()
    assert (result.ended, result.finished, counts.leased, counts.done) == ("deadline", 0, 0, 0)


@pytest.mark.requirement("RES-3")
@pytest.mark.parametrize(
    ("name", "host", "archetype"),
    [
        ("hal", "api.archives-ouvertes.fr", "repository"),
        ("europe_pmc", "www.ebi.ac.uk", "pmc"),
        ("core", "api.core.ac.uk", "repository"),
    ],
)
def test_search_engines_are_asked_for_several_works_in_one_query(
    box: Sandbox, config_for: ConfigFor, name: str, host: str, archetype: str
) -> None:
    known = [w for w in box.universe.works() if w.archetype == archetype and w.repository.key == "harbor"][:12]
    works = [Work(w.id, title=w.title, year=w.year, doi=w.doi) for w in known] + closed_works(box, 12)
    rates = dict(config_for(box).rate_limit.policies) | {host: {"*": "1/second"}}
    more = {"resolvers__core__api_key": "sandbox-key", "rate_limit__policies": rates}
    with open_services(config_for(box, resolvers__order=[name], **more)) as services:
        result = drain(services, works)
        saved = {
            w.id for w in known if (entry := services.catalog.entry(w.id)) and entry.resolver == name and entry.path
        }
    assert saved == {w.id for w in known} and result.outcomes == {"ok": 12, "no-candidate": 12}
    assert len(box.arrivals(host)) <= len(works) / 2


# -- the functions alone ----------------------------------------------------------------------------------------------


def combined(ids: Sequence[str]) -> Request:
    return Request(f"https://api.example/?ids={','.join(ids)}", Role.METADATA)


def elsewhere(ids: Sequence[str]) -> Request:
    return Request("https://other.example/", Role.METADATA)


def waiting(name: str, build: Any = combined, most: int = 3, **how: Any) -> Task:
    request = Request(
        f"https://api.example/{name}", Role.METADATA, batchable=BatchableRequest(name, most, build, **how)
    )
    return task(name, request=replace(request, resolver="s2"))


def queue_of(*tasks: Task) -> RequestQueue:
    return RequestQueue(FakeLimiter().policy_for("api.example", "metadata"), deque(tasks))


def test_the_first_takes_along_those_that_wait_for_the_same_endpoint_up_to_its_size() -> None:
    first, second, third, fourth, other = *(waiting(name) for name in "abcd"), waiting("x", elsewhere)
    queue = queue_of(second, other, third, fourth)
    request = gather(first, queue, now=5.0)
    assert request is not None and (request.url, request.resolver) == ("https://api.example/?ids=a,b,c", "s2")
    assert (first.batched, first.items, list(queue.tasks)) == ([second, third], ("a", "b", "c"), [other, fourth])
    assert second.began == 5.0 and second.batchable is None and second.alone is not None


def test_a_request_without_company_goes_alone_and_is_not_combined_later() -> None:
    alone = waiting("a")
    assert gather(alone, queue_of(waiting("x", elsewhere)), now=5.0) is None
    assert alone.batchable is None and alone.batched == []


def test_the_answer_goes_to_all_with_the_ids_that_were_asked_for() -> None:
    first, second = waiting("a"), waiting("b")
    gather(first, queue_of(second), now=5.0)
    answer, others = share(first, Response(200, "", {}))
    assert isinstance(answer, Response) and (answer.items, others, first.batched) == (("a", "b"), [second], [])
    failure = ConnectionFailed("reset")
    assert share(first, failure) == (failure, [])


@pytest.mark.parametrize(
    ("status", "again"), [(400, True), (404, True), (401, False), (403, False), (429, False), (500, False)]
)
def test_only_a_refusal_of_what_was_asked_for_is_retried_alone(status: int, again: bool) -> None:
    first, second = waiting("a"), waiting("b")
    assert not must_retry_alone(first, Response(status, "", {}))  # nothing was combined
    gather(first, queue_of(second), now=5.0)
    assert must_retry_alone(first, Response(status, "", {})) is again
    assert not must_retry_alone(first, ConnectionFailed("reset"))
    assert separate(first) == [second] and first.batched == []


def test_a_refusal_that_speaks_for_all_is_not_retried_alone() -> None:
    first = waiting("a", is_for_all=lambda response: True)
    gather(first, queue_of(waiting("b")), now=5.0)
    assert not must_retry_alone(first, Response(404, "", {}))


def test_an_attempt_of_a_combined_request_names_the_other_works() -> None:
    records: list[AttemptRecord] = []
    log = log_for_batch(task("W1", emit=records.append).log, [task("W2"), task("W3")])
    log.write(combined(["a"]), "https://api.example/", Status.HTTP_200, None)
    assert [(r.work_id, r.extra) for r in records] == [("W1", {"works": 3, "also_for": ["W2", "W3"]})]
