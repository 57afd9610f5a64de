"""Which machine this is: the extent in which the number of a process means something."""

import hashlib
import os
import platform
from functools import cache
from pathlib import Path


@cache
def this_machine() -> str:
    """Its name, and a mark of this boot and of this space of process numbers: containers and copies of a disk image often have
    one name in common, and whoever took them for one machine would take a process that works elsewhere for one that has ended."""
    try:
        extent = Path("/proc/sys/kernel/random/boot_id").read_text() + os.readlink("/proc/self/ns/pid")
    except OSError:  # not Linux: the name must do
        return platform.node()
    return f"{platform.node()}.{hashlib.sha256(extent.encode()).hexdigest()[:6]}"
