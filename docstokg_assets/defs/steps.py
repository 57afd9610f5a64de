"""What the steps share: getting at the configuration and the services, ending in order, failing in plain words.

The assets say what happens; here is how a Dagster step gets hold of the plain objects and lets go of them.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType

import dagster as dg
import duckdb
from sqlalchemy.exc import OperationalError

from docstokg_assets.config import ContentDownloadConfig, load_config, require_contact
from docstokg_assets.lake.writer import LakeWriter
from docstokg_assets.runs.run import Services
from docstokg_assets.sources import SourceError
from resources.artifacts.store import StoreError
from resources.catalog.errors import CatalogError
from resources.dagster_resources import (
    ArtifactStoreResource,
    CatalogResource,
    ConfiguredResource,
    HttpClientResource,
    RateLimiterResource,
)
from resources.folders import FolderError
from resources.http.errors import HttpError
from resources.processes import new_owner
from resources.rate_limit.stores import LimiterUnavailable
from resources.settings import SettingsError
from resources.whole_file import disk_trouble

_EXPLAINED = (SettingsError, CatalogError, StoreError, LimiterUnavailable, SourceError, FolderError, HttpError)


Step = dg.AssetExecutionContext | dg.AssetCheckExecutionContext | dg.OpExecutionContext


@contextmanager
def translate_step_errors() -> Iterator[None]:
    """Errors whose message says all that a person needs become the step's failure, without their trace. Requests were repeated
    already where that helps, so the step is not."""
    try:
        yield
    except _EXPLAINED as error:
        raise dg.Failure(str(error), allow_retries=False) from None
    except duckdb.IOException as error:
        cause = str(error).partition("\n")[0]
        remedy = "Were its parts joined or made again meanwhile? Launch it again."
        raise dg.Failure(f"the lake could not be read: {cause}. {remedy}", allow_retries=False) from None
    except OSError as error:
        if error.errno is None or isinstance(error, ConnectionError | TimeoutError):  # not of a disk
            raise
        raise dg.Failure(
            f"{disk_trouble(error, 'the data root')}, then launch it again.", allow_retries=False
        ) from None


@contextmanager
def retry_on_dagster_db_error() -> Iterator[None]:
    """Where Dagster could not reach its own database for longer than it waits, ten to twenty seconds, a line of the log fails the
    step; it is done again. (A retry policy would do the same, and repeat steps that somebody has terminated.)"""
    try:
        yield
    except Exception as error:
        if not _is_of_a_database(error):
            raise
        raise dg.RetryRequested(max_retries=2, seconds_to_wait=10) from error


def _is_of_a_database(error: BaseException | None) -> bool:
    """The catalog's own errors are explained; whatever else comes from a database comes from Dagster's."""
    return error is not None and (isinstance(error, OperationalError) or _is_of_a_database(error.__cause__))


@contextmanager
def handle_step_errors(step: Step) -> Iterator[None]:
    """Plain failures; and Ctrl-C in a shell is somebody's wish, as *Terminate* is in the UI: the run is canceled then. By itself
    Dagster would call it failed, as it does, and should, when a machine that goes down ends its processes."""
    with retry_on_dagster_db_error(), translate_step_errors(), _noting_ctrl_c() as pressed:
        try:
            yield
        except dg.DagsterExecutionInterruptedError:
            run = step.instance.get_run_by_id(step.run.run_id)
            if pressed.is_set() and run is not None and run.status is dg.DagsterRunStatus.STARTED:
                step.instance.report_run_canceling(run, "Ctrl-C was pressed.")
            raise


@contextmanager
def _noting_ctrl_c() -> Iterator[threading.Event]:
    pressed, usual = threading.Event(), signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(usual):
        yield pressed
        return

    def note(number: int, frame: FrameType | None) -> None:
        pressed.set()
        usual(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, usual)


def configuration(resource: ConfiguredResource) -> ContentDownloadConfig:
    """The whole configuration, of which each resource takes its section. All resources name the same file."""
    return load_config(resource.file, os.environ).value


@contextmanager
def services(
    catalog: CatalogResource,
    artifact_store: ArtifactStoreResource,
    rate_limiter: RateLimiterResource,
    http_client: HttpClientResource,
) -> Iterator[Services]:
    """What a step that sends requests works with: each object once, under one owner."""
    config = configuration(catalog)
    require_contact(config)
    root, owner = config.data_root, new_owner()
    with ExitStack() as stack:
        opened = stack.enter_context(catalog.open(root))
        store = artifact_store.open(root)
        limiter = stack.enter_context(rate_limiter.open(root, opened, owner))
        client = stack.enter_context(http_client.open(root, opened, limiter, config.download.chunk_size_bytes))
        yield Services(config, opened, store, LakeWriter(config.lake_files()), limiter, client, owner)


@contextmanager
def graceful_stop(stop: threading.Event) -> Iterator[None]:
    """Dagster ends a step by raising in the middle of whatever it does. Here `stop` is set instead, and the raise comes when
    everything has been given back; a second signal has its usual effect."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    usual = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    ended_by: list[signal.Signals] = []

    def end(number: int, frame: object) -> None:
        ended_by.append(signal.Signals(number))
        stop.set()
        for each, handler in usual.items():
            signal.signal(each, handler)

    for number in usual:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)
    if ended_by and callable(usual[ended_by[0]]):
        signal.raise_signal(ended_by[0])  # for those who would have had it then
    if stop.is_set():
        raise dg.DagsterExecutionInterruptedError


def year_of(context: dg.AssetExecutionContext) -> int:
    return int(context.partition_key)
