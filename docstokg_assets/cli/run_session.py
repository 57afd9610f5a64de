"""What `pull` and `resume` share: configuration, signals, log, progress display, the pass itself, report and last messages."""

from __future__ import annotations

import errno
import logging
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from docstokg_assets.cli.common_options import verbosity
from docstokg_assets.cli.exits import DISK_FULL, DONE, INCOMPLETE, INTERRUPTED, NOT_STARTED, fail
from docstokg_assets.cli.output import print_message, stderr_console
from docstokg_assets.cli.progress import ConsoleLogHandler, RunDisplay
from docstokg_assets.cli.signals import INTERRUPTED_MESSAGE, StopSignals
from docstokg_assets.config import ContentDownloadConfig, require_contact
from docstokg_assets.reporting import report as reports
from docstokg_assets.reporting.rendering import format_time, plural
from resources.errors import ExplainedError
from resources.on_use import arrow_without_pandas
from resources.scope import WorkScope
from resources.whole_file import disk_trouble

if TYPE_CHECKING:
    from docstokg_assets.cli.options import Load
    from docstokg_assets.engine.progress import PassResult
    from docstokg_assets.runs.run import DownloadRun
    from docstokg_assets.runs.services import Services
    from resources.catalog.catalog import Catalog
    from resources.catalog.rows import QueueCounts

_SUMMARY = ("How works ended", "Waiting", "Files and folders")  # of the tables in summary.md
_PHASES = {"drained": "done", "deadline": "out of time", "stopped": "interrupted"}


def load_with_contact(load: Load, **overrides: Any) -> ContentDownloadConfig:
    """The configuration of a command that sends requests: it must name a contact address."""
    config = load(**overrides).value
    require_contact(config)
    return config


@contextmanager
def disk_errors(config: ContentDownloadConfig) -> Iterator[None]:
    """End the command with a message where the data folder or its disk fails."""
    try:
        yield
    except OSError as error:
        code = DISK_FULL if error.errno in (errno.ENOSPC, errno.EDQUOT) else NOT_STARTED
        fail(f"{disk_trouble(error, config.data_root)}, then run the same command again.", code)


@contextmanager
def working_root(config: ContentDownloadConfig, dry_run: bool) -> Iterator[tuple[ContentDownloadConfig, Path | None]]:
    """A dry run works in a temporary folder, but under the rate limits of the real one."""
    if not dry_run:
        yield config, None
        return
    shared = config.data_root / "limits.sqlite3"
    with tempfile.TemporaryDirectory(prefix="content-dry-run-") as folder:
        temporary = {"data_root": Path(folder), "storage": type(config.storage)()}
        temporary["artifacts"] = config.artifacts.model_copy(update={"root": None, "store": "fs"})
        yield config.model_copy(update=temporary), shared if any(config.data_root.glob("limits.*")) else None


@dataclass
class RunSession:
    """One pass of a command over the works of a scope."""

    services: Services
    load: Callable[[], ContentDownloadConfig]
    deadline: float | None = None
    dry_run: bool = False

    def __post_init__(self) -> None:
        arrow_without_pandas()
        self.console = stderr_console()
        self.signals = StopSignals(self.console)

    def print(self, message: str) -> None:
        print_message(self.console, message)

    def drain(self, run: DownloadRun, prepare: Callable[[RunDisplay], None], scope: WorkScope) -> PassResult:
        """Call `prepare`, which fills the queue, download what is due, then write the report."""
        catalog = self.services.catalog
        self._scope = scope
        self.signals.reload = lambda: run.reload_with(self.load)
        with self.signals.handled(), log_to(self.console, None if self.dry_run else run.folder / "run.log"):
            with run, RunDisplay(self.console, dry_run=self.dry_run) as display:
                prepare(display)
                self._before = before = catalog.queue_counts(scope.year, scope.run_id)
                due = before.total - before.done - before.retry
                if not self.dry_run:
                    works = f"{due:,} of {plural(before.total, 'work')} to do"
                    self.print(f"run {run.run_id}: {works}, in {run.folder.parent}")
                display.start_pass(due)
                self._result = run.drain(scope, deadline_s=self.deadline, on_progress=display.update)
                display.end_pass(_PHASES.get(self._result.ended, self._result.ended))
            if not self.dry_run and not self.signals.requested:
                self._export_and_report(run)
        return self._result

    def _export_and_report(self, run: DownloadRun) -> None:
        """Write the lake and summary.md. Both can be made again from the catalog, so the run does not fail without them."""
        services, config = self.services, self.services.config
        try:
            services.export_lake()
            scope, now = WorkScope(None, run.run_id), datetime.now(UTC)
            built = reports.build_report(
                services.lake.files, config.data_root, scope, services.catalog, now, config.artifact_root
            )
            (run.folder / "summary.md").write_text(reports.to_markdown(built), encoding="utf-8")
        except ExplainedError as error:
            logging.getLogger(__name__).warning("could not write the report: %s", error)
            return
        except Exception:
            logging.getLogger(__name__).warning("could not write the report", exc_info=True)
            return
        if verbosity() >= 0 and services.catalog.outcome_counts(settled_by=run.run_id):
            Console().print(reports.to_terminal(built, only=_SUMMARY))

    def exit_code(self, *, incomplete: bool) -> int:
        """Print how the pass ended. `incomplete`: something besides works that are left went wrong."""
        if self.signals.requested:
            self.print(INTERRUPTED_MESSAGE)
            return INTERRUPTED
        before, finished = self._before, self._result.finished
        if not self.dry_run and print_remaining(self.console, self.services.catalog, self._scope, before, finished):
            incomplete = True
        return INCOMPLETE if incomplete else DONE


def print_remaining(
    console: Console, catalog: Catalog, scope: WorkScope, before: QueueCounts | None = None, finished: int = 0
) -> int:
    """Print how many works were finished before, and how many are left until when; returns how many are left."""
    counts = catalog.queue_counts(scope.year, scope.run_id)
    left = counts.total - counts.done
    if not counts.total:
        print_message(console, "No matching works.")
    elif before is not None and before.done:
        also = "" if finished else "; nothing was downloaded again"
        print_message(console, f"{before.done:,} of {plural(counts.total, 'work')} already finished{also}.")
    if left:
        due = catalog.next_due(scope.year, scope.run_id) if counts.queued_due == 0 else None
        when = f" after {format_time(due)} UTC" if due is not None else ""
        parts = {"waiting": counts.waiting, "still to do": counts.to_do}
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in parts.items() if count)
        print_message(console, f"{plural(left, 'work')} not finished yet ({kinds}); run the same command again{when}.")
    return left


class _RunLog(logging.FileHandler):
    def handleError(self, record: logging.LogRecord) -> None:
        """Drop a line that the disk has no room for; reporting that would hide the message itself."""


@contextmanager
def log_to(console: Console, file: Path | None) -> Iterator[None]:
    """Show log records in one line each, and keep them with stack traces in a file, which is created with the first record."""
    handlers: list[logging.Handler] = [ConsoleLogHandler(console)]
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        kept = _RunLog(file, delay=True, encoding="utf-8")
        kept.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        handlers.append(kept)
    with ExitStack() as stack:
        for handler in handlers:
            stack.callback(handler.close)
        for logger in (logging.getLogger(name) for name in ("docstokg_assets", "resources")):
            stack.callback(logger.setLevel, logger.level)
            logger.setLevel(logging.DEBUG if verbosity() > 0 else logging.INFO)
            for handler in handlers:
                stack.callback(logger.removeHandler, handler)
                logger.addHandler(handler)
        yield
