"""The first signal stops in order, the second quits; SIGHUP reloads where there is something to reload."""

from __future__ import annotations

import io
import os
import signal

import pytest
from rich.console import Console

from docstokg_assets.cli.signals import STOPPING, StopSignals
from resources.http.errors import Interrupted


@pytest.fixture
def console() -> Console:
    return Console(file=io.StringIO(), width=200)


def send(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_asks_for_a_stop_and_says_so(console: Console, number: signal.Signals) -> None:
    previous = signal.getsignal(number)
    signals = StopSignals(console, quits=False)
    with signals.handled():
        send(number)
        assert signals.requested and signals.stop.is_set()
        with pytest.raises(KeyboardInterrupt):
            send(number)
    assert signal.getsignal(number) == previous
    assert isinstance(console.file, io.StringIO) and console.file.getvalue() == f"{STOPPING}\n"


def test_hangup_reloads_and_does_not_stop(console: Console) -> None:
    signals, reloaded = StopSignals(console, quits=False), list[bool]()
    signals.reload = lambda: reloaded.append(True)
    with signals.handled():
        send(signal.SIGHUP)
    assert reloaded == [True] and not signals.requested


def test_a_blocking_call_is_interrupted(console: Console) -> None:
    signals = StopSignals(console)
    with signals.handled(), pytest.raises(Interrupted), signals.interrupting():
        send(signal.SIGTERM)
    assert signals.requested
