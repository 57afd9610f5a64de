"""Exit codes, and how a command ends with a message."""

from __future__ import annotations

from typing import NoReturn

import typer

from resources.errors import ExplainedError

DONE, NOT_STARTED, INCOMPLETE, DISK_FULL, NETWORK_DOWN, INTERRUPTED = 0, 2, 3, 4, 5, 130


def exit_code_of(error: ExplainedError) -> int:
    return DISK_FULL if error.out_of_space else NETWORK_DOWN if error.network_down else NOT_STARTED


def fail(message: str, code: int = NOT_STARTED) -> NoReturn:
    print_error(message)
    raise typer.Exit(code)


def print_error(message: str) -> None:
    """Print to standard error; on a terminal wrapped between words."""
    from docstokg_assets.cli.output import print_message, stderr_console

    print_message(stderr_console(), f"content: {message}")
