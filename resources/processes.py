"""Names a process in leases, and tells whether one that is named so has ended. Judges only what it can see.

A process number says nothing outside its own table of processes: another container, or the same machine after another boot,
has other processes under the same numbers.
"""

from __future__ import annotations

import hashlib
import os
import platform
import secrets
from functools import cache
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_TABLE = Path("/proc/self/ns/pid")


def new_owner() -> str:
    """This process: the place where its number is one, the number, and a random part."""
    return f"{_place(platform.node())}:{os.getpid()}:{secrets.token_hex(4)}"


def process_is_gone(owner: str) -> bool:
    """Whether `owner` was a process that would be seen here and has ended, so that its leases need not be waited for."""
    place, _, number = owner.rpartition(":")[0].rpartition(":")
    if place != _place(platform.node()) or not number.isdigit():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


@cache
def _place(host: str) -> str:
    """Host, boot and table of processes; the host alone where the kernel does not tell, which then has one table only."""
    try:
        seen = f"{_BOOT.read_text().strip()} {_TABLE.readlink()}"
    except OSError:
        return host
    return f"{host}.{hashlib.sha256(seen.encode()).hexdigest()[:8]}"
