"""A process that pulls some works and stops itself (SIGSTOP) at a named step, until somebody wakes it.

    python -m docstokg_assets_tests.support.frozen CONFIG STEP WORK=URL…

CONFIG is a JSON file with dotted keys; STEP one of STEPS, or `-` for none.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from docstokg_assets.config import load_config
from docstokg_assets.domain.works import Location, Work
from docstokg_assets.runs.run import DownloadRun
from docstokg_assets.runs.services import open_services
from resources.artifacts import file_system
from resources.artifacts.file_system import FileSystemStore
from resources.artifacts.s3 import S3Store
from resources.catalog.catalog import Catalog

STEPS = (
    "the bytes are there, the name is not made",
    "the name is made, the catalog not told",
    "the catalog was told, its answer not read",
    "a file is to be removed",
)


def stop_here() -> None:
    """When no other thread is at a database: one that stands still in a transaction holds up everybody else, which is not what is
    looked at here. The interpreter's lock is held from the look to the stop. The signal goes to this thread:
    sent to the process it might stop another one first, while this one went on for a step."""
    own = threading.get_ident()
    while any(_at_a_database(frame) for thread, frame in sys._current_frames().items() if thread != own):
        time.sleep(0.001)
    signal.pthread_kill(own, signal.SIGSTOP)


def _at_a_database(frame: FrameType | None) -> bool:
    while frame is not None:
        if any(place in frame.f_code.co_filename for place in ("/resources/catalog/", "/resources/rate_limit/")):
            return True
        frame = frame.f_back
    return False


def stop_once(owner: Any, name: str, when: Callable[..., bool], *, after: bool = False) -> None:
    original, left = getattr(owner, name), iter((True,))

    def stopping(*args: Any, **options: Any) -> Any:
        result = original(*args, **options) if after else None
        if when(*args) and next(left, False):
            stop_here()
        return result if after else original(*args, **options)

    setattr(owner, name, stopping)


def stop_at(step: str) -> None:
    def finishes(_: Any, batch: Any) -> bool:
        return any(finished.outcome.path for finished in batch.finished)

    match STEPS.index(step):
        case 0:
            stop_once(file_system, "rename_new", lambda *args: True)
            stop_once(S3Store, "_put_whole", lambda *args: True)
        case 1:
            stop_once(Catalog, "commit", finishes)
        case 2:
            stop_once(Catalog, "commit", finishes, after=True)
        case 3:
            for store in (FileSystemStore, S3Store):
                stop_once(store, "delete", lambda store, path: path.startswith("PDF/2"))


def run(config: dict[str, Any], works: list[Work]) -> None:
    with open_services(load_config(None, {}, config).value) as services, DownloadRun(services) as download:
        download.store_and_enqueue(works)
        download.drain(download.own_works)


def work_of(named: str) -> Work:
    work_id, _, url = named.partition("=")
    return Work(work_id, title="A title", year=2024, locations=(Location(pdf_url=url, is_oa=True),))


if __name__ == "__main__":
    if sys.argv[2] != "-":
        stop_at(sys.argv[2])
    run(json.loads(Path(sys.argv[1]).read_text()), [work_of(named) for named in sys.argv[3:]])
