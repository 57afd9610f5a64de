"""The sensor for failed runs: a page for people, a message to a webhook. Works without a valid configuration too."""

from __future__ import annotations

import datetime as dt
import json
import os
import urllib.request
from pathlib import Path

import dagster as dg

from docstokg_assets.config import ContentDownloadConfig
from docstokg_assets.defs.steps import configuration
from resources.dagster_resources import CatalogResource
from resources.errors import ExplainedError
from resources.whole_file import whole_file

_WEBHOOK_TIMEOUT_S = 10.0
_WILL_RETRY = "dagster/will_retry"


@dg.run_failure_sensor(
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="For each failed run: writes a page with cause and repair to `reports/failures` of the data folder (or to "
    "`alerts.pages`), calls `alerts.webhook` if it is set, and says whether Dagster starts the run again.",
)
def failure_summary(context: dg.RunFailureSensorContext, catalog: CatalogResource) -> None:
    """Write a page about a failed run, call the webhook, and write a line to the log."""
    run, causes = context.dagster_run, _causes(context)
    try:
        config = configuration(catalog)
    except ExplainedError:  # the run failed for the same reason, and its page says so
        config = None
    place = _store_page(config, f"{run.run_id}.md", _page(run, causes))
    context.log.error(f"{_title(run)}: {causes[0][1]}; {_next_step(run, causes)} See {place}")
    if config is not None and config.alerts.webhook is not None:
        _call(config.alerts.webhook.get_secret_value(), run, causes, place)


def _causes(context: dg.RunFailureSensorContext) -> list[tuple[str, str]]:
    """What failed, and why: steps, then checks that blocked the rest."""
    causes = [(event.step_key or "", _cause(event)) for event in context.get_step_failure_events()]
    evaluations = context.instance.all_logs(
        context.dagster_run.run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION
    )
    for event in evaluations:
        check = event.get_dagster_event().asset_check_evaluation_data
        if not check.passed and check.blocking:
            causes.append((f"check {check.check_name}", check.description or "failed"))
    return causes or [("the run itself", context.failure_event.message or "no message")]


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


def _next_step(run: dg.DagsterRun, causes: list[tuple[str, str]]) -> str:
    if run.tags.get(_WILL_RETRY) == "true":
        return "Dagster starts it again by itself: no action needed unless that fails too."
    year = run.tags.get("dagster/partition")
    again = f"`make materialize YEAR={year}`" if year else "launch the same job again"
    if any(name == "check no_corruption" for name, _ in causes):
        return f"Repair the files with the job `verify` or `content resume --verify`, then {again}."
    return f"When the cause is fixed: {again}, or re-execute the run in the UI."


def _page(run: dg.DagsterRun, causes: list[tuple[str, str]]) -> str:
    steps = "\n".join(f"- **{step}**: {cause}" for step, cause in causes)
    now = dt.datetime.now(dt.UTC)
    return (
        f"# {_title(run)}\n\n{now:%Y-%m-%d %H:%M} UTC, run `{run.run_id}`.\n\n{steps}\n\n"
        f"What was done before is kept. {_next_step(run, causes)}\n"
    )


def _store_page(config: ContentDownloadConfig | None, name: str, text: str) -> str:
    """Write the page where `alerts.pages` says, by default to the data folder; without a configuration to the Dagster home."""
    place = config.alerts.pages if config is not None else None
    if config is not None and place is not None and place.startswith("s3://"):
        from resources.artifacts.s3 import s3_client

        bucket, _, prefix = place.removeprefix("s3://").partition("/")
        key = "/".join(filter(None, (prefix.strip("/"), name)))
        client = s3_client(config.telemetry.lake_endpoint_url, config.telemetry.lake_region)
        client.put_object(Bucket=bucket, Key=key, Body=text.encode(), ContentType="text/markdown; charset=utf-8")
        return f"s3://{bucket}/{key}"
    if place is not None:
        folder = Path(place)
    elif config is not None:
        folder = config.data_root / "reports" / "failures"
    else:
        folder = Path(os.environ.get("DAGSTER_HOME") or ".dagster") / "failures"
    with whole_file(folder / name) as temp:
        temp.write_text(text, encoding="utf-8")
    return str(folder / name)


def _call(webhook: str, run: dg.DagsterRun, causes: list[tuple[str, str]], place: str) -> None:
    """Send a message that chat services show (`text`), with the facts beside it. A webhook that fails makes the tick fail."""
    message = {
        "text": f"{_title(run)}: {causes[0][1]} {_next_step(run, causes)}",
        "run_id": run.run_id,
        "job": run.job_name,
        "year": run.tags.get("dagster/partition"),
        "will_retry": run.tags.get(_WILL_RETRY) == "true",
        "page": place,
    }
    request = urllib.request.Request(webhook, json.dumps(message).encode(), {"Content-Type": "application/json"})
    urllib.request.urlopen(request, timeout=_WEBHOOK_TIMEOUT_S).close()
