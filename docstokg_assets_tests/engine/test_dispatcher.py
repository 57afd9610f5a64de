"""Many works at once: nobody stands in another's way, nothing is lost when a pass ends, failures of ours end it."""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from docstokg_assets.config import ContentDownloadConfig, load_config
from docstokg_assets.domain.works import Location, Work
from docstokg_assets.engine.progress import PassResult, Progress, waiting_text
from docstokg_assets.engine.workers import GRACE_S
from docstokg_assets.runs.run import DownloadRun
from docstokg_assets.runs.services import Services, open_services
from resources.catalog.catalog import Catalog
from resources.catalog.errors import CatalogError
from resources.catalog.rows import Claimed, NewItem, QueueItem
from resources.scope import WorkScope

PDF = b"%PDF-1.7\n" + b"x" * 4000 + b"\n%%EOF\n"


class _Host(BaseHTTPRequestHandler):
    """Every host of a small web, behind one plain proxy: any PDF is there, Unpaywall knows nothing."""

    protocol_version = "HTTP/1.1"
    asked: Counter[str]

    def do_GET(self) -> None:
        host = self.path.split("/")[2]
        self.asked[host] += 1
        body, kind = (b"{}", "application/json") if host.startswith("api.") else (PDF, "application/pdf")
        status = 404 if host.startswith("api.") else 503 if host == "ill.example" else 200
        if host == "busy.example" and self.asked[host] == 1:
            status = 429
        self.send_response(status)
        if status == 429:
            self.send_header("Retry-After", "4")
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if host.startswith("drip."):
            with suppress(OSError):
                for byte in body:
                    self.wfile.write(bytes([byte]))
                    time.sleep(0.05)
            return
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        return


@pytest.fixture
def web() -> Iterator[tuple[str, Counter[str]]]:
    asked: Counter[str] = Counter()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Host", (_Host,), {"asked": asked}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}", asked
    server.shutdown()
    server.server_close()


HOSTS = (
    "a.example",
    "ill.example",
    "busy.example",
    "api.unpaywall.org",
    *(f"{d}b{n}.example" for n in range(30) for d in ("", "drip.")),
)
ConfigOf = Callable[..., ContentDownloadConfig]


@pytest.fixture
def config_of(web: tuple[str, Counter[str]], tmp_path: Path) -> ConfigOf:
    def build(**values: Any) -> ContentDownloadConfig:
        base: dict[str, Any] = {
            "data_root": str(tmp_path / "data"),
            "http.proxy": web[0],
            "http.allow_http_hosts": list(HOSTS),
            "http.contact_email": "crawler@library-of-tests.edu",
            "http.retry.max_attempts": 1,
            "robots.enabled": False,
            "resolvers.order": ["openalex"],
        }
        return load_config(None, {}, base | {key.replace("__", "."): value for key, value in values.items()}).value

    return build


def work(number: int, *hosts: str, **fields: Any) -> Work:
    places = tuple(Location(pdf_url=f"http://{host}/{number}.pdf", is_oa=True) for host in hosts)
    return Work(f"W{number}", title=f"Work {number}", year=2024, locations=places, **fields)


def run_over(services: Services, works: list[Work], **drain: Any) -> PassResult:
    with DownloadRun(services) as run:
        run.store_and_enqueue(works)
        return run.drain(run.own_works, **drain)


@pytest.mark.requirement("HTTP-10")
def test_an_ordinary_host_with_very_many_works_does_not_hold_up_the_others(
    web: tuple[str, Counter[str]], config_of: ConfigOf
) -> None:
    crowd = [work(n, "a.example") for n in range(300)]
    others = [work(1000 + n, f"b{n % 30}.example") for n in range(150)]
    with open_services(config_of(workers=8)) as services:
        result = run_over(services, crowd + others, deadline_s=8.0)
        waiting = services.catalog.parked()
    _, asked = web
    assert sum(asked[f"b{n}.example"] for n in range(30)) == 150
    assert 10 <= asked["a.example"] <= 19  # two a second, a burst of two, and the time it takes to begin
    assert result.ended == "deadline"
    crowd_waits = waiting[0]
    assert 5 <= crowd_waits.count < 150  # most of the crowd is left where it is
    spread = crowd_waits.latest - crowd_waits.earliest
    assert spread >= 0.4 * (crowd_waits.count - 1)  # two a second: their times say when their turn will be


FAST = {"*": "1000/second burst 100"}


@pytest.mark.requirement("HTTP-9")
def test_a_broken_host_holds_up_nobody_and_is_shown(web: tuple[str, Counter[str]], config_of: ConfigOf) -> None:
    """More works than are ever under way at once have their only copy on a host that fails; they are served first."""
    broken, others = [work(n, "ill.example") for n in range(150)], [work(1000 + n, "b1.example") for n in range(50)]
    seen: list[Progress] = []
    with open_services(config_of(workers=8, rate_limit__policies=FAST, http__breaker__open_s=3)) as services:
        result = run_over(services, broken + others, on_progress=seen.append)
        entries = {entry.work_id: entry for entry in services.catalog.entries()}
    saved_while_closed = [
        p.saved for p in seen if any(w.why == "breaker-open" and (w.seconds or 0) > 0.5 for w in p.waiting)
    ]
    assert max(saved_while_closed) > 20
    assert {w.group for p in seen for w in p.waiting if w.why == "breaker-open"} == {"ill.example"}
    assert result.finished == 200 and result.to_retry == 150
    assert all(entries[f"W{n}"].retry_at is not None for n in range(150))
    assert web[1]["ill.example"] < 30  # what was on the way when the fifth failure came, and the probes of one pause


@pytest.mark.requirement("HTTP-9")
def test_another_copy_is_tried_before_a_broken_host_is_waited_for(
    web: tuple[str, Counter[str]], config_of: ConfigOf
) -> None:
    with open_services(config_of(rate_limit__policies=FAST, http__breaker__open_s=600)) as services:
        for _ in range(5):
            services.client.hosts.report("ill.example", True)
        result = run_over(services, [work(n, "ill.example", "b1.example") for n in range(5)])
    assert result.saved == 5 and result.elapsed_s < 120
    assert web[1] == {"b1.example": 5}


@pytest.mark.requirement("HTTP-9")
def test_a_host_that_recovers_is_waited_for_before_works_end_without_success(config_of: ConfigOf) -> None:
    with open_services(config_of(rate_limit__policies=FAST, http__breaker__open_s=3)) as services:
        for _ in range(5):
            services.client.hosts.report("b1.example", True)
        assert run_over(services, [work(n, "b1.example") for n in range(5)]).saved == 5


@pytest.mark.requirement("HTTP-4")
def test_a_host_that_asked_for_a_pause_holds_up_nobody_and_is_shown(
    web: tuple[str, Counter[str]], config_of: ConfigOf
) -> None:
    busy, others = [work(n, "busy.example") for n in range(150)], [work(1000 + n, "b1.example") for n in range(50)]
    seen: list[Progress] = []
    config = config_of(workers=8, rate_limit__policies=FAST, rate_limit__concurrency={"busy.example": 1})
    with open_services(config) as services:
        result = run_over(services, busy + others, on_progress=seen.append)
    waited = [(p.saved, w) for p in seen for w in p.waiting if w.why == "retry-after" and (w.seconds or 0) > 0.5]
    assert {w.group for _, w in waited} == {"busy.example"} and max(saved for saved, _ in waited) > 20
    assert result.saved >= 199  # the one that was told to wait had one try
    assert any("busy.example (asked for a pause, " in waiting_text(p.waiting) for p in seen)


def test_a_work_that_is_parked_before_a_provider_was_asked_asks_it_later(config_of: ConfigOf) -> None:
    slow = config_of(resolvers__order=["unpaywall"], rate_limit__policies={"api.unpaywall.org": "0.01/second"})
    works = [work(n, doi=f"10.5555/{n}") for n in range(4)]
    with open_services(slow) as services:
        first = run_over(services, works, deadline_s=1.0)
    assert (first.finished, first.parked) == (1, 3)
    (slow.data_root / "limits.sqlite3").unlink()
    quick = config_of(resolvers__order=["unpaywall"], rate_limit__policies={"api.unpaywall.org": "100/second burst 9"})
    with open_services(quick) as services:
        _make_due(services.catalog)
        with DownloadRun(services) as run:
            assert run.drain(WorkScope(2024)).finished == 3
        attempts = [stored.record for stored in services.catalog.attempts_after(0, 100)]
    assert {a.work_id for a in attempts if a.resolver == "unpaywall"} == {"W0", "W1", "W2", "W3"}


def _make_due(catalog: Catalog) -> None:
    with catalog._write() as connection:
        connection.exec_driver_sql("UPDATE queue SET not_before = 0 WHERE state = 'queued'")


def test_a_copy_that_may_come_back_is_tried_again_though_a_better_one_is_forbidden(config_of: ConfigOf) -> None:
    with open_services(config_of()) as services:
        run_over(services, [work(1, "10.0.0.1", "ill.example")])
        entry = services.catalog.entry("W1")
        assert entry is not None
        assert (str(entry.reason), entry.retry_at is not None) == ("blocked-address", True)
        assert services.catalog.queue_counts().retry == 1


def test_a_catalog_that_fails_ends_the_pass_and_no_work(config_of: ConfigOf, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_services(config_of()) as services:

        def broken(*_: Any) -> None:
            raise CatalogError("the catalog failed")

        monkeypatch.setattr(services.client.hosts, "closed_until", broken)
        with pytest.raises(CatalogError):
            run_over(services, [work(n, "a.example") for n in range(5)])
        counts = services.catalog.queue_counts()
        assert (counts.done, counts.leased, counts.queued_due) == (0, 0, 5)


def test_a_budget_of_works_is_kept(config_of: ConfigOf) -> None:
    with open_services(config_of()) as services:
        result = run_over(services, [work(n, f"b{n % 30}.example") for n in range(20)], max_works=6)
        assert (result.ended, result.finished) == ("budget", 6)
        assert services.catalog.queue_counts().queued_due == 14


def test_requests_are_those_of_this_pass(web: tuple[str, Counter[str]], config_of: ConfigOf) -> None:
    with open_services(config_of()) as services:
        result = run_over(services, [work(n, f"b{n}.example", "ill.example") for n in range(5)])
    assert result.requests == sum(web[1].values()) == 5


@pytest.mark.requirement("HTTP-11")
def test_without_its_limiter_nothing_goes_out_and_it_goes_on_when_that_is_back(
    web: tuple[str, Counter[str]], config_of: ConfigOf
) -> None:
    config = config_of()
    with open_services(config) as services:
        limits = config.data_root / "limits.sqlite3"
        for name in ("limits.sqlite3", "limits.sqlite3-wal", "limits.sqlite3-shm"):
            (config.data_root / name).unlink(missing_ok=True)
        limits.mkdir()
        seen: list[int] = []

        def bring_back() -> None:
            seen.append(sum(web[1].values()))
            limits.rmdir()

        threading.Timer(1.5, bring_back).start()
        result = run_over(services, [work(n, f"b{n}.example") for n in range(3)])
    assert seen == [0]
    assert result.saved == 3


def test_a_refused_connection_is_one_reason_for_one_work(config_of: ConfigOf) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        nowhere = config_of(http__proxy=f"http://127.0.0.1:{taken.getsockname()[1]}")
        with open_services(nowhere) as services:
            assert run_over(services, [work(1, "a.example")]).outcomes == {"conn-error": 1}


@pytest.mark.requirement("HTTP-10")
def test_a_stop_while_all_workers_hold_dripping_bodies_takes_no_longer_than_the_grace(config_of: ConfigOf) -> None:
    stop = threading.Event()
    with open_services(config_of(workers=16)) as services, DownloadRun(services, stop=stop) as run:
        run.store_and_enqueue([work(n, f"drip.b{n % 30}.example") for n in range(40)])
        stopped = list[float]()

        def end() -> None:
            stopped.append(time.monotonic())
            stop.set()

        threading.Timer(1.0, end).start()
        result = run.drain(run.own_works)
        took = time.monotonic() - stopped[0]
        counts = services.catalog.queue_counts()
    assert (result.ended, result.finished) == ("stopped", 0)
    assert GRACE_S <= took < 20
    assert (counts.leased, counts.queued_due) == (0, 40)
    assert not list(services.config.data_root.rglob(".part-*"))


@pytest.mark.requirement("CAT-2")
def test_a_transfer_that_is_longer_than_its_lease_stays_with_its_process(config_of: ConfigOf) -> None:
    config = config_of(workers=2)
    brief = config.model_copy(update={"download": config.download.model_copy(update={"lease_s": 4.0})})
    stop, stolen = threading.Event(), list[QueueItem]()

    def steal(catalog: Catalog) -> None:
        while not catalog.queue_counts().leased:
            time.sleep(0.1)
        end = time.monotonic() + 6.0  # longer than the lease
        while time.monotonic() < end and not stolen:
            stolen.extend(catalog.claim("a thief", 10, 60).items)
            time.sleep(0.1)
        stop.set()

    with open_services(brief) as services, DownloadRun(services, stop=stop) as run:
        run.store_and_enqueue([work(1, "drip.b1.example")])
        thief = threading.Thread(target=steal, args=(services.catalog,))
        thief.start()
        run.drain(run.own_works)
        thief.join()
    assert stolen == []


@pytest.mark.requirement("SRC-3")
def test_a_record_that_cannot_be_read_costs_its_work_and_not_the_pass(config_of: ConfigOf) -> None:
    with open_services(config_of(rate_limit__policies=FAST)) as services:
        bad = NewItem("W9", 2024, 2024, {"work_id": "W9", "no": "such field"}, "plan", None)
        with DownloadRun(services) as run:
            run.store_and_enqueue([work(1, "b1.example")])
            services.catalog.enqueue([bad], run.run_id)
            result = run.drain(run.own_works)
        assert (result.ended, result.outcomes) == ("drained", {"ok": 1, "internal-error": 1})
        assert services.catalog.queue_counts().done == 2


@pytest.mark.requirement("CAT-3")
def test_a_failed_work_does_not_reopen_for_the_plan_that_was_executed(config_of: ConfigOf) -> None:
    """It was put into the queue with the plan of an older configuration; the search made its plan from the new one."""
    nowhere = Work("W1", title="Work 1", year=2024, doi="10.1/x")
    with open_services(config_of()) as services, DownloadRun(services) as run:
        run.store_and_enqueue([nowhere])
    with open_services(config_of(resolvers__order=["openalex", "unpaywall"])) as services:
        claimed = services.catalog.plan_hashes(["W1"])
        with DownloadRun(services) as run:
            assert run.drain().finished == 1
        assert services.catalog.plan_hashes(["W1"]) != claimed
        with DownloadRun(services) as run:
            planned = run.store_and_enqueue([nowhere])
    assert (planned.reopened, planned.unchanged) == (0, 1)


@pytest.mark.requirement("CAT-2")
def test_a_work_whose_plan_changes_while_it_is_tried_is_counted_once(
    config_of: ConfigOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_services(config_of(rate_limit__policies=FAST)) as services, DownloadRun(services) as run:
        run.store_and_enqueue([work(1, "ill.example")])
        real, plans = services.catalog.claim, iter(["another"])

        def claim(*args: Any, **options: Any) -> Claimed:
            claimed = real(*args, **options)
            if claimed.items and (plan := next(plans, None)):
                services.catalog.enqueue([NewItem("W1", 2024, 2024, claimed.items[0].record, plan, None)])
            return claimed

        monkeypatch.setattr(services.catalog, "claim", claim)
        result = run.drain(run.own_works)
        tries = services.catalog.attempts_after(0, 100, run_id=run.run_id)
    assert len(tries) == 2
    assert (result.finished, result.to_retry, result.outcomes) == (1, 1, {"http-5xx": 1})


@pytest.mark.requirement("RES-6", "CFG-6")
def test_a_url_stays_taken_for_the_whole_run_also_under_new_rules(config_of: ConfigOf) -> None:
    """Each pass, and each reload of the configuration, has a pipeline of its own."""
    config = config_of(rate_limit__policies=FAST, download__global_url_dedupe=True)
    first, second = work(1, "b1.example"), replace(work(1, "b1.example"), work_id="W2")
    with open_services(config) as services, DownloadRun(services) as run:
        run.store_and_enqueue([first])
        assert run.drain(run.own_works).saved == 1
        run.store_and_enqueue([second])
        assert run.drain(run.own_works).outcomes == {"duplicate-url-global": 1}


@pytest.mark.requirement("TRU-8")
def test_a_pass_that_waits_for_works_of_others_writes_nothing_to_the_catalog(
    config_of: ConfigOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes = 0
    really = Catalog._write

    def counting(self: Catalog, **options: Any) -> Any:
        nonlocal writes
        writes += 1
        return really(self, **options)

    monkeypatch.setattr(Catalog, "_write", counting)
    counted = []
    with open_services(config_of()) as services:
        for seconds in (0.5, 3.5):
            with DownloadRun(services) as run:
                run.store_and_enqueue([work(n, "a.example") for n in range(3)])
                services.catalog.claim("another:1:process", 3, 3600)
                timer, before = threading.Timer(seconds, run.stop.set), writes
                timer.start()
                result = run.drain(run.own_works)
                counted.append(writes - before)
                assert result.ended == "stopped" and result.finished == 0
    assert counted[0] == counted[1] <= 3  # of the end of a pass; waiting longer adds none


@pytest.mark.requirement("TRU-8")
def test_a_group_that_is_refused_again_is_not_written(config_of: ConfigOf, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_services(config_of()) as services:
        catalog = services.catalog
        assert catalog.lease_group("arxiv", "one", 60)
        assert not catalog.lease_group("arxiv", "two", 60)  # the wish is noted, once
        monkeypatch.setattr(catalog, "_write", lambda **options: pytest.fail("a write"))
        assert not catalog.lease_group("arxiv", "two", 60)
        assert not catalog.lease_group("arxiv", "three", 60)
        assert catalog.group_is_wanted("arxiv")
