"""What a person sees while a run goes on: a bar for each partition on a terminal, a plain line now and then elsewhere.

Shows states that others hand in; measures nothing but the time.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from docstokg_assets.dispatcher import Progress

_LINE_EVERY_S = 5.0


@dataclass(slots=True)
class State:
    """One partition, or one run, at this moment."""

    label: str
    phase: str = "waiting"
    total: int = 0
    finished: int = 0
    saved: int = 0
    parked: int = 0
    works_per_s: float = 0.0
    waiting: str = ""
    hosts: str = ""

    @property
    def yield_text(self) -> str:
        return f"{self.saved / self.finished:.0%}" if self.finished else "–"

    def line(self) -> str:
        parts = [f"{self.label}: {self.phase}, {self.finished}/{self.total} works"]
        if self.finished:
            parts.append(f"{self.works_per_s:.1f} works/s, yield {self.yield_text}")
        if self.parked:
            parts.append(f"{self.parked} parked")
        if self.waiting:
            parts.append(f"waiting for {self.waiting}")
        if self.hosts:
            parts.append(f"asking {self.hosts}")
        return ", ".join(parts)


def waiting_text(waiting: Sequence[Mapping[str, Any]]) -> str:
    """`arxiv (4 works, 2 s)`; the longest waits first, two of them."""
    slow = sorted(waiting, key=lambda w: -float(w["seconds"]))[:2]
    return ", ".join(
        f"{w['group']} ({w['works']} works, {float(w['seconds']):.0f} s)" for w in slow if w["seconds"] >= 0.5
    )


def hosts_text(hosts: Sequence[str]) -> str:
    shown = ", ".join(hosts[:2])
    return f"{shown} +{len(hosts) - 2}" if len(hosts) > 2 else shown


class Display:
    """Shows a list of states until it is closed."""

    def __init__(self, console: Console, states: Sequence[State], title: str = "") -> None:
        self._console, self.states, self._title = console, states, title
        self._started = time.monotonic()
        self._last_line = 0.0
        self._live = Live(console=console, refresh_per_second=4, transient=False) if console.is_terminal else None

    def __enter__(self) -> Display:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.show(final=True)
        if self._live is not None:
            self._live.stop()

    def show(self, *, final: bool = False) -> None:
        if self._live is not None:
            self._live.update(self._table())
            return
        now = time.monotonic()
        if final or now - self._last_line >= _LINE_EVERY_S:
            self._last_line = now
            for state in self.states:
                self._console.print(
                    f"[{now - self._started:5.1f} s] {state.line()}", markup=False, highlight=False, soft_wrap=True
                )

    def _table(self) -> Table:
        table = Table(box=None, padding=(0, 1), title=self._title or None, title_justify="left", title_style="bold")
        for column in ("", "", "works", "works/s", "yield", "parked", "waiting for", "asking now"):
            table.add_column(
                column, no_wrap=True, justify="right" if column in ("works", "works/s", "yield", "parked") else "left"
            )
        for state in self.states:
            bar = ProgressBar(total=max(state.total, 1), completed=state.finished, width=24)
            table.add_row(
                Text(state.label, style="bold cyan"),
                bar if state.total else Text(state.phase, style="dim"),
                f"{state.finished}/{state.total}" if state.total else "",
                f"{state.works_per_s:.1f}" if state.finished else "",
                state.yield_text,
                str(state.parked) if state.parked else "",
                Text(state.waiting or (state.phase if state.total else ""), style="yellow" if state.waiting else "dim"),
                Text(state.hosts, style="dim"),
            )
        table.caption = f"{time.monotonic() - self._started:.0f} s"
        table.caption_justify = "left"
        return table


class RunDisplay:
    """The display of one run in this process."""

    def __init__(self, console: Console) -> None:
        self._state = State("works", phase="looking for works")
        self._display = Display(console, [self._state])
        self._pass_began = 0.0

    def __enter__(self) -> RunDisplay:
        self._display.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._display.__exit__(kind, error, trace)

    def planned(self, count: int) -> None:
        self._state.phase = f"{count} works planned"
        self._display.show()

    def start_pass(self, total: int) -> None:
        self._state.total, self._state.phase = total, "downloading"
        self._pass_began = time.monotonic()

    def update(self, progress: Progress) -> None:
        state = self._state
        state.finished, state.saved, state.parked = progress.finished, progress.saved, progress.parked
        state.works_per_s = progress.finished / max(0.001, time.monotonic() - self._pass_began)
        state.waiting = waiting_text(
            [{"group": w.group, "works": w.works, "seconds": w.seconds} for w in progress.waiting]
        )
        state.hosts = hosts_text(progress.active_hosts)
        self._display.show()
