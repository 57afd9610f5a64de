"""Keep files that are not what they claim for people to look at: by hash in a folder of their own, in any layout, up to a size
limit. The domain decides which files come here.

The folder is measured when the first file comes, and each file is added to that; several processes may exceed the limit by what
they store at the same time. No file is removed to make room.
"""

from __future__ import annotations

import logging
import threading

from resources.artifacts.file_system import PartFile
from resources.artifacts.store import QUARANTINE, ArtifactStore

log = logging.getLogger(__name__)


class Quarantine:
    """Thread-safe."""

    def __init__(self, store: ArtifactStore, max_bytes: int) -> None:
        self._store, self._max_bytes = store, max_bytes
        self._lock = threading.Lock()
        self._used: int | None = None
        self._warned = self._max_bytes == 0  # the quarantine is switched off

    def take(self, part: PartFile, sha256: str, extension: str) -> str | None:
        """Keep the part's bytes and return their path; None when there is no room for them."""
        path = f"{QUARANTINE}/{sha256}.{extension}"
        with self._lock:
            if self._store.exists(path):
                part.discard()
                return path
            if self._used is None:
                self._used = sum(found.bytes for found in self._store.iter_files(QUARANTINE))
            if self._used + part.bytes_written > self._max_bytes:
                part.discard()
                if not self._warned:
                    log.warning("%s is full; what belongs there is not kept from now on", self._store.place(QUARANTINE))
                    self._warned = True
                return None
            self._used += part.bytes_written
        return self._store.commit(part, path, sha256).path
