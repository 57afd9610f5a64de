"""The whole core over the sandbox, without Dagster: what is found, what is recorded, and that nothing is fetched twice."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from docstokg_assets.config import ContentDownloadConfig
from docstokg_assets.engine.progress import PassResult, Progress
from docstokg_assets.engine.recorder import Recorder
from docstokg_assets.engine.search import ResolverPipeline
from docstokg_assets.runs.run import ContentOrchestrator, DownloadRun
from docstokg_assets.runs.services import open_services
from docstokg_assets.sandbox import Sandbox
from docstokg_assets.sandbox.files import FileMaker, fulltext, jats
from docstokg_assets.sandbox.scenario import CORRUPTIONS as CORRUPT_STYLES
from docstokg_assets.sandbox.universe import Truth
from docstokg_assets.sources.listing import Collected
from docstokg_assets_tests.support.configs import config_for_sandbox
from resources.artifacts.file_system import StoreError
from resources.catalog.catalog import CatalogConnector
from resources.processes import new_owner, process_is_gone
from resources.records import AttemptRecord, Ending, Reason
from resources.scope import WorkScope

ConfigFor = Callable[..., ContentDownloadConfig]
WALLS = {"cookie": "blocked-cookie", "captcha": "blocked-waf", "login": "blocked-login", "pow": "blocked-pow"}
CORRUPTIONS = dict.fromkeys(CORRUPT_STYLES, "pdf-corrupt") | {"truncated": "size-mismatch", "type": "unexpected-ct"}
SENT = "http_status IS NOT NULL AND NOT cache_hit AND resolver != 'robots'"  # redirects and retries are requests too
API_HOSTS = ("api.openalex.org", "api.unpaywall.org", "api.crossref.org", "web.archive.org")


SANDBOX: dict[str, Any] = {"works_per_year": 150, "years": (2023, 2024), "enforce_limits": False}


def pull(config: ContentDownloadConfig, works_filter: str, **drain: object) -> tuple[PassResult, DownloadRun]:
    with open_services(config) as services:
        with DownloadRun(services) as run:
            run.store_and_enqueue(run.collect(works_filter))
            result = run.drain(run.own_works, **drain)  # type: ignore[arg-type]
        services.export_lake()
    return result, run


def rows(config: ContentDownloadConfig, sql: str) -> list[tuple[object, ...]]:
    with sqlite3.connect(config.data_root / "catalog.sqlite3") as connection:
        return connection.execute(sql).fetchall()


@pytest.fixture(scope="module")
def collected(
    sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory
) -> tuple[ContentDownloadConfig, PassResult, Mapping[str, Truth]]:
    """All works of the box, by all resolvers that need no key, and the truth about each."""
    sandbox.reset()
    config = config_for_sandbox(sandbox, tmp_path_factory.mktemp("collected"))
    result, _ = pull(config, "publication_year:2023-2024")
    return config, result, {work.id: sandbox.universe.truth(work.id) for work in sandbox.universe.works()}


@pytest.mark.requirement("RES-3")
def test_every_reachable_copy_is_found_and_is_the_right_file(
    sandbox: Sandbox, collected: tuple[ContentDownloadConfig, PassResult, Mapping[str, Truth]]
) -> None:
    config, result, truths = collected
    assert (result.finished, result.ended) == (300, "drained")
    entries = rows(config, "SELECT work_id, path, sha256 FROM catalog_entries WHERE classification = 'success'")
    reachable = {work_id for work_id, truth in truths.items() if truth.reachable}
    assert {str(work_id) for work_id, *_ in entries} == reachable and len(reachable) > 220
    stored: dict[str, bytes] = {
        str(work_id): (config.data_root / str(path)).read_bytes() for work_id, path, _ in entries
    }
    assert [w for w, _, sha256 in entries if hashlib.sha256(stored[str(w)]).hexdigest() != sha256] == []
    maker = FileMaker(sandbox.universe.seed)
    wrong = []
    for work_id, body in stored.items():
        work, truth = sandbox.universe.by_openalex(work_id), truths[work_id]
        assert work is not None
        made = {"pdf": maker.pdf, "xml": jats, "html": lambda work, url=truth.url: fulltext(work, str(url))}
        if body != made[truth.kind](work):
            wrong.append((work_id, truth.archetype))
    assert wrong == []
    on_disk = {path.name for path in (config.data_root / "PDF").iterdir()}
    assert on_disk == {Path(str(path)).name for _, path, _ in entries if str(path).startswith("PDF/")}


@pytest.mark.requirement("RES-2")
@pytest.mark.requirement("TEL-1")
def test_every_other_work_has_the_reason_of_its_most_promising_copy(
    sandbox: Sandbox, collected: tuple[ContentDownloadConfig, PassResult, Mapping[str, Truth]]
) -> None:
    config, _, truths = collected
    entries = rows(config, "SELECT work_id, reason FROM catalog_entries WHERE classification != 'success'")
    assert len(entries) > 50
    ordinary = [(str(work_id), str(reason)) for work_id, reason in entries if truths[str(work_id)].strange is None]
    wrong = [
        (work_id, truths[work_id].archetype, reason, expected)
        for work_id, reason in ordinary
        if reason != (expected := right_reason(sandbox, work_id))
    ]
    assert wrong == []


def right_reason(box: Sandbox, work_id: str) -> str:
    work, failure = box.universe.by_openalex(work_id), box.universe.truth(work_id).failure
    assert work is not None
    page = next(iter(box.universe.scenario(work).pages.values()))
    return {
        "nothing": "http-4xx" if work.doi else "no-candidate",
        "bad-status": "http-5xx" if page.status >= 500 else "http-4xx",
        "wall": WALLS.get(page.style, ""),
        "corrupt": CORRUPTIONS.get(page.style, ""),
        "robots": "robots" if work.publisher.key == "keepout" else "robots-unavailable",
    }.get(failure, failure)


@pytest.mark.requirement("RES-2")
@pytest.mark.requirement("RES-4")
@pytest.mark.requirement("TEL-7")
def test_a_full_text_costs_at_most_one_request_and_a_half_or_so(
    collected: tuple[ContentDownloadConfig, PassResult, Mapping[str, Truth]],
) -> None:
    """Questions to APIs, HEADs and GETs, redirects and retries included; robots.txt is read once a host and not counted."""
    config, result, _ = collected
    success = "work_id IN (SELECT work_id FROM catalog_entries WHERE classification = 'success')"
    ((own,),) = rows(config, f"SELECT count(*) FROM attempts WHERE {SENT} AND {success}")
    ((every,),) = rows(config, f"SELECT count(*) FROM attempts WHERE {SENT}")
    by_resolver = rows(config, f"SELECT resolver, verb, reason, count(*) FROM attempts WHERE {SENT} GROUP BY 1, 2, 3")
    assert int(str(own)) / result.saved <= 1.6, by_resolver
    assert int(str(every)) / result.saved <= 3.0, by_resolver
    assert rows(config, "SELECT extra FROM attempts WHERE json_extract(extra, '$.sleep_ms') < 0") == []


@pytest.mark.requirement("CAT-5")
def test_a_capture_of_the_archive_is_known_as_one_of_what_it_captured(tmp_path: Path, config_for: ConfigFor) -> None:
    with Sandbox.start(tmp_path / "box", works_per_year=12, mix={"wayback_only": 1000}, enforce_limits=False) as box:
        year = box.universe.years[-1]
        config = config_for(box, robots__enabled=False)
        pull(config, f"publication_year:{year}")
        found = rows(config, "SELECT url, derivation, derived_from FROM artifacts WHERE tier = 'wayback'")
    assert len(found) >= 6
    for url, derivation, original in found:
        assert derivation == "archive-capture" and str(url).partition("id_/")[2] == original


@pytest.mark.requirement("TEL-4")
@pytest.mark.requirement("TEL-5")
@pytest.mark.requirement("CFG-4")
def test_the_run_folder_holds_the_whole_account(box: Sandbox, config_for: ConfigFor) -> None:
    config = config_for(box, openalex__max_works=40)
    result, run = pull(config, "publication_year:2023")
    lines = [json.loads(line) for line in (run.folder / "manifest.jsonl").read_text().splitlines()]
    kinds = Counter(line["record_type"] for line in lines)
    assert (kinds["outcome"], kinds["summary"]) == (40, 1)
    attempts = [line for line in lines if line["record_type"] == "attempt"]
    assert len(attempts) == rows(config, "SELECT count(*) FROM attempts")[0][0]
    assert {line["config_hash"] for line in lines} == {run.config_hash}
    assert all(line["run_id"] == run.run_id for line in lines if line["record_type"] != "summary")
    wanted = (
        "run_id doc_id stage url canonical_url role status http_status mime size_bytes sha256 path attempt duration_ms"
    )
    wanted += " retry_after_s cache_hit resolver tier fallback_chain created_at config_hash worker_id"
    assert set(wanted.split()) <= attempts[0].keys()
    metrics = json.loads((run.folder / "manifest.metrics.json").read_text())
    assert metrics["processed"] == metrics["summary"]["processed"]
    assert metrics["saved"] + metrics["html_only"] == result.saved
    with sqlite3.connect(run.folder / "manifest.sqlite3") as copy:
        assert copy.execute("SELECT count(*) FROM catalog_entries").fetchone() == (40,)
    assert len((run.folder / "manifest.last.csv").read_text().splitlines()) == result.saved + 1
    assert (run.folder / "attempts.csv").stat().st_size > 0


@pytest.mark.requirement("CAT-3")
def test_a_second_run_fetches_nothing_again(box: Sandbox, config_for: ConfigFor) -> None:
    config = config_for(box, openalex__max_works=40)
    first, _ = pull(config, "publication_year:2023")
    box.reset()
    second, run = pull(config, "publication_year:2023")
    assert (first.finished, second.finished) == (40, 0)
    assert {arrival["host"] for arrival in box.arrivals()} == {"api.openalex.org"}
    assert run.run_id in {row[0] for row in rows(config, "SELECT run_id FROM runs")}


def test_records_with_strange_fields_never_end_a_run(tmp_path: Path, config_for: ConfigFor) -> None:
    with Sandbox.start(
        tmp_path / "box", works_per_year=60, years=(2024, 2024), mix={"strange": 1.0}, enforce_limits=False
    ) as strange:
        collected = Collected()
        config = config_for(strange)
        with open_services(config) as services, DownloadRun(services) as run:
            planned = run.store_and_enqueue(run.collect("", collected))
            result = run.drain(run.own_works)
    assert planned.works + len(collected.set_aside) >= 55
    assert result.finished == planned.works > 0
    assert result.outcomes["internal-error"] == 0


@pytest.mark.requirement("HTTP-10")
@pytest.mark.requirement("CAT-2")
def test_at_its_deadline_a_pass_parks_what_still_waits_and_the_next_one_goes_on(
    tmp_path: Path, config_for: ConfigFor
) -> None:
    only_arxiv = dict.fromkeys(("gold", "repository", "later_location", "unpaywall_only", "crossref_link"), 0.0)
    with Sandbox.start(
        tmp_path / "box", works_per_year=30, years=(2024, 2024), mix=_mostly(only_arxiv, arxiv_only=1.0, gold=2.0)
    ) as limited:
        config = config_for(limited, limits=True, rate_limit__policies={"*": "100/second burst 50"})
        with open_services(config) as services:
            with DownloadRun(services) as run:
                run.store_and_enqueue(run.collect(""))
                result = run.drain(run.own_works, deadline_s=5.0)
            counts = services.catalog.queue_counts()
            waiting = services.catalog.parked()
        assert result.ended == "deadline"
        assert counts.leased == 0
        assert counts.done == result.finished
        assert counts.total == counts.done + counts.parked + counts.queued_due + counts.retry
        assert [group.group for group in waiting] == ["arxiv"]
        assert waiting[0].earliest > time.time() - 1
        assert limited.violations() == []
        fast = dict.fromkeys(("arxiv.org", "*"), "1000/second burst 1000")
        limited.enforce_limits(False)
        eager = config_for(limited, limits=True, rate_limit__policies=fast, rate_limit__concurrency={"arxiv.org": 8})
        with open_services(eager) as services:
            _make_due(eager)
            with DownloadRun(services) as run:
                rest = run.drain(WorkScope(2024))
            assert services.catalog.queue_counts().done == 30
        assert rest.finished == 30 - result.finished


def _mostly(base: dict[str, float], **weights: float) -> dict[str, float]:
    from docstokg_assets.sandbox.mix import ARCHETYPES

    return dict.fromkeys(ARCHETYPES, 0.0) | base | weights | {"strange": 0.0}


def _make_due(config: ContentDownloadConfig) -> None:
    with sqlite3.connect(config.data_root / "catalog.sqlite3") as connection:
        connection.execute("UPDATE queue SET not_before = 0 WHERE state = 'queued'")
        connection.execute("DELETE FROM group_leases")
    (config.data_root / "limits.sqlite3").unlink()


def test_a_slow_group_does_not_hold_up_the_others(tmp_path: Path, config_for: ConfigFor) -> None:
    mix = _mostly({}, arxiv_only=3.0, gold=1.0)
    with Sandbox.start(tmp_path / "box", works_per_year=200, years=(2024, 2024), mix=mix) as limited:
        config = config_for(limited, limits=True, rate_limit__policies={"*": "100/second burst 50"}, workers=2)
        gold = {w.id for w in limited.universe.works() if limited.universe.truth(w.id).archetype == "gold"}
        stop, done = threading.Event(), set[str]()

        def look(progress: Progress) -> None:
            done.update(entry.work_id for entry in services.catalog.entries())
            if gold <= done:
                stop.set()

        with open_services(config) as services, DownloadRun(services, stop=stop) as run:
            run.store_and_enqueue(run.collect(""))
            run.drain(run.own_works, deadline_s=120.0, on_progress=look)
        assert gold <= done and len(done - gold) < 75, "half of the others would take arXiv minutes"


def test_a_stop_ends_the_pass_quickly_and_loses_nothing(box: Sandbox, config_for: ConfigFor) -> None:
    for host in {urlsplit(str(url)).hostname for url in _pdf_urls(box)}:
        box.add_fault(host=host, delay=30.0)
    config = config_for(box)
    stop = threading.Event()
    with open_services(config) as services:
        with DownloadRun(services, stop=stop) as run:
            run.store_and_enqueue(run.collect("publication_year:2024"))
            threading.Timer(1.5, stop.set).start()
            began = time.monotonic()
            result = run.drain(run.own_works)
            took = time.monotonic() - began
        counts = services.catalog.queue_counts()
    assert result.ended == "stopped"
    assert took < 25, "an answer takes half a minute"
    assert (counts.leased, counts.total) == (0, 150)
    assert counts.queued_due == 150 - counts.done - counts.retry
    assert not list((config.data_root).rglob(".part-*"))
    box.clear_faults()
    again, _ = pull(config, "publication_year:2024")
    assert again.finished == 150 - counts.done - counts.retry


def _pdf_urls(box: Sandbox) -> list[str]:
    return [t.url for w in box.universe.works(2024) if (t := box.universe.truth(w.id)).url]


def test_a_fault_of_ours_costs_one_work_not_the_run(
    box: Sandbox, config_for: ConfigFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    genuine = ResolverPipeline.search

    def faulty(self: ResolverPipeline, work, state, log):  # type: ignore[no-untyped-def]
        if work.work_id.endswith("7"):
            raise RuntimeError("a bug")
        return (yield from genuine(self, work, state, log))

    monkeypatch.setattr(ResolverPipeline, "search", faulty)
    result, _ = pull(config_for(box, openalex__max_works=30), "publication_year:2024")
    assert result.finished == 30
    assert result.outcomes["internal-error"] == 3


@pytest.mark.parametrize("step", ["commit", "sync"])
def test_a_store_that_fails_ends_the_run_and_gives_the_works_back(
    box: Sandbox, config_for: ConfigFor, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    config = config_for(box, openalex__max_works=30)
    with open_services(config) as services:

        def full(*_: object, **__: object) -> None:
            raise StoreError("no room left")

        monkeypatch.setattr(services.store, step, full)
        with pytest.raises(StoreError), DownloadRun(services) as run:
            run.store_and_enqueue(run.collect("publication_year:2024"))
            run.drain(run.own_works)
        assert services.catalog.queue_counts().leased == 0


def test_works_of_a_process_that_has_ended_are_taken_over_at_once(box: Sandbox, config_for: ConfigFor) -> None:
    config = config_for(box, openalex__max_works=5)
    with open_services(config) as services:
        with DownloadRun(services) as run:
            run.store_and_enqueue(run.collect("publication_year:2024"))
        dead = new_owner().replace(f":{os.getpid()}:", ":999999999:")
        assert process_is_gone(dead)
        assert not process_is_gone(new_owner())
        assert len(services.catalog.claim(dead, 5, 3600).items) == 5
        with DownloadRun(services) as again:
            assert again.drain(WorkScope(2024)).finished == 5


@pytest.mark.requirement("TRU-8")
def test_fault_62_two_passes_of_a_run_keep_all_attempts(
    box: Sandbox, config_for: ConfigFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[AttemptRecord] = []
    record = Recorder.record

    def note(self: Recorder, event: Any) -> None:
        if isinstance(event, AttemptRecord):
            told.append(event)
        record(self, event)

    monkeypatch.setattr(Recorder, "record", note)
    config = config_for(box, openalex__max_works=6)
    with open_services(config) as services:
        with DownloadRun(services) as run:
            run.store_and_enqueue(run.collect("publication_year:2024"))
            passes = [run.drain(run.own_works, max_works=2), run.drain(run.own_works)]
            services.catalog.reopen([(entry.work_id, None) for entry in services.catalog.entries()])
            passes.append(run.drain(run.own_works))
        with DownloadRun(services, run.run_id) as again:  # the same run once more, with its source
            list(again.collect("publication_year:2024"))
        kept = services.catalog.attempts_after(0, 100_000)
    assert all(each.finished and each.requests for each in passes[:2]) and passes[2].finished == 6
    keys = [(each.run_id, each.worker_id, each.seq) for each in told]
    assert len(set(keys)) == len(keys)
    assert sorted((a.record.run_id, a.record.worker_id, a.record.seq) for a in kept) == sorted(keys)


@pytest.mark.requirement("CFG-5")
def test_programs_run_the_whole_job_with_one_call(box: Sandbox, config_for: ConfigFor) -> None:
    config = config_for(box, openalex__filter="publication_year:2024", openalex__max_works=8)
    assert ContentOrchestrator(config).run_sync().finished == 8
    assert asyncio.run(ContentOrchestrator(config).run()).finished == 0
    with CatalogConnector.open(config.catalog_location) as catalog:
        assert sum(count.count for count in catalog.outcome_counts()) == 8


def test_progress_names_the_hosts_that_are_asked_and_those_that_are_waited_for(
    tmp_path: Path, config_for: ConfigFor
) -> None:
    with Sandbox.start(
        tmp_path / "box", works_per_year=12, years=(2024, 2024), mix=_mostly({}, arxiv_only=1.0)
    ) as limited:
        config = config_for(limited, limits=True)
        seen: list[Progress] = []
        pull(config, "", deadline_s=3.0, on_progress=seen.append)
    assert any(wait.group == "arxiv" and wait.works > 5 and wait.seconds > 0 for p in seen for wait in p.waiting)


@pytest.mark.requirement("TEL-1")
def test_every_recorded_reason_is_of_the_closed_list(box: Sandbox, config_for: ConfigFor) -> None:
    config = config_for(box)
    pull(config, "publication_year:2023")
    used = {row[0] for row in rows(config, "SELECT reason FROM catalog_entries UNION SELECT reason FROM attempts")} - {
        None
    }
    assert used <= {str(reason) for reason in Reason}
    assert len(used) > 8
    retried = rows(config, "SELECT DISTINCT reason FROM catalog_entries WHERE retry_at IS NOT NULL")
    assert all(Reason(str(reason)).ending is not Ending.NEVER for (reason,) in retried)
