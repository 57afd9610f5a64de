"""The base of errors that explain themselves, and the one way to translate a library's errors into them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar


class ExplainedError(Exception):
    """An error whose message names the thing, the place and the remedy. People see the message, never a stack trace."""

    # Two kinds for which a command ends with an exit code of its own:
    out_of_space: ClassVar[bool] = False  # the disk or the bucket is full
    network_down: ClassVar[bool] = False  # the proxy or the network is gone


@contextmanager
def translate_errors(
    kinds: type[Exception] | tuple[type[Exception], ...],
    translate: Callable[[Any], Exception],
    *,
    hide_cause: bool = False,
) -> Iterator[None]:
    """Raise `translate(error)` in the place of a library's error of one of `kinds`. `hide_cause` keeps the library's own
    message, which may contain a secret, out of tracebacks."""
    try:
        yield
    except kinds as error:
        raise translate(error) from (None if hide_cause else error)
