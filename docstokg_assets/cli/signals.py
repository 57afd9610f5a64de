"""What SIGINT, SIGTERM and SIGHUP do while a command runs."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

from docstokg_assets.cli.exits import INTERRUPTED
from docstokg_assets.cli.output import print_message
from docstokg_assets.runs.signals import Handler, signal_handlers
from resources.http.errors import Interrupted

STOPPING = "Stopping: finishing downloads in progress. Press Ctrl-C again to quit now."
INTERRUPTED_MESSAGE = "Interrupted. All progress is saved; run the same command again to continue."


class StopSignals:
    """The first SIGINT or SIGTERM stops in order, the second quits at once. SIGHUP calls `reload`; without one it stops, too.

    `quits`: the second signal ends the process here. Otherwise it raises KeyboardInterrupt, for commands that must still end
    processes of their own. The first signal never raises, because an exception at a bad moment is lost.
    """

    def __init__(self, console: Console, *, message: str = STOPPING, quits: bool = True) -> None:
        self.stop = threading.Event()
        self.requested = False  # set before `stop`, whose lock a second signal might find taken
        self.reload: Callable[[], None] | None = None
        self._console, self._message, self._quits = console, message, quits
        self._interrupts = False

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Install the handlers, and put the previous ones back at the end."""
        handlers: dict[int, Handler] = {
            signal.SIGINT: self._on_stop,
            signal.SIGTERM: self._on_stop,
            signal.SIGHUP: self._on_hangup,
        }
        with signal_handlers(handlers):
            yield

    @contextmanager
    def interrupting(self) -> Iterator[None]:
        """Let the first signal raise Interrupted inside the block, which would otherwise keep this thread waiting."""
        self._interrupts = True
        try:
            yield
        finally:
            self._interrupts = False

    def _on_hangup(self, number: int, frame: object) -> None:
        if self.reload is None:
            self._on_stop(number, frame)
        else:
            self.reload()

    def _on_stop(self, number: int, frame: object) -> None:
        if self.requested and not self._quits:
            raise KeyboardInterrupt
        if self.requested:
            if self._console.is_terminal:
                os.write(2, b"\x1b[?25h\n")  # the progress bar has hidden the cursor
            os._exit(INTERRUPTED)
        self.requested = True
        self.stop.set()
        print_message(self._console, self._message)
        if self._interrupts:
            raise Interrupted("the run is being stopped")
