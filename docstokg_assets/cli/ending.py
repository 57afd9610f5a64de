"""How a command ends: the exit codes, and the one way to end with a message. What is said is each command's business."""

from __future__ import annotations

from typing import NoReturn

import typer

DONE, NOTHING_STARTED, SOMETHING_LEFT, NO_ROOM, INTERRUPTED = 0, 2, 3, 4, 130


def fail(message: str, code: int = NOTHING_STARTED) -> NoReturn:
    typer.echo(f"content: {message}", err=True)
    raise typer.Exit(code)
