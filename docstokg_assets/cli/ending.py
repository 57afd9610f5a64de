"""How a command ends: the exit codes, and the one way to end with a message. What is said is each command's business."""

from __future__ import annotations

from typing import NoReturn

import typer

DONE, NOTHING_STARTED, SOMETHING_LEFT, NO_ROOM, INTERRUPTED = 0, 2, 3, 4, 130


def fail(message: str, code: int = NOTHING_STARTED) -> NoReturn:
    tell(message)
    raise typer.Exit(code)


def tell(message: str) -> None:
    """What went wrong, on standard error; on a terminal broken between words."""
    from rich.console import Console

    from docstokg_assets.cli.progress import say

    say(Console(stderr=True), f"content: {message}")
