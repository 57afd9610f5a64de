"""What it costs to hash a file while it is written, against writing it and reading it again for its hash: 128 MiB in pieces of
256 KiB through the real store, fsync and rename included. Prints the ratio; a file that is read again has to come from
somewhere, so the second way is measured with a warm and with a cold page cache.

    .venv/bin/python benchmarks/hash_while_writing.py [folder]
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from resources.artifacts.file_system import FileSystemStore

SIZE, PIECE, ROUNDS = 128 * 1024 * 1024, 256 * 1024, 5


def while_writing(store: FileSystemStore, piece: bytes) -> str:
    part, digest = store.begin("PDF"), hashlib.sha256()
    for _ in range(SIZE // len(piece)):
        digest.update(piece)
        part.write(piece)
    store.commit(part, "PDF/x.pdf", digest.hexdigest())
    return digest.hexdigest()


def afterwards(store: FileSystemStore, piece: bytes, cold: bool) -> str:
    part = store.begin("PDF")
    for _ in range(SIZE // len(piece)):
        part.write(piece)
    store.commit(part, "PDF/x.pdf", "")
    if cold:
        with store.open_read("PDF/x.pdf") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return store.sha256_of("PDF/x.pdf")[0]


def main() -> None:
    piece = os.urandom(PIECE)
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as folder:
        store = FileSystemStore(Path(folder))
        ways: dict[str, Callable[[], str]] = {
            "hash while writing": lambda: while_writing(store, piece),
            "write, then read again (warm)": lambda: afterwards(store, piece, cold=False),
            "write, then read again (cold)": lambda: afterwards(store, piece, cold=True),
        }
        best: dict[str, float] = {}
        for _ in range(ROUNDS):  # in turn, so that what else the machine does falls on all of them
            for name, way in ways.items():
                began = time.perf_counter()
                way()
                best[name] = min(best.get(name, 1e9), time.perf_counter() - began)
    first = best["hash while writing"]
    for name, seconds in best.items():
        saved = f"   {seconds / first:.2f} times; hashing while writing saves {1 - first / seconds:.0%}"
        print(f"{name:<32} {seconds:6.3f} s{saved if seconds != first else ''}")


if __name__ == "__main__":
    main()
