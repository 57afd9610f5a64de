"""The sensors: request runs for new and due works, and write a summary of a run that failed.

Every evaluation says in its tick what it did and why. Evaluating twice requests nothing twice: run keys name the occasion.
"""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import asdict, dataclass, field, replace

import dagster as dg

from docstokg_assets.config import ContentDownloadConfig
from docstokg_assets.defs.jobs import collect_year, continue_year, drain
from docstokg_assets.defs.partitions import years
from docstokg_assets.defs.steps import configuration, translate_step_errors
from docstokg_assets.domain.json_access import dig, mapping
from docstokg_assets.runs.services import open_services, recorded_driver
from docstokg_assets.sources import SourceError
from docstokg_assets.sources.delta import Delta, find_delta
from docstokg_assets.sources.listing import open_snapshot, openalex_api
from resources.catalog.catalog import Catalog
from resources.dagster_resources import ArtifactStoreResource, CatalogResource, HttpClientResource, RateLimiterResource
from resources.whole_file import whole_file

_ACTIVE = [getattr(dg.DagsterRunStatus, name) for name in ("QUEUED", "NOT_STARTED", "STARTING", "STARTED", "CANCELING")]
_LOOKED_THROUGH = 50  # successful runs of one year since it was requested, the latest first


@dataclass(frozen=True)
class _Night:
    """The sensor's cursor: the last day that was looked at, until when (epoch seconds) OpenAlex is not to be asked, and what was
    requested and has not succeeded so far. At most one entry a year, so it stays small however long runs fail."""

    looked: str | None = None
    ask_from: float = 0.0
    unfinished: dict[str, tuple[str, float]] = field(default_factory=dict)  # year -> (first day, requested at)

    @classmethod
    def read(cls, cursor: str | None) -> _Night:
        return cls(**json.loads(cursor)) if cursor else cls()

    def written(self) -> str:
        return json.dumps(asdict(self))


@dg.sensor(job=collect_year, minimum_interval_seconds=600)
def nightly_delta(
    context: dg.SensorEvaluationContext,
    catalog: CatalogResource,
    artifact_store: ArtifactStoreResource,
    rate_limiter: RateLimiterResource,
    http_client: HttpClientResource,
) -> dg.SensorResult:
    """Once a night, from the hour `openalex.nightly_hour` (UTC) on: which years have works that are new or changed since the last
    night? Asks OpenAlex once or twice, and requests a run of each of these years, for what changed alone. The days of a run that
    did not succeed are part of the next night's request for its year."""
    now = _now()
    night, today = _Night.read(context.cursor), now.date()
    with translate_step_errors():
        config = configuration(catalog, artifact_store, rate_limiter, http_client)
        if now.hour < config.openalex.nightly_hour or night.looked == str(today):
            return _nothing(f"looked last on {night.looked}; looks again from {config.openalex.nightly_hour}:00 UTC")
        if now.timestamp() < night.ask_from:
            return _nothing(
                f"OpenAlex is not asked before {dt.datetime.fromtimestamp(night.ask_from, dt.UTC):%H:%M} UTC"
            )
        since = dt.date.fromisoformat(night.looked) if night.looked else today - dt.timedelta(days=1)
        if config.openalex.source == "snapshot":
            return _of_snapshot(context.instance, config, today)
        if config.openalex.source != "api" or not config.openalex.filter:
            return _nothing(
                "there is nothing to ask OpenAlex for: openalex.source is not api, or openalex.filter is not set"
            )
        try:
            delta = _find_delta(config, since, today)
        except SourceError as error:
            later = replace(night, ask_from=error.retry_at or 0.0)
            return dg.SensorResult(skip_reason=str(error), cursor=later.written())
    return _of_delta(context, delta, night, since, now)


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def _find_delta(config: ContentDownloadConfig, since: dt.date, today: dt.date) -> Delta:
    """Send the one or two requests; their attempts are recorded under a run of their own."""
    openalex, run_id = config.openalex, f"nightly-{today}"
    works_filter, has_key = openalex.with_types(openalex.filter), openalex.api_key is not None
    with (
        open_services(config) as services,
        recorded_driver(services, run_id, "sensor", {"since": str(since)}) as driver,
    ):
        delta = driver.ask(find_delta(openalex_api(openalex), works_filter, since, has_key=has_key))
        services.catalog.finish_run(run_id, {"years": delta.works, "said": delta.message})
    return delta


def _of_delta(
    context: dg.SensorEvaluationContext, delta: Delta, night: _Night, since: dt.date, now: dt.datetime
) -> dg.SensorResult:
    known = set(years.get_partition_keys())
    failed = {year: day for year, day in _not_collected(context.instance, night).items() if year in known}
    changed = {str(year): works for year, works in delta.works.items() if str(year) in known}
    context.log.info(delta.message)
    if failed:
        context.log.info(f"no run has succeeded for {', '.join(f'{y} since {d}' for y, d in sorted(failed.items()))}")
    requests, unfinished = list[dg.RunRequest](), dict[str, tuple[str, float]]()
    for year in sorted(changed.keys() | failed.keys(), reverse=True):
        first = min(since, dt.date.fromisoformat(failed.get(year, str(since))))
        unfinished[year] = str(first), now.timestamp()
        requests.append(_changes_of(year, delta, delta.since - (since - first), changed.get(year, 0), now.date()))
    skipped = None if requests else f"no works in the years that have a partition; {delta.message}"
    cursor = _Night(str(now.date()), unfinished=unfinished).written()
    return dg.SensorResult(run_requests=requests, skip_reason=skipped, cursor=cursor)


def _changes_of(year: str, delta: Delta, since: dt.date, works: int, today: dt.date) -> dg.RunRequest:
    said = f"{works} works {delta.way} since {delta.since}"
    return dg.RunRequest(
        run_key=f"{year} {delta.way} {since} {today}",
        partition_key=year,
        run_config={"ops": {"openalex_works": {"config": {f"{delta.way}_since": str(since)}}}},
        tags={"content_download/changed": said if since == delta.since else f"{said}; those since {since} again"},
    )


def _not_collected(instance: dg.DagsterInstance, night: _Night) -> dict[str, str]:
    """The years whose requested run has not succeeded, nor a later one that lists at least as much; each with its first day."""

    def is_collected(year: str, first: str, requested: float) -> bool:
        after = dt.datetime.fromtimestamp(requested, dt.UTC)
        succeeded = [dg.DagsterRunStatus.SUCCESS]
        wanted = dg.RunsFilter(
            job_name=collect_year.name, statuses=succeeded, tags={"dagster/partition": year}, created_after=after
        )
        return any(_lists_since(run, first) for run in instance.get_runs(wanted, limit=_LOOKED_THROUGH))

    return {year: first for year, (first, at) in night.unfinished.items() if not is_collected(year, first, at)}


def _lists_since(run: dg.DagsterRun, first: str) -> bool:
    """Whether a run listed the works of this day and later: all works, or those since this day or an earlier one."""
    config = dict(mapping(dig(run.run_config, "ops", "openalex_works", "config")))
    since = config.get("updated_since") or config.get("published_since")
    return since is None or str(since) <= first


def _of_snapshot(instance: dg.DagsterInstance, config: ContentDownloadConfig, today: dt.date) -> dg.SensorResult:
    """A snapshot's folders go by the day of update and do not tell their years. Each run reads only the folders that its year
    has not seen, so all years are requested, once for each new folder, and again for one whose last run failed."""
    newest = max((part.updated for part in open_snapshot(config.openalex).parts()), default=None)
    if newest is None:
        return dg.SensorResult(
            skip_reason="the snapshot's manifest names no files", cursor=_Night(str(today)).written()
        )
    requests = [
        dg.RunRequest(
            run_key=f"{year} snapshot {newest}" + (f" again {today}" if _last_failed(instance, year) else ""),
            partition_key=year,
        )
        for year in reversed(years.get_partition_keys())
    ]
    return dg.SensorResult(run_requests=requests, cursor=_Night(str(today)).written())


def _last_failed(instance: dg.DagsterInstance, year: str) -> bool:
    """Whether the last run of the year ended without success."""
    of_year = dg.RunsFilter(job_name=collect_year.name, tags={"dagster/partition": year})
    last = instance.get_runs(of_year, limit=1)
    return bool(last) and last[0].status in (dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)


def _nothing(why: str) -> dg.SensorResult:
    return dg.SensorResult(skip_reason=why)


@dg.sensor(jobs=[continue_year, drain], minimum_interval_seconds=300)
def works_due(context: dg.SensorEvaluationContext, catalog: CatalogResource) -> dg.SensorResult:
    """Request the next pass over each year with works that have come due, after waiting for a slow host or for another try.

    A year that is being worked on is left alone; so is one for which a pass was requested this hour for the same works.
    """
    with translate_step_errors():
        config = configuration(catalog)
        with Catalog.open(config.catalog_location) as opened:
            due, hour = opened.due_by_year(), int(opened.now() // 3600)
    known, requests, left = set(years.get_partition_keys()), list[dg.RunRequest](), list[str]()
    for row in due:
        year = str(row.year) if str(row.year) in known else None
        if _is_active(context.instance, year):
            left.append(f"{year or drain.name} is under way")
            continue
        tags = {"content_download/due": f"{row.works} works"}
        key = f"{row.year} {row.since:.0f} {hour}"
        if year is not None:
            requests.append(dg.RunRequest(key, job_name=continue_year.name, partition_key=year, tags=tags))
        else:
            only = {"ops": {"drain_queue": {"config": {"year": row.year or 0}}}}
            requests.append(dg.RunRequest(key, job_name=drain.name, run_config=only, tags=tags))
    why = "; ".join(left) or "no work is due"
    return dg.SensorResult(run_requests=requests, skip_reason=None if requests else why)


def _is_active(instance: dg.DagsterInstance, year: str | None) -> bool:
    tags, job = ({"dagster/partition": year}, None) if year else ({}, drain.name)
    return instance.get_runs_count(dg.RunsFilter(statuses=_ACTIVE, tags=tags, job_name=job)) > 0


@dg.run_failure_sensor(default_status=dg.DefaultSensorStatus.RUNNING)
def failure_summary(context: dg.RunFailureSensorContext, catalog: CatalogResource) -> None:
    """Write a page about a failed run under `reports/failures` of the data root, and a line to the log."""
    with translate_step_errors():
        root = configuration(catalog).data_root
    run = context.dagster_run
    path = root / "reports" / "failures" / f"{run.run_id}.md"
    causes = [(event.step_key or "", _cause(event)) for event in context.get_step_failure_events()]
    text = _summary(run, causes or [("the run itself", context.failure_event.message or "no message")])
    with whole_file(path) as temp:
        temp.write_text(text, encoding="utf-8")
    context.log.error(f"{_title(run)}: {causes[0][1] if causes else context.failure_event.message}; see {path}")


def _cause(event: dg.DagsterEvent) -> str:
    """The description of a failure that the step raised itself; else the innermost error."""
    data = event.step_failure_data
    if data.user_failure_data and data.user_failure_data.description:
        return data.user_failure_data.description
    error = data.error
    while error is not None and error.cause is not None:
        error = error.cause
    return error.message.strip() if error is not None else event.message or "no message"


def _title(run: dg.DagsterRun) -> str:
    year = run.tags.get("dagster/partition")
    return f"Run {run.run_id[:8]} of {run.job_name}" + (f" for {year}" if year else "") + " failed"


def _summary(run: dg.DagsterRun, causes: list[tuple[str, str]]) -> str:
    year = run.tags.get("dagster/partition")
    steps = "\n".join(f"- **{step}**: {cause}" for step, cause in causes)
    again = f"make materialize YEAR={year}" if year else "launch the same job again"
    return (
        f"# {_title(run)}\n\n{_now():%Y-%m-%d %H:%M} UTC, run `{run.run_id}`.\n\n{steps}\n\n"
        f"What was done before is kept. When the cause is fixed: `{again}`, or re-execute the run in the UI.\n"
    )
