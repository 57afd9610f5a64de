"""Attempts reach a collector over real HTTP, and a collector that is down, slow or rude costs nothing but its records."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from docstokg_assets.reporting import sinks as sinks_module
from docstokg_assets.reporting.sinks import OtlpSink, SinkSet
from docstokg_assets_tests.support.collector import Collector, running
from resources.otlp import OtlpLogs
from resources.records import Reason, Status

Make = Callable[..., Any]


@pytest.fixture
def collector() -> Iterator[Collector]:
    with running() as server:
        yield server


def sink_to(endpoint: str, timeout_s: float = 10.0) -> SinkSet:
    return SinkSet([OtlpSink(OtlpLogs(endpoint, timeout_s), config_hash="sha256:c0ffee")])


def warnings(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [r for r in caplog.records if r.levelno == logging.WARNING]


def attributes(record: Any) -> dict[str, Any]:
    return {pair.key: pair.value for pair in record.attributes}


@pytest.mark.requirement("TEL-2")
def test_a_collector_receives_every_attempt_outcome_and_summary(
    collector: Collector, make_attempt: Make, make_finished: Make, make_entry: Make
) -> None:
    with sink_to(collector.endpoint) as sinks:
        threads = [
            threading.Thread(
                target=lambda t=t: [sinks.log_attempt(make_attempt(worker_id=f"w{t}", seq=n)) for n in range(100)]
            )
            for t in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        sinks.log_attempt(make_attempt(status=Status.DOWNLOAD_ERROR, reason=Reason.TIMEOUT, worker_id="late"))
        sinks.log_outcome(make_entry(make_finished("W1"), 1_700_000_000.0))
        sinks.log_summary({"processed": 3, "resolvers": {"attempts": {"arxiv": 2}}})
    assert sinks.dropped == {}
    records = collector.records()
    attempts = [attributes(r) for r in records if r.event_name == "contentdownload.attempt"]
    assert len({(a["worker_id"].string_value, a["seq"].int_value) for a in attempts}) == 401
    assert attempts[0]["doc_id"].string_value == "openalex:W12345" and attempts[0]["cache_hit"].bool_value is False
    (late,) = [
        r for r in records if attributes(r).get("worker_id") and attributes(r)["worker_id"].string_value == "late"
    ]
    assert late.severity_text == "WARN" and late.body.string_value.endswith("download-error (timeout)")
    (outcome,) = [r for r in records if r.event_name == "contentdownload.outcome"]
    assert outcome.time_unix_nano == 1_700_000_000 * 10**9
    chain = attributes(outcome)["fallback_chain"].array_value.values
    assert [value.string_value for value in chain] == ["unpaywall", "arxiv"]
    (summary,) = [r for r in records if r.event_name == "contentdownload.summary"]
    assert attributes(summary)["resolvers"].string_value == '{"attempts":{"arxiv":2}}'
    (resource,) = {
        pair.value.string_value
        for request in collector.requests
        for resource in request.resource_logs
        for pair in resource.resource.attributes
        if pair.key == "service.name"
    }
    assert resource == "docstokg-contentdownload"


@pytest.mark.requirement("TEL-2")
@pytest.mark.parametrize("status", [401, None])
def test_a_collector_that_refuses_or_is_not_there_is_told_of_once_and_its_losses_are_counted(
    collector: Collector, make_attempt: Make, caplog: pytest.LogCaptureFixture, status: int | None
) -> None:
    if status is None:
        collector.server_close()
    else:
        collector.status = status
    with sink_to(collector.endpoint, timeout_s=0.5) as sinks:
        for n in range(20):
            sinks.log_attempt(make_attempt(seq=n))
        sinks.flush()
        sinks.log_attempt(make_attempt(seq=20))
    assert sinks.dropped == {"otlp": 21}
    failed, total = warnings(caplog)
    assert failed.exc_info and "did not take" in str(failed.exc_info[1].__cause__)  # type: ignore[union-attr]
    assert total.getMessage() == "The sink otlp dropped 21 records; the catalog has them all."


@pytest.mark.requirement("TEL-2")
def test_a_collector_that_does_not_answer_neither_slows_nor_stops_anybody(
    collector: Collector, make_attempt: Make, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sinks_module, "_OTLP_WAITING", 50)
    collector.answers.clear()
    with sink_to(collector.endpoint, timeout_s=0.3) as sinks:
        for n in range(500):
            sinks.log_attempt(make_attempt(seq=n))
    assert sinks.dropped == {"otlp": 500}
    assert len(warnings(caplog)) == 2
