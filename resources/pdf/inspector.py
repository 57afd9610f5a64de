"""Read a PDF in a child process: number of pages, metadata, the text of its first pages.

A hostile file can make any PDF library use gigabytes or run for ever. So the parser runs in children (`child.py`) with limits of
memory and processor time, and a deadline here; one that reached a limit is replaced. When a child ends without an answer, its
exit code and the memory it used tell whether it reached a limit. If not, the file is read once more by another child. Children
start with the first PDF, serve until `close`, and end by themselves with this process, when their standard input ends.
"""

from __future__ import annotations

import json
import logging
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Any

log = logging.getLogger(__name__)

MEMORY_BYTES = 768 * 1024 * 1024  # of address space, the interpreter included
CPU_S = 3
DEADLINE_S = 30.0
OUT_OF_MEMORY = 75  # an exit code of the child
_START_S = 60.0
_MAX_REPLY = 1024 * 1024


@dataclass(frozen=True, slots=True)
class PdfFacts:
    """`limit` names the limit that reading it ran into, `fault` why it could not be read; then the rest is not known."""

    pages: int | None = None
    text: str = ""  # of the first pages, cut
    metadata: Mapping[str, str] = field(default_factory=dict)  # `title` … of /Info, `dc:title`, `prism:doi` … of XMP
    encrypted: bool = False
    fault: str | None = None
    limit: str | None = None


class PdfInspector:
    """Thread-safe. As many files are read at once as there are processors; others wait their turn."""

    def __init__(self, *, memory_bytes: int = MEMORY_BYTES, cpu_s: int = CPU_S, deadline_s: float = DEADLINE_S) -> None:
        self._arguments, self._deadline_s = (str(memory_bytes), str(cpu_s)), deadline_s
        self._turns: SimpleQueue[None] = SimpleQueue()  # a semaphore that wakes threads without the cost of one
        for _ in range(os.cpu_count() or 1):
            self._turns.put(None)
        self._idle: list[_Child] = []
        self._closed = False

    def inspect(self, path: Path) -> PdfFacts:
        """Never raises for what is in the file, nor for want of a child."""
        self._turns.get()
        try:
            try:
                return self._ask_a_child(path)
            except OSError as error:
                log.info("a PDF is given to another reader: %s", error)
            try:
                return self._ask_a_child(path)
            except OSError as error:
                log.warning("a PDF is not looked into: %s", error)
                return PdfFacts(fault=str(error))
        finally:
            self._turns.put(None)

    def _ask_a_child(self, path: Path) -> PdfFacts:
        """OSError when there is none, or it ended before it could answer."""
        child = self._take_idle() or _Child(self._arguments)
        reply = child.ask(str(path), self._deadline_s)
        if "limit" in reply:
            child.end()
        else:
            self._idle.append(child)
            if self._closed:
                self.close()
        return PdfFacts(**reply)

    def _take_idle(self) -> _Child | None:
        try:
            return self._idle.pop()  # atomic
        except IndexError:
            return None

    def close(self) -> None:
        self._closed = True
        while (child := self._take_idle()) is not None:
            child.end()


class _Child:
    def __init__(self, arguments: tuple[str, ...]) -> None:
        """OSError when it cannot be started."""
        # -P: the working folder is the user's, and no module is taken from there
        command = [sys.executable, "-P", "-m", "resources.pdf.child", *arguments]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._in, self._out = self._process.stdin, self._process.stdout
        self._ended: tuple[int, int] | None = None
        self._poll = select.poll()
        self._poll.register(self._out, select.POLLIN)
        try:
            # the most memory, in bytes, that one in good health has used
            self._enough = int(self._line(_START_S) or b"")
        except ValueError:
            code, _ = self.end()
            raise OSError(f"the PDF reader ended at its start (code {code})") from None

    def ask(self, path: str, deadline_s: float) -> dict[str, Any]:
        """OSError when it ended without an answer, and not by one of its limits."""
        try:
            self._in.write(json.dumps(path).encode() + b"\n")
            line = self._line(deadline_s)
        except BrokenPipeError:
            line = b""
        if line is None:
            return {"limit": f"time ({deadline_s:g} s)"}
        try:
            reply: dict[str, Any] = json.loads(line)
        except ValueError:
            code, most_memory = self.end()
            if code == -signal.SIGXCPU:
                return {"limit": "processor time"}
            if code == OUT_OF_MEMORY or most_memory > self._enough:
                return {"limit": "memory"}
            raise OSError(f"the PDF reader ended by itself or was killed (code {code})") from None
        return reply

    def end(self) -> tuple[int, int]:
        """The exit code, which is its own when it had ended already, and the most memory that it ever used, in bytes."""
        if self._ended is None:
            self._in.close()
            self._out.close()
            os.kill(self._process.pid, signal.SIGKILL)  # Popen would take its exit code, and what it had used were lost
            _, status, used = os.wait4(self._process.pid, 0)
            self._process.returncode = os.waitstatus_to_exitcode(status)
            self._ended = self._process.returncode, used.ru_maxrss * 1024
        return self._ended

    def _line(self, deadline_s: float) -> bytes | None:
        """The next line, or what came of it before the child ended; None when the time is over."""
        end, line = time.monotonic() + deadline_s, b""
        while not line.endswith(b"\n") and len(line) < _MAX_REPLY:
            if not self._poll.poll(max(0.0, end - time.monotonic()) * 1000):
                return None
            piece = os.read(self._out.fileno(), 65_536)
            if not piece:
                break
            line += piece
        return line
