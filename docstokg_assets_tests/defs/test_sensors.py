"""What the sensors request, and when: evaluated in this process, against the scholarly web in a box."""

from __future__ import annotations

import datetime as dt
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from docstokg_assets.definitions import defs
from docstokg_assets.defs import failures, sensors
from docstokg_assets.defs.jobs import collect_year, continue_year, drain
from docstokg_assets.sandbox import Sandbox
from docstokg_assets.sandbox.snapshot import write_snapshot
from resources.catalog.catalog import Catalog
from resources.catalog.rows import NewItem
from resources.scope import WorkScope

HOST = "api.openalex.org"
NIGHT = dt.datetime(2025, 1, 20, 4, 0, tzinfo=dt.UTC)
SPENT = {"error": "Rate limit exceeded", "message": "Insufficient budget. Resets at midnight UTC.", "retryAfter": 3600}


SANDBOX: dict[str, Any] = {"works_per_year": 60, "years": (2023, 2024), "enforce_limits": False}


@pytest.fixture
def configure(sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def write(**openalex: Any) -> None:
        config = {
            "data_root": str(tmp_path / "data"),
            "http": {
                "proxy": sandbox.proxy_url,
                "ca_bundle": str(sandbox.ca_bundle),
                "contact_email": "crawler@library.example",
            },
            "openalex": {"filter": "type:article", **openalex},
        }
        (tmp_path / "content.yaml").write_text(yaml.safe_dump(config))
        monkeypatch.setenv("DTKG_CONFIG", str(tmp_path / "content.yaml"))

    write()
    return write


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Callable[[dt.datetime], None]:
    """Sets the time that the sensor reads."""
    return lambda moment: monkeypatch.setattr(sensors, "_now", lambda: moment)


def evaluate(
    sensor: dg.SensorDefinition,
    cursor: str | None = None,
    instance: dg.DagsterInstance | None = None,
    said: list[str] | None = None,
) -> Any:
    """One tick; `said` is given what it logged."""
    with (
        nullcontext(instance) if instance else dg.DagsterInstance.ephemeral() as known,
        dg.build_sensor_context(known, cursor, definitions=defs, resources=defs.resources) as context,
    ):
        tick_log = logging.Handler()
        tick_log.emit = lambda record: (said if said is not None else []).append(record.getMessage())  # type: ignore[method-assign]
        context.log.addHandler(tick_log)
        return sensor.evaluate_tick(context)


def asked(sandbox: Sandbox, before: int) -> list[str]:
    return [arrival["path"] for arrival in sandbox.arrivals(HOST)[before:]]


@pytest.mark.requirement("ORC-3")
def test_updated_works_become_runs_of_their_years_alone_for_what_changed(
    sandbox: Sandbox, configure: Callable[..., None], at: Callable[[dt.datetime], None]
) -> None:
    configure(api_key="sandbox-paid-1")
    at(NIGHT)
    before = len(sandbox.arrivals(HOST))
    tick = evaluate(sensors.nightly_delta, json.dumps({"looked": "2024-11-20"}))
    (request,) = tick.run_requests
    assert request.partition_key == "2024", "of 2023 nothing was updated since"
    assert request.run_config == {"ops": {"openalex_works": {"config": {"updated_since": "2024-11-20"}}}}
    assert "updated since 2024-11-20" in request.tags["content_download/changed"]
    assert len(asked(sandbox, before)) == 1
    assert json.loads(tick.cursor)["looked"] == "2025-01-20"
    assert collect_year.name in {job.name for job in sensors.nightly_delta.jobs}


@pytest.mark.requirement("ORC-3")
def test_evaluating_twice_requests_nothing_twice(
    sandbox: Sandbox, configure: Callable[..., None], at: Callable[[dt.datetime], None]
) -> None:
    at(NIGHT)
    first = evaluate(sensors.nightly_delta)
    before = len(sandbox.arrivals(HOST))
    following = evaluate(sensors.nightly_delta, first.cursor)
    assert first.run_requests and not following.run_requests and not asked(sandbox, before)
    assert "looked last on 2025-01-20" in following.skip_message
    lost = evaluate(sensors.nightly_delta)  # as if the cursor had not been written
    assert {r.run_key for r in lost.run_requests} == {r.run_key for r in first.run_requests}


@pytest.mark.requirement("ORC-3")
def test_before_its_hour_nothing_is_asked(
    sandbox: Sandbox, configure: Callable[..., None], at: Callable[[dt.datetime], None]
) -> None:
    configure(nightly_hour=5)
    at(NIGHT)
    before = len(sandbox.arrivals(HOST))
    tick = evaluate(sensors.nightly_delta)
    assert not tick.run_requests and not asked(sandbox, before) and "from 5:00 UTC" in tick.skip_message


@pytest.mark.requirement("ORC-3")
@pytest.mark.parametrize(("key", "requests"), [(None, 1), ("sandbox-free-1", 2)])
def test_fault_46_without_the_plan_recent_publication_dates_are_looked_at_and_the_log_says_so(
    sandbox: Sandbox,
    configure: Callable[..., None],
    at: Callable[[dt.datetime], None],
    key: str | None,
    requests: int,
) -> None:
    configure(api_key=key)
    at(NIGHT)
    before = len(sandbox.arrivals(HOST))
    said: list[str] = []
    (request,) = evaluate(sensors.nightly_delta, json.dumps({"looked": "2025-01-19"}), said=said).run_requests
    assert request.partition_key == "2024"
    assert request.run_config == {"ops": {"openalex_works": {"config": {"published_since": "2024-12-20"}}}}
    assert len(asked(sandbox, before)) == requests, "a refused plan is not asked for again"
    assert "published since 2024-12-20" in said[0] and "from_updated_date would" in said[0]


@pytest.mark.requirement("ORC-3")
def test_fault_46_a_spent_budget_is_told_and_not_asked_for_before_it_is_renewed(
    sandbox: Sandbox, configure: Callable[..., None], at: Callable[[dt.datetime], None]
) -> None:
    configure(nightly_hour=0)
    now = dt.datetime.now(dt.UTC)
    at(now)
    sandbox.add_fault(host=HOST, status=429, body=json.dumps(SPENT), type="application/json")
    try:
        tick = evaluate(sensors.nightly_delta, json.dumps({"looked": "2025-01-19"}))
        before = len(sandbox.arrivals(HOST))
        following = evaluate(sensors.nightly_delta, tick.cursor)
    finally:
        sandbox.clear_faults()
    assert not tick.run_requests and "budget is spent" in tick.skip_message and "midnight" in tick.skip_message
    assert "OpenAlex is not asked before" in following.skip_message and not asked(sandbox, before)
    at(now + dt.timedelta(hours=2))
    renewed = evaluate(sensors.nightly_delta, tick.cursor)
    assert len(asked(sandbox, before)) == 1 and json.loads(renewed.cursor)["looked"] > "2025-01-19"


def requested(tick: Any) -> dict[str, str]:
    """Year -> the first day that is asked for."""
    configs = {r.partition_key: r.run_config["ops"]["openalex_works"]["config"] for r in tick.run_requests}
    return {year: next(iter(config.values())) for year, config in configs.items()}


def run_of(instance: dg.DagsterInstance, request: dg.RunRequest, status: dg.DagsterRunStatus) -> None:
    """A run as the daemon makes it of a request, which came to this end."""
    job, tags = defs.resolve_job_def(collect_year.name), {**request.tags, "dagster/run_key": str(request.run_key)}
    if request.partition_key is not None:
        tags["dagster/partition"] = request.partition_key
    instance.create_run_for_job(job, run_config=request.run_config, tags=tags, status=status)


@pytest.mark.requirement("ORC-3")
@pytest.mark.parametrize("key", ["sandbox-paid-1", None])
def test_fault_61_the_days_of_a_run_that_failed_are_asked_for_until_a_run_of_the_year_has_succeeded(
    sandbox: Sandbox, configure: Callable[..., None], at: Callable[[dt.datetime], None], key: str | None
) -> None:
    configure(api_key=key, nightly_hour=0)
    now = dt.datetime.now(dt.UTC)
    nights = [now - dt.timedelta(days=days) for days in (4, 3, 2, 1)]
    back = dt.timedelta(days=0 if key else 30)

    def days_of(*dates: dt.date) -> dict[str, str]:
        return {"2024": str(min(dates) - back)}

    with dg.DagsterInstance.ephemeral() as instance:
        at(nights[0])
        first = evaluate(sensors.nightly_delta, json.dumps({"looked": "2024-12-01"}), instance)
        assert requested(first) == days_of(dt.date(2024, 12, 1))
        run_of(instance, first.run_requests[0], dg.DagsterRunStatus.FAILURE)
        # a pass over the year's queue lists no works, and another year is not this one
        instance.create_run_for_job(
            defs.resolve_job_def(continue_year.name),
            tags={"dagster/partition": "2024"},
            status=dg.DagsterRunStatus.SUCCESS,
        )
        other = dg.RunRequest("2023", partition_key="2023")
        run_of(instance, other, dg.DagsterRunStatus.SUCCESS)

        at(nights[1])
        said: list[str] = []
        second = evaluate(sensors.nightly_delta, first.cursor, instance, said)
        assert requested(second) == days_of(dt.date(2024, 12, 1)), "though nothing changed since the night before"
        assert "no run has succeeded for 2024 since 2024-12-01" in said
        assert second.run_requests[0].run_key != first.run_requests[0].run_key
        assert requested(evaluate(sensors.nightly_delta, first.cursor, instance)) == requested(second)

        at(nights[2])  # the second run was never made, or is still under way
        run_of(instance, second.run_requests[0], dg.DagsterRunStatus.STARTED)
        third = evaluate(sensors.nightly_delta, second.cursor, instance)
        assert requested(third) == requested(second)
        assert len(third.cursor) == len(second.cursor), "the cursor does not grow with the nights"

        run_of(instance, third.run_requests[0], dg.DagsterRunStatus.SUCCESS)
        at(nights[3])
        done = evaluate(sensors.nightly_delta, third.cursor, instance)
        assert not done.run_requests and json.loads(done.cursor)["unfinished"] == {}


@pytest.mark.requirement("ORC-3")
def test_fault_61_a_budget_that_is_spent_meanwhile_forgets_no_days(
    sandbox: Sandbox, configure: Callable[..., None], at: Callable[[dt.datetime], None]
) -> None:
    configure(nightly_hour=0)
    at(dt.datetime.now(dt.UTC))
    unfinished = {"2024": ["2024-12-01", 0.0]}
    sandbox.add_fault(host=HOST, status=429, body=json.dumps(SPENT), type="application/json")
    try:
        tick = evaluate(sensors.nightly_delta, json.dumps({"looked": "2025-01-19", "unfinished": unfinished}))
    finally:
        sandbox.clear_faults()
    assert not tick.run_requests and json.loads(tick.cursor)["unfinished"] == unfinished


@pytest.mark.requirement("ORC-3", "SRC-2")
def test_fault_61_a_year_whose_run_of_a_snapshot_failed_is_requested_again_the_next_night(
    sandbox: Sandbox, configure: Callable[..., None], at: Callable[[dt.datetime], None], tmp_path: Path
) -> None:
    write_snapshot(tmp_path / "snapshot", sandbox.universe, (2024,))
    configure(source="snapshot", snapshot=str(tmp_path / "snapshot"))
    with dg.DagsterInstance.ephemeral() as instance:
        at(NIGHT)
        first = evaluate(sensors.nightly_delta, instance=instance)
        ends = {"2024": dg.DagsterRunStatus.FAILURE, "2023": dg.DagsterRunStatus.SUCCESS}
        for request in first.run_requests:
            if request.partition_key in ends:
                run_of(instance, request, ends[request.partition_key])
        at(NIGHT + dt.timedelta(days=1))
        second = evaluate(sensors.nightly_delta, first.cursor, instance)
    known = {request.run_key for request in first.run_requests}
    assert [r.partition_key for r in second.run_requests if r.run_key not in known] == ["2024"]


@pytest.mark.requirement("ORC-3", "SRC-2")
def test_new_folders_of_a_snapshot_become_one_run_a_year(
    sandbox: Sandbox, configure: Callable[..., None], at: Callable[[dt.datetime], None], tmp_path: Path
) -> None:
    write_snapshot(tmp_path / "snapshot", sandbox.universe, (2024,))
    configure(source="snapshot", snapshot=str(tmp_path / "snapshot"))
    at(NIGHT)
    tick = evaluate(sensors.nightly_delta)
    at(NIGHT + dt.timedelta(days=1))
    following = evaluate(sensors.nightly_delta, tick.cursor)
    keys = [request.run_key for request in tick.run_requests]
    assert len(keys) == len(set(keys)) > 5 and tick.run_requests[0].partition_key > tick.run_requests[-1].partition_key
    assert [request.run_key for request in following.run_requests] == keys, "the same folder, so the same runs"


# -- works that come due ----------------------------------------------------------------------------------------------


@pytest.fixture
def queue(tmp_path: Path, configure: Callable[..., None]) -> Iterator[Catalog]:
    with Catalog.open(tmp_path / "data" / "catalog.sqlite3") as catalog:
        catalog.enqueue(
            NewItem(f"W{year}{n}", year, year or 0, {"work_id": "W"}, "plan")
            for year in (2023, 2024, 1999, None)
            for n in (1, 2)
        )
        yield catalog


@pytest.mark.requirement("ORC-2", "ORC-3")
def test_due_works_become_passes_over_their_years_and_a_drain_for_the_rest(queue: Catalog) -> None:
    requests = evaluate(sensors.works_due).run_requests
    assert [(r.job_name, r.partition_key) for r in requests] == [
        (continue_year.name, "2024"),
        (continue_year.name, "2023"),
        (drain.name, None),
        (drain.name, None),
    ]
    assert [r.run_config["ops"]["drain_queue"]["config"]["year"] for r in requests[2:]] == [1999, 0]
    again = evaluate(sensors.works_due).run_requests
    assert {r.run_key for r in again} == {r.run_key for r in requests}, "one occasion, one run"


@pytest.mark.requirement("ORC-2", "ORC-3")
def test_works_that_wait_or_are_held_are_not_due_and_a_year_under_way_is_left_alone(queue: Catalog) -> None:
    queue.claim("somebody", 4, 600, WorkScope(2024))
    queue.claim("somebody", 4, 600, WorkScope(0))
    queue.claim("somebody", 4, 600, WorkScope(1999))
    with dg.DagsterInstance.ephemeral() as instance:
        requests = evaluate(sensors.works_due, instance=instance).run_requests
        assert [r.partition_key for r in requests] == ["2023"]
        instance.create_run_for_job(
            defs.resolve_job_def(continue_year.name),
            tags={"dagster/partition": "2023"},
            status=dg.DagsterRunStatus.STARTED,
        )
        tick = evaluate(sensors.works_due, instance=instance)
        assert not tick.run_requests and tick.skip_message == "2023 is under way"
        queue.claim("somebody", 4, 600, WorkScope(2023))
        assert evaluate(sensors.works_due, instance=instance).skip_message == "no work is due"


# -- failures ---------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("ORC-2")
def test_a_failed_run_leaves_a_page_that_says_what_happened_and_what_to_do(
    tmp_path: Path, configure: Callable[..., None]
) -> None:
    configure(filter="")
    with dg.DagsterInstance.ephemeral() as instance:
        job = defs.resolve_job_def(collect_year.name)
        result = job.execute_in_process(partition_key="2024", instance=instance, raise_on_error=False)
        context = dg.build_run_status_sensor_context(
            "failure_summary",
            dagster_event=result.get_run_failure_event(),
            dagster_instance=instance,
            dagster_run=result.dagster_run,
            resources=dict(defs.resources or {}),
        )
        failures.failure_summary(context.for_run_failure())
    text = (tmp_path / "data" / "reports" / "failures" / f"{result.run_id}.md").read_text()
    assert "of collect_year for 2024 failed" in text
    assert "**openalex_works**: openalex.filter is not set" in text
    assert "make materialize YEAR=2024" in text and "Traceback" not in text
