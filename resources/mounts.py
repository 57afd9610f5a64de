"""Refuse to keep a SQLite file on a network file system, where its locks do not hold and it gets damaged.

Only what is certainly a network is refused; file systems of containers (overlay, 9p) are not.
"""

from __future__ import annotations

import re
from pathlib import Path

from resources.settings import SettingsError

_NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "ceph", "lustre", "gpfs", "beegfs", "glusterfs", "davfs"}
    | {f"fuse.{name}" for name in ("sshfs", "glusterfs", "ceph", "s3fs", "rclone", "gcsfuse", "juicefs", "smbnetfs")}
)
_ESCAPE = re.compile(r"\\([0-7]{3})")


def network_filesystem(path: Path, mounts: str) -> str | None:
    """The network file system that the absolute `path` lies on; None on a local one. `mounts` is /proc/mounts' text."""
    nearest, kind = Path(), ""
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = Path(_ESCAPE.sub(lambda match: chr(int(match[1], 8)), fields[1]))
        # of two mounts at one place the later covers the earlier
        if path.is_relative_to(point) and len(point.parts) >= len(nearest.parts):
            nearest, kind = point, fields[2]
    return kind if kind in _NETWORK else None


def refuse_network_filesystem(path: Path, setting: str = "storage.path") -> None:
    """`setting` is what moves this file alone."""
    try:
        mounts = Path("/proc/mounts").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return  # not Linux: nothing to tell by
    kind = network_filesystem(path.resolve(), mounts)
    if kind is not None:
        problem = f"{path} lies on a network file system ({kind}), where SQLite loses data"
        remedy = f"put data_root (or {setting}) on a local disk; artifacts.root may stay on the network"
        raise SettingsError([f"{problem}; {remedy}"])
