"""The resolvers of indexes and archives over real sockets: each alone, against the services that the sandbox plays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from docstokg_assets.config import ContentDownloadConfig
from docstokg_assets.domain.works import Work
from docstokg_assets.runs.run import DownloadRun
from docstokg_assets.runs.services import open_services
from docstokg_assets.sandbox import Sandbox
from docstokg_assets.sandbox import Work as Sample
from resources.catalog.rows import Entry
from resources.records import AttemptRecord

ConfigFor = Callable[..., ContentDownloadConfig]
NAMES = ("pmc", "europe_pmc", "doaj", "hal", "semantic_scholar", "core", "openaire", "base")
KEYED = ("semantic_scholar", "core", "openaire", "base")
# resolver -> a kind of work that it knows, where its copy is, and how it is described
KNOWN = {
    "pmc": ("pmc", "pmc-oa-opendata.s3.amazonaws.com", (None, None)),
    "europe_pmc": ("pmc", "europepmc.org", ("publishedVersion", "cc-by")),
    "doaj": ("gold", None, ("publishedVersion", None)),
    "hal": ("repository", "hal.science", (None, "cc-by-nc")),
    "semantic_scholar": ("unpaywall_only", None, (None, "cc-by-nc")),
    "core": ("repository", "core.ac.uk", (None, None)),
    "openaire": ("unpaywall_only", None, (None, "cc-by-nc")),
    "base": ("later_location", None, (None, "cc-by-nc")),
}


SANDBOX: dict[str, Any] = {"works_per_year": 300, "years": (2024, 2024), "mix": {"strange": 0}}


def sample(box: Sandbox, archetype: str) -> Sample:
    """A work with a copy at the Harbor Institute, which deposits in HAL, and says under which licence."""
    return next(
        w
        for w in box.universe.works()
        if w.archetype == archetype
        and w.repository.key == "harbor"
        and w.rolls[11] % 3
        and w.publisher.key != "lusitana"
    )


def as_work(of: Sample, **fields: Any) -> Work:
    """As it comes from a list of DOIs, when OpenAlex does not know it."""
    return Work(of.id, title=of.title, year=of.year, **{"doi": of.doi, **fields})


def keys(prefix: str = "sandbox-") -> dict[str, str]:
    return {f"resolvers__{name}__api_key": f"{prefix}key-of-{name}" for name in KEYED}


def collect(config: ContentDownloadConfig, works: list[Work]) -> tuple[list[Entry], list[AttemptRecord]]:
    with open_services(config) as services:
        with DownloadRun(services) as run:
            run.store_and_enqueue(works)
            run.drain(run.own_works)
        entries = [services.catalog.entry(work.work_id) for work in works]
        attempts = [stored.record for stored in services.catalog.attempts_after(0, 10_000)]
    return [entry for entry in entries if entry is not None], attempts


@pytest.mark.requirement("RES-3")
@pytest.mark.parametrize("name", NAMES)
def test_a_copy_is_found_where_the_provider_knows_one(box: Sandbox, config_for: ConfigFor, name: str) -> None:
    archetype, host, described = KNOWN[name]
    known = sample(box, archetype)
    config = config_for(box, limits=True, resolvers__order=[name], **keys())
    (entry,), attempts = collect(config, [as_work(known)])
    assert (str(entry.classification), entry.resolver) == ("success", name), entry
    assert (entry.version, entry.license) == described
    assert host is None or any(a.host == host and a.http_status == 200 for a in attempts)
    assert box.violations() == []


@pytest.mark.requirement("RES-3")
@pytest.mark.parametrize("name", NAMES)
def test_what_the_provider_does_not_have_is_an_ordinary_end(box: Sandbox, config_for: ConfigFor, name: str) -> None:
    closed = next(w for w in box.universe.works() if w.archetype == "no_pdf_link_closed")
    config = config_for(box, limits=True, resolvers__order=[name], **keys())
    (entry,), _ = collect(config, [as_work(closed)])
    assert (str(entry.reason), entry.fallback_chain, entry.retry_at) == ("no-candidate", (name,), None)


@pytest.mark.requirement("RES-3")
@pytest.mark.parametrize(
    ("name", "fault", "reason"),
    [
        (
            "europe_pmc",
            {"status": 200, "body": '{"errCode": 404, "errMsg": "x"}', "type": "application/json"},
            "bad-answer",
        ),
        ("europe_pmc", {"status": 503, "body": "Service Unavailable", "type": "text/plain"}, "http-5xx"),
        ("semantic_scholar", {"status": 429, "body": '{"code": "429"}', "type": "application/json"}, "rate-limited"),
        ("hal", {"status": 503, "body": "<html>", "type": "text/html"}, "http-5xx"),
        ("openaire", {"status": 429, "body": '{"error": "Too many requests"}'}, "rate-limited"),
        ("pmc", {"status": 503, "body": "<Error><Code>SlowDown</Code></Error>"}, "http-5xx"),
        ("core", {"status": 504, "body": "<html>"}, "http-5xx"),
    ],
)
def test_a_provider_that_fails_is_asked_again_in_a_later_pass(
    box: Sandbox, config_for: ConfigFor, name: str, fault: dict[str, Any], reason: str
) -> None:
    hosts = {"europe_pmc": "www.ebi.ac.uk", "semantic_scholar": "api.semanticscholar.org", "core": "api.core.ac.uk"}
    hosts |= {"hal": "api.archives-ouvertes.fr", "openaire": "api.openaire.eu", "pmc": "pmc.ncbi.nlm.nih.gov"}
    box.add_fault(host=hosts[name], **fault)
    config = config_for(box, resolvers__order=[name], http__retry__max_attempts=2, **keys())
    (entry,), attempts = collect(config, [as_work(sample(box, "pmc"))])
    assert (str(entry.reason), entry.retry_at is not None) == (reason, True)
    assert len([a for a in attempts if a.resolver == name and a.http_status]) == (1 if reason == "bad-answer" else 2)


@pytest.mark.requirement("CFG-2")
def test_a_resolver_without_its_key_asks_nobody(box: Sandbox, config_for: ConfigFor) -> None:
    config = config_for(box, resolvers__order=[*KEYED, "unpaywall"])
    (entry,), attempts = collect(config, [as_work(sample(box, "unpaywall_only"))])
    assert (str(entry.classification), entry.fallback_chain) == ("success", ("unpaywall",))
    assert {a.resolver for a in attempts} == {"unpaywall", "robots"}


@pytest.mark.requirement("CFG-2")
@pytest.mark.parametrize("name", KEYED)
def test_a_wrong_key_costs_one_request_and_not_the_work(box: Sandbox, config_for: ConfigFor, name: str) -> None:
    config = config_for(box, resolvers__order=[name, "openalex"], **keys("wrong-"))
    (entry,), attempts = collect(config, [as_work(sample(box, "repository"))])
    assert (str(entry.reason), entry.fallback_chain) == ("no-candidate", (name,))
    assert [a.http_status for a in attempts] in ([401], [403], [200])  # BASE refuses with a 200


@pytest.mark.requirement("RES-3")
def test_a_known_pmcid_costs_one_request_and_the_walled_pages_none(box: Sandbox, config_for: ConfigFor) -> None:
    known = sample(box, "pmc")
    config = config_for(box, limits=True, robots__enabled=False)
    (entry,), attempts = collect(config, [as_work(known, pmcid=known.pmcid, oa_status="gold")])
    assert (str(entry.reason), entry.resolver, entry.requests) == ("ok", "pmc", 1)
    assert [a.host for a in attempts] == ["pmc-oa-opendata.s3.amazonaws.com"]


@pytest.mark.requirement("RES-3")
def test_what_is_not_under_its_usual_name_in_the_bucket_is_looked_for_there_last(
    box: Sandbox, config_for: ConfigFor
) -> None:
    known = sample(box, "pmc")
    bucket = "pmc-oa-opendata.s3.amazonaws.com"
    box.add_fault(host=bucket, path="*.pdf", status=404)
    config = config_for(box, resolvers__order=["pmc"])
    (entry,), attempts = collect(config, [as_work(known, pmcid=known.pmcid)])
    assert (str(entry.reason), str(entry.kind), entry.license) == ("ok", "xml", "cc-by")
    asked = [a.url.removeprefix(f"https://{bucket}/").replace(known.pmcid or "", "ID") for a in attempts]
    assert [a for a in asked if "robots" not in a] == [
        "ID.1/ID.1.pdf",
        "?list-type=2&prefix=ID.&delimiter=/",
        "metadata/ID.1.json",
        "ID.1/ID.1.xml",
    ]
