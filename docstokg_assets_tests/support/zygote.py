"""Imports the program once and forks it for each order on its standard input, so that fifty deaths cost no fifty starts.

An order is a JSON line: the arguments of `content`, a file for what it says, and, if it shall die by its own hand, at which
step of which write. Answers with the process number, and with the exit status when the process has ended.
"""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from docstokg_assets.cli import main as program
from docstokg_assets.reporting.sinks import SinkSet
from resources.artifacts import file_system
from resources.catalog.catalog import Catalog

# Every step at which a process can die between the first byte of a file and the line that tells of it.
STEPS = (
    "a part was made",
    "half of the bytes are written",
    "the bytes are not yet durable",
    "the bytes are durable, the name is not given",
    "the name is given, but not durable",
    "the name is durable, the catalog knows nothing",
    "the catalog knows, the manifest does not",
    "the manifest has its line",
)


def die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("still alive")


def die_at(step: str, turn: int) -> None:
    """Patches what this process calls of the operating system and of our own, so that it ends at the `turn`-th such step."""
    left = turn

    def now() -> bool:
        nonlocal left
        left -= 1
        return left == 0

    def wrap(owner: Any, name: str, *, before: Callable[..., bool] | None = None, after: bool = False) -> None:
        original = getattr(owner, name)

        def wrapped(*args: Any, **options: Any) -> Any:
            if before is not None and before(*args, **options) and now():
                die()
            result = original(*args, **options)
            if after and now():
                die()
            return result

        setattr(owner, name, wrapped)

    def of_file(fd: int) -> bool:
        return stat.S_ISREG(os.fstat(fd).st_mode)

    def finishes(_: Any, batch: Any) -> bool:
        return any(finished.outcome.path for finished in batch.finished)

    def half(fd: int, data: Any) -> bool:
        if not of_file(fd) or left > 1:
            return of_file(fd)
        written(fd, bytes(data)[: len(data) // 2])
        return True

    written = os.write
    match STEPS.index(step):
        case 0:
            wrap(os, "write", before=lambda fd, data: of_file(fd) and not os.fstat(fd).st_size)
        case 1:
            wrap(os, "write", before=half)
        case 2:
            wrap(os, "fsync", before=of_file)
        case 3:
            wrap(file_system, "rename_new", before=lambda *names: True)
        case 4:
            wrap(file_system, "rename_new", after=True)
        case 5:
            wrap(Catalog, "commit", before=finishes)
        case 6:
            wrap(SinkSet, "log_outcome", before=lambda sinks, entry: bool(entry.path))
        case 7:
            wrap(SinkSet, "log_outcome", after=True)


def run(order: dict[str, Any]) -> None:
    with open(order["says"], "ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    if order.get("step"):
        die_at(order["step"], order["turn"])
    sys.argv = ["content", *order["arguments"]]
    try:
        program.main()
    except SystemExit as ended:
        os._exit(int(ended.code or 0))


def main() -> None:
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            run(json.loads(line))
            os._exit(70)
        print(pid, flush=True)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
