"""Signal handlers for the duration of a block."""

from __future__ import annotations

import signal
import threading

import pytest

from docstokg_assets.runs.signals import signal_handlers


def test_handlers_are_installed_and_the_previous_ones_come_back_whatever_happens() -> None:
    received: list[int] = []
    before = signal.getsignal(signal.SIGUSR1)
    with pytest.raises(KeyError), signal_handlers({signal.SIGUSR1: lambda number, _: received.append(number)}) as old:
        assert old == {signal.SIGUSR1: before}
        signal.raise_signal(signal.SIGUSR1)
        raise KeyError
    assert received == [signal.SIGUSR1] and signal.getsignal(signal.SIGUSR1) is before


def test_another_thread_installs_nothing() -> None:
    found: list[object] = []

    def install() -> None:
        with signal_handlers({signal.SIGUSR1: lambda *_: None}) as previous:
            found.append(previous)

    thread = threading.Thread(target=install)
    thread.start()
    thread.join()
    assert found == [{}]
