"""What the steps share: loading the configuration, opening the services, stopping gracefully, failing with a plain message."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import dagster as dg
from sqlalchemy.exc import OperationalError

from docstokg_assets.config import ContentDownloadConfig, config_hash, load_config
from docstokg_assets.defs.partitions import newest_year
from docstokg_assets.runs.services import Services, open_services
from docstokg_assets.runs.signals import signal_handlers
from resources.catalog.catalog import Catalog
from resources.dagster_resources import ConfiguredResource
from resources.errors import ExplainedError
from resources.lake.files import LakeFiles
from resources.settings import SettingsError
from resources.whole_file import disk_trouble

Step = dg.AssetExecutionContext | dg.AssetCheckExecutionContext | dg.OpExecutionContext


@contextmanager
def translate_step_errors() -> Iterator[None]:
    """Turn errors that explain themselves into the step's failure, without their stack trace. The step is not retried: requests
    were repeated already where that helps."""
    try:
        yield
    except ExplainedError as error:
        raise dg.Failure(str(error), allow_retries=False) from None
    except OSError as error:
        if error.errno is None or isinstance(error, ConnectionError | TimeoutError):  # not of a disk
            raise
        message = f"{disk_trouble(error, 'the data root')}, then launch it again."
        raise dg.Failure(message, allow_retries=False) from None


@contextmanager
def retry_on_dagster_db_error() -> Iterator[None]:
    """Repeat the step when Dagster could not reach its own database for longer than it waits, ten to twenty seconds: a log line
    fails the step then. (A retry policy would do the same, and repeat steps that somebody has terminated.)"""
    try:
        yield
    except Exception as error:
        if not _is_database_error(error):
            raise
        raise dg.RetryRequested(max_retries=2, seconds_to_wait=10) from error


def _is_database_error(error: BaseException | None) -> bool:
    """The catalog translates its own errors; any other database error comes from Dagster's storage."""
    return error is not None and (isinstance(error, OperationalError) or _is_database_error(error.__cause__))


@contextmanager
def handle_step_errors(step: Step) -> Iterator[None]:
    """Fail with plain messages, and cancel the run on Ctrl-C in a shell, as *Terminate* does in the UI. By itself Dagster would
    call such a run failed, as it does, and should, when a machine that shuts down ends its processes."""
    with retry_on_dagster_db_error(), translate_step_errors(), _note_ctrl_c() as pressed:
        try:
            yield
        except dg.DagsterExecutionInterruptedError:
            run = step.instance.get_run_by_id(step.run.run_id)
            if pressed.is_set() and run is not None and run.status is dg.DagsterRunStatus.STARTED:
                step.instance.report_run_canceling(run, "Ctrl-C was pressed.")
            raise


@contextmanager
def _note_ctrl_c() -> Iterator[threading.Event]:
    """Set the event on Ctrl-C, besides what Dagster does with it."""
    pressed, usual = threading.Event(), signal.getsignal(signal.SIGINT)

    def note(number: int, frame: FrameType | None) -> None:
        pressed.set()
        if callable(usual):
            usual(number, frame)

    with signal_handlers({signal.SIGINT: note} if callable(usual) else {}):
        yield pressed


@contextmanager
def graceful_stop(stop: threading.Event) -> Iterator[None]:
    """Set `stop` on the first SIGINT or SIGTERM, and interrupt the step when the block has ended in order. By itself Dagster
    raises in the middle of whatever the step does; a second signal still has that effect."""
    received: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:
        received.append(number)
        stop.set()
        for each, handler in usual.items():
            signal.signal(each, handler)

    with signal_handlers({signal.SIGINT: end, signal.SIGTERM: end}) as usual:
        yield
    if received and callable(usual[received[0]]):
        signal.raise_signal(received[0])  # so that Dagster handles it as well
    if stop.is_set():
        raise dg.DagsterExecutionInterruptedError


def configuration(*resources: ConfiguredResource) -> ContentDownloadConfig:
    """Load the configuration for a step: the file that its resources name, with the overrides of each. Call it once a step."""
    files = {resource.file for resource in resources}
    if len(files) > 1:
        raise SettingsError([f"the resources name different files: {', '.join(sorted(map(str, files)))}; name one"])
    overrides = {key: value for resource in resources for key, value in resource.section_overrides().items()}
    return load_config(files.pop(), os.environ, overrides).value


@contextmanager
def services(*resources: ConfiguredResource) -> Iterator[Services]:
    """Open what a step that sends requests works with: each object once, under one owner."""
    with open_services(configuration(*resources)) as opened:
        yield opened


def show_configuration(
    context: dg.AssetExecutionContext, config: ContentDownloadConfig, resource: ConfiguredResource
) -> dict[str, str]:
    """Tag the run with the hash and the file of its configuration; returns both as metadata of the asset."""
    shown = {"configuration": config_hash(config), "configuration file": str(resource.file or "environment only")}
    tags = {
        "content_download/config": shown["configuration"][:19],
        "content_download/config_file": shown["configuration file"],
    }
    if any(context.run.tags.get(name) != value for name, value in tags.items()):
        context.instance.add_run_tags(context.run.run_id, tags)
    return shown


@contextmanager
def catalog_step(
    context: dg.AssetExecutionContext, catalog: ConfiguredResource, phase: str
) -> Iterator[tuple[ContentDownloadConfig, LakeFiles, Catalog]]:
    """Open the lake and the catalog for a step that sends no requests, and report its phase."""
    with handle_step_errors(context):
        config = configuration(catalog)
        with Catalog.open(config.catalog_location) as opened:
            opened.report_progress(context.run.run_id, {"year": year_of(context), "phase": phase})
            yield config, config.lake_files(), opened


def year_of(context: dg.AssetExecutionContext) -> int:
    return int(context.partition_key)


def years_of(year: int) -> tuple[int, ...]:
    """The years of a partition: the newest one also takes the works of which no year is known."""
    return (year, 0) if year == newest_year() else (year,)
