"""Signal handlers for the duration of a block. The command line and the Dagster steps both install theirs here."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

Handler = Callable[[int, FrameType | None], Any]


@contextmanager
def signal_handlers(handlers: Mapping[int, Handler]) -> Iterator[Mapping[int, Any]]:
    """Install handlers by signal number; yield those that were there before, and restore them on leaving.

    Python handles signals in the main thread alone: in any other thread nothing is installed, and the mapping is empty.
    """
    if threading.current_thread() is not threading.main_thread():
        yield {}
        return
    previous = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield previous
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
