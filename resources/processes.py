"""Name a process in leases, and find out whether a named process has ended, where this process can see it.

A process number says nothing outside its own table of processes: another container, or the same machine after another boot,
has other processes under the same numbers.
"""

from __future__ import annotations

import gc
import hashlib
import os
import platform
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_TABLE = Path("/proc/self/ns/pid")
_BEGAN = 19  # place of the time of birth, in ticks, among the fields after the name


def new_owner() -> str:
    """This process: the place where its number is one, the number, and a random part."""
    return f"{_place(platform.node())}:{os.getpid()}:{secrets.token_hex(4)}"


def process_is_gone(owner: str) -> bool:
    """Whether `owner` was a process that would be seen here and has ended, so that its leases need not be waited for."""
    place, _, number = owner.rpartition(":")[0].rpartition(":")
    if place != _place(platform.node()) or not number.isdigit():
        return False
    return pid_unused(int(number))


def pid_unused(number: int) -> bool:
    """Whether no process of this table has the number. A zombie, which has ended, does not count."""
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return _stat(number)[:1] == ["Z"]


def processes_since() -> float:
    """When the first process of this table began (epoch seconds), as the clock is now: the start of the machine or of the
    container. What is older has ended. 0 where the kernel does not tell."""
    birth = process_start_time(1)
    return 0.0 if birth is None else epoch_of(birth)


def process_start_time(number: int) -> float | None:
    """When a process began, in seconds of the kernel's clock since the boot, which is never set: with its number it names one
    process of this boot. None where there is none, or the kernel does not tell."""
    fields = _stat(number)
    return int(fields[_BEGAN]) / os.sysconf("SC_CLK_TCK") if len(fields) > _BEGAN else None


def epoch_of(birth: float) -> float:
    """A birth as the clock of the wall is now. Where that was set meanwhile, or the machine paused, it is another time than was
    read from it then."""
    return time.time() - (time.clock_gettime(time.CLOCK_BOOTTIME) - birth)


def _stat(number: int) -> list[str]:
    """The fields of a process after its name, the state first; none where the kernel does not tell."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


@cache
def _place(host: str) -> str:
    """Host, boot and table of processes; the host alone where the kernel does not tell, which then has one table only."""
    try:
        seen = f"{_BOOT.read_text().strip()} {_TABLE.readlink()}"
    except OSError:
        return host
    return f"{host}.{hashlib.sha256(seen.encode()).hexdigest()[:8]}"


@contextmanager
def rare_collections() -> Iterator[None]:
    """Let the garbage collector run rarely for the duration of a block that makes millions of records and no cycles."""
    before = gc.get_threshold()
    gc.set_threshold(max(50_000, before[0]), 20, 20)
    try:
        yield
    finally:
        gc.set_threshold(*before)
