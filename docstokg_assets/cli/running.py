"""What stands around every command that runs works: signals, the log, errors in plain words, and what is told at the end. Which
works are run, and how, is the commands' business.
"""

from __future__ import annotations

import errno
import logging
import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from docstokg_assets.cli.ending import INTERRUPTED, NO_ROOM, NOTHING_STARTED, fail
from docstokg_assets.runs.signals import signal_handlers

if TYPE_CHECKING:
    from rich.console import Console

    from docstokg_assets.config import ContentDownloadConfig
    from docstokg_assets.runs.run import DownloadRun
    from docstokg_assets.runs.services import Services
    from resources.catalog.catalog import Catalog
    from resources.catalog.queue import Years

_SUMMARY = ("How works ended", "Waiting", "Where everything is")  # of the tables in summary.md
ENDING = "Ending: what is under way gets a few seconds; the same signal again ends at once."
HOW_IT_ENDED = {"drained": "done", "deadline": "out of time", "stopped": "interrupted"}


@contextmanager
def exit_with_message(config: ContentDownloadConfig) -> Iterator[None]:
    """What keeps a run from its catalog, store or limiter ends the command with a message that says it."""
    from resources.artifacts.store import StoreError, StoreFull
    from resources.catalog.database import CatalogError, CatalogFull
    from resources.rate_limit.stores import LimiterUnavailable
    from resources.whole_file import disk_trouble

    try:
        yield
    except (CatalogFull, StoreFull) as error:
        fail(str(error), NO_ROOM)
    except (CatalogError, StoreError, LimiterUnavailable) as error:
        fail(str(error))
    except OSError as error:
        code = NO_ROOM if error.errno in (errno.ENOSPC, errno.EDQUOT) else NOTHING_STARTED
        fail(f"{disk_trouble(error, config.data_root)}, then run the same command again.", code)


@contextmanager
def working_root(config: ContentDownloadConfig, dry_run: bool) -> Iterator[tuple[ContentDownloadConfig, Path | None]]:
    """A dry run works in a folder that disappears with it, but under the limits of the real one."""
    if not dry_run:
        yield config, None
        return
    shared = config.data_root / "limits.sqlite3"
    with tempfile.TemporaryDirectory(prefix="content-dry-run-") as folder:
        places = {"data_root": Path(folder), "storage": type(config.storage)()}
        places["artifacts"] = config.artifacts.model_copy(update={"root": None, "store": "fs"})
        yield config.model_copy(update=places), shared if any(config.data_root.glob("limits.*")) else None


class Signals:
    """The first SIGINT or SIGTERM ends the run in order, the second at once; SIGHUP reloads the configuration."""

    def __init__(self, console: Console) -> None:
        self.stop = threading.Event()
        self.reload: Callable[[], None] = lambda: None
        self._console = console
        self._cut = False

    def watched(self) -> AbstractContextManager[object]:
        """The handlers are installed for the duration of the block."""
        return signal_handlers(
            {signal.SIGINT: self._end, signal.SIGTERM: self._end, signal.SIGHUP: lambda *_: self.reload()}
        )

    @contextmanager
    def cut_short(self) -> Iterator[None]:
        """What blocks this thread inside is not waited for: the signal raises Interrupted in the middle of it."""
        self._cut = True
        try:
            yield
        finally:
            self._cut = False

    def _end(self, number: int, frame: object) -> None:
        from resources.http.errors import Interrupted

        if self.stop.is_set():
            if self._console.is_terminal:
                os.write(2, b"\x1b[?25h\n")  # the bar has hidden the cursor
            os._exit(INTERRUPTED)
        self.stop.set()
        say_to(self._console, ENDING)
        if self._cut:
            raise Interrupted("the run is being ended")


class _RunLog(logging.FileHandler):
    def handleError(self, record: logging.LogRecord) -> None:
        """A line that finds no room on the disk is lost; its failure would hide what it is about."""


@contextmanager
def logged(console: Console, file: Path | None) -> Iterator[None]:
    """What is logged is told in one line, and kept with its stack trace in a file, which appears with its first line."""
    from docstokg_assets.cli.progress import Notices

    handlers: list[logging.Handler] = [Notices(console)]
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        kept = _RunLog(file, delay=True, encoding="utf-8")
        kept.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        handlers.append(kept)
    ours = [logging.getLogger(name) for name in ("docstokg_assets", "resources")]
    levels = [logger.level for logger in ours]
    for logger in ours:
        logger.setLevel(logging.INFO)
        for handler in handlers:
            logger.addHandler(handler)
    try:
        yield
    finally:
        for logger, level in zip(ours, levels, strict=True):
            logger.setLevel(level)
            for handler in handlers:
                logger.removeHandler(handler)
        for handler in handlers:
            handler.close()


def export_and_report(services: Services, run: DownloadRun, *, shown: bool) -> None:
    """The lake and summary.md. Both can be made again from the catalog, so a run never fails for want of them."""
    from rich.console import Console

    from docstokg_assets.domain.scope import WorkScope
    from docstokg_assets.reporting import report as reports

    root = services.config.data_root
    try:
        services.export_lake()
        scope, now = WorkScope(None, run.run_id), datetime.now(UTC)
        built = reports.build_report(
            services.lake.files, root, scope, services.catalog, now, services.config.artifact_root
        )
        (run.folder / "summary.md").write_text(reports.to_markdown(built), encoding="utf-8")
    except Exception:
        logging.getLogger(__name__).warning("the report could not be made", exc_info=True)
        return
    if shown:
        Console().print(reports.to_terminal(built, only=_SUMMARY))


def tell_what_is_left(
    console: Console,
    catalog: Catalog,
    done_before: int,
    finished: int,
    *,
    run_id: str | None,
    year: Years | None = None,
) -> int:
    """How many works are not done; says when to come back for them, and what was there already."""
    from docstokg_assets.cli.progress import plural

    counts = catalog.queue_counts(year, run_id)
    left = counts.total - counts.done
    if not counts.total:
        say_to(console, "There are no such works.")
    elif done_before:
        also = "" if finished else "; nothing was downloaded again"
        say_to(console, f"{plural(done_before, 'work')} of {counts.total:,} had been finished before{also}.")
    if left:
        due = catalog.next_due(year, run_id) if counts.queued_due == 0 else None
        when = f" from {datetime.fromtimestamp(due, UTC):%Y-%m-%d %H:%M} UTC on" if due is not None else ""
        say_to(console, f"{plural(left, 'work')} left for later; run the same command again{when}.")
    return left


def terminal() -> Console:
    from rich.console import Console

    return Console(stderr=True)


def say_to(console: Console, message: str) -> None:
    from docstokg_assets.cli.progress import say

    say(console, message)
