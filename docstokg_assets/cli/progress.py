"""The progress display of a run: a bar for each partition on a terminal, elsewhere a plain line every few seconds.

Shows the states that callers hand in, and log records; measures nothing but the time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from docstokg_assets.cli.output import print_message
from docstokg_assets.engine.progress import Progress, waiting_text
from docstokg_assets.reporting.rendering import first_few

_LINE_EVERY_S = 5.0
_BAR_WIDTH = 24  # at most a fifth of the terminal
_NARROW = 100  # columns, below which hosts stand on a line of their own


@dataclass(slots=True)
class State:
    """The state of one partition or run. `total` is 0 while it is unknown; `saved` is None in a dry run."""

    label: str
    phase: str = "waiting"
    total: int = 0
    finished: int = 0
    saved: int | None = 0
    later: int = 0
    works_per_s: float = 0.0
    waiting: str = ""
    hosts: str = ""

    @property
    def counts(self) -> list[str]:
        """Works, speed, yield and waiting works as text; empty where a number is not known yet."""
        started = self.finished > 0
        return [
            f"{self.finished:,}/{self.total:,} works" if self.total else "",
            f"{self.works_per_s:.1f}/s" if started else "",
            f"yield {self.saved / self.finished:.0%}" if started and self.saved is not None else "",
            f"{self.later:,} waiting" if self.later else "",
        ]

    @property
    def hosts_involved(self) -> list[str]:
        return [f"waiting for {self.waiting}" if self.waiting else "", f"requesting {self.hosts}" if self.hosts else ""]

    def line(self) -> str:
        text = ", ".join(filter(None, [self.phase, *self.counts, *self.hosts_involved]))
        return f"{self.label}: {text}" if self.label else text


def hosts_text(hosts: Sequence[str]) -> str:
    """`a.example, b.example +3`"""
    return first_few(hosts, 2, " +{}")


class Display:
    """Shows a list of states until it is closed."""

    def __init__(self, console: Console, states: Sequence[State]) -> None:
        self.console, self.states = console, states
        self._started = time.monotonic()
        self._last_line = self._started
        self._live = (
            Live(console=console, get_renderable=self._table, refresh_per_second=4) if console.is_terminal else None
        )

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.transient = kind is not None  # a message follows
            self._live.stop()
        elif kind is None:
            self.show(final=True)

    def show(self, *, final: bool = False) -> None:
        """Print a line for each state, but not too often. On a terminal nothing: the live display reads the states itself."""
        now = time.monotonic()
        if self._live is not None or not (final or now - self._last_line >= _LINE_EVERY_S):
            return
        self._last_line = now
        for state in self.states:
            print_message(self.console, f"[{now - self._started:5.1f} s] {state.line()}")

    def _table(self) -> Group:
        table = Table.grid(padding=(0, 2, 0, 0))
        for justify in ("left", "left", "right", "right", "left", "right"):
            table.add_column(no_wrap=True, justify=justify)
        narrow, below = self.console.width < _NARROW, []
        width = min(_BAR_WIDTH, self.console.width // 5)
        for state in self.states:
            bar = ProgressBar(total=state.total, completed=state.finished, width=width)
            where = " · ".join(filter(None, state.hosts_involved)) or (state.phase if state.total else "")
            cut: dict[str, Any] = {"no_wrap": True, "overflow": "ellipsis"}
            hosts = Text(where, style="yellow" if state.waiting else "dim", **cut)
            row = (bar if state.total else Text(state.phase, style="dim"), *state.counts)
            table.add_row(Text(state.label, style="bold cyan"), *row, *(() if narrow else (hosts,)))
            if narrow and where:
                below.append(Text(state.label and f"{state.label}  ", **cut).append_text(hosts))
        return Group(table, *below, Text(f"{time.monotonic() - self._started:.0f} s", style="dim"))


class RunDisplay(Display):
    """The display of one run in this process."""

    def __init__(self, console: Console, *, dry_run: bool = False) -> None:
        self._state = State("", phase="listing works …", saved=None if dry_run else 0)
        super().__init__(console, [self._state])
        self._pass_phase = "looking for copies" if dry_run else "downloading"
        self._pass_began = 0.0

    def listed(self, count: int, announced: int) -> None:
        """`announced`: the number of works that the source states, 0 where it states none."""
        self.set_phase(f"listing works … {count:,} {f'of {announced:,}' if announced else 'so far'}")

    def set_phase(self, phase: str) -> None:
        """The phase before the pass."""
        self._state.phase = phase
        self.show()

    def start_pass(self, due: int) -> None:
        self._state.total, self._state.phase = due, self._pass_phase
        self._pass_began = time.monotonic()

    def update(self, progress: Progress) -> None:
        state = self._state
        state.finished, state.later = progress.finished, progress.later
        state.saved = None if state.saved is None else progress.saved
        state.works_per_s = progress.finished / max(0.001, time.monotonic() - self._pass_began)
        state.waiting = waiting_text(progress.waiting)
        state.hosts = hosts_text(progress.active_hosts)
        self.show()

    def end_pass(self, phase: str) -> None:
        self._state.phase, self._state.waiting, self._state.hosts = phase, "", ""


class ConsoleLogHandler(logging.Handler):
    """Prints each log record on one line, above the bar if there is one; of an error its message without the stack trace."""

    def __init__(self, console: Console) -> None:
        super().__init__(logging.INFO)
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        cause = f": {str(error).partition(chr(10))[0] or type(error).__name__}" if error is not None else ""
        print_message(self._console, f"content: {record.getMessage()}{cause}")
