"""Files that are not what they say, kept for people to look at: by their hash in a folder of their own, whatever the layout, and
never more of them than there is room for. Which files come here, and who is told, is the domain's.

What lies here already is counted when the first file comes, and what is added is added up; several processes at once may
go past the bound by what they bring at the same time. Nothing is removed to make room: the first ones are as good as the last.
"""

from __future__ import annotations

import logging
import threading

from resources.artifacts.store import QUARANTINE, ArtifactStore, Part

log = logging.getLogger(__name__)


class Quarantine:
    """Thread-safe."""

    def __init__(self, store: ArtifactStore, max_bytes: int) -> None:
        self._store, self._max_bytes = store, max_bytes
        self._lock = threading.Lock()
        self._used: int | None = None
        self._told = self._max_bytes == 0  # then nobody expects anything

    def take(self, part: Part, sha256: str, extension: str) -> str | None:
        """The path under which the part's bytes are kept from now on; None when there is no room, and they are not."""
        path = f"{QUARANTINE}/{sha256}.{extension}"
        with self._lock:
            if self._store.exists(path):
                part.discard()
                return path
            if self._used is None:
                self._used = sum(found.bytes for found in self._store.iter_files(QUARANTINE))
            if self._used + part.bytes_written > self._max_bytes:
                part.discard()
                self._tell_once()
                return None
            self._used += part.bytes_written
        return self._store.commit(part, path, sha256).path

    def _tell_once(self) -> None:
        if not self._told:
            log.warning("%s is full; what belongs there is not kept from now on", self._store.place(QUARANTINE))
            self._told = True
